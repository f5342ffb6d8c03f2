/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer.h"

#include <stdlib.h>

#include "_core/import.h"
#include "_core/lifetime.h"
#include "_memory/copy.h"

#include <fastdl/fastdl.h>

#include "deferred.h"
#include "memory.h"
#include "ordering.h"
#include "pointer_attributes.h"

/* `height` rows of `width` bytes, which are `pitch` bytes apart. */
typedef struct {
    size_t width, height, pitch;
} row_layout;

/* What is copied, from where to where. */
typedef struct {
    fdl_driver *driver;
    const fdl_description *source;
    DLDevice from, to; /* where the memory really is */
    uint64_t flags;    /* of the result */
    fastdl_layout layout;
    int compact;     /* the source is row-major without gaps */
    row_layout rows; /* what the driver copies: several rows, or the whole span as one */
    int32_t ordinal; /* of `stream` */
    int64_t stream;
    int finished; /* the host always waits for the copy */
    int refused;  /* between two devices: it may be possible through the host */
} transfer;

static const fastdl_device_fact *fact_of(DLDevice device)
{
    return fastdl_find_device((int32_t)device.device_type);
}

/* Whether a driver copies from or to that memory asynchronously. */
static int is_asynchronous(const transfer *t, DLDevice device)
{
    return fact_of(device)->stream == t->driver->kind;
}

static int is_between_devices(const transfer *t)
{
    return !fact_of(t->from)->host && !fact_of(t->to)->host && t->from.device_id != t->to.device_id;
}

static const DLTensor *tensor_of(const transfer *t)
{
    return &t->source->managed.dl_tensor;
}

/* ---- which copy ---- */

#define MAX_PITCH 0x7FFFFFFF /* CUDA's value for every device */

/* Whether the elements of a tensor, at least one and not packed, are rows in row-major order: they
 * have one stride apart from that of consecutive elements. Fills in *rows if so. */
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

/* Chooses one copy that gets the elements to `to` efficiently; 0 if there is none. */
static int choose(transfer *t)
{
    const DLTensor *tensor = tensor_of(t);
    uint64_t span = (uint64_t)t->layout.high - (uint64_t)t->layout.low;
    int wasteful = span / MOST_WASTE > (uint64_t)t->layout.nbytes;
    int to_host = fact_of(t->to)->host;
    t->rows.width = (size_t)span;
    t->rows.height = 1;
    t->compact = fastdl_is_packed(tensor->dtype, t->flags) || fastdl_is_contiguous(tensor, 'C');
    if (t->compact)
        return 1;
    if (fact_of(tensor->device)->host)
        return 0;
    if (to_host) {
        if (wasteful)
            (void)rows_of(tensor, &t->rows);
        return 1;
    }
    return t->layout.low == 0 && !wasteful && !fastdl_shares_itself_(tensor);
}

/* ---- the memory ---- */

static void ignore_error(void *context, const char *kind, const char *message)
{
    (void)context;
    (void)kind;
    (void)message;
}

/* Bytes from the allocator of the table that the source was imported through, so that the memory
 * belongs to its library and not to fastdl; NULL if that is impossible for any reason, with an
 * exception only if it is not an Exception. The library may still use the memory on its current
 * stream, for which t->stream waits, and may reuse it as soon as it is released: so it is held
 * until the work has ended. */
static fdl_description *memory_of_producer(const transfer *t, const DLTensor *prototype,
                                           int64_t bytes)
{
    fdl_work *work = t->source->block->work;
    const DLPackExchangeAPI *table = NULL;
    DLManagedTensorVersioned *managed = NULL;
    fdl_description *result = NULL;
    const DLTensor *given;
    PyObject *memory;
    fdl_failure ignored;
    DLTensor tensor = *prototype, wanted = {0};
    void *paused;
    if (work != NULL && fdl_is_ordered(fact_of(t->to)) && t->to.device_type != kDLCUDAManaged)
        table = fdl_work_producer(work, t->to);
    if (table == NULL)
        return NULL;
    wanted.device = t->to;
    wanted.dtype.code = kDLUInt;
    wanted.dtype.bits = 8;
    wanted.dtype.lanes = 1;
    wanted.ndim = 1;
    wanted.shape = &bytes;
    paused = fdl_pause_python();
    if (table->managed_tensor_allocator(&wanted, &managed, NULL, ignore_error) != 0)
        managed = NULL;
    fdl_resume_python(paused);
    memory = managed == NULL ? NULL : fdl_take_versioned(managed, NULL);
    if (memory == NULL) {
        (void)fastdl_clear_if_(PyExc_Exception);
        return NULL;
    }
    given = &fdl_description_in(memory)->managed.dl_tensor;
    if (given->device.device_type == t->to.device_type &&
        given->device.device_id == t->to.device_id && given->ndim == 1 &&
        given->shape[0] == bytes && given->strides[0] == 1 && given->dtype.bits == 8)
        result = fdl_description_new(fdl_description_in(memory)->block, tensor.ndim);
    if (result != NULL) {
        tensor.data = given->data;
        fdl_description_fill(result, &tensor, t->flags);
        work = fdl_work_of(&result->block->work, t->to);
        if (work != NULL)
            fdl_work_from_table(work, table);
        if (work == NULL || fdl_work_ready_for(work, t->stream, &ignored) < 0) {
            fdl_description_release(result, 1);
            (void)fastdl_clear_if_(PyExc_Exception); /* the table could not name its stream */
            result = NULL;
        } else {
            fdl_work_hold(work);
        }
    }
    Py_DECREF(memory);
    return result;
}

