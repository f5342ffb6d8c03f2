/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock to be held only for a few instructions. It does not need Python, so a deleter on any
 * thread can acquire it. While it is held, do nothing that blocks, calls a driver, runs a deleter
 * or calls Python, except for loading a library once.
 */
#ifndef FASTDL_MEMORY_LOCK_H_
#define FASTDL_MEMORY_LOCK_H_

#include "atomics.h"

#ifdef _WIN32 /* without <windows.h>, whose macros take many names */
__declspec(dllimport) int __stdcall SwitchToThread(void);
#define fdl_yield SwitchToThread
#else
#include <sched.h>
#define fdl_yield sched_yield
#endif

typedef int fdl_lock;

static inline void fdl_lock_take(fdl_lock *lock)
{
    while (fdl_exchange_acquire(lock, 1) != 0)
        (void)fdl_yield();
}

static inline void fdl_lock_give(fdl_lock *lock)
{
    fdl_store_release(lock, 0);
}

#define fdl_lock_init fdl_lock_give

#endif
