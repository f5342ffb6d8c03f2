/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer.h"

#include <stdlib.h>

#include "_core/copy.h"
#include "_core/gil.h"
#include "_core/layout.h"

#include "deferred.h"
#include "event.h"
#include "memory.h"
#include "ordering.h"
#include "pointer_attributes.h"
#include "strided.h"

/* What is copied, from where to where. */
typedef struct {
    fdl_driver *driver;
    const fdl_description *source;
    DLDevice from, to; /* where the memory really is */
    uint64_t flags;    /* of the result */
    fastdl_layout layout;
    int32_t ordinal; /* of `stream` */
    int64_t stream;
    int how;       /* FDL_COPY_* */
    int waits;     /* the host waits for the copy */
    int captured;  /* the copy becomes part of a graph */
    void *staging; /* compact host memory that replaces the source, or NULL */
    void *paused;  /* Python, while the stream's device is current */
} transfer;

static const fastdl_device_fact *fact_of(DLDevice device)
{
    return fastdl_find_device((int32_t)device.device_type);
}

static int has_driver(DLDevice device)
{
    int kind = fact_of(device)->stream;
    return kind == FASTDL_STREAM_CUDA || kind == FASTDL_STREAM_ROCM;
}

/* Whether a driver copies from or to that memory by itself, while the host goes on. */
static int is_asynchronous(const transfer *t, DLDevice device)
{
    return fact_of(device)->stream == t->driver->kind;
}

static const DLTensor *tensor_of(const transfer *t)
{
    return &t->source->managed.dl_tensor;
}

static fdl_description *new_memory(const transfer *t, fdl_failure *failure)
{
    DLTensor prototype = *tensor_of(t);
    prototype.device = t->to;
    return fdl_memory_on_device(&prototype, t->flags, t->layout.nbytes,
                                t->how & FDL_COPY_POOLED && !t->captured ? t->stream : -1, failure);
}

static int wait_for_source(const transfer *t, fdl_failure *failure)
{
    fdl_work *work = t->source->block->work;
    return work == NULL ? 0 : fdl_work_wait(work, failure);
}

/* ---- on the host ---- */

static fdl_description *copy_on_host(const transfer *t, fdl_failure *failure)
{
    fdl_description *result;
    void *paused;
    if (wait_for_source(t, failure) < 0)
        return NULL;
    result = new_memory(t, failure);
    if (result == NULL)
        return NULL;
    paused = fdl_pause_python();
    fdl_copy_compact(tensor_of(t), t->flags, result->managed.dl_tensor.data);
    fdl_resume_python(paused);
    return result;
}

/* ---- on a stream ---- */

/* The source is ready when this returns, for the host or for the stream. */
static int prepare_source(transfer *t, fdl_failure *failure)
{
    const DLTensor *tensor = tensor_of(t);
    fdl_work *work = t->source->block->work;
    void *paused;
    int is_host = fact_of(tensor->device)->host;
    int compact = fastdl_is_packed(tensor->dtype, t->flags) || fastdl_is_contiguous(tensor, 'C');
    if (is_host && (!compact || !is_asynchronous(t, t->from))) {
        t->waits = 1;
        if (wait_for_source(t, failure) < 0)
            return -1;
        if (compact)
            return 0;
        t->staging = malloc((size_t)t->layout.nbytes);
        if (t->staging == NULL)
            return fdl_refuse_memory(failure);
        paused = fdl_pause_python();
        fdl_copy_compact(tensor, t->flags, t->staging);
        fdl_resume_python(paused);
        return 0;
    }
    return work == NULL ? 0 : fdl_work_order_on(work, t->ordinal, t->stream, failure);
}

static int queue(const transfer *t, void *target, fdl_failure *failure)
{
    const DLTensor *tensor = tensor_of(t);
    fdl_device_copy copy;
    int failed, mode;
    copy.driver = t->driver;
    copy.stream = fdl_handle(t->stream);
    copy.target = target;
    copy.target_is_host = fact_of(t->to)->host;
    copy.source_is_host = fact_of(t->from)->host;
    mode = t->captured ? -1 : fdl_relax_captures(t->driver);
    if (t->staging != NULL || fastdl_is_packed(tensor->dtype, t->flags) ||
        fastdl_is_contiguous(tensor, 'C')) {
        copy.source = t->staging != NULL ? t->staging : tensor->data;
        failed = fdl_copy_bytes(&copy, (size_t)t->layout.nbytes, failure);
    } else {
        copy.source = tensor->data;
        failed = fdl_copy_strided(&copy, tensor, failure);
    }
    fdl_restore_captures(t->driver, mode);
    return failed;
}

static int wait_for_stream(const transfer *t, fdl_failure *failure)
{
    fdl_event *event = fdl_event_record(t->driver, t->ordinal, t->stream, failure);
    int failed = event == NULL || fdl_event_wait(event, failure) < 0;
    fdl_event_release(event);
    return failed ? -1 : 0;
}

/* Edges for what was queued, on both sides. */
static int note_work(const transfer *t, fdl_description *result, fdl_failure *failure)
{
    fdl_work *reading,
        *writing = fdl_work_of(&result->block->work, result->managed.dl_tensor.device);
    if (writing == NULL)
        return fdl_refuse_memory(failure);
    if (t->captured)
        return fdl_work_ready_on(writing, t->stream, t->stream, failure);
    reading = fdl_work_of(&t->source->block->work, tensor_of(t)->device);
    if (reading == NULL)
        return fdl_refuse_memory(failure);
    if (fdl_work_record_on(writing, t->ordinal, t->stream, failure) < 0 ||
        fdl_work_record_on(reading, t->ordinal, t->stream, failure) < 0)
        return -1;
    if (!fdl_memory_is_ours(t->source->block))
        fdl_work_hold(reading);
    return 0;
}

