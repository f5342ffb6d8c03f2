/* SPDX-License-Identifier: Apache-2.0
 *
 * Events mark the work that was queued on a stream so far, and outlive the stream.
 *
 * An event belongs to fastdl, so any thread can wait for it, even after its stream is destroyed.
 * For each device a limited number of events is kept for reuse: a queued wait refers to the
 * recording at that time, so an event can be reused as soon as its waits are queued. Events are
 * reference counted, since one thread may wait for an event while another drops it.
 *
 * All events belong to primary contexts (CUDA), since other contexts may be destroyed at any time.
 * A driver records an event only on streams of its own context, so work on streams of other
 * contexts, including their default streams, cannot be recorded; but those streams can wait for
 * events. After a reset of the device its events are gone; their work counts as ended.
 */
#ifndef FASTDL_DEVICES_EVENT_H_
#define FASTDL_DEVICES_EVENT_H_

#include "_memory/atomics.h"

#include "driver.h"

typedef struct fdl_event fdl_event;

/* A new reference to an event that marks the work queued on `stream`, of device `ordinal`, which is
 * current, or of another one. NULL with *failure. */
fdl_event *fdl_event_record(fdl_driver *driver, int32_t ordinal, int64_t stream,
                            fdl_failure *failure);

void fdl_event_retain(fdl_event *event);

/* Drops a reference; after the last one the event may be reused. NULL is allowed. */
void fdl_event_release(fdl_event *event);

/* Makes work queued on `stream` from now on start after the event's work has ended. The device of
 * `stream` is current; the event may be of another one. */
int fdl_event_order(const fdl_event *event, int64_t stream, fdl_failure *failure);

/* Waits for the event on the host. Call it in a scope of any device, like all functions here that
 * call the driver. */
int fdl_event_wait(const fdl_event *event, fdl_failure *failure);

/* Whether the event's work has ended; 0 if that cannot be queried. */
int fdl_event_is_complete(const fdl_event *event);

/* Destroys the events of a driver that are kept for reuse: for tests. */
void fdl_event_forget(fdl_driver *driver);

#endif