/* Memory for the span with its strides, or for compact elements. */
static fdl_description *new_memory(const transfer *t, fdl_failure *failure)
{
    DLTensor prototype = *tensor_of(t);
    fdl_description *result = NULL;
    int64_t bytes = t->layout.nbytes;
    prototype.device = t->to;
    prototype.byte_offset = 0;
    if (!t->compact && t->rows.height == 1) {
        prototype.byte_offset = (uint64_t)0 - (uint64_t)t->layout.low;
        bytes = (int64_t)t->rows.width;
    } else {
        prototype.strides = NULL;
    }
    if (bytes > 0)
        result = memory_of_producer(t, &prototype, bytes);
    if (result != NULL || PyErr_Occurred())
        return result;
    return fdl_memory_on_device(&prototype, t->flags, bytes, failure);
}

/* ---- on a stream ---- */

/* Makes the source ready for the host or for the stream. */
static int make_ready(const transfer *t, fdl_failure *failure)
{
    fdl_work *work = t->source->block->work;
    if (work == NULL)
        return 0;
    return is_asynchronous(t, t->from) ? fdl_work_order_on(work, t->ordinal, t->stream, failure)
                                       : fdl_work_wait(work, failure);
}

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

/* The same from one device to another, without peer access: the generic call is refused without it,
 * except for some allocators. */
static int copy_to_peer(const transfer *t, void *target, const void *source, fdl_failure *failure)
{
    fdl_driver *driver = t->driver;
    fdl_scope scope;
    if (driver->kind == FASTDL_STREAM_ROCM)
        return FDL_TRY(driver, failure, hip_copy_peer, target, t->to.device_id, source,
                       t->from.device_id, t->rows.width, fdl_handle(t->stream));
    /* The primary context may be retained only by its library so far. */
    if (fdl_enter_primary(driver, t->from.device_id, &scope, failure) < 0)
        return -1;
    fdl_leave(&scope);
    return FDL_TRY(driver, failure, cu_copy_peer, target,
                   fdl_load_pointer(&driver->contexts[t->to.device_id]), source,
                   fdl_load_pointer(&driver->contexts[t->from.device_id]), t->rows.width,
                   fdl_handle(t->stream));
}

/* With the stream's device current, as in all functions below. */
static int queue(const transfer *t, const fdl_description *result, fdl_failure *failure)
{
    fdl_driver *driver = t->driver;
    const char *source = (const char *)tensor_of(t)->data + t->layout.low;
    char *target = result->managed.dl_tensor.data;
    if (!t->compact && t->rows.height == 1)
        target += t->layout.low;
    if (t->rows.height > 1)
        return copy_rows(driver, target, source, &t->rows, fdl_handle(t->stream), failure);
    if (is_between_devices(t) && t->from.device_type == t->to.device_type &&
        t->to.device_type != kDLCUDAManaged) /* accessible from every device */
        return copy_to_peer(t, target, source, failure);
    if (driver->kind == FASTDL_STREAM_ROCM)
        return FDL_TRY(driver, failure, hip_copy, target, source, t->rows.width, HIP_INFERRED,
                       fdl_handle(t->stream));
    return FDL_TRY(driver, failure, cu_copy, target, source, t->rows.width, fdl_handle(t->stream));
}

/* Adds edges for the queued copy, on both sides. */
static int note_work(const transfer *t, fdl_description *result, fdl_failure *failure)
{
    fdl_work *reading = fdl_work_of(&t->source->block->work, tensor_of(t)->device);
    fdl_work *writing = fdl_work_of(&result->block->work, t->to);
    if (reading == NULL || writing == NULL)
        return fdl_refuse_memory(failure);
    if (fdl_work_record_on(writing, t->ordinal, t->stream, failure) < 0 ||
        fdl_work_record_on(reading, t->ordinal, t->stream, failure) < 0)
        return -1;
    if (!fdl_memory_is_ours(t->source->block))
        fdl_work_hold(reading);
    return 0;
}

