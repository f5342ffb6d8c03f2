/* SPDX-License-Identifier: Apache-2.0 */
#include "block.h"

#include <stdlib.h>
#include <string.h>

#include "layout.h"

/* The size of shape and strides. ndim is at most FASTDL_MAX_NDIM, so it cannot overflow. */
static size_t dims_size(int32_t ndim)
{
    return 2 * (size_t)ndim * sizeof(int64_t);
}

static fdl_description *first_description(fdl_block *block)
{
    return (fdl_description *)(block + 1);
}

static void point_dims(DLTensor *tensor, int64_t *dims, int32_t ndim)
{
    tensor->ndim = ndim;
    tensor->shape = dims;
    tensor->strides = dims + ndim;
}

static void init_description(fdl_description *description, fdl_block *block, int32_t ndim)
{
    DLManagedTensorVersioned *managed = &description->managed;
    managed->version.major = FASTDL_DLPACK_MAJOR;
    managed->version.minor = FASTDL_DLPACK_MINOR;
    managed->manager_ctx = description; /* never NULL: for NULL, one consumer skips the deleter */
    managed->deleter = fdl_description_delete;
    managed->flags = 0;
    managed->dl_tensor.byte_offset = 0;
    point_dims(&managed->dl_tensor, (int64_t *)(description + 1), ndim);
    description->block = block;
}

#define SPARES 64
#define SPARE_NDIM 8 /* dimensions that a spare block has room for */

#ifndef FDL_NO_SPARES
static fdl_block *spares[SPARES];
static int spare_count;
#endif

static fdl_description *init_block(fdl_block *block, int32_t ndim)
{
    if (block == NULL)
        return NULL;
    fdl_count_set(&block->refs, 1);
    block->spare = ndim <= SPARE_NDIM;
    block->driver_owned = 0;
    block->immutable = 0;
    block->hidden = 0;
    block->drop = NULL;
    block->release = NULL;
    block->owner = NULL;
    block->work = NULL;
    init_description(first_description(block), block, ndim);
    return first_description(block);
}

fdl_description *fdl_block_new_detached(int32_t ndim)
{
    int32_t room = ndim <= SPARE_NDIM ? SPARE_NDIM : ndim;
    return init_block(malloc(sizeof(fdl_block) + sizeof(fdl_description) + dims_size(room)), ndim);
}

fdl_description *fdl_block_new(int32_t ndim)
{
#ifndef FDL_NO_SPARES
    if (ndim <= SPARE_NDIM && spare_count > 0)
        return init_block(spares[--spare_count], ndim);
#endif
    return fdl_block_new_detached(ndim);
}

void fdl_block_free(fdl_block *block, int attached)
{
    if (block->work != NULL)
        ((const fdl_work_end *)block->work)->free(block->work); /* its first member */
#ifndef FDL_NO_SPARES
    if (attached && block->spare && spare_count < SPARES) {
        spares[spare_count++] = block;
        return;
    }
#endif
    (void)attached;
    free(block);
}

fdl_description *fdl_description_new(fdl_block *block, int32_t ndim)
{
    fdl_description *description = malloc(sizeof(fdl_description) + dims_size(ndim));
    if (description == NULL)
        return NULL;
    fdl_count_retain(&block->refs);
    init_description(description, block, ndim);
    return description;
}

void fdl_block_end(fdl_block *block, int attached)
{
    if (block->drop == NULL || block->drop(block, attached))
        fdl_block_free(block, attached);
}

int (*fdl_should_defer)(fdl_block *block);

static void block_release(fdl_block *block, int attached)
{
    /* A count of one means a sole owner: nothing else can raise it, so the atomic decrement, which
     * costs as much as a small allocation, is not needed. */
    if (fdl_count_get(&block->refs) != 1 && !fdl_count_release(&block->refs))
        return;
    if (block->driver_owned && fdl_should_defer != NULL && fdl_should_defer(block))
        return;
    fdl_block_end(block, attached);
}

void fdl_description_release(fdl_description *description, int attached)
{
    fdl_block *block = description->block;
    if (description != first_description(block))
        free(description);
    block_release(block, attached);
}

void fdl_description_delete(DLManagedTensorVersioned *managed)
{
    fdl_description_release((fdl_description *)managed, 0);
}

static void note_driver_owned(fdl_block *block, DLDevice device)
{
    int stream = fastdl_find_device((int32_t)device.device_type)->stream;
    if (!block->driver_owned && (stream == FASTDL_STREAM_CUDA || stream == FASTDL_STREAM_ROCM) &&
        fdl_count_get(&block->refs) == 1) /* not for a shared block, which has this flag already */
        block->driver_owned = 1;
}

void fdl_description_fill(fdl_description *description, const DLTensor *tensor, uint64_t flags)
{
    DLTensor *own = &description->managed.dl_tensor;
    DLDevice device = tensor->device;
    if (description->block->immutable)
        flags |= DLPACK_FLAG_BITMASK_READ_ONLY; /* even if its legacy form could not express it */
    description->managed.flags = flags;
    if (device.device_type == kDLCPU)
        device.device_id = 0; /* the host is CPU 0 */
    else
        note_driver_owned(description->block, device);
    own->device = device; /* in one store: a wider load would stall on two narrower stores */
    own->dtype = tensor->dtype;
    own->data = tensor->data;
    own->byte_offset = tensor->byte_offset;
    if (own->byte_offset != 0 && fdl_folds_offset((int32_t)own->device.device_type)) {
        own->data = (void *)((uintptr_t)own->data + (uintptr_t)own->byte_offset);
        own->byte_offset = 0;
    }
    if (tensor->strides != NULL) {
        int64_t *shape = own->shape, *strides = own->strides;
        const int64_t *their_shape = tensor->shape, *their_strides = tensor->strides;
        for (int32_t i = 0, ndim = tensor->ndim; i < ndim; i++) {
            shape[i] = their_shape[i];
            strides[i] = their_strides[i];
        }
    } else {
        for (int32_t i = 0; i < tensor->ndim; i++)
            own->shape[i] = tensor->shape[i];
        fastdl_compact_strides(tensor->ndim, own->shape, own->strides);
    }
}

