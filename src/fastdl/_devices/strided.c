/* SPDX-License-Identifier: Apache-2.0 */
#include "strided.h"

#include "_core/copy.h"

/* ---- the calls ---- */

/* `depth` slices of `height` rows of `width` bytes. */
typedef struct {
    size_t width, height, depth;
    size_t target_pitch, source_pitch; /* from row to row, in bytes */
    size_t target_rows, source_rows;   /* from slice to slice, in rows */
} box;

/* CUDA_MEMCPY3D */
typedef struct {
    size_t x, y, z, level;
    unsigned type;
    const void *host;
    unsigned long long device;
    void *array;
    void *reserved;
    size_t pitch, rows;
} cuda_side;

typedef struct {
    cuda_side source, target;
    size_t width, height, depth;
} cuda_box;

enum {
    CU_HOST = 1,
    CU_UNIFIED = 4
};

static void fill_side(cuda_side *side, const void *pointer, int is_host, size_t pitch, size_t rows)
{
    side->type = is_host ? CU_HOST : CU_UNIFIED;
    if (is_host)
        side->host = pointer;
    else
        side->device = (uintptr_t)pointer;
    side->pitch = pitch;
    side->rows = rows;
}

/* hipMemcpy3DParms */
typedef struct {
    void *array;
    size_t x, y, z;
    void *pointer;
    size_t pitch, row, rows;
} hip_side;

typedef struct {
    hip_side source, target;
    size_t width, height, depth;
    int kind;
} hip_box;

#define HIP_INFERRED 4 /* hipMemcpyDefault: the driver sees what the pointers are */

static int copy_box(const fdl_device_copy *copy, const char *source, char *target, const box *b,
                    fdl_failure *failure)
{
    if (copy->driver->kind == FASTDL_STREAM_CUDA) {
        cuda_box parameters = {0};
        fill_side(&parameters.source, source, copy->source_is_host, b->source_pitch,
                  b->source_rows);
        fill_side(&parameters.target, target, copy->target_is_host, b->target_pitch,
                  b->target_rows);
        parameters.width = b->width;
        parameters.height = b->height;
        parameters.depth = b->depth;
        return FDL_TRY(copy->driver, failure, cu_copy_3d, &parameters, copy->stream);
    } else {
        hip_box parameters = {0};
        parameters.source.pointer = (void *)(uintptr_t)source;
        parameters.source.pitch = parameters.source.row = b->source_pitch;
        parameters.source.rows = b->source_rows;
        parameters.target.pointer = target;
        parameters.target.pitch = parameters.target.row = b->target_pitch;
        parameters.target.rows = b->target_rows;
        parameters.width = b->width;
        parameters.height = b->height;
        parameters.depth = b->depth;
        parameters.kind = HIP_INFERRED;
        return FDL_TRY(copy->driver, failure, hip_copy_3d, &parameters, copy->stream);
    }
}

static int copy_line(const fdl_device_copy *copy, const char *source, char *target, size_t bytes,
                     fdl_failure *failure)
{
    if (copy->driver->kind == FASTDL_STREAM_CUDA)
        return FDL_TRY(copy->driver, failure, cu_copy, target, source, bytes, copy->stream);
    return FDL_TRY(copy->driver, failure, hip_copy, target, source, bytes, HIP_INFERRED,
                   copy->stream);
}

int fdl_copy_bytes(const fdl_device_copy *copy, size_t bytes, fdl_failure *failure)
{
    return copy_line(copy, copy->source, copy->target, bytes, failure);
}

/* ---- a tensor as boxes ---- */

#define MAX_PITCH 0x7FFFFFFF /* what CUDA says of every device */

/* One step of both sides, `size` times. */
typedef struct {
    int64_t size, source, target;
} dimension;

/* Whether the dimension can be the rows of a box. */
static int can_be_rows(const dimension *d, int64_t width)
{
    return d->source >= width && d->source <= MAX_PITCH && d->target <= MAX_PITCH;
}

/* Whether it can be the slices of a box with these rows. */
static int can_be_slices(const dimension *d, const dimension *rows)
{
    return d->source % rows->source == 0 && d->source / rows->source >= rows->size &&
           d->target % rows->target == 0 && d->target / rows->target >= rows->size;
}

/* Takes out of `dims` those that make the largest box. */
static void choose(dimension *dims, int32_t *ndim, int64_t width, box *b)
{
    int32_t rows = -1, slices = -1, left = 0;
    int64_t most = 1;
    for (int32_t i = 0; i < *ndim; i++) {
        if (!can_be_rows(&dims[i], width))
            continue;
        if (dims[i].size > most) {
            most = dims[i].size;
            rows = i;
            slices = -1;
        }
        for (int32_t k = 0; k < *ndim; k++)
            if (k != i && can_be_slices(&dims[k], &dims[i]) && dims[i].size * dims[k].size > most) {
                most = dims[i].size * dims[k].size;
                rows = i;
                slices = k;
            }
    }
    b->width = (size_t)width;
    b->height = b->depth = 1;
    b->source_pitch = b->target_pitch = (size_t)width;
    if (rows >= 0) {
        b->height = (size_t)dims[rows].size;
        b->source_pitch = (size_t)dims[rows].source;
        b->target_pitch = (size_t)dims[rows].target;
    }
    b->source_rows = b->target_rows = b->height;
    if (slices >= 0) {
        b->depth = (size_t)dims[slices].size;
        b->source_rows = (size_t)(dims[slices].source / dims[rows].source);
        b->target_rows = (size_t)(dims[slices].target / dims[rows].target);
    }
    for (int32_t i = 0; i < *ndim; i++)
        if (i != rows && i != slices)
            dims[left++] = dims[i];
    *ndim = left;
}

/* The dimensions of the tensor with the steps of both sides, and the width of the consecutive part.
 */
static int32_t dimensions_of(const DLTensor *tensor, dimension *dims, int64_t *width)
{
    fdl_walk walk;
    int64_t step = fastdl_itemsize(tensor->dtype);
    fdl_walk_of(tensor, &walk);
    *width = step;
    if (walk.ndim > 0 && walk.strides[walk.ndim - 1] == step) {
        *width = step *= walk.shape[walk.ndim - 1];
        walk.ndim--;
    }
    for (int32_t i = walk.ndim; i-- > 0; step *= walk.shape[i]) {
        dims[i].size = walk.shape[i];
        dims[i].source = walk.strides[i];
        dims[i].target = step;
    }
    return walk.ndim;
}

int fdl_copy_strided(const fdl_device_copy *copy, const DLTensor *tensor, fdl_failure *failure)
{
    dimension dims[FASTDL_MAX_NDIM];
    int64_t index[FASTDL_MAX_NDIM] = {0}, width;
    const char *source = copy->source;
    char *target = copy->target;
    int32_t ndim = dimensions_of(tensor, dims, &width);
    box b;
    choose(dims, &ndim, width, &b);
    for (;;) {
        int32_t i = ndim;
        if ((b.height == 1 ? copy_line(copy, source, target, b.width, failure)
                           : copy_box(copy, source, target, &b, failure)) < 0)
            return -1;
        while (i-- > 0) { /* the next index of the dimensions that are left */
            source += dims[i].source;
            target += dims[i].target;
            if (++index[i] < dims[i].size)
                break;
            source -= dims[i].source * dims[i].size;
            target -= dims[i].target * dims[i].size;
            index[i] = 0;
        }
        if (i < 0)
            return 0;
    }
}
