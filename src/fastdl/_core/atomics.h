/* SPDX-License-Identifier: Apache-2.0
 *
 * An atomic reference count, and thread-local variables. C11 where it exists, intrinsics for MSVC,
 * and the builtins of gcc and clang for older C modes.
 */
#ifndef FASTDL_CORE_ATOMICS_H_
#define FASTDL_CORE_ATOMICS_H_

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

#else
#error "fastdl needs C11 atomics, or gcc, clang or MSVC"
#endif

#endif
