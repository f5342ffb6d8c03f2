/* SPDX-License-Identifier: Apache-2.0 */
#include "ordering.h"

#include <stdlib.h>

#include "_core/lifetime.h"
#include "_memory/layout.h"

#include <fastdl/fastdl.h>

#include "event.h"
#include "put_off.h"

#define MAX_EDGES 8

struct fdl_work {
    fdl_work_end end; /* first: see block.h */
    fdl_work *next;   /* in the list of works kept for reuse */
    fdl_lock lock;    /* for the edges */
    int count;
    fdl_event *edges[MAX_EDGES];
    DLDevice device;
    int kind;         /* FASTDL_STREAM_* */
    int callers;      /* imported with stream=-1 */
    int lent;         /* to C code that uses the work stream of its thread */
    int reimported;   /* see fdl_work_reimported */
    int unrecorded;   /* no driver: only `stream` is known */
    int64_t stream;   /* if unrecorded */
    fdl_capture home; /* active: ready only on its stream in that capture */
    const DLPackExchangeAPI *producer;
};

static fdl_work *spares; /* kept for reuse, so that most imports need no allocation */

static fdl_work *new_work(DLDevice device)
{
    fdl_work *work;
    fdl_end_put_off();
    fdl_lock_take(&fdl_lists);
    work = spares;
    if (work != NULL)
        spares = work->next;
    fdl_lock_give(&fdl_lists);
    if (work == NULL)
        work = malloc(sizeof(fdl_work));
    if (work == NULL)
        return NULL;
    fdl_lock_init(&work->lock);
    work->end.free = fdl_work_free;
    work->count = 0;
    work->device = device;
    work->kind = fastdl_find_device((int32_t)device.device_type)->stream;
    work->callers = work->lent = work->unrecorded = work->reimported = 0;
    work->home.active = 0;
    work->producer = NULL;
    return work;
}

void fdl_work_free(fdl_work *work)
{
    if (work == NULL)
        return;
    for (int i = 0; i < work->count; i++)
        fdl_event_release(work->edges[i]);
#ifdef FDL_NO_SPARES
    free(work);
#else
    fdl_lock_take(&fdl_lists);
    work->next = spares;
    spares = work;
    fdl_lock_give(&fdl_lists);
#endif
}

fdl_work *fdl_work_of(fdl_work **work, DLDevice device)
{
    fdl_work *found = fdl_load_pointer((void *const *)work), *made;
    if (found != NULL)
        return found;
    made = new_work(device);
    if (made == NULL)
        return NULL;
    fdl_lock_take(&fdl_lists);
    found = *work;
    if (found == NULL)
        fdl_store_pointer((void **)work, made);
    fdl_lock_give(&fdl_lists);
    if (found == NULL)
        return made;
    fdl_work_free(made);
    return found;
}

int fdl_work_is_callers(const fdl_work *work)
{
    return work->callers;
}

/* ---- the work stream of a thread ---- */

static FDL_THREAD_LOCAL fdl_stream_scope *innermost;

/* The innermost scope of this thread for a device, or NULL. */
static fdl_stream_scope *scope_for(DLDevice device)
{
    int kind = fastdl_find_device((int32_t)device.device_type)->stream;
    for (fdl_stream_scope *scope = innermost; scope != NULL; scope = scope->outer)
        if (fastdl_find_device((int32_t)scope->device.device_type)->stream == kind &&
            scope->device.device_id == device.device_id)
            return scope;
    return NULL;
}

int64_t fdl_work_stream(DLDevice device)
{
    int kind = fastdl_find_device((int32_t)device.device_type)->stream;
    const fdl_stream_scope *scope;
    if (kind != FASTDL_STREAM_CUDA && kind != FASTDL_STREAM_ROCM)
        return -1;
    scope = scope_for(device);
    return scope != NULL ? scope->stream : fdl_default_stream(kind);
}

/* ---- the work of scopes that have ended ---- */

/* By kind and device: edges for all work that C code has queued there. These are more than a tensor
 * needs, but it is unknown which tensors the code used, and the streams may be gone. */
static fdl_work *left_over[2][FDL_MAX_DEVICES];

static fdl_work **left_on(DLDevice device, int kind)
{
    int known = device.device_id >= 0 && device.device_id < FDL_MAX_DEVICES;
    return known ? &left_over[kind == FASTDL_STREAM_CUDA ? 0 : 1][device.device_id] : NULL;
}

