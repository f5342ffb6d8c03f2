/* SPDX-License-Identifier: Apache-2.0 */
#include "deferred.h"

#include <Python.h>

#include "_core/lifetime.h"
#include "_memory/layout.h"

#include "driver.h"

/* All under fdl_lists. */
fdl_block *fdl_blocks_put_off;
static fdl_block *refused;
static void *refusing;                        /* the driver that refused last */
static int64_t put_off, waiting, refused_now; /* the first so far */

static void add(fdl_block **list, fdl_block *block)
{
    fdl_lock_take(&fdl_lists);
    block->next = *list;
    fdl_store_pointer((void **)list, block);
    put_off += list == &fdl_blocks_put_off;
    refused_now += list == &refused;
    waiting++;
    fdl_lock_give(&fdl_lists);
}

/* Whether this thread has a Python thread state. Others may be in a callback of the driver, and the
 * holder of the GIL may wait for them. */
static int has_state(void)
{
    return PyGILState_GetThisThreadState() != NULL && !fdl_state_is_temporary;
}

/* Frees the blocks that are in a list now. Owners may call this recursively, and blocks may be
 * added, even the same ones: the outer call leaves them for the next time. */
static void end_all(fdl_block **list)
{
    fdl_block *block, *next;
    if (fdl_load_pointer((void *const *)list) == NULL || !has_state())
        return;
    fdl_lock_take(&fdl_lists);
    block = *list;
    fdl_store_pointer((void **)list, NULL);
    for (next = block; next != NULL; next = next->next) {
        waiting--;
        refused_now -= list == &refused;
    }
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

/* ---- waits of the host ---- */

static FDL_THREAD_LOCAL int has_waited;

int fdl_host_may_wait(const fdl_driver *driver)
{
    return !fdl_disturbs_captures(driver) || has_waited || fdl_driver_is_lost();
}

void fdl_defer(fdl_block *block, fdl_driver *driver)
{
    fdl_store_pointer(&refusing, driver);
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

#define MOST_REFUSED 1024

static int too_many(void)
{
    int64_t count;
    fdl_lock_take(&fdl_lists);
    count = refused_now;
    fdl_lock_give(&fdl_lists);
    return count > MOST_REFUSED;
}

void fdl_end_deferred(void)
{
    end_all(&fdl_blocks_put_off);
    if (fdl_load_pointer((void *const *)&refused) == NULL)
        return;
    if (fdl_host_may_wait(fdl_load_pointer(&refusing))) /* else each would be refused again */
        end_all(&refused);
    else if (too_many())
        (void)fdl_end_after_wait();
}

/* ---- without a Python thread state ---- */

/* Ensures that no pending call is scheduled once Python may have ended. Held during one call of
 * Python's C API, which takes a lock for a few instructions and needs no GIL. */
static fdl_lock scheduling;
static int scheduled, over;

static int answer(void *unused)
{
    (void)unused;
    fdl_lock_take(&scheduling);
    scheduled = 0;
    fdl_lock_give(&scheduling);
    /* Before 3.12 it can run in a subinterpreter instead, where owners cannot be released. */
    if (PyInterpreterState_Get() == PyInterpreterState_Main())
        fdl_end_put_off();
    return 0;
}

/* The queue of calls may be full: then the next block tries again. */
static void schedule_pending_call(void)
{
    fdl_lock_take(&scheduling);
    if (!scheduled && !over)
        scheduled = Py_AddPendingCall(answer, NULL) == 0;
    fdl_lock_give(&scheduling);
}

static int put_off_block(fdl_block *block)
{
    if (has_state())
        return 0;
    add(&fdl_blocks_put_off, block);
    schedule_pending_call();
    return 1;
}

void fdl_deferred_at_import(void)
{
    fdl_should_defer = put_off_block;
}

void fdl_deferred_at_exit(void)
{
    fdl_lock_take(&scheduling);
    over = 1;
    fdl_lock_give(&scheduling);
    fdl_end_deferred();
    (void)fdl_end_after_wait();
}

void fdl_deferred_after_fork(int lost)
{
    fdl_lock_init(&scheduling);
    if (lost) {
        fdl_blocks_put_off = refused = NULL;
        waiting = refused_now = 0;
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
