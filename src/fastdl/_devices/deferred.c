/* SPDX-License-Identifier: Apache-2.0 */
#include "deferred.h"

#include "driver.h"

static fdl_block *deferred;

void fdl_defer(fdl_block *block)
{
    fdl_lock_take(&fdl_lists);
    block->next = deferred;
    fdl_store_pointer((void **)&deferred, block);
    fdl_lock_give(&fdl_lists);
}

void fdl_end_deferred(void)
{
    fdl_block *block, *next;
    if (fdl_load_pointer((void *const *)&deferred) == NULL)
        return;
    fdl_lock_take(&fdl_lists);
    block = deferred;
    deferred = NULL;
    fdl_lock_give(&fdl_lists);
    for (; block != NULL; block = next) {
        next = block->next;
        fdl_block_end(block, 0);
    }
}
