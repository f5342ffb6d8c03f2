/* SPDX-License-Identifier: Apache-2.0
 *
 * Ownership. Plain C: nothing here knows of Python.
 *
 * A *block* stands for some memory and whoever must be told when fastdl is done with it.
 * It has an atomic count of references and is made once for each import or allocation.
 *
 * A *description* is one reference to a block, together with a shape, strides and flags.
 * It is laid out as a DLManagedTensorVersioned whose deleter gives that reference back, so
 * the same thing serves a fastdl.Tensor, a view of it, and every capsule exported from it:
 *
 *     Tensor ── owns ──> description ──┐
 *     view   ── owns ──> description ──┼── each holds one reference ──> block ──> upstream
 *     capsule ─ owns ──> description ──┘
 *
 * The first description of a block lives in the block's own allocation. Nobody shares a
 * description: a consumer owns the one it was given and may change it as it likes.
 *
 * Unless said otherwise a function may be called on any thread, with or without a Python thread
 * state, and after the interpreter is gone. A block's `drop` needs more, and looks after itself.
 *
 * Small blocks that are given back on a thread with a thread state are kept for the next import:
 * the GIL guards them. With FDL_NO_SPARES (no GIL, or a sanitizer that should see every
 * allocation) malloc and free are all there is.
 */
#ifndef FASTDL_CORE_BLOCK_H_
#define FASTDL_CORE_BLOCK_H_

#include <stddef.h>

#include <fastdl/dlpack.h>

#include "atomics.h"

typedef struct fdl_block fdl_block;

/* What is in flight on the memory of a block. The layer that makes one puts this in front of its
 * own members, so that a block can end without knowing of devices. */
typedef struct fdl_work fdl_work;
typedef struct {
    int (*settle)(fdl_block *block); /* 1: the block may end; 0: it ends later, by fdl_block_end */
    void (*free)(fdl_work *work);
} fdl_work_end;

struct fdl_block {
    fdl_count refs;
    int spare; /* made in a size that can be kept for reuse */
    /* Gives `owner` back; called when the last reference has gone. `attached` says that the calling
     * thread has a Python thread state. Returns 1, or 0 if it will do so later and calls
     * fdl_block_free then. NULL: nothing to give back. */
    int (*drop)(fdl_block *block, int attached);
    void (*release)(void *owner); /* for `drop`: what to do with the owner */
    void *owner;
    fdl_block *next; /* for `drop`, while the block waits */
    fdl_work *work;  /* what is in flight on the memory; NULL: plain host memory */
};

typedef struct {
    DLManagedTensorVersioned managed; /* first: a description is a managed tensor */
    fdl_block *block;
    /* followed by shape and strides: 2 * ndim int64_t */
} fdl_description;

/* The flags that describe the memory and survive a re-export. IS_COPIED tells one consumer
 * about one exchange, and flags we do not know may mean anything: neither is passed on. */
#define FDL_LASTING_FLAGS                                                                          \
    ((uint64_t)(DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED))

/* A new block with one reference, held by the description that is returned. The caller has a
 * thread state (see fdl_block_new_detached otherwise). The description's shape and strides have
 * room for `ndim` entries and are not filled; device, data and type are not
 * either; `drop` and `owner` are NULL. NULL when out of memory. */
fdl_description *fdl_block_new(int32_t ndim);

/* The same without a thread state. */
fdl_description *fdl_block_new_detached(int32_t ndim);

/* A further description of `block`, as above, holding a reference of its own.
 * NULL when out of memory, and then no reference was taken. */
fdl_description *fdl_describe(fdl_block *block, int32_t ndim);

/* What happens when the last reference to a block has gone; and again, if it was deferred. */
void fdl_block_end(fdl_block *block, int attached);

/* Frees a block whose `drop` had put it off. */
void fdl_block_free(fdl_block *block, int attached);

/* A copy of `source` that can be given away: same memory, flags reduced to the lasting ones
 * plus `more_flags`. NULL when out of memory. */
fdl_description *fdl_description_copy(const fdl_description *source, uint64_t more_flags);

/* The same in the form before DLPack 1.0, which cannot carry flags. */
DLManagedTensor *fdl_legacy_copy(const fdl_description *source);

/* Gives back a description and its reference. `attached` as in `drop`. */
void fdl_description_release(fdl_description *description, int attached);

/* The deleter of every description, for strangers: release without a thread state. */
void fdl_description_delete(DLManagedTensorVersioned *managed);

/* The block behind a legacy managed tensor that fastdl itself exported, or NULL. The managed tensor
 * holds a reference to it. */
fdl_block *fdl_block_of_legacy(DLManagedTensor *managed);

/* A description of no memory at all, shape (0,), for a Tensor that has lost its own. It is released
 * like any other; there is one, so nothing can fail. */
fdl_description *fdl_description_of_nothing(void);

/* The description behind a managed tensor that fastdl itself exported, or NULL. One that its
 * consumer gave another shape or strides counts as foreign: nobody knows who owns those. */
static inline fdl_description *fdl_description_of(DLManagedTensorVersioned *managed)
{
    int64_t *dims = (int64_t *)((fdl_description *)managed + 1);
    if (managed->deleter != fdl_description_delete || managed->dl_tensor.shape != dims ||
        managed->dl_tensor.strides != dims + managed->dl_tensor.ndim)
        return NULL;
    return (fdl_description *)managed;
}

/* Copies type, device, shape and strides of a checked tensor into `description`, whose room is
 * for that many dimensions. Strides are filled in where the source has none, and the byte
 * offset is folded into `data` where the device has addresses; the id of a CPU becomes 0. `tensor`
 * may be the description's own. */
void fdl_description_fill(fdl_description *description, const DLTensor *tensor, uint64_t flags);

/* New, uninitialised, compact row-major host memory for `prototype` (type, ndim, shape and
 * strides NULL; already checked, `nbytes` being its size), aligned to FDL_ALIGNMENT.
 * NULL when out of memory. */
fdl_description *fdl_memory_new(const DLTensor *prototype, uint64_t flags, int64_t nbytes);

#endif
