/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer.h"

#include <stdlib.h>

#include "_core/import.h"
#include "_core/lifetime.h"
#include "_memory/copy.h"

#include <fastdl/fastdl.h>

#include "ordering.h"
#include "pointer_attributes.h"

/* `height` rows of `width` bytes, which are `pitch` bytes apart. */
typedef struct {
    size_t width, height, pitch;
} row_layout;

/* A copy to the host. */
typedef struct {
    fdl_driver *driver;
    const fdl_description *source;
    uint64_t flags; /* of the result */
    fastdl_layout layout;
    int compact;     /* the source is row-major without gaps */
    row_layout rows; /* copied by the driver: several rows, or the whole span as one */
    int64_t stream;
} transfer;

static const DLTensor *tensor_of(const transfer *t)
{
    return &t->source->managed.dl_tensor;
}

/* ---- which copy ---- */

#define MAX_PITCH 0x7FFFFFFF /* CUDA's value for every device */

/* Whether the elements of a tensor, at least one and not packed, form rows in row-major order, with
 * one stride besides that of consecutive elements. Fills in *rows if so. */
static int rows_of(const DLTensor *tensor, row_layout *rows)
{
    fdl_walk walk;
    int64_t width = fastdl_itemsize(tensor->dtype);
    fdl_walk_of(tensor, &walk);
    if (walk.ndim > 0 && walk.strides[walk.ndim - 1] == width)
        width *= walk.shape[--walk.ndim];
    if (walk.ndim != 1 || walk.strides[0] < width || walk.strides[0] > MAX_PITCH)
        return 0;
    rows->width = (size_t)width;
    rows->height = (size_t)walk.shape[0];
    rows->pitch = (size_t)walk.strides[0];
    return 1;
}

#define MOST_WASTE 4 /* the span is copied with its gaps up to this multiple of the elements */

/* Chooses one copy that gets the elements to the host efficiently. */
static void choose(transfer *t)
{
    const DLTensor *tensor = tensor_of(t);
    uint64_t span = (uint64_t)t->layout.high - (uint64_t)t->layout.low;
    t->rows.width = (size_t)span;
    t->rows.height = 1;
    t->compact = fastdl_is_packed(tensor->dtype, t->flags) || fastdl_is_contiguous(tensor, 'C');
    if (!t->compact && span / MOST_WASTE > (uint64_t)t->layout.nbytes)
        (void)rows_of(tensor, &t->rows);
}

/* ---- the memory ---- */

/* Host memory for the span with its strides, or for compact elements. */
static fdl_description *new_memory(const transfer *t, fdl_failure *failure)
{
    DLTensor prototype = *tensor_of(t);
    fdl_description *result;
    int64_t bytes = t->layout.nbytes;
    prototype.device.device_type = kDLCPU;
    prototype.device.device_id = 0;
    prototype.byte_offset = 0;
    if (!t->compact && t->rows.height == 1) {
        prototype.byte_offset = (uint64_t)0 - (uint64_t)t->layout.low;
        bytes = (int64_t)t->rows.width;
    } else {
        prototype.strides = NULL;
    }
    result = fdl_memory_new(&prototype, t->flags, bytes);
    if (result == NULL) {
        (void)fdl_refuse_memory(failure);
    } else if (prototype.strides != NULL) {
        prototype.data = result->managed.dl_tensor.data;
        fdl_description_fill(result, &prototype, t->flags);
    }
    return result;
}

/* ---- on a stream ---- */

/* One side of CUDA_MEMCPY2D */
typedef struct {
    size_t x, y;
    unsigned type;
    const void *host;
    unsigned long long device;
    void *array;
    size_t pitch;
} cuda_side;

enum {
    CU_HOST = 1,
    CU_UNIFIED = 4,
    HIP_INFERRED = 4 /* hipMemcpyDefault: inferred from the pointers */
};

/* Queues the copy of rows in device memory to consecutive bytes on the host. (Within a device it
 * may fail, according to cuda.h, for a pitch that the driver did not choose.) */
static int copy_rows(fdl_driver *driver, void *target, const void *source, const row_layout *rows,
                     void *stream, fdl_failure *failure)
{
    struct {
        cuda_side source, target;
        size_t width, height;
    } p = {0};
    if (driver->kind == FASTDL_STREAM_ROCM)
        return FDL_TRY(driver, failure, hip_copy_2d, target, rows->width, source, rows->pitch,
                       rows->width, rows->height, HIP_INFERRED, stream);
    p.source.type = CU_UNIFIED;
    p.source.device = (uintptr_t)source;
    p.source.pitch = rows->pitch;
    p.target.type = CU_HOST;
    p.target.host = target;
    p.target.pitch = p.width = rows->width;
    p.height = rows->height;
    return FDL_TRY(driver, failure, cu_copy_2d, &p, stream);
}