fdl_description *fdl_description_copy(const fdl_description *source, uint64_t more_flags)
{
    const DLTensor *from = &source->managed.dl_tensor;
    DLTensor *to;
    fdl_description *copy = fdl_description_new(source->block, from->ndim);
    if (copy == NULL)
        return NULL;
    to = &copy->managed.dl_tensor;
    memcpy(to->shape, from->shape, dims_size(from->ndim)); /* the strides follow, in both */
    to->data = from->data;
    to->device = from->device;
    to->dtype = from->dtype;
    to->byte_offset = from->byte_offset;
    copy->managed.flags = (source->managed.flags & FDL_LASTING_FLAGS) | more_flags;
    return copy;
}

/* ---- the legacy form: another struct around the same tensor ---- */

typedef struct {
    DLManagedTensor managed;
    fdl_block *block;
    /* followed by shape and strides */
} legacy_description;

static void legacy_delete(DLManagedTensor *managed)
{
    fdl_block *block = ((legacy_description *)managed)->block;
    free(managed);
    block_release(block, 0);
}

DLManagedTensor *fdl_legacy_copy(const fdl_description *source)
{
    const DLTensor *from = &source->managed.dl_tensor;
    int64_t *dims;
    legacy_description *copy = malloc(sizeof(legacy_description) + dims_size(from->ndim));
    if (copy == NULL)
        return NULL;
    dims = (int64_t *)(copy + 1);
    copy->managed.dl_tensor = *from;
    point_dims(&copy->managed.dl_tensor, dims, from->ndim);
    memcpy(dims, from->shape, dims_size(from->ndim)); /* strides follow the shape there too */
    copy->managed.manager_ctx = copy;
    copy->managed.deleter = legacy_delete;
    copy->block = source->block;
    fdl_count_retain(&copy->block->refs);
    return &copy->managed;
}

fdl_block *fdl_block_of_legacy(DLManagedTensor *managed)
{
    return managed->deleter == legacy_delete ? ((legacy_description *)managed)->block : NULL;
}

/* ---- no memory ---- */

/* Laid out as fdl_block_new would; the count never reaches 0. */
static struct {
    fdl_block block;
    fdl_description description;
    int64_t dims[2];
} nothing = {
    .block = {.refs = {1}},
    .description = {.managed = {.version = {FASTDL_DLPACK_MAJOR, FASTDL_DLPACK_MINOR},
                                .manager_ctx = &nothing.description,
                                .deleter = fdl_description_delete,
                                .dl_tensor = {.device = {kDLCPU, 0},
                                              .ndim = 1,
                                              .dtype = {kDLUInt, 8, 1},
                                              .shape = nothing.dims,
                                              .strides = nothing.dims + 1}},
                    .block = &nothing.block},
    .dims = {0, 1},
};

fdl_description *fdl_description_of_nothing(void)
{
    fdl_count_retain(&nothing.block.refs);
    return first_description(&nothing.block);
}

/* ---- fastdl's own memory ---- */

/* The memory is freed with the block, since it is part of that allocation. */
static int drop_memory(fdl_block *block, int attached)
{
    (void)block;
    (void)attached;
    return 1;
}

fdl_description *fdl_memory_new(const DLTensor *prototype, uint64_t flags, int64_t nbytes)
{
    const size_t before = sizeof(fdl_block) + sizeof(fdl_description) + dims_size(prototype->ndim);
    fdl_description *description;
    fdl_block *block;
    if ((uint64_t)nbytes > PTRDIFF_MAX - FDL_ALIGNMENT - before)
        return NULL;
    block = malloc(before + FDL_ALIGNMENT + (size_t)nbytes);
    description = init_block(block, prototype->ndim);
    if (description == NULL)
        return NULL;
    block->spare = 0; /* of any size */
    block->drop = drop_memory;
    /* Kept here too, since a consumer may change the description. */
    block->owner =
        (void *)(((uintptr_t)block + before + FDL_ALIGNMENT - 1) & ~(uintptr_t)(FDL_ALIGNMENT - 1));
    fdl_description_fill(description, prototype, flags);
    description->managed.dl_tensor.data = block->owner;
    return description;
}

int fdl_is_memory(const fdl_block *block)
{
    return block->drop == drop_memory;
}

int fdl_is_still_memory(const fdl_description *description)
{
    const DLTensor *own = &description->managed.dl_tensor;
    int64_t size = 1, bytes;
    if (!fdl_is_memory(description->block) || description->block->work != NULL ||
        own->data != description->block->owner || own->byte_offset != 0 ||
        own->device.device_type != kDLCPU || own->device.device_id != 0 ||
        description->managed.flags != 0 || own->dtype.lanes == 0 ||
        (uint32_t)own->ndim > FASTDL_MAX_NDIM ||
        !fastdl_dtype_exists(own->dtype.code, own->dtype.bits))
        return 0;
    for (int32_t i = own->ndim; i-- > 0;)
        if (own->shape[i] < 0 || (own->strides[i] != size && own->shape[i] != 1) ||
            fastdl_mul_(size, own->shape[i], &size))
            return 0;
    return !fastdl_mul_(size, fastdl_itemsize(own->dtype), &bytes) &&
           (uint64_t)bytes <= PTRDIFF_MAX;
}