/* After a failure with copies in flight: waits for the stream. 0 if it cannot. */
static int settle_stream(const transfer *t)
{
    fdl_failure ignored;
    int settled, mode;
    if (t->captured)
        return 0; /* the graph may yet be launched */
    mode = fdl_relax_captures(t->driver);
    settled = FDL_TRY(t->driver, &ignored, stream_synchronize, fdl_handle(t->stream)) == 0;
    fdl_restore_captures(t->driver, mode);
    return settled;
}

/* With the stream's device current and Python paused. */
static fdl_description *copy_on_stream(transfer *t, fdl_failure *failure)
{
    fdl_capture capture;
    fdl_description *result;
    int failed, safe = 1;
    if (fdl_capture_of(t->driver, t->stream, &capture, failure) < 0)
        return NULL;
    t->captured = capture.active;
    if (t->captured && (t->how & FDL_COPY_FINISHED || fact_of(t->from)->host ||
                        fact_of(t->to)->host || t->from.device_id != t->to.device_id)) {
        (void)fdl_refuse(failure,
                         "a graph is being captured on stream %lld: pass a stream that "
                         "does not capture, or copy before the capture",
                         (long long)t->stream);
        return NULL;
    }
    result = new_memory(t, failure);
    if (result == NULL || t->layout.nbytes == 0)
        return result;
    t->waits = t->how & FDL_COPY_FINISHED || !is_asynchronous(t, t->to);
    fdl_resume_python(t->paused); /* the producer is asked */
    failed = prepare_source(t, failure) < 0;
    t->paused = fdl_pause_python();
    if (!failed) {
        failed = queue(t, result->managed.dl_tensor.data, failure) < 0 ||
                 (t->waits ? wait_for_stream(t, failure) : note_work(t, result, failure)) < 0;
        safe = !failed || settle_stream(t);
    }
    if (safe) {
        free(t->staging);
    } else { /* the driver may still read from it or the source, or write to the result: they leak
              */
        result->block->drop = NULL;
        if (!t->captured) /* what a graph reads is kept alive by the code that captures */
            fdl_count_retain(&t->source->block->refs);
    }
    if (failed) {
        fdl_description_release(result, 0);
        return NULL;
    }
    return result;
}

/* Where the memory of the source is, by the driver. */
static int find_source(transfer *t, fdl_failure *failure)
{
    t->from = tensor_of(t)->device;
    if (fdl_memory_is_ours(t->source->block) || t->layout.nbytes == 0 ||
        !(t->from.device_type == kDLCPU || is_asynchronous(t, t->from)))
        return 0;
    if (fdl_pointer_check(t->driver, tensor_of(t), &t->from, failure) < 0)
        return -1;
    if (tensor_of(t)->device.device_type ==
        kDLCPU) /* whatever it is, its owner treats it as such */
        t->from = tensor_of(t)->device;
    return 0;
}

static fdl_description *copy_by_driver(transfer *t, int64_t stream, fdl_failure *failure)
{
    fdl_description *result = NULL;
    fdl_scope scope;
    DLDevice device = fact_of(t->to)->host ? tensor_of(t)->device : t->to;
    if (!has_driver(device)) {
        (void)fdl_refuse(failure, "fastdl copies memory of the CPU and of CUDA and ROCm devices");
        return NULL;
    }
    if (!fact_of(t->to)->host && !fact_of(tensor_of(t)->device)->host &&
        fact_of(t->to)->stream != fact_of(tensor_of(t)->device)->stream) {
        (void)fdl_refuse(failure, "no driver copies there: move it to the host first");
        return NULL;
    }
    t->driver = fdl_driver_find(fact_of(device)->stream, failure);
    if (t->driver == NULL || find_source(t, failure) < 0)
        return NULL;
    if (fact_of(t->to)->host)
        device = t->from;
    t->ordinal = device.device_id;
    t->stream = stream != -1 ? stream : fdl_work_stream(device);
    t->paused = fdl_pause_python();
    if (fdl_enter(t->driver, t->ordinal, &scope, failure) == 0) {
        result = copy_on_stream(t, failure);
        fdl_leave(&scope);
    }
    fdl_resume_python(t->paused);
    if (result != NULL && t->waits)
        (void)fdl_end_after_wait();
    return result;
}

fdl_description *fdl_transfer(const fdl_description *source, DLDevice target, int64_t stream,
                              int how, fdl_failure *failure)
{
    fdl_description *result;
    transfer t = {0};
    t.source = source;
    t.to = target;
    t.how = how;
    t.flags = source->managed.flags & FDL_LASTING_FLAGS & ~(uint64_t)DLPACK_FLAG_BITMASK_READ_ONLY;
    (void)fastdl_check(tensor_of(&t), t.flags, &t.layout); /* which it has passed */
    fdl_end_deferred();
    result = fact_of(target)->host && fact_of(tensor_of(&t)->device)->host
                 ? copy_on_host(&t, failure)
                 : copy_by_driver(&t, stream, failure);
    if (result != NULL)
        result->managed.flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
    return result;
}