/* The edges of ended scopes that the next user of `work` waits for, or NULL. */
static fdl_work *left_for(fdl_work *work)
{
    fdl_work **place = left_on(work->device, work->kind);
    if (place == NULL || work->callers || !fdl_load_acquire(&work->lent))
        return NULL;
    return fdl_load_pointer((void *const *)place);
}

void fdl_work_forget(int kind)
{
    for (int i = 0; i < FDL_MAX_DEVICES; i++) {
        fdl_work **place = &left_over[kind == FASTDL_STREAM_CUDA ? 0 : 1][i];
        fdl_work_free(*place);
        *place = NULL;
    }
}

/* ---- edges ---- */

#define MOST_EDGES (2 * MAX_EDGES) /* with those of left_for */

/* Copies the edges, and those of left_for, each with a new reference. */
static int snapshot(fdl_work *work, fdl_event **edges)
{
    fdl_work *others = left_for(work);
    int count;
    fdl_lock_take(&work->lock);
    count = work->count;
    for (int i = 0; i < count; i++) {
        edges[i] = work->edges[i];
        fdl_event_retain(edges[i]);
    }
    fdl_lock_give(&work->lock);
    return others == NULL ? count : count + snapshot(others, edges + count);
}

static void release_all(fdl_event *const *edges, int count)
{
    for (int i = 0; i < count; i++)
        fdl_event_release(edges[i]);
}

/* Adds an edge (stealing the reference), unless it is NULL, in place of the `replaced` edges that
 * it covers; those may be gone already. 0 if there is no room. The work that the replaced edges
 * mark always keeps an edge. */
static int add_edge(fdl_work *work, fdl_event *edge, fdl_event *const *replaced, int replaced_count)
{
    fdl_event *gone[MAX_EDGES];
    int added, left = 0, gone_count = 0;
    fdl_lock_take(&work->lock);
    for (int i = 0; i < work->count; i++) {
        int stays = 1;
        for (int k = 0; k < replaced_count; k++)
            stays = stays && work->edges[i] != replaced[k];
        if (stays)
            work->edges[left++] = work->edges[i];
        else
            gone[gone_count++] = work->edges[i];
    }
    added = edge != NULL && left < MAX_EDGES;
    if (added)
        work->edges[left++] = edge;
    work->count = left;
    fdl_lock_give(&work->lock);
    release_all(gone, gone_count);
    return added;
}

/* Removes an edge whose work has ended. */
static void drop_edge(fdl_work *work, fdl_event *edge)
{
    fdl_work *others = left_for(work);
    (void)add_edge(work, NULL, &edge, 1);
    if (others != NULL)
        (void)add_edge(others, NULL, &edge, 1);
}

/* Like `snapshot`, but only incomplete edges; the others are dropped. */
static int pending(fdl_work *work, fdl_event **edges)
{
    int count = snapshot(work, edges), left = 0;
    for (int i = 0; i < count; i++) {
        if (fdl_event_is_complete(edges[i])) {
            drop_edge(work, edges[i]);
            fdl_event_release(edges[i]);
        } else {
            edges[left++] = edges[i];
        }
    }
    return left;
}

int fdl_work_edges(fdl_work *work)
{
    int count;
    fdl_lock_take(&work->lock);
    count = work->count;
    fdl_lock_give(&work->lock);
    return count;
}

/* Whether there are no edges at all, not even complete ones. */
static int has_no_edges(fdl_work *work)
{
    fdl_work *others = left_for(work);
    return fdl_work_edges(work) == 0 && (others == NULL || fdl_work_edges(others) == 0);
}

/* ---- streams ---- */

/* Gets the current stream of a table's library on a device. 0, or -1. */
static int stream_of(const DLPackExchangeAPI *table, DLDevice device, int64_t *stream,
                     fdl_failure *failure)
{
    int kind = fastdl_find_device((int32_t)device.device_type)->stream;
    void *handle = NULL;
    if (table->current_work_stream(device.device_type, device.device_id, &handle) != 0)
        return fdl_refuse(failure,
                          "the exchange table of the producer does not report its current "
                          "stream on device (%d, %d): its library is at fault",
                          (int)device.device_type, (int)device.device_id);
    if (!fastdl_has_succeeded_())
        return -1;
    *stream = handle == NULL ? fdl_default_stream(kind) : (int64_t)(uintptr_t)handle;
    return 0;
}

/* Gets the current stream of the producer's library. 0, or -1. */
static int producers_stream(const fdl_work *work, int64_t *stream, fdl_failure *failure)
{
    return stream_of(work->producer, work->device, stream, failure);
}