/* Queues the copy. The stream's device is current, here and below. */
static int queue(const transfer *t, const fdl_description *result, fdl_failure *failure)
{
    const char *source = (const char *)tensor_of(t)->data + t->layout.low;
    char *target = result->managed.dl_tensor.data;
    if (!t->compact && t->rows.height == 1)
        target += t->layout.low;
    if (t->rows.height > 1)
        return copy_rows(t->driver, target, source, &t->rows, fdl_handle(t->stream), failure);
    if (t->driver->kind == FASTDL_STREAM_ROCM)
        return FDL_TRY(t->driver, failure, hip_copy, target, source, t->rows.width, HIP_INFERRED,
                       fdl_handle(t->stream));
    return FDL_TRY(t->driver, failure, cu_copy, target, source, t->rows.width,
                   fdl_handle(t->stream));
}

static int wait_for_stream(const transfer *t, fdl_failure *failure)
{
    return FDL_TRY(t->driver, failure, stream_synchronize, fdl_handle(t->stream));
}

/* Copies and waits: 0, or -1. *safe: whether, after a failure, no copy is in flight, so that both
 * sides may be freed. */
static int copy_to(transfer *t, fdl_description *result, int *safe, fdl_failure *failure)
{
    fdl_failure ignored;
    fdl_scope scope;
    int failed, mode;
    if (fdl_enter(t->driver, tensor_of(t)->device.device_id, &scope, failure) < 0)
        return -1;
    mode = fdl_relax_captures(t->driver);
    failed = queue(t, result, failure) < 0 || wait_for_stream(t, failure) < 0;
    *safe = !failed || wait_for_stream(t, &ignored) == 0;
    fdl_restore_captures(t->driver, mode);
    fdl_leave(&scope);
    return failed ? -1 : 0;
}

static fdl_description *copy_on_stream(transfer *t, fdl_failure *failure)
{
    fdl_work *work = t->source->block->work;
    fdl_description *result = new_memory(t, failure);
    int safe = 1;
    if (result == NULL || t->layout.nbytes == 0 ||
        ((work == NULL || fdl_work_order(work, t->stream, failure) == 0) &&
         copy_to(t, result, &safe, failure) == 0))
        return result;
    if (safe)
        fdl_description_release(result, 1);
    else /* the driver may still use the source and the result: leak both */
        fdl_count_retain(&t->source->block->refs);
    return NULL;
}

/* A copy in a graph would need its memory for the lifetime of the graph. */
static int refuse_capture(const transfer *t, fdl_failure *failure)
{
    fdl_capture capture;
    fdl_scope scope;
    int failed;
    if (fdl_enter(t->driver, tensor_of(t)->device.device_id, &scope, failure) < 0)
        return -1;
    failed = fdl_capture_of(t->driver, t->stream, &capture, failure) < 0;
    fdl_leave(&scope);
    if (failed ? failure->code == FDL_IMPLICIT_CAPTURE : capture.active)
        return fdl_refuse(failure,
                          "a graph is being captured on stream %lld, or on one that it waits for: "
                          "pass a stream that does not capture, or copy before the capture",
                          (long long)t->stream);
    return failed ? -1 : 0;
}

int fdl_to_host(const fdl_description *source, int64_t stream, fdl_description **result,
                fdl_failure *failure)
{
    DLDevice device = source->managed.dl_tensor.device;
    transfer t = {0};
    t.source = source;
    t.flags = source->managed.flags & FDL_LASTING_FLAGS & ~(uint64_t)DLPACK_FLAG_BITMASK_READ_ONLY;
    (void)fastdl_check(tensor_of(&t), t.flags, &t.layout); /* cannot fail: it was checked before */
    *result = NULL;
    t.driver = fdl_driver_find(fastdl_find_device((int32_t)device.device_type)->stream, failure);
    if (t.driver == NULL ||
        (t.layout.nbytes > 0 && fdl_pointer_check(t.driver, tensor_of(&t), failure) < 0))
        return -1;
    choose(&t);
    t.stream = stream != -1 ? stream : fdl_work_stream(device);
    *result = refuse_capture(&t, failure) < 0 ? NULL : copy_on_stream(&t, failure);
    if (*result == NULL)
        return -1;
    (*result)->managed.flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
    return 0;
}
