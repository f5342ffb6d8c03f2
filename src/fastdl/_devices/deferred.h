/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that end later than with their last reference, because the driver must not be called at
 * that moment. docs/streams.md ("Memory in flight") tells users. The reasons:
 *
 * *Put off*: the last reference has gone in a deleter, on a thread without a Python thread state.
 * The threads on which drivers run callbacks have none, and in a callback nothing may be asked of
 * the driver (CUDA may answer 800; HIP has no code for it and may wait for ever). The owner may
 * need the driver as well, so all of the end comes later, and the GIL is not waited for: when
 * Python's main thread next runs Python code (a pending call; before 3.13, once it has taken the
 * GIL again), when a thread with such a state next enters a device or imports a tensor on one, or
 * when Python ends.
 *
 * Plain host memory is not put off: the deleter takes the GIL, as those of most libraries do, and
 * what its owner then releases is put off where it needs the driver (fdl_state_is_temporary).
 * Otherwise worker threads in C++ would pile up memory for as long as the main thread is busy in C;
 * device memory cannot pile up, since each tensor on a device that comes in releases what was put
 * off.
 *
 * *Refused*: a thread with a state has asked the driver, and was refused: a graph is being
 * captured, or Python code in a callback drops the tensor. (Such a thread cannot be told from
 * others, and HIP does not refuse: Python code in a callback should drop no tensors.) Or the host
 * may not wait (HIP, see below). It ends when fastdl next allocates or copies on a device and the
 * host may wait, or so many are refused that it has to; when fastdl has made the host wait; or when
 * Python ends.
 *
 * What is put off after Python has ended, or in a process forked from one that used the driver, is
 * left to the operating system.
 */
#ifndef FASTDL_DEVICES_DEFERRED_H_
#define FASTDL_DEVICES_DEFERRED_H_

#include "_memory/block.h"

#include "driver.h"

/* Whether the host may wait for the device where nobody has asked for that, as when memory is
 * freed. Where that breaks captures (see fdl_disturbs_captures) nothing tells whether there is one:
 * so once fastdl has seen a capture, and as long as it has not seen the end of it, it does not wait
 * before others have made the host wait. */
int fdl_host_may_wait(const fdl_driver *driver);

/* Takes a block without references that the driver refuses to end, or for which the host may not
 * wait. Any thread. */
void fdl_defer(fdl_block *block, fdl_driver *driver);

/* Ends the blocks of both kinds, as far as possible now. May run any code of their owners. Any
 * thread outside of callbacks, without holding a lock; nothing happens without a Python thread
 * state. */
void fdl_end_deferred(void);

/* The same for those that were put off: a safe point. One load if there is none. */
extern fdl_block *fdl_blocks_put_off;
void fdl_end_blocks_put_off(void);
static inline void fdl_end_put_off(void)
{
    if (fdl_load_pointer((void *const *)&fdl_blocks_put_off) != NULL)
        fdl_end_blocks_put_off();
}

/* The caller has made the host wait for the device, and it succeeded: on HIP no capture was active.
 * Or memory has run out. Ends what was refused until then; 0 if there was nothing. As
 * fdl_end_deferred. */
int fdl_end_after_wait(void);

/* From now on, blocks that a driver owns may be put off. */
void fdl_deferred_at_import(void);

/* The last safe point, after which no pending calls are made. Needs a thread state. */
void fdl_deferred_at_exit(void);

/* In a forked child: the locks are free, and what waits is the parent's. */
void fdl_deferred_after_fork(int lost);

/* How many blocks were put off so far, and how many of all wait now. */
void fdl_deferred_count(int64_t *put_off, int64_t *waiting);

#endif