static int refuse_capture(const fdl_work *work, fdl_failure *failure)
{
    fdl_failure ignored;
    const fdl_driver *driver = fdl_driver_find(work->kind, &ignored);
    if (driver != NULL && !fdl_may_query(driver))
        return fdl_refuse(failure, "a graph is being captured, and the tensor may have work in "
                                   "flight outside of it, which HIP cannot report now: pass "
                                   "stream=-1 if that work has ended, or does not matter");
    return fdl_refuse(failure, "a graph is being captured, and the tensor has work in flight "
                               "outside of it: wait for that work before the capture, or pass "
                               "stream=-1 if the graph does not depend on it");
}

/* Whether `source`, which is not in a capture, has no pending work, so that no wait is needed. */
static int is_idle(fdl_driver *driver, const fdl_work *work, int64_t source)
{
    fdl_failure ignored;
    fdl_event *event = fdl_event_record(driver, work->device.device_id, source, &ignored);
    int idle = event != NULL && fdl_event_is_complete(event);
    fdl_event_release(event);
    return idle;
}

/* Makes `stream` wait for the work queued on `source` now, both of device `ordinal`, which is
 * current. Both may be in one capture. */
static int order_streams(fdl_driver *driver, int32_t ordinal, int64_t source, int64_t stream,
                         fdl_failure *failure)
{
    fdl_event *event = fdl_event_record(driver, ordinal, source, failure);
    int failed = event == NULL || fdl_event_order(event, stream, failure) < 0;
    fdl_event_release(event);
    return failed ? -1 : 0;
}

/* order_streams, if one or both streams may be in a capture, which must then be the same one. */
static int order_streams_checked(fdl_driver *driver, const fdl_work *work, int64_t source,
                                 int64_t stream, const fdl_capture *capture, fdl_failure *failure)
{
    fdl_capture other;
    if (fdl_capture_of(driver, source, &other, failure) < 0)
        return -1;
    if ((other.active || capture->active) && !fdl_same_capture(&other, capture))
        return !other.active && is_idle(driver, work, source) ? 0 : refuse_capture(work, failure);
    return order_streams(driver, work->device.device_id, source, stream, failure);
}

/* ---- ordering ---- */

/* Streams that may hold work on the memory for which there is no edge. */
typedef struct {
    int count;
    int64_t streams[3]; /* of the producer and of C code; without a driver also the first one */
} fdl_sources;

/* Finds the sources other than `stream`, or all if `stream` is -1. Equal handles mean the same
 * stream here, since both streams are alive. */
static int find_sources(const fdl_work *work, int64_t stream, fdl_sources *sources,
                        fdl_failure *failure)
{
    int64_t found = -1;
    sources->count = 0;
    if (work->producer != NULL && !work->callers) {
        if (producers_stream(work, &found, failure) < 0)
            return -1;
        if (found != stream)
            sources->streams[sources->count++] = found;
    }
    if (!work->callers && fdl_load_acquire(&work->lent)) {
        found = fdl_work_stream(work->device);
        if (found != stream && (sources->count == 0 || sources->streams[0] != found))
            sources->streams[sources->count++] = found;
    }
    return 0;
}

/* Orders `stream` after the edges. Its device is current. */
static int order_after(fdl_work *work, int64_t stream, const fdl_capture *capture,
                       fdl_failure *failure)
{
    fdl_event *edges[MOST_EDGES];
    int failed = 0, count = pending(work, edges);
    if (count > 0 && capture->active)
        failed = refuse_capture(work, failure);
    for (int i = 0; i < count && !failed; i++)
        failed = fdl_event_order(edges[i], stream, failure);
    release_all(edges, count);
    return failed;
}

static int refuse_outside_capture(fdl_failure *failure)
{
    return fdl_refuse(failure,
                      "the tensor was imported inside a graph capture and can be used only "
                      "there: pass the capturing stream or stream=-1");
}

/* For memory that is ready on a stream in a capture: orders the stream of `capture` after that
 * stream, if both are in the same capture. */
static int order_at_home(fdl_work *work, fdl_driver *driver, const fdl_capture *capture,
                         fdl_failure *failure)
{
    fdl_capture home;
    if (!fdl_same_capture(&work->home, capture))
        return refuse_outside_capture(failure);
    if (capture->stream == work->home.stream)
        return 0;
    if (fdl_capture_of(driver, work->home.stream, &home, failure) < 0)
        return -1;
    if (!fdl_same_capture(&home, capture)) /* the handle now belongs to another stream */
        return refuse_outside_capture(failure);
    return order_streams(driver, work->device.device_id, home.stream, capture->stream, failure);
}

