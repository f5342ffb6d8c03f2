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

/* ---- lists of blocks to be freed later ---- */

typedef struct {
    fdl_block *first;
    int64_t waiting, so_far;
} fdl_blocks;

/* Any thread. */
void fdl_blocks_add(fdl_blocks *list, fdl_block *block);

/* Frees the blocks that are in a list now. May run any code of their owners, also this function,
 * and blocks may be added, even the same ones: they stay for the next time. Any thread outside of
 * callbacks, without holding a lock; nothing happens without a Python thread state. */
void fdl_blocks_end(fdl_blocks *list);

/* What a list and its counters are now. */
fdl_blocks fdl_blocks_now(const fdl_blocks *list);

/* Costs one load. */
static inline int fdl_blocks_any(const fdl_blocks *list)
{
    return fdl_load_pointer((void *const *)&list->first) != NULL;
}

/* ---- those that were put off ---- */

extern fdl_blocks fdl_blocks_put_off;

/* Frees them, at a safe point, as fdl_blocks_end. */
static inline void fdl_end_put_off(void)
{
    if (fdl_blocks_any(&fdl_blocks_put_off))
        fdl_blocks_end(&fdl_blocks_put_off);
}

/* From now on, driver-owned blocks may be put off. */
void fdl_put_off_at_import(void);

/* From now on, no pending calls are scheduled. */
void fdl_put_off_at_exit(void);

/* In a forked child: resets the locks; if the driver is lost, drops the list, which belongs to the
 * parent. */
void fdl_put_off_after_fork(int lost);

#endif
