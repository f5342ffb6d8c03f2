/* SPDX-License-Identifier: Apache-2.0 */
#include "event.h"

#include <stdlib.h>

#include "_core/layout.h"

struct fdl_event {
    fdl_event *next; /* of those kept for reuse */
    fdl_driver *driver;
    void *handle;
    void *relay; /* a stream of the same context, or NULL: see record_over_relay */
    int32_t ordinal;
    const void *life; /* of the device's primary context, in which they are */
    fdl_count refs;
};

#define INVALID_HANDLE 400

/* Two lists for each device of each driver, under fdl_lists: without and with a relay. */
static fdl_event *kept[2][FDL_MAX_DEVICES][2];

static fdl_event **list_of(const fdl_driver *driver, int32_t ordinal, int relayed)
{
    return &kept[driver->kind == FASTDL_STREAM_CUDA ? 0 : 1][ordinal][relayed];
}

/* An event of this life of the context: those of earlier ones are gone. */
static fdl_event *take_kept(fdl_driver *driver, int32_t ordinal, int relayed)
{
    const void *life = fdl_life_of(driver, ordinal);
    fdl_event **list = list_of(driver, ordinal, relayed), *event, *dead = NULL, *next;
    fdl_lock_take(&fdl_lists);
    while ((event = *list) != NULL) {
        *list = event->next;
        if (event->life == life)
            break;
        event->next = dead;
        dead = event;
    }
    fdl_lock_give(&fdl_lists);
    for (; dead != NULL; dead = next) {
        next = dead->next;
        free(dead);
    }
    return event;
}

#define DISABLE_TIMING 2u /* the fastest kind, in both */
#define NON_BLOCKING 1u   /* does not wait for the legacy stream */

/* With the primary context of device `ordinal` current. */
static fdl_event *new_event(fdl_driver *driver, int32_t ordinal, int relayed, fdl_failure *failure)
{
    fdl_event *event = malloc(sizeof(fdl_event));
    if (event == NULL) {
        (void)fdl_refuse_memory(failure);
        return NULL;
    }
    event->driver = driver;
    event->ordinal = ordinal;
    event->life = fdl_life_of(driver, ordinal);
    event->relay = NULL;
    if (FDL_TRY(driver, failure, event_create, &event->handle, DISABLE_TIMING) == 0) {
        if (!relayed ||
            FDL_TRY(driver, failure, cu_stream_create, &event->relay, NON_BLOCKING) == 0)
            return event;
        (void)FDL_ASK(driver, event_destroy, event->handle);
    }
    free(event);
    return NULL;
}

/* A new reference to an event of device `ordinal` that may be recorded anew. */
static fdl_event *take_event(fdl_driver *driver, int32_t ordinal, int relayed, fdl_failure *failure)
{
    fdl_scope scope;
    fdl_event *event = take_kept(driver, ordinal, relayed);
    if (event == NULL && fdl_enter_primary(driver, ordinal, &scope, failure) == 0) {
        event = new_event(driver, ordinal, relayed, failure);
        fdl_leave(&scope);
    }
    if (event != NULL)
        fdl_count_set(&event->refs, 1);
    return event;
}

static void destroy(fdl_event *event)
{
    fdl_scope scope;
    fdl_failure ignored;
    if (fdl_enter(event->driver, event->ordinal, &scope, &ignored) == 0) {
        if (event->life == fdl_life_of(event->driver, event->ordinal)) {
            (void)FDL_ASK(event->driver, event_destroy, event->handle);
            if (event->relay != NULL)
                (void)FDL_ASK(event->driver, cu_stream_destroy, event->relay);
        }
        fdl_leave(&scope);
    }
    free(event);
}

/* ---- recording ---- */

/* A new reference to an event of device `ordinal`, in a scope of it. */
static fdl_event *record_here(fdl_driver *driver, int32_t ordinal, int64_t stream,
                              fdl_failure *failure)
{
    fdl_event *event = take_event(driver, ordinal, 0, failure);
    if (event == NULL ||
        FDL_TRY(driver, failure, event_record, event->handle, fdl_handle(stream)) == 0)
        return event;
    fdl_event_release(event);
    return NULL;
}

/* The device other than `ordinal` that `stream` is of (CUDA: of whose primary context), or -1.
 * CUDA: also its *context, or NULL if it is to be that which is current: a default stream is of
 * that one, and before CUDA 13 the driver does not name green ones. */
static int32_t other_device_of(fdl_driver *driver, int32_t ordinal, int64_t stream, void **context)
{
    int found;
    if (stream <= 2)
        return -1;
    if (driver->hip_device_of != NULL &&
        FDL_ASK(driver, hip_device_of, fdl_handle(stream), &found) == 0 && found != ordinal)
        return found;
    if (driver->cu_context_of != NULL &&
        FDL_ASK(driver, cu_context_of, fdl_handle(stream), context) == 0)
        for (found = 0; found < driver->devices && *context != NULL; found++)
            if (found != ordinal && fdl_load_pointer(&driver->contexts[found]) == *context)
                return found;
    return -1;
}

/* As record_here, also for a stream of another device, which takes only events of that one. If the
 * stream is of another *context: NULL, and the code INVALID_HANDLE. */
static fdl_event *record_on_its_device(fdl_driver *driver, int32_t ordinal, int64_t stream,
                                       void **context, fdl_failure *failure)
{
    fdl_scope scope;
    fdl_event *event = record_here(driver, ordinal, stream, failure);
    if (event == NULL && failure->code == INVALID_HANDLE) {
        ordinal = other_device_of(driver, ordinal, stream, context);
        if (ordinal >= 0 && fdl_enter_primary(driver, ordinal, &scope, failure) == 0) {
            event = record_here(driver, ordinal, stream, failure);
            fdl_leave(&scope);
        }
    }
    return event;
}

