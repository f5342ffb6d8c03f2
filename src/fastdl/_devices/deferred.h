/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that are freed later than their last reference is dropped, because the driver must not be
 * called at that moment (put_off.h); because it *refused* a call: a graph is being captured, or
 * Python code in a callback drops the tensor (such a thread cannot be distinguished from others,
 * and HIP does not refuse: Python code in a callback should not drop tensors); or because the host
 * may not wait (HIP, see below). Documented in docs/streams.md ("Memory in flight").
 *
 * A block that was refused is freed when fastdl next allocates or copies on a device and the host
 * may wait, or so many are refused that it has to; when fastdl has made the host wait; or when
 * Python ends. In a process forked from one that used the driver, never.
 */
#ifndef FASTDL_DEVICES_DEFERRED_H_
#define FASTDL_DEVICES_DEFERRED_H_

#include "_memory/block.h"

#include "driver.h"

/* Whether the host may wait for the device without an explicit request, as when memory is freed.
 * Where that breaks captures (see fdl_disturbs_captures), a capture cannot be detected: so once
 * fastdl has seen a capture, until it sees the end of it, it does not wait before other code has
 * made the host wait. */
int fdl_host_may_wait(const fdl_driver *driver);

/* Takes a block without references that the driver refuses to free, or for which the host may not
 * wait. Any thread. */
void fdl_defer(fdl_block *block, fdl_driver *driver);

/* Frees the blocks that were put off or refused, as far as that is possible now. May run any code
 * of their owners. Any thread outside of callbacks, without holding a lock; nothing happens without
 * a Python thread state. */
void fdl_end_deferred(void);

/* Call this after the host has waited for the device successfully (so on HIP no capture was
 * active), or if memory has run out. Frees what was refused until then; 0 if there was nothing.
 * Otherwise as fdl_end_deferred. */
int fdl_end_after_wait(void);

/* The last safe point, after which no pending calls are made. Needs a thread state. */
void fdl_deferred_at_exit(void);

/* How many blocks were put off so far, and how many of both kinds are waiting now. */
void fdl_deferred_count(int64_t *put_off, int64_t *waiting);

#endif
