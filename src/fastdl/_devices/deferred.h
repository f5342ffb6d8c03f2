/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks whose end is deferred because the driver must not be called at that moment: in one of its
 * callbacks, or while a graph is being captured. They end when fastdl next allocates or copies on a
 * device.
 */
#ifndef FASTDL_DEVICES_DEFERRED_H_
#define FASTDL_DEVICES_DEFERRED_H_

#include "_core/block.h"

#include "driver.h"

/* Takes a block without references. Any thread. */
void fdl_defer(fdl_block *block);

/* Ends the deferred blocks, as far as possible now. Any thread, without holding a lock.
 */
void fdl_end_deferred(void);

/* Whether the host may wait for the device where nobody has asked for that, as when memory is
 * freed. On HIP a wait of the host breaks the captures of all threads, whatever their mode (before
 * the fix of 2026), and nothing tells whether there is one: so once fastdl has seen a capture, it
 * does not wait, and the block is deferred until the host has waited. */
int fdl_host_may_wait(const fdl_driver *driver);
void fdl_defer_until_a_wait(fdl_block *block);

/* The caller has made the host wait for the device, and it succeeded: on HIP no capture was active.
 * Or memory has run out. Ends what was deferred until then; 0 if there was nothing. As
 * fdl_end_deferred. */
int fdl_end_after_wait(void);

#endif
