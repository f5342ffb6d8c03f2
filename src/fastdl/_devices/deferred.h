/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks whose end waits, because a driver must not be called just now: in one of its callbacks, or
 * while a graph is being captured. They end when fastdl next allocates or copies on a device.
 */
#ifndef FASTDL_DEVICES_DEFERRED_H_
#define FASTDL_DEVICES_DEFERRED_H_

#include "_core/block.h"

/* Takes a block without references. Any thread. */
void fdl_defer(fdl_block *block);

/* Ends those that were deferred, as far as that is possible now. Any thread, without a lock held.
 */
void fdl_end_deferred(void);

#endif
