/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks whose last reference was dropped in a deleter, on a thread without a Python thread state.
 * The threads on which drivers run callbacks have no such state, and in a callback the driver must
 * not be called (CUDA may return 800; HIP has no error code for this and may deadlock). The owner
 * may need the driver as well, so the whole block is freed later, without waiting for the GIL: when
 * Python's main thread next runs Python code (a pending call; before 3.13, once it has reacquired
 * the GIL), when a thread with such a state next enters a device or imports a tensor on one, or
 * when Python ends.
 *
 * Blocks of plain host memory are not deferred: the deleter takes the GIL, like deleters of most
 * libraries, and device memory that the owner then releases is deferred (fdl_state_is_temporary).
 * Otherwise worker threads in C++ would accumulate memory while the main thread is busy in C;
 * device memory cannot accumulate, since each import of a device tensor frees the deferred blocks.
 *
 * Blocks deferred after Python has ended, or in a process forked from one that used the driver, are
 * left to the operating system.
 */
#ifndef FASTDL_DEVICES_PUT_OFF_H_
#define FASTDL_DEVICES_PUT_OFF_H_

#include "_memory/block.h"

/* Frees the blocks deferred until now. May run any code of their owners, even this function; blocks
 * deferred meanwhile stay for the next call. Call it on any thread outside of callbacks, without
 * holding a lock; without a Python thread state it does nothing. Costs one load if no blocks are
 * deferred. */
void fdl_end_put_off(void);

/* How many blocks were deferred so far, and how many are waiting now. */
void fdl_put_off_count(int64_t *so_far, int64_t *waiting);

/* From now on, driver-owned blocks may be deferred. */
void fdl_put_off_at_import(void);

/* Frees the deferred blocks at the last safe point: from now on no pending calls are scheduled. */
void fdl_put_off_at_exit(void);

/* In a forked child: resets the locks; if the driver is lost, drops the list, which belongs to the
 * parent. */
void fdl_put_off_after_fork(int lost);

#endif
