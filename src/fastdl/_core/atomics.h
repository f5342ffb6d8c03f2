/* SPDX-License-Identifier: Apache-2.0
 *
 * An atomic reference count, a pointer that is set once, and thread-local variables. C11 where it
 * exists, intrinsics for MSVC, and the builtins of gcc and clang for older C modes.
 *
 * fdl_pointer is NULL until a thread sets it, and never changes afterwards: who reads it sees all
 * that was written to its target before.
 */
#ifndef FASTDL_CORE_ATOMICS_H_
#define FASTDL_CORE_ATOMICS_H_

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

typedef struct {
    void *volatile value;
} fdl_pointer;

static inline void *fdl_pointer_get(fdl_pointer *pointer)
{
    return _InterlockedCompareExchangePointer(&pointer->value, NULL, NULL);
}

/* 1, or 0 if it had been set before. */
static inline int fdl_pointer_set(fdl_pointer *pointer, void *value)
{
    return _InterlockedCompareExchangePointer(&pointer->value, value, NULL) == NULL;
}

#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L && !defined(__STDC_NO_ATOMICS__)

#include <stdatomic.h>

#define FDL_THREAD_LOCAL _Thread_local

typedef struct {
    _Atomic int64_t value;
} fdl_count;

static inline void fdl_count_set(fdl_count *count, int64_t value)
{
    atomic_init(&count->value, value);
}

static inline void fdl_count_retain(fdl_count *count)
{
    (void)atomic_fetch_add_explicit(&count->value, 1, memory_order_relaxed);
}

static inline int64_t fdl_count_get(fdl_count *count)
{
    return atomic_load_explicit(&count->value, memory_order_acquire);
}

/* 1 when this was the last reference. */
static inline int fdl_count_release(fdl_count *count)
{
    return atomic_fetch_sub_explicit(&count->value, 1, memory_order_acq_rel) == 1;
}

typedef struct {
    void *_Atomic value;
} fdl_pointer;

static inline void *fdl_pointer_get(fdl_pointer *pointer)
{
    return atomic_load_explicit(&pointer->value, memory_order_acquire);
}

/* 1, or 0 if it had been set before. */
static inline int fdl_pointer_set(fdl_pointer *pointer, void *value)
{
    void *unset = NULL;
    return atomic_compare_exchange_strong_explicit(&pointer->value, &unset, value,
                                                   memory_order_release, memory_order_relaxed);
}

#elif defined(__GNUC__) || defined(__clang__)

#define FDL_THREAD_LOCAL __thread

typedef struct {
    int64_t value;
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

typedef struct {
    void *value;
} fdl_pointer;

static inline void *fdl_pointer_get(fdl_pointer *pointer)
{
    return __atomic_load_n(&pointer->value, __ATOMIC_ACQUIRE);
}

/* 1, or 0 if it had been set before. */
static inline int fdl_pointer_set(fdl_pointer *pointer, void *value)
{
    void *unset = NULL;
    return __atomic_compare_exchange_n(&pointer->value, &unset, value, 0, __ATOMIC_RELEASE,
                                       __ATOMIC_RELAXED);
}

#else
#error "fastdl needs C11 atomics, or gcc, clang or MSVC"
#endif

#endif