/* CUDA: an event of the driver's that marks `stream`, which is of `context`. It ends with that
 * context, which is not fastdl's: the caller uses it at once, and destroys it. */
static int mark(fdl_driver *driver, void *context, int64_t stream, void **made,
                fdl_failure *failure)
{
    int failed;
    if (context != NULL && FDL_TRY(driver, failure, cu_push, context) < 0)
        return -1;
    failed = FDL_TRY(driver, failure, event_create, made, DISABLE_TIMING) < 0;
    if (!failed) {
        failed = FDL_TRY(driver, failure, event_record, *made, fdl_handle(stream)) < 0;
        if (failed)
            (void)FDL_ASK(driver, event_destroy, *made);
    }
    if (context != NULL) {
        (void)FDL_ASK(driver, cu_pop, &context);
    } else if (failed && failure->code == INVALID_HANDLE) {
        (void)fdl_refuse(failure,
                         "cuEventRecord answered CUDA_ERROR_INVALID_HANDLE (400): if stream %lld "
                         "is not of the device's primary context, make its context current",
                         (long long)stream);
        failure->code = INVALID_HANDLE;
    }
    return failed ? -1 : 0;
}

/* CUDA: the same as record_here for a stream outside of the primary context, which takes only
 * events of its own context: a stream of the primary one waits for such an event, and is recorded.
 */
static fdl_event *record_over_relay(fdl_driver *driver, int32_t ordinal, int64_t stream,
                                    void *context, fdl_failure *failure)
{
    void *marked;
    fdl_event *event = take_event(driver, ordinal, 1, failure);
    int failed = event == NULL || mark(driver, context, stream, &marked, failure) < 0;
    if (!failed) {
        failed = FDL_TRY(driver, failure, stream_wait, event->relay, marked, 0) < 0 ||
                 FDL_TRY(driver, failure, event_record, event->handle, event->relay) < 0;
        (void)FDL_ASK(driver, event_destroy, marked);
    }
    if (!failed)
        return event;
    fdl_event_release(event);
    return NULL;
}

fdl_event *fdl_event_record(fdl_driver *driver, int32_t ordinal, int64_t stream,
                            fdl_failure *failure)
{
    void *context = NULL;
    fdl_event *event = record_on_its_device(driver, ordinal, stream, &context, failure);
    if (event == NULL && failure->code == INVALID_HANDLE && driver->kind == FASTDL_STREAM_CUDA)
        event = record_over_relay(driver, ordinal, stream, context, failure);
    return event;
}

int fdl_event_bridge(fdl_driver *driver, int32_t ordinal, int64_t source, int64_t stream,
                     fdl_failure *failure)
{
    void *marked, *context = NULL;
    fdl_event *event = record_on_its_device(driver, ordinal, source, &context, failure);
    int failed = 1;
    if (event != NULL) {
        failed = fdl_event_order(event, stream, failure) < 0;
        fdl_event_release(event);
    } else if (failure->code == INVALID_HANDLE && driver->kind == FASTDL_STREAM_CUDA &&
               mark(driver, context, source, &marked, failure) == 0) {
        failed = FDL_TRY(driver, failure, stream_wait, fdl_handle(stream), marked, 0) < 0;
        (void)FDL_ASK(driver, event_destroy, marked);
    }
    return failed ? -1 : 0;
}

/* ---- use ---- */

void fdl_event_retain(fdl_event *event)
{
    fdl_count_retain(&event->refs);
}

void fdl_event_release(fdl_event *event)
{
    fdl_event **list;
    if (event == NULL || !fdl_count_release(&event->refs))
        return;
    list = list_of(event->driver, event->ordinal, event->relay != NULL);
    fdl_lock_take(&fdl_lists);
    event->next = *list;
    *list = event;
    fdl_lock_give(&fdl_lists);
}

/* Whether the device was reset, which has ended its work too. */
static int is_gone(const fdl_event *event)
{
    return !fdl_is_alive(event->driver, event->ordinal, event->life);
}

int fdl_event_order(const fdl_event *event, int64_t stream, fdl_failure *failure)
{
    if (is_gone(event))
        return 0;
    return FDL_TRY(event->driver, failure, stream_wait, fdl_handle(stream), event->handle, 0);
}

int fdl_event_wait(const fdl_event *event, fdl_failure *failure)
{
    int mode = fdl_relax_captures(event->driver);
    int failed =
        is_gone(event) ? 0 : FDL_TRY(event->driver, failure, event_synchronize, event->handle);
    fdl_restore_captures(event->driver, mode);
    return failed;
}

int fdl_event_is_complete(const fdl_event *event)
{
    int mode, complete;
    /* On HIP a query breaks the captures of all threads, whatever their mode. */
    if (event->driver->kind == FASTDL_STREAM_ROCM && fdl_load_acquire(&event->driver->captures))
        return 0;
    mode = fdl_relax_captures(event->driver);
    complete = is_gone(event) || FDL_ASK(event->driver, event_query, event->handle) == 0;
    fdl_restore_captures(event->driver, mode);
    return complete;
}

void fdl_event_forget(fdl_driver *driver)
{
    for (int32_t ordinal = 0; ordinal < FDL_MAX_DEVICES; ordinal++)
        for (int relayed = 0; relayed < 2; relayed++)
            for (fdl_event *event; (event = take_kept(driver, ordinal, relayed)) != NULL;)
                destroy(event);
}
