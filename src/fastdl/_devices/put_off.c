/* SPDX-License-Identifier: Apache-2.0 */
#include "put_off.h"

#include <Python.h>

#include "_core/lifetime.h"
#include "_memory/atomics.h"
#include "_memory/lock.h"

/* Whether this thread has a Python thread state. A thread without one may be in a callback of the
 * driver, and the holder of the GIL may wait for it. */
static int has_state(void)
{
    return PyGILState_GetThisThreadState() != NULL && !fdl_state_is_temporary;
}

/* ---- the list ---- */

static fdl_lock guard; /* of these */
static fdl_block *first;
static int64_t count_now, count_so_far;

static void add(fdl_block *block)
{
    fdl_lock_take(&guard);
    block->next = first;
    fdl_store_pointer((void **)&first, block);
    count_so_far++;
    count_now++;
    fdl_lock_give(&guard);
}

void fdl_end_put_off(void)
{
    fdl_block *block, *next;
    if (fdl_load_pointer((void *const *)&first) == NULL || !has_state())
        return;
    fdl_lock_take(&guard);
    block = first;
    fdl_store_pointer((void **)&first, NULL);
    count_now = 0;
    fdl_lock_give(&guard);
    for (; block != NULL; block = next) {
        next = block->next;
        fdl_block_end(block, 0);
    }
}

void fdl_put_off_count(int64_t *so_far, int64_t *waiting)
{
    fdl_lock_take(&guard);
    *so_far = count_so_far;
    *waiting = count_now;
    fdl_lock_give(&guard);
}

/* ---- the pending call ---- */

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
    /* Before 3.12 this call can run in a subinterpreter, where owners cannot be released. */
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

static int put_off(fdl_block *block)
{
    if (has_state())
        return 0;
    add(block);
    schedule_pending_call();
    return 1;
}

void fdl_put_off_at_import(void)
{
    fdl_should_defer = put_off;
}

void fdl_put_off_at_exit(void)
{
    fdl_lock_take(&scheduling);
    over = 1;
    fdl_lock_give(&scheduling);
    fdl_end_put_off();
}

void fdl_put_off_after_fork(int lost)
{
    fdl_lock_init(&guard);
    fdl_lock_init(&scheduling);
    if (lost) {
        first = NULL;
        count_now = 0;
    }
}
