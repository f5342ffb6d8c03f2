/* SPDX-License-Identifier: Apache-2.0 */
#include "deferred.h"

#include "_memory/atomics.h"

#include "put_off.h"

static fdl_blocks refused;
static void *refusing; /* the driver that refused last */
static FDL_THREAD_LOCAL int has_waited;

int fdl_host_may_wait(const fdl_driver *driver)
{
    return !fdl_disturbs_captures(driver) || has_waited || fdl_driver_is_lost();
}

void fdl_defer(fdl_block *block, fdl_driver *driver)
{
    fdl_store_pointer(&refusing, driver);
    fdl_blocks_add(&refused, block);
}

/* Those of a parent process are not ours to free. */
static int any_refused(void)
{
    return fdl_blocks_any(&refused) && !fdl_driver_is_lost();
}

int fdl_end_after_wait(void)
{
    int outer = has_waited;
    if (!any_refused())
        return 0;
    has_waited = 1;
    fdl_blocks_end(&refused);
    has_waited = outer;
    return 1;
}

#define MOST_REFUSED 1024

void fdl_end_deferred(void)
{
    fdl_end_put_off();
    if (!any_refused())
        return;
    if (fdl_host_may_wait(fdl_load_pointer(&refusing))) /* else each would be refused again */
        fdl_blocks_end(&refused);
    else if (fdl_blocks_now(&refused).waiting > MOST_REFUSED)
        (void)fdl_end_after_wait();
}

void fdl_deferred_at_exit(void)
{
    fdl_put_off_at_exit();
    fdl_end_deferred();
    (void)fdl_end_after_wait();
}

void fdl_deferred_count(int64_t *put_off, int64_t *waiting)
{
    fdl_blocks now = fdl_blocks_now(&fdl_blocks_put_off);
    *put_off = now.so_far;
    *waiting = now.waiting;
    if (!fdl_driver_is_lost())
        *waiting += fdl_blocks_now(&refused).waiting;
}
