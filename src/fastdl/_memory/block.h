/* SPDX-License-Identifier: Apache-2.0
 *
 * Ownership. Plain C, without Python.
 *
 * A *block* represents some memory and the owner to release when fastdl no longer uses it. It has
 * an atomic reference count and is created once for each import or allocation.
 *
 * A *description* is one reference to a block, together with a shape, strides and flags.
 * It is laid out as a DLManagedTensorVersioned whose deleter drops that reference, so one struct
 * serves a fastdl.Tensor, a view of it, and every capsule exported from it:
 *
 *     Tensor ── owns ──> description ──┐
 *     view   ── owns ──> description ──┼── each holds one reference ──> block ──> upstream
 *     capsule ─ owns ──> description ──┘
 *
 * The first description of a block lives in the block's own allocation. Descriptions are never
 * shared: a consumer owns the one it receives and may change it freely.
 *
 * Unless stated otherwise, a function may be called on any thread, with or without a Python thread
 * state, and after the interpreter has ended. A block's `drop` may need a thread state, and
 * attaches by itself.
 *
 * Small blocks released on a thread with a thread state are kept for the next import; the GIL
 * guards them. With FDL_NO_SPARES (no GIL, or a sanitizer that should see every allocation) every
 * block uses malloc and free.
 */
#ifndef FASTDL_MEMORY_BLOCK_H_
#define FASTDL_MEMORY_BLOCK_H_

#include <stddef.h>

#include <fastdl/dlpack.h>

#include "atomics.h"

typedef struct fdl_block fdl_block;

/* Work in flight on the memory of a block. The layer that creates one derives from this struct, so
 * that block.c can free a block without knowing about devices. */
typedef struct fdl_work fdl_work;
typedef struct {
    void (*free)(fdl_work *work);
} fdl_work_end;

struct fdl_block {
    fdl_count refs;
    int spare;        /* allocated in a size that can be kept for reuse */
    int driver_owned; /* memory of CUDA or ROCm, or pinned by them: see fdl_should_defer */
    /* The memory never changes, so it is read-only in every description. Set while the block has
     * one reference. */
    int immutable;
    int hidden; /* the collector does not visit `owner`: see fdl_object_behind */
    /* Releases `owner`; called when the last reference is gone. `attached`: whether the calling
     * thread has a Python thread state. Returns 1, or 0 if it will release the owner later and then
     * call fdl_block_free. NULL: there is nothing to release. */
    int (*drop)(fdl_block *block, int attached);
    void (*release)(void *owner); /* for `drop`: releases the owner */
    void *owner;
    fdl_block *next; /* for `drop`, while the block waits */
    fdl_work *work;  /* work in flight on the memory; NULL: plain host memory */
};

typedef struct {
    DLManagedTensorVersioned managed; /* first: a description is a managed tensor */
    fdl_block *block;
    /* followed by shape and strides: 2 * ndim int64_t */
} fdl_description;

/* The flags that describe the memory and survive a re-export. IS_COPIED is about one exchange, and
 * unknown flags may mean anything: neither is passed on. */
#define FDL_LASTING_FLAGS                                                                          \
    ((uint64_t)(DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED))

/* A new block with one reference, held by the returned description. The caller has a thread state
 * (otherwise use fdl_block_new_detached). The description's shape and strides have room for `ndim`
 * entries; they, the device, data and type are left uninitialised; `drop` and `owner` are NULL.
 * NULL when out of memory. */
fdl_description *fdl_block_new(int32_t ndim);

/* fdl_block_new without a thread state. */
fdl_description *fdl_block_new_detached(int32_t ndim);

/* Another description of `block`, initialised as by fdl_block_new, with its own reference. NULL
 * when out of memory, without a reference. */
fdl_description *fdl_description_new(fdl_block *block, int32_t ndim);

/* Frees a block whose last reference is gone; called later if that was deferred. */
void fdl_block_end(fdl_block *block, int attached);

/* Called when the last reference to a driver-owned block is gone; set by the device layer on
 * import. 1: fdl_block_end will be called later, since this thread may be in a callback of the
 * driver; 0: free the block now. */
extern int (*fdl_should_defer)(fdl_block *block);

/* Frees a block whose `drop` returned 0. */
void fdl_block_free(fdl_block *block, int attached);

/* A copy of `source` to pass to a consumer: same memory, flags reduced to the lasting ones plus
 * `more_flags`. NULL when out of memory. */
fdl_description *fdl_description_copy(const fdl_description *source, uint64_t more_flags);

/* fdl_description_copy in the legacy form, from before DLPack 1.0, which cannot carry flags. */
DLManagedTensor *fdl_legacy_copy(const fdl_description *source);

/* Releases a description and its reference. `attached` as in `drop`. */
void fdl_description_release(fdl_description *description, int attached);

/* The deleter of every description, which consumers call: releases the description, assuming no
 * thread state. */
void fdl_description_delete(DLManagedTensorVersioned *managed);

/* The block behind a legacy managed tensor that fastdl itself exported, or NULL. The managed tensor
 * holds a reference to it. */
fdl_block *fdl_block_of_legacy(DLManagedTensor *managed);

/* A static description without memory, of shape (0,), for a Tensor that has lost its own. Release
 * it like any other. Cannot fail. */
fdl_description *fdl_description_of_nothing(void);

/* The description behind a managed tensor that fastdl itself exported, or NULL. If a consumer
 * replaced the shape or strides, the managed tensor counts as foreign, since their owner is
 * unknown. */
static inline fdl_description *fdl_description_of(DLManagedTensorVersioned *managed)
{
    int64_t *dims = (int64_t *)((fdl_description *)managed + 1);
    if (managed->deleter != fdl_description_delete || managed->dl_tensor.shape != dims ||
        managed->dl_tensor.strides != dims + managed->dl_tensor.ndim)
        return NULL;
    return (fdl_description *)managed;
}

/* Copies the type, device, shape and strides of a checked tensor into `description`, which has room
 * for that many dimensions. Strides are filled in where the source has none, and the byte offset is
 * folded into `data` as fdl_folds_offset says; the id of a CPU becomes 0. `tensor` may be the
 * one inside `description`. */
void fdl_description_fill(fdl_description *description, const DLTensor *tensor, uint64_t flags);

/* New, uninitialised, compact row-major host memory for `prototype` (type, ndim, shape and
 * strides NULL; already checked, `nbytes` being its size), aligned to FDL_ALIGNMENT.
 * NULL when out of memory. */
fdl_description *fdl_memory_new(const DLTensor *prototype, uint64_t flags, int64_t nbytes);

/* Whether fdl_memory_new made the block. */
int fdl_is_memory(const fdl_block *block);

/* Whether a description returned by a consumer is valid and still as made by fdl_memory_new:
 * compact, writable host memory from its first byte on, ready. Cheaper than fastdl_check. */
int fdl_is_still_memory(const fdl_description *description);

#endif
