/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock to be held only for a few instructions. It does not need Python, so a deleter on any
 * thread can take it. While it is held, do nothing that blocks, calls a driver, runs a deleter or
 * calls Python, except for loading a library once.
 */
#ifndef FASTDL_MEMORY_LOCK_H_
#define FASTDL_MEMORY_LOCK_H_

#include "atomics.h"

#if defined(_MSC_VER) && !defined(__clang__)

#include <windows.h>

typedef volatile long fdl_lock;

static inline void fdl_lock_take(fdl_lock *lock)
{
    while (_InterlockedExchange(lock, 1) != 0)
        (void)SwitchToThread();
}

static inline void fdl_lock_give(fdl_lock *lock)
{
    (void)_InterlockedExchange(lock, 0);
}

#else

#include <sched.h>

typedef int fdl_lock;

static inline void fdl_lock_take(fdl_lock *lock)
{
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) != 0)
        (void)sched_yield();
}

static inline void fdl_lock_give(fdl_lock *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#endif

#define fdl_lock_init fdl_lock_give

#endif
