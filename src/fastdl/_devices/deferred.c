/* SPDX-License-Identifier: Apache-2.0 */
#include "deferred.h"

#include <Python.h>

#include "_core/layout.h"

#include "driver.h"

/* All under fdl_lists. */
fdl_block *fdl_blocks_put_off;
static fdl_block *refused;
static int64_t put_off, waiting; /* so far; now */

static void add(fdl_block **list, fdl_block *block)
{
    fdl_lock_take(&fdl_lists);
    block->next = *list;
    fdl_store_pointer((void **)list, block);
    put_off += list == &fdl_blocks_put_off;
    waiting++;
    fdl_lock_give(&fdl_lists);
}

/* Whether this is a thread of Python's. The others may be in a callback of the driver, and the
 * holder of the GIL may wait for them. */
static int has_state(void)
{
    return PyGILState_GetThisThreadState() != NULL && !fdl_state_is_temporary;
}

/* Ends what is in a list now. An owner may come here again, and blocks may be added, even the same
 * ones: the outer call leaves them for the next time. */
static void end_all(fdl_block **list)
{
    fdl_block *block, *next;
    if (fdl_load_pointer((void *const *)list) == NULL || !has_state())
        return;
    fdl_lock_take(&fdl_lists);
    block = *list;
    fdl_store_pointer((void **)list, NULL);
    for (next = block; next != NULL; next = next->next)
        waiting--;
    fdl_lock_give(&fdl_lists);
    for (; block != NULL; block = next) {
        next = block->next;
        fdl_block_end(block, 0);
    }
}

void fdl_end_blocks_put_off(void)
{
    end_all(&fdl_blocks_put_off);
}

void fdl_end_deferred(void)
{
    end_all(&fdl_blocks_put_off);
    end_all(&refused);
}

/* ---- waits of the host ---- */

static FDL_THREAD_LOCAL int has_waited;

int fdl_host_may_wait(const fdl_driver *driver)
{
    return driver->kind == FASTDL_STREAM_CUDA || !fdl_load_acquire(&driver->captures) ||
           has_waited || fdl_driver_is_lost();
}

void fdl_defer(fdl_block *block)
{
    add(&refused, block);
}

int fdl_end_after_wait(void)
{
    int outer = has_waited;
    if (fdl_load_pointer((void *const *)&refused) == NULL)
        return 0;
    has_waited = 1;
    end_all(&refused);
    has_waited = outer;
    return 1;
}

/* ---- without a Python thread state ---- */

/* So that no pending call is asked for once Python may be gone. Held during one call of Python's,
 * which takes a lock for a few instructions and needs no GIL. */
static fdl_lock asking;
static int asked, over;

static int answer(void *unused)
{
    (void)unused;
    fdl_lock_take(&asking);
    asked = 0;
    fdl_lock_give(&asking);
    /* Before 3.12 it can come to a subinterpreter instead, where owners cannot be released. */
    if (PyInterpreterState_Get() == PyInterpreterState_Main())
        fdl_end_put_off();
    return 0;
}

/* The queue of calls may be full: then the next block asks again. */
static void ask_for_a_call(void)
{
    fdl_lock_take(&asking);
    if (!asked && !over)
        asked = Py_AddPendingCall(answer, NULL) == 0;
    fdl_lock_give(&asking);
}

int fdl_put_off(fdl_block *block)
{
    if (has_state())
        return 0;
    add(&fdl_blocks_put_off, block);
    ask_for_a_call();
    return 1;
}

void fdl_deferred_at_exit(void)
{
    fdl_lock_take(&asking);
    over = 1;
    fdl_lock_give(&asking);
    fdl_end_deferred();
    (void)fdl_end_after_wait();
}

void fdl_deferred_after_fork(int lost)
{
    fdl_lock_init(&asking);
    if (lost) {
        fdl_blocks_put_off = refused = NULL;
        waiting = 0;
    }
}

/* ---- for tests and reports ---- */

void fdl_deferred_count(int64_t *so_far, int64_t *now)
{
    fdl_lock_take(&fdl_lists);
    *so_far = put_off;
    *now = waiting;
    fdl_lock_give(&fdl_lists);
}