/* Orders `stream` after the capture, the edges and the sources (streams of the device). */
static int order_on(fdl_work *work, fdl_driver *driver, int64_t stream, const fdl_sources *sources,
                    fdl_failure *failure)
{
    fdl_capture capture;
    int failed;
    if (fdl_capture_of(driver, stream, &capture, failure) < 0)
        return -1;
    if (work->home.active && order_at_home(work, driver, &capture, failure) < 0)
        return -1;
    failed = order_after(work, stream, &capture, failure);
    for (int i = 0; sources != NULL && i < sources->count && !failed; i++)
        failed =
            order_streams_checked(driver, work, sources->streams[i], stream, &capture, failure);
    return failed;
}

/* ---- imports ---- */

void fdl_work_from_table(fdl_work *work, const DLPackExchangeAPI *producer)
{
    work->producer = producer;
}

static int first_edge(fdl_work *work, fdl_driver *driver, int64_t source, int64_t stream,
                      fdl_failure *failure)
{
    fdl_capture capture;
    fdl_event *event;
    if (fdl_capture_of(driver, source, &capture, failure) < 0)
        return -1;
    if (capture.active) {
        work->home = capture;
        /* Unless a scope names the default stream, it was not requested explicitly, and it cannot
         * be ordered after a capture. */
        return stream == source || (stream == fdl_default_stream(work->kind) &&
                                    stream == fdl_work_stream(work->device))
                   ? 0
                   : order_on(work, driver, stream, NULL, failure);
    }
    event = fdl_event_record(driver, work->device.device_id, source, failure);
    if (event == NULL)
        return -1;
    (void)add_edge(work, event, NULL, 0);
    return source == stream ? 0 : order_on(work, driver, stream, NULL, failure);
}

int fdl_work_ready_on(fdl_work *work, int64_t source, int64_t stream, fdl_failure *failure)
{
    fdl_driver *driver;
    fdl_scope scope;
    int failed;
    if (stream == -1) {
        work->callers = 1;
        return 0;
    }
    driver = fdl_driver_find(work->kind, failure);
    if (driver == NULL) {
        if (source != stream)
            return -1;
        work->unrecorded = 1;
        work->stream = source;
        return 0;
    }
    if (fdl_enter(driver, work->device.device_id, &scope, failure) < 0)
        return -1;
    failed = first_edge(work, driver, source, stream, failure);
    fdl_leave(&scope);
    return failed;
}

int fdl_work_ready_for(fdl_work *work, int64_t stream, fdl_failure *failure)
{
    int64_t source = -1;
    if (fdl_load_acquire(&work->reimported)) {
        int served = stream == -1 || stream == fdl_default_stream(work->kind);
        if (!served && fdl_driver_find(work->kind, failure) == NULL)
            return -1;
        return fdl_work_order(work, stream, failure);
    }
    if (stream != -1 && producers_stream(work, &source, failure) < 0)
        return -1;
    return fdl_work_ready_on(work, source, stream, failure);
}

void fdl_work_note_lent(fdl_work *work)
{
    fdl_stream_scope *scope = scope_for(work->device);
    if (scope != NULL)
        scope->lent = 1;
    fdl_store_release(&work->lent, 1);
}

int fdl_work_ready_from_c(fdl_work *work, fdl_failure *failure)
{
    int64_t stream = fdl_work_stream(work->device);
    if (fdl_work_ready_on(work, stream, stream, failure) < 0)
        return -1;
    fdl_work_note_lent(work);
    return 0;
}

/* ---- more work ---- */

/* Records an edge on `stream`. If there is no room, `stream` first waits for all other edges, and
 * the new edge replaces them. */
static int record_edge(fdl_work *work, fdl_driver *driver, int32_t ordinal, int64_t stream,
                       fdl_failure *failure)
{
    fdl_event *edges[MOST_EDGES], *event;
    fdl_capture capture;
    int count, replaced, added = 0, failed = 0;
    if (fdl_capture_of(driver, stream, &capture, failure) < 0)
        return -1;
    if (capture.active)
        return fdl_refuse(failure, "a graph is being captured on that stream, whose work begins "
                                   "when the graph is launched: record the stream of the launch");
    while (!added && !failed) { /* retry if other threads have used the room meanwhile */
        count = pending(work, edges);
        replaced = fdl_work_edges(work) == MAX_EDGES ? count : 0;
        for (int i = 0; i < replaced && !failed; i++)
            failed = fdl_event_order(edges[i], stream, failure);
        event = failed ? NULL : fdl_event_record(driver, ordinal, stream, failure);
        failed = event == NULL;
        added = !failed && add_edge(work, event, edges, replaced);
        release_all(edges, count);
        if (!added)
            fdl_event_release(event);
    }
    return failed ? -1 : 0;
}

