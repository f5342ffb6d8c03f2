/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks whose end is deferred because the driver must not be called at that moment: in one of its
 * callbacks, or while a graph is being captured. They end when fastdl next allocates or copies on a
 * device.
 */
#ifndef FASTDL_DEVICES_DEFERRED_H_
#define FASTDL_DEVICES_DEFERRED_H_

#include "_core/block.h"

/* Takes a block without references. Any thread. */
void fdl_defer(fdl_block *block);

/* Ends the deferred blocks, as far as possible now. Any thread, without holding a lock.
 */
void fdl_end_deferred(void);

#endif
