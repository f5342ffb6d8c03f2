/* SPDX-License-Identifier: Apache-2.0
 *
 * A malloc that fails on demand, to be preloaded: the k-th call after fail_malloc_arm(k) returns
 * NULL, the others are served. fastdl's own blocks come from malloc, where Python's hooks for
 * failing allocations do not reach.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

static atomic_long countdown; /* 0: disarmed; 1: the next call fails */
static atomic_int fired;

void *malloc(size_t size);
void fail_malloc_arm(long k);
int fail_malloc_disarm(void);

void *malloc(size_t size)
{
    static void *(*next)(size_t);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "malloc"); /* POSIX's own way to cast it */
    if (atomic_load(&countdown) > 0 && atomic_fetch_sub(&countdown, 1) == 1) {
        atomic_store(&fired, 1);
        errno = ENOMEM;
        return NULL;
    }
    return next(size);
}

void fail_malloc_arm(long k)
{
    atomic_store(&fired, 0);
    atomic_store(&countdown, k);
}

/* Whether a call failed since fail_malloc_arm. */
int fail_malloc_disarm(void)
{
    atomic_store(&countdown, 0);
    return atomic_load(&fired);
}