int fdl_work_record_on(fdl_work *work, int32_t ordinal, int64_t stream, fdl_failure *failure)
{
    fdl_scope scope;
    int failed;
    fdl_driver *driver = fdl_driver_find(work->kind, failure);
    if (driver == NULL || fdl_enter(driver, ordinal, &scope, failure) < 0)
        return -1;
    failed = record_edge(work, driver, ordinal, stream, failure);
    fdl_leave(&scope);
    return failed;
}

int fdl_work_record(fdl_work *work, int64_t stream, fdl_failure *failure)
{
    return fdl_work_record_on(work, work->device.device_id, stream, failure);
}

int fdl_work_reimported(fdl_work *work, const DLPackExchangeAPI *table, fdl_failure *failure)
{
    int64_t source = -1;
    fdl_failure ignored;
    fdl_store_release(&work->reimported, 1);
    if (stream_of(table, work->device, &source, failure) < 0)
        return -1;
    if (fdl_driver_find(work->kind, &ignored) != NULL)
        return fdl_work_record(work, source, failure);
    if (source == fdl_default_stream(work->kind)) /* the only stream supported without a driver */
        return 0;
    *failure = ignored;
    return -1;
}

/* ---- exports ---- */

static int refuse_unrecorded(const fdl_driver *driver, fdl_failure *failure)
{
    fdl_failure why = *failure;
    return fdl_refuse(failure,
                      "%.120s; pass stream=-1 once the producer's work has ended, or import and "
                      "export on the default stream",
                      driver == NULL ? why.text : "there was no driver at the import");
}

int fdl_work_order(fdl_work *work, int64_t stream, fdl_failure *failure)
{
    fdl_sources sources;
    fdl_driver *driver;
    fdl_scope scope;
    int failed;
    if (stream == -1)
        return 0;
    if (find_sources(work, stream, &sources, failure) < 0)
        return -1;
    if (work->unrecorded && work->stream == stream && sources.count == 0 &&
        stream == fdl_default_stream(work->kind)) /* it cannot have been destroyed since */
        return 0;
    if (!work->unrecorded && !work->home.active && sources.count == 0 && has_no_edges(work))
        return 0;
    driver = fdl_driver_find(work->kind, failure);
    if (driver == NULL || work->unrecorded)
        return refuse_unrecorded(driver, failure);
    if (fdl_enter(driver, work->device.device_id, &scope, failure) < 0)
        return -1;
    failed = order_on(work, driver, stream, &sources, failure);
    fdl_leave(&scope);
    return failed;
}

int fdl_work_lend(fdl_work *work, fdl_failure *failure)
{
    if (fdl_work_order(work, fdl_work_stream(work->device), failure) < 0)
        return -1;
    fdl_work_note_lent(work);
    return 0;
}

/* Waits on the host for all edges, without querying which of them are complete. The device is
 * current. */
static int wait_for_edges(fdl_work *work, fdl_failure *failure)
{
    fdl_event *edges[MOST_EDGES];
    int failed = 0, count = snapshot(work, edges);
    for (int i = 0; i < count; i++) {
        failed = failed || fdl_event_wait(edges[i], failure) < 0;
        if (!failed)
            drop_edge(work, edges[i]);
    }
    release_all(edges, count);
    return failed ? -1 : 0;
}

/* Waits on the host for the work that is queued on `source` now. */
static int wait_for_stream(fdl_driver *driver, int64_t source, fdl_failure *failure)
{
    fdl_capture capture;
    int failed, mode;
    if (fdl_capture_of(driver, source, &capture, failure) < 0)
        return -1;
    if (capture.active)
        return fdl_refuse(failure, "a graph is being captured, during which the host cannot wait "
                                   "for the device: do this before or after the capture");
    mode = fdl_relax_captures(driver);
    failed = FDL_TRY(driver, failure, stream_synchronize, fdl_handle(source));
    fdl_restore_captures(driver, mode);
    return failed;
}