static int wait_for_stream(const transfer *t, fdl_failure *failure)
{
    return FDL_TRY(t->driver, failure, stream_synchronize, fdl_handle(t->stream));
}

/* *safe: after a failure no copy is in flight, so that both sides may be freed. */
static int copy_to(transfer *t, fdl_description *result, int *safe, fdl_failure *failure)
{
    int waits = t->finished || !is_asynchronous(t, t->to) || !is_asynchronous(t, t->from);
    fdl_failure ignored;
    fdl_scope scope;
    int failed, refused, mode;
    if (fdl_enter(t->driver, t->ordinal, &scope, failure) < 0)
        return -1;
    mode = fdl_relax_captures(t->driver);
    failed = queue(t, result, failure) < 0;
    refused = failed && is_between_devices(t);
    failed = failed || (waits ? wait_for_stream(t, failure) : note_work(t, result, failure)) < 0;
    *safe = !failed || wait_for_stream(t, &ignored) == 0;
    t->refused = refused && *safe;
    fdl_restore_captures(t->driver, mode);
    fdl_leave(&scope);
    if (waits && !failed)
        (void)fdl_end_after_wait();
    return failed ? -1 : 0;
}

static fdl_description *copy_on_stream(transfer *t, fdl_failure *failure)
{
    fdl_description *result = new_memory(t, failure);
    int safe = 1;
    if (result == NULL || t->layout.nbytes == 0 ||
        (make_ready(t, failure) == 0 && copy_to(t, result, &safe, failure) == 0))
        return result;
    if (!safe) { /* the driver may still use the source or the result: leak both */
        result->block->drop = NULL;
        fdl_count_retain(&t->source->block->refs);
    }
    fdl_description_release(result, 1);
    return NULL;
}

/* A copy in a graph would need its memory for the lifetime of the graph. */
static int refuse_capture(const transfer *t, fdl_failure *failure)
{
    fdl_capture capture;
    fdl_scope scope;
    int failed;
    if (fdl_enter(t->driver, t->ordinal, &scope, failure) < 0)
        return -1;
    failed = fdl_capture_of(t->driver, t->stream, &capture, failure) < 0;
    fdl_leave(&scope);
    if (!failed && capture.active)
        return fdl_refuse(failure,
                          "a graph is being captured on stream %lld: pass a stream that does not "
                          "capture, or copy before the capture",
                          (long long)t->stream);
    return failed ? -1 : 0;
}

/* Finds where the memory of the source is, by the driver. */
static int find_source(transfer *t, fdl_failure *failure)
{
    DLDevice found;
    t->from = tensor_of(t)->device;
    if (fdl_memory_is_ours(t->source->block) || t->layout.nbytes == 0 ||
        !(t->from.device_type == kDLCPU || is_asynchronous(t, t->from)))
        return 0;
    if (fdl_pointer_check(t->driver, tensor_of(t), &found, failure) < 0)
        return -1;
    if (t->from.device_type !=
        kDLCPU) /* its owner treats that as host memory, even if it is pinned */
        t->from = found;
    return 0;
}

int fdl_transfer(const fdl_description *source, DLDevice target, int64_t stream, int finished,
                 fdl_description **result, fdl_failure *failure)
{
    DLDevice device = source->managed.dl_tensor.device;
    transfer t = {0};
    if (!fact_of(target)->host || device.device_type == kDLCPU)
        device = target;
    t.source = source;
    t.to = target;
    t.finished = finished;
    t.flags = source->managed.flags & FDL_LASTING_FLAGS & ~(uint64_t)DLPACK_FLAG_BITMASK_READ_ONLY;
    (void)fastdl_check(tensor_of(&t), t.flags, &t.layout); /* cannot fail: it was checked before */
    *result = NULL;
    fdl_end_deferred();
    t.driver = fdl_driver_find(fact_of(device)->stream, failure);
    if (t.driver == NULL || find_source(&t, failure) < 0)
        return -1;
    if (!choose(&t))
        return 0;
    t.ordinal = (fact_of(target)->host && !fact_of(t.from)->host ? t.from : device).device_id;
    t.stream = stream != -1 ? stream : fdl_work_stream(device);
    *result = refuse_capture(&t, failure) < 0 ? NULL : copy_on_stream(&t, failure);
    if (*result == NULL)
        return t.refused ? 0 : -1;
    (*result)->managed.flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
    return 0;
}
