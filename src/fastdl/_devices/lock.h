/* SPDX-License-Identifier: Apache-2.0
 *
 * A lock for a few instructions, and loads and stores that order what comes before and after.
 *
 * The lock does not need Python, so a deleter on any thread can take it. While it is held, do
 * nothing that blocks, calls a driver, runs a deleter or calls Python, except for the one load of a
 * library.
 */
#ifndef FASTDL_DEVICES_LOCK_H_
#define FASTDL_DEVICES_LOCK_H_

#if defined(_MSC_VER) && !defined(__clang__)

#include <intrin.h>
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

static inline int fdl_load_acquire(const int *value)
{
    return (int)_InterlockedCompareExchange((volatile long *)value, 0, 0);
}

static inline void fdl_store_release(int *value, int desired)
{
    (void)_InterlockedExchange((volatile long *)value, desired);
}

static inline void *fdl_load_pointer(void *const *value)
{
    return _InterlockedCompareExchangePointer((void *volatile *)value, NULL, NULL);
}

static inline void fdl_store_pointer(void **value, void *desired)
{
    (void)_InterlockedExchangePointer(value, desired);
}

#elif defined(__GNUC__) || defined(__clang__)

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

#define fdl_load_acquire(value) __atomic_load_n(value, __ATOMIC_ACQUIRE)
#define fdl_store_release(value, desired) __atomic_store_n(value, desired, __ATOMIC_RELEASE)
#define fdl_load_pointer fdl_load_acquire
#define fdl_store_pointer fdl_store_release

#else
#error "fastdl needs gcc, clang or MSVC for its locks"
#endif

#define fdl_lock_init fdl_lock_give

#endif
