/* SPDX-License-Identifier: Apache-2.0 */
#include "event.h"

#include <stdlib.h>

#include "_memory/layout.h"

struct fdl_event {
    fdl_event *next; /* in the list of events kept for reuse */
    fdl_driver *driver;
    void *handle;
    int32_t ordinal;
    const void *life; /* of the primary context in which it was made */
    fdl_count refs;
};

#define INVALID_HANDLE 400

/* An unused event of the current life of the context, or NULL; events of earlier lives are
 * freed. */
static fdl_event *take_kept(fdl_driver *driver, int32_t ordinal)
{
    const void *life = fdl_life_of(driver, ordinal);
    fdl_event **list = &driver->events[ordinal], *event, *dead = NULL, *next;
    fdl_lock_take(&fdl_lists);
    while ((event = *list) != NULL) {
        *list = event->next;
        fdl_store_release(&driver->spare_events[ordinal], driver->spare_events[ordinal] - 1);
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

/* A new event. In a scope of device `ordinal`. */
static fdl_event *new_event(fdl_driver *driver, int32_t ordinal, fdl_failure *failure)
{
    fdl_event *event = malloc(sizeof(fdl_event));
    if (event == NULL) {
        (void)fdl_refuse_memory(failure);
        return NULL;
    }
    event->driver = driver;
    event->ordinal = ordinal;
    event->life = fdl_life_of(driver, ordinal);
    if (FDL_TRY(driver, failure, event_create, &event->handle, DISABLE_TIMING) == 0)
        return event;
    free(event);
    return NULL;
}

#define MOST_KEPT 1024

/* Destroys a surplus event, unless that may make the host wait, as on HIP, and so break a capture.
 * In a scope of any device. */
static void give_back_one(fdl_driver *driver, int32_t ordinal)
{
    fdl_event *event;
    if (fdl_load_acquire(&driver->spare_events[ordinal]) <= MOST_KEPT || !fdl_may_query(driver) ||
        (event = take_kept(driver, ordinal)) == NULL)
        return;
    (void)FDL_CALL(driver, event_destroy, event->handle);
    free(event);
}

/* A new reference to an event of device `ordinal` that may be recorded. In a scope of that
 * device. */
static fdl_event *take_event(fdl_driver *driver, int32_t ordinal, fdl_failure *failure)
{
    fdl_event *event = take_kept(driver, ordinal);
    give_back_one(driver, ordinal);
    if (event == NULL)
        event = new_event(driver, ordinal, failure);
    if (event != NULL)
        fdl_count_set(&event->refs, 1);
    return event;
}

/* ---- recording ---- */

/* Records an event. In a scope of device `ordinal`. */
static fdl_event *record_here(fdl_driver *driver, int32_t ordinal, int64_t stream,
                              fdl_failure *failure)
{
    fdl_event *event = take_event(driver, ordinal, failure);
    if (event == NULL ||
        FDL_TRY(driver, failure, event_record, event->handle, fdl_handle(stream)) == 0)
        return event;
    fdl_event_release(event);
    return NULL;
}

fdl_event *fdl_event_record(fdl_driver *driver, int32_t ordinal, int64_t stream,
                            fdl_failure *failure)
{
    fdl_scope scope;
    fdl_event *event = record_here(driver, ordinal, stream, failure);
    /* Only the driver knows whether the stream is of another device, and which. */
    for (int32_t other = 0;
         event == NULL && failure->code == INVALID_HANDLE && stream > 2 && other < driver->devices;
         other++)
        if (other != ordinal && fdl_is_in_use(driver, other) &&
            fdl_enter(driver, other, &scope, failure) == 0) {
            event = record_here(driver, other, stream, failure);
            fdl_leave(&scope);
        }
    if (event == NULL && failure->code == INVALID_HANDLE) {
        fdl_failure why = *failure;
        (void)fdl_refuse(failure,
                         "%.100s: if stream %lld belongs to a context other than its device's "
                         "primary one, synchronize it and pass stream=-1",
                         why.text, (long long)stream);
        failure->code = INVALID_HANDLE;
    }
    return event;
}

/* ---- use ---- */

void fdl_event_retain(fdl_event *event)
{
    fdl_count_retain(&event->refs);
}

void fdl_event_release(fdl_event *event)
{
    fdl_event **list;
    int *count;
    if (event == NULL || !fdl_count_release(&event->refs))
        return;
    list = &event->driver->events[event->ordinal];
    count = &event->driver->spare_events[event->ordinal];
    fdl_lock_take(&fdl_lists);
    event->next = *list;
    *list = event;
    fdl_store_release(count, *count + 1);
    fdl_lock_give(&fdl_lists);
}

/* Whether the device was reset, which also ended its work. */
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
    if (!fdl_may_query(event->driver))
        return 0;
    mode = fdl_relax_captures(event->driver);
    complete = is_gone(event) || FDL_CALL(event->driver, event_query, event->handle) == 0;
    fdl_restore_captures(event->driver, mode);
    return complete;
}

void fdl_event_forget(fdl_driver *driver)
{
    fdl_scope scope;
    fdl_failure ignored;
    fdl_event *event;
    for (int32_t ordinal = 0; ordinal < FDL_MAX_DEVICES; ordinal++)
        while ((event = take_kept(driver, ordinal)) != NULL) {
            if (fdl_enter(driver, ordinal, &scope, &ignored) == 0) {
                if (event->life == fdl_life_of(driver, ordinal))
                    (void)FDL_CALL(driver, event_destroy, event->handle);
                fdl_leave(&scope);
            }
            free(event);
        }
}