/* Waits on the host for the edges and the sources. */
static int wait_for_all(fdl_work *work, const fdl_sources *sources, fdl_failure *failure)
{
    fdl_scope scope;
    int failed;
    fdl_driver *driver = fdl_driver_find(work->kind, failure);
    if (driver == NULL || fdl_enter(driver, work->device.device_id, &scope, failure) < 0)
        return -1;
    failed = wait_for_edges(work, failure);
    for (int i = 0; i < sources->count && !failed; i++)
        failed = wait_for_stream(driver, sources->streams[i], failure);
    fdl_leave(&scope);
    return failed;
}

int fdl_work_wait(fdl_work *work, fdl_failure *failure)
{
    fdl_sources sources;
    if (work->home.active)
        return fdl_refuse(failure, "the tensor was imported inside a graph capture, so the host "
                                   "cannot wait for it: import it again outside");
    if (find_sources(work, -1, &sources, failure) < 0)
        return -1;
    if (work->unrecorded)
        sources.streams[sources.count++] = work->stream;
    return sources.count == 0 && has_no_edges(work) ? 0 : wait_for_all(work, &sources, failure);
}

/* Whether the failure only means that a stream is capturing, so that its work belongs to the
 * graph. */
static int is_of_graph(const fdl_failure *failure)
{
    return failure->code == 0 && !failure->no_memory;
}

int fdl_work_release(fdl_work *work, int64_t stream, fdl_failure *failure)
{
    fdl_scope scope;
    fdl_capture capture;
    int64_t target = -1;
    int failed;
    fdl_driver *driver = fdl_driver_find(work->kind, failure);
    if (driver == NULL ||
        (work->producer != NULL && producers_stream(work, &target, failure) < 0) ||
        fdl_enter(driver, work->device.device_id, &scope, failure) < 0)
        return -1;
    if (target == -1)
        failed = wait_for_stream(driver, stream, failure);
    else
        failed = target != stream &&
                 (fdl_capture_of(driver, target, &capture, failure) < 0 ||
                  order_streams_checked(driver, work, stream, target, &capture, failure) < 0);
    fdl_leave(&scope);
    return failed ? -1 : 0;
}

/* ---- the caller's streams ---- */

/* Orders two streams of a device, which is current, unless that would break a capture.
 */
static int order_checked(fdl_driver *driver, int32_t ordinal, int64_t source, int64_t stream,
                         fdl_failure *failure)
{
    fdl_capture from, to;
    if (fdl_capture_of(driver, source, &from, failure) < 0 ||
        fdl_capture_of(driver, stream, &to, failure) < 0)
        return -1;
    if (!to.active || fdl_same_capture(&from, &to)) /* a stream that waits for a capture joins it */
        return order_streams(driver, ordinal, source, stream, failure);
    return fdl_refuse(failure, "a graph is being captured, and cannot wait for a stream outside of "
                               "it: wait for that stream's work before the capture, and do not "
                               "order the two streams during it");
}

int fdl_order_streams(DLDevice device, int64_t source, int64_t stream, fdl_failure *failure)
{
    int failed, kind = fastdl_find_device((int32_t)device.device_type)->stream;
    fdl_driver *driver = fdl_driver_find(kind, failure);
    fdl_scope scope;
    if (driver == NULL || fdl_enter(driver, device.device_id, &scope, failure) < 0)
        return -1;
    failed = order_checked(driver, device.device_id, source, stream, failure);
    fdl_leave(&scope);
    return failed;
}

/* ---- scopes ---- */

void fdl_stream_scope_begin(fdl_stream_scope *scope)
{
    scope->outer = innermost;
    scope->lent = 0;
    innermost = scope;
}

static int record_scope(const fdl_stream_scope *scope, fdl_failure *failure)
{
    int kind = fastdl_find_device((int32_t)scope->device.device_type)->stream;
    fdl_work **place = left_on(scope->device, kind), *work;
    fdl_failure ignored;
    if (!scope->lent || place == NULL || fdl_driver_find(kind, &ignored) == NULL)
        return 0; /* without a driver, users that need ordering are refused */
    work = fdl_work_of(place, scope->device);
    if (work == NULL)
        return fdl_refuse_memory(failure);
    return fdl_work_record(work, scope->stream, failure) < 0 && !is_of_graph(failure) ? -1 : 0;
}

int fdl_stream_scope_end(fdl_stream_scope *scope, fdl_failure *failure)
{
    for (fdl_stream_scope **link = &innermost; *link != NULL; link = &(*link)->outer)
        if (*link == scope) { /* not always the innermost: generators may interleave */
            *link = scope->outer;
            return record_scope(scope, failure);
        }
    return 1;
}
