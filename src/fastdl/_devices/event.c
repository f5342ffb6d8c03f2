/* SPDX-License-Identifier: Apache-2.0 */
#include "event.h"

#include <stdlib.h>

#include "_core/layout.h"

struct fdl_event {
    fdl_event *next; /* of those kept for reuse */
    fdl_driver *driver;
    void *handle;
    int32_t ordinal;
    int pooled; /* of the device's primary context, so that others there can use it */
    fdl_count refs;
};

/* One list for each device of each driver, under fdl_lists. */
static fdl_event *kept[2][FDL_MAX_DEVICES];

static fdl_event **list_of(const fdl_driver *driver, int32_t ordinal)
{
    return &kept[driver->kind == FASTDL_STREAM_CUDA ? 0 : 1][ordinal];
}

static fdl_event *take_kept(fdl_driver *driver, int32_t ordinal)
{
    fdl_event **list = list_of(driver, ordinal), *event;
    fdl_lock_take(&fdl_lists);
    event = *list;
    if (event != NULL)
        *list = event->next;
    fdl_lock_give(&fdl_lists);
    return event;
}

#define DISABLE_TIMING 2u /* the fastest kind, in both */

static fdl_event *new_event(fdl_driver *driver, int32_t ordinal, int pooled, fdl_failure *failure)
{
    fdl_event *event = malloc(sizeof(fdl_event));
    if (event == NULL) {
        (void)fdl_refuse_memory(failure);
        return NULL;
    }
    if (FDL_TRY(driver, failure, event_create, &event->handle, DISABLE_TIMING) < 0) {
        free(event);
        return NULL;
    }
    event->driver = driver;
    event->ordinal = ordinal;
    event->pooled = pooled;
    return event;
}

static void destroy(fdl_event *event)
{
    fdl_scope scope;
    fdl_failure ignored;
    if (fdl_enter(event->driver, event->ordinal, &scope, &ignored) == 0) {
        (void)FDL_ASK(event->driver, event_destroy, event->handle);
        fdl_leave(&scope);
    }
    free(event);
}

/* A new reference to an event of device `ordinal`, which is current. */
static fdl_event *record_here(fdl_driver *driver, int32_t ordinal, int64_t stream,
                              fdl_failure *failure)
{
    fdl_event *event = take_kept(driver, ordinal);
    if (event == NULL)
        event = new_event(driver, ordinal, 1, failure);
    if (event == NULL)
        return NULL;
    fdl_count_set(&event->refs, 1);
    if (FDL_TRY(driver, failure, event_record, event->handle, fdl_handle(stream)) == 0)
        return event;
    fdl_event_release(event);
    return NULL;
}

/* The same for a device that need not be current. *failure is left as it is if it cannot be. */
static fdl_event *record_on_device(fdl_driver *driver, int32_t ordinal, int64_t stream,
                                   fdl_failure *failure)
{
    fdl_scope scope;
    fdl_failure ignored;
    fdl_event *event;
    if (fdl_enter(driver, ordinal, &scope, &ignored) < 0)
        return NULL;
    event = record_here(driver, ordinal, stream, failure);
    fdl_leave(&scope);
    return event;
}

/* CUDA: a stream outside the primary context takes only events of its own context. There are kept
 * ones for the primary contexts of other devices. */
static fdl_event *record_in_its_context(fdl_driver *driver, int32_t ordinal, int64_t stream,
                                        fdl_failure *failure)
{
    void *context;
    fdl_failure ignored;
    fdl_event *event;
    if (driver->cu_context_of == NULL ||
        FDL_TRY(driver, &ignored, cu_context_of, fdl_handle(stream), &context) < 0)
        return NULL; /* *failure says what happened before */
    for (int32_t other = 0; other < driver->devices; other++)
        if (other != ordinal && fdl_load_pointer(&driver->contexts[other]) == context)
            return record_on_device(driver, other, stream, failure);
    if (FDL_TRY(driver, &ignored, cu_push, context) < 0)
        return NULL;
    event = new_event(driver, ordinal, 0, failure);
    if (event != NULL &&
        FDL_TRY(driver, failure, event_record, event->handle, fdl_handle(stream)) < 0) {
        destroy(event);
        event = NULL;
    }
    (void)FDL_ASK(driver, cu_pop, &context);
    if (event != NULL)
        fdl_count_set(&event->refs, 1);
    return event;
}

/* HIP: a stream of another device takes only events of that device. */
static fdl_event *record_on_its_device(fdl_driver *driver, int32_t ordinal, int64_t stream,
                                       fdl_failure *failure)
{
    int found;
    fdl_failure ignored;
    if (driver->hip_device_of == NULL ||
        FDL_TRY(driver, &ignored, hip_device_of, fdl_handle(stream), &found) < 0 ||
        found == ordinal)
        return NULL; /* *failure says what happened before */
    return record_on_device(driver, found, stream, failure);
}

#define INVALID_HANDLE 400

fdl_event *fdl_event_record(fdl_driver *driver, int32_t ordinal, int64_t stream,
                            fdl_failure *failure)
{
    fdl_event *event = record_here(driver, ordinal, stream, failure);
    if (event == NULL && failure->code == INVALID_HANDLE && stream > 2)
        event = driver->kind == FASTDL_STREAM_CUDA
                    ? record_in_its_context(driver, ordinal, stream, failure)
                    : record_on_its_device(driver, ordinal, stream, failure);
    return event;
}

void fdl_event_retain(fdl_event *event)
{
    fdl_count_retain(&event->refs);
}

void fdl_event_release(fdl_event *event)
{
    fdl_event **list;
    if (event == NULL || !fdl_count_release(&event->refs))
        return;
    if (!event->pooled) {
        destroy(event);
        return;
    }
    list = list_of(event->driver, event->ordinal);
    fdl_lock_take(&fdl_lists);
    event->next = *list;
    *list = event;
    fdl_lock_give(&fdl_lists);
}

int fdl_event_order(const fdl_event *event, int64_t stream, fdl_failure *failure)
{
    return FDL_TRY(event->driver, failure, stream_wait, fdl_handle(stream), event->handle, 0);
}

int fdl_event_wait(const fdl_event *event, fdl_failure *failure)
{
    int mode = fdl_relax_captures(event->driver);
    int failed = FDL_TRY(event->driver, failure, event_synchronize, event->handle);
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
    complete = FDL_ASK(event->driver, event_query, event->handle) == 0;
    fdl_restore_captures(event->driver, mode);
    return complete;
}

void fdl_event_forget(fdl_driver *driver)
{
    for (int32_t ordinal = 0; ordinal < FDL_MAX_DEVICES; ordinal++)
        for (fdl_event *event; (event = take_kept(driver, ordinal)) != NULL;)
            destroy(event);
}
