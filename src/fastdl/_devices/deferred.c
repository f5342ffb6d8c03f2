/* SPDX-License-Identifier: Apache-2.0 */
#include "deferred.h"

#include "_core/layout.h"

#include "driver.h"

static fdl_block *refused, *awaiting;

static void add(fdl_block **list, fdl_block *block)
{
    fdl_lock_take(&fdl_lists);
    block->next = *list;
    fdl_store_pointer((void **)list, block);
    fdl_lock_give(&fdl_lists);
}

static void end_all(fdl_block **list)
{
    fdl_block *block, *next;
    if (fdl_load_pointer((void *const *)list) == NULL)
        return;
    fdl_lock_take(&fdl_lists);
    block = *list;
    fdl_store_pointer((void **)list, NULL);
    fdl_lock_give(&fdl_lists);
    for (; block != NULL; block = next) {
        next = block->next;
        fdl_block_end(block, 0);
    }
}

void fdl_defer(fdl_block *block)
{
    add(&refused, block);
}

void fdl_end_deferred(void)
{
    end_all(&refused);
}

/* ---- waits of the host ---- */

static FDL_THREAD_LOCAL int has_waited;

int fdl_host_may_wait(const fdl_driver *driver)
{
    return driver->kind == FASTDL_STREAM_CUDA || !fdl_load_acquire(&driver->captures) || has_waited;
}

void fdl_defer_until_a_wait(fdl_block *block)
{
    add(&awaiting, block);
}

int fdl_end_after_wait(void)
{
    int outer = has_waited;
    if (fdl_load_pointer((void *const *)&awaiting) == NULL)
        return 0;
    has_waited = 1;
    end_all(&awaiting);
    has_waited = outer;
    return 1;
}
