/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks whose last reference was dropped in a deleter, on a thread without a Python thread state.
 * The threads on which drivers run callbacks have none, and in a callback the driver must not be
 * called (CUDA may return 800; HIP has no code for it and may deadlock). The owner may need the
 * driver as well, so the whole block is freed later, without waiting for the GIL: when Python's
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
 * Blocks that are put off after Python has ended, or in a process forked from one that used the
 * driver, are left to the operating system.
 */
#ifndef FASTDL_DEVICES_PUT_OFF_H_
#define FASTDL_DEVICES_PUT_OFF_H_

#include "_memory/block.h"

/* Frees the blocks that were put off until now. May run any code of their owners, also this
 * function; blocks that are put off meanwhile stay for the next time. Any thread outside of
 * callbacks, without holding a lock; nothing happens without a Python thread state. Costs one load
 * if there are none. */
void fdl_end_put_off(void);

/* How many blocks were put off so far, and how many are waiting now. */
void fdl_put_off_count(int64_t *so_far, int64_t *waiting);

/* From now on, driver-owned blocks may be put off. */
void fdl_put_off_at_import(void);

/* Frees them, at the last safe point: from now on no pending calls are scheduled. */
void fdl_put_off_at_exit(void);

/* In a forked child: resets the locks; if the driver is lost, drops the list, which belongs to the
 * parent. */
void fdl_put_off_after_fork(int lost);

#endif
