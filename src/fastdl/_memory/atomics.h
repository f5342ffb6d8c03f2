/* SPDX-License-Identifier: Apache-2.0
 *
 * Thread-local variables, and variables shared by threads: a reference count, a pointer that is set
 * once, and loads and stores with acquire and release order.
 *
 * fdl_pointer is NULL until a thread sets it, and never changes afterwards: a reader sees
 * everything that was written to its target before.
 */
#ifndef FASTDL_MEMORY_ATOMICS_H_
#define FASTDL_MEMORY_ATOMICS_H_

#include <stddef.h>
#include <stdint.h>

#if defined(_MSC_VER) && !defined(__clang__)

#include <intrin.h>

#define FDL_THREAD_LOCAL __declspec(thread)

typedef struct {
    volatile int64_t value;
} fdl_count;

static inline void fdl_count_set(fdl_count *count, int64_t value)
{
    count->value = value;
}

static inline void fdl_count_retain(fdl_count *count)
{
    (void)_InterlockedIncrement64(&count->value);
}

static inline int64_t fdl_count_get(fdl_count *count)
{
    return _InterlockedCompareExchange64(&count->value, 0, 0);
}

/* 1 when this was the last reference. */
static inline int fdl_count_release(fdl_count *count)
{
    return _InterlockedDecrement64(&count->value) == 0;
}

static inline int fdl_load_acquire(const int *value)
{
    return (int)_InterlockedCompareExchange((volatile long *)value, 0, 0);
}

static inline int fdl_exchange_acquire(int *value, int desired)
{
    return (int)_InterlockedExchange((volatile long *)value, desired);
}

#define fdl_store_release (void)fdl_exchange_acquire

static inline void *fdl_load_pointer(void *const *value)
{
    return _InterlockedCompareExchangePointer((void *volatile *)value, NULL, NULL);
}

static inline void fdl_store_pointer(void **value, void *desired)
{
    (void)_InterlockedExchangePointer(value, desired);
}

/* Replaces NULL: 1, or 0 if it had been replaced before. */
static inline int fdl_set_once(void **value, void *desired)
{
    return _InterlockedCompareExchangePointer(value, desired, NULL) == NULL;
}

#elif defined(__GNUC__) || defined(__clang__)

#define FDL_THREAD_LOCAL __thread

typedef struct {
    int64_t value __attribute__((aligned(8))); /* in one cache line, on i386 as well */
} fdl_count;

static inline void fdl_count_set(fdl_count *count, int64_t value)
{
    __atomic_store_n(&count->value, value, __ATOMIC_RELAXED);
}

static inline void fdl_count_retain(fdl_count *count)
{
    (void)__atomic_fetch_add(&count->value, 1, __ATOMIC_RELAXED);
}

static inline int64_t fdl_count_get(fdl_count *count)
{
    return __atomic_load_n(&count->value, __ATOMIC_ACQUIRE);
}

/* 1 when this was the last reference. */
static inline int fdl_count_release(fdl_count *count)
{
    return __atomic_fetch_sub(&count->value, 1, __ATOMIC_ACQ_REL) == 1;
}

#define fdl_load_acquire(value) __atomic_load_n(value, __ATOMIC_ACQUIRE)
#define fdl_exchange_acquire(value, desired) __atomic_exchange_n(value, desired, __ATOMIC_ACQUIRE)
#define fdl_store_release(value, desired) __atomic_store_n(value, desired, __ATOMIC_RELEASE)
#define fdl_load_pointer fdl_load_acquire
#define fdl_store_pointer fdl_store_release

/* Replaces NULL: 1, or 0 if it had been replaced before. */
static inline int fdl_set_once(void **value, void *desired)
{
    void *unset = NULL;
    return __atomic_compare_exchange_n(value, &unset, desired, 0, __ATOMIC_RELEASE,
                                       __ATOMIC_RELAXED);
}

#else
#error "fastdl needs the atomic operations of gcc, clang or MSVC"
#endif

typedef struct {
    void *value;
} fdl_pointer;

static inline void *fdl_pointer_get(fdl_pointer *pointer)
{
    return fdl_load_pointer(&pointer->value);
}

/* Sets a pointer once: 1, or 0 if it had been set before. */
static inline int fdl_pointer_set(fdl_pointer *pointer, void *value)
{
    return fdl_set_once(&pointer->value, value);
}

#endif
