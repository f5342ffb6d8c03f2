/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that are freed later than their last reference is dropped, because the driver must not be
 * called at that moment. Documented in docs/streams.md ("Memory in flight"). The reasons:
 *
 * *Put off*: the last reference was dropped in a deleter, on a thread without a Python thread
 * state. The threads on which drivers run callbacks have none, and in a callback the driver must
 * not be called (CUDA may return 800; HIP has no code for it and may deadlock). The owner may need
 * the driver as well, so the whole block is freed later, without waiting for the GIL: when Python's
 * main thread next runs Python code (a pending call; before 3.13, once it has taken the GIL again),
 * when a thread with such a state next enters a device or imports a tensor on one, or when Python
 * ends.
 *
 * Plain host memory is not put off: the deleter takes the GIL, like those of most libraries, and
 * what its owner then releases is put off if it needs the driver (fdl_state_is_temporary).
 * Otherwise worker threads in C++ would accumulate memory while the main thread is busy in C;
 * device memory cannot accumulate, since each import of a tensor on a device frees what was put
 * off.
 *
 * *Refused*: a thread with a state has called the driver, which refused: a graph is being captured,
 * or Python code in a callback drops the tensor. (Such a thread cannot be distinguished from
 * others, and HIP does not refuse: Python code in a callback should not drop tensors.) Or the host
 * may not wait (HIP, see below). The block is freed when fastdl next allocates or copies on a
 * device and the host may wait, or so many are refused that it has to; when fastdl has made the
 * host wait; or when Python ends.
 *
 * Blocks that are put off after Python has ended, or in a process forked from one that used the
 * driver, are left to the operating system.
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

/* Frees the blocks of both kinds, as far as possible now. May run any code of their owners. Any
 * thread outside of callbacks, without holding a lock; nothing happens without a Python thread
 * state. */
void fdl_end_deferred(void);

/* The same, at a safe point, for those that were put off. Costs one load if there is none. */
extern fdl_block *fdl_blocks_put_off;
void fdl_end_blocks_put_off(void);
static inline void fdl_end_put_off(void)
{
    if (fdl_load_pointer((void *const *)&fdl_blocks_put_off) != NULL)
        fdl_end_blocks_put_off();
}

/* Call this after the host has waited for the device successfully (so on HIP no capture was
 * active), or if memory has run out. Frees what was refused until then; 0 if there was nothing.
 * Otherwise as fdl_end_deferred. */
int fdl_end_after_wait(void);

/* From now on, driver-owned blocks may be put off. */
void fdl_deferred_at_import(void);

/* The last safe point, after which no pending calls are made. Needs a thread state. */
void fdl_deferred_at_exit(void);

/* In a forked child: resets the locks, and drops the lists, which belong to the parent. */
void fdl_deferred_after_fork(int lost);

/* How many blocks were put off so far, and how many of both kinds are waiting now. */
void fdl_deferred_count(int64_t *put_off, int64_t *waiting);

#endif
