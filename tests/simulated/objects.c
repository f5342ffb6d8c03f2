/* SPDX-License-Identifier: Apache-2.0 */

/* Threads, contexts, streams and events; handles, which are used again as soon as they are free. */
#include "simulated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A handle is the address of a slot: its object, or NULL while it is free. */
typedef struct {
    Slot *slots;
    size_t size, used; /* slots that were ever handed out */
    Slot *first_free;  /* the last that came back */
    int live;
} Handles;

static Slot stream_slots[MAX_STREAMS], event_slots[MAX_EVENTS];
static Handles streams = {stream_slots, MAX_STREAMS, 0, NULL, 0};
static Handles events = {event_slots, MAX_EVENTS, 0, NULL, 0};
static int serial;
static Context contexts[MAX_DEVICES]; /* the primary ones */
static Context *others;               /* destroyed ones too */
static uint64_t last_id;
static Thread *threads;
static _Thread_local Thread *this_thread;

void *must_have(void *memory)
{
    if (memory == NULL) {
        fputs("simulated driver: out of memory\n", stderr);
        abort();
    }
    return memory;
}

/* ------------------------------------------------------------------------------------ handles */

static Slot *handle_make(Handles *of, void *object)
{
    Slot *slot = of->first_free;
    if (slot != NULL)
        of->first_free = slot->next_free;
    else
        slot = must_have(of->used < of->size ? &of->slots[of->used++] : NULL);
    slot->object = object;
    of->live++;
    return slot;
}

static void handle_end(Handles *of, Slot *slot)
{
    *slot = (Slot){NULL, of->first_free};
    of->first_free = slot;
    of->live--;
}

/* The object of a handle, or NULL after saying what a real driver would have done with it. */
static void *handle_object(Thread *self, const Handles *of, void *handle, const char *what)
{
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)of->slots;
    if (offset >= of->used * sizeof(Slot) || offset % sizeof(Slot) != 0) {
        violation(self, "%p is no %s: a real driver would dereference it", handle, what);
        return NULL;
    }
    Slot *slot = &of->slots[offset / sizeof(Slot)];
    if (slot->object == NULL)
        violation(self, "%s %p is used after it was destroyed: a real driver may crash", what,
                  handle);
    return slot->object;
}

static void handles_reset(Handles *of)
{
    memset(of->slots, 0, of->used * sizeof(Slot));
    of->first_free = NULL;
    of->used = 0;
    of->live = 0;
}

/* ------------------------------------------------------------------------------------ threads */

static Thread *thread_new(void)
{
    Thread *thread = must_have(calloc(1, sizeof(Thread)));
    thread->serial = threads == NULL ? 0 : threads->serial + 1;
    thread->component = clocks_component();
    clocks_thread(thread);
    thread->next = threads;
    threads = thread;
    return thread;
}

Thread *thread_self(void)
{
    if (this_thread == NULL)
        this_thread = thread_new();
    return this_thread;
}

Thread *threads_all(void)
{
    return threads;
}

/* ----------------------------------------------------------------------------------- contexts */

Context *context_of(int device)
{
    return device >= 0 && device < settings.devices ? &contexts[device] : NULL;
}

static bool is_alive(const Context *context)
{
    return context->retained > 0 && !context->reset;
}

Context *context_current(Thread *self)
{
    Context *context = self->depth == 0 ? NULL : self->stack[self->depth - 1];
    return context != NULL && is_alive(context) ? context : NULL;
}

Context *context_from(Thread *self, void *handle)
{
    for (int i = 0; i < settings.devices; i++)
        if (handle == &contexts[i]) {
            if (contexts[i].retained > 0)
                return &contexts[i];
            violation(self, "context %p of device %d is used without being retained", handle, i);
            return NULL;
        }
    for (Context *context = others; context != NULL; context = context->another)
        if (handle == context) {
            if (context->retained > 0)
                return context;
            violation(self, "context %p is used after it was destroyed", handle);
            return NULL;
        }
    violation(self, "%p is no context: a real driver would dereference it", handle);
    return NULL;
}

Context *context_make(int device)
{
    Context *context = must_have(calloc(1, sizeof(Context)));
    *context = (Context){.device = device, .retained = 1, .id = ++last_id, .another = others};
    others = context;
    return context;
}

void context_retain(Context *context)
{
    if (!is_alive(context))
        context->id = ++last_id;
    context->retained++;
    context->reset = false;
}

/* ------------------------------------------------------------------------------------ streams */

static Stream *stream_new(Context *context, bool blocking)
{
    Stream *stream = must_have(calloc(1, sizeof(Stream)));
    stream->serial = ++serial;
    stream->context = context;
    stream->blocking = blocking;
    stream->component = clocks_component();
    stream->next = context->streams;
    context->streams = stream;
    return stream;
}

static Stream *stream_legacy(Context *context)
{
    if (context->legacy == NULL) {
        context->legacy = stream_new(context, false);
        context->legacy->is_legacy = true;
    }
    return context->legacy;
}

static Stream *stream_per_thread(Context *context, Thread *thread)
{
    for (Stream *stream = context->streams; stream != NULL; stream = stream->next)
        if (stream->owner == thread)
            return stream;
    Stream *stream = stream_new(context, true);
    stream->owner = thread;
    return stream;
}

int stream_create(Context *context, unsigned flags, void **handle)
{
    if (flags > 1)
        return INVALID_VALUE;
    Stream *stream = stream_new(context, flags == 0);
    *handle = stream->slot = handle_make(&streams, stream);
    return SUCCESS;
}

int stream_destroy(Thread *self, Stream *stream)
{
    if (stream->slot == NULL) {
        violation(self, "a default stream cannot be destroyed");
        return INVALID_HANDLE;
    }
    handle_end(&streams, stream->slot);
    stream->slot = NULL; /* what was queued on it goes on */
    return SUCCESS;
}

int stream_from(Thread *self, Context *context, void *handle, Stream **stream)
{
    if ((uintptr_t)handle <= 2) {
        if (context == NULL)
            return INVALID_CONTEXT;
        bool per_thread = (uintptr_t)handle == 2;
        *stream = per_thread ? stream_per_thread(context, self) : stream_legacy(context);
        return SUCCESS;
    }
    *stream = handle_object(self, &streams, handle, "stream");
    return *stream == NULL ? INVALID_HANDLE : SUCCESS;
}

void stream_name(const Stream *stream, char *text, size_t size)
{
    const Context *context = stream->context;
    int device = context->device;
    const char *which = context->primary ? "" : "another context of ";
    if (stream->is_legacy)
        snprintf(text, size, "the legacy stream of %sdevice %d", which, device);
    else if (stream->owner != NULL)
        snprintf(text, size, "the per-thread stream of thread %d on %sdevice %d",
                 stream->owner->serial, which, device);
    else
        snprintf(text, size, "%sblocking stream %d of %sdevice %d", stream->blocking ? "" : "non-",
                 stream->serial, which, device);
}

/* ------------------------------------------------------------------------------------- events */

int event_create(Context *context, unsigned flags, void **handle)
{
    if (flags > 7)
        return INVALID_VALUE;
    Event *event = must_have(calloc(1, sizeof(Event)));
    event->context = context;
    *handle = event->slot = handle_make(&events, event);
    return SUCCESS;
}

int event_destroy(Event *event)
{
    handle_end(&events, event->slot);
    clocks_free(&event->clock);
    free(event);
    return SUCCESS;
}

/* Those of a context, or all if it is NULL. */
static void events_end(const Context *context)
{
    for (size_t i = 0; i < events.used; i++) {
        Event *event = event_slots[i].object;
        if (event != NULL && (context == NULL || event->context == context))
            event_destroy(event);
    }
}

int event_from(Thread *self, void *handle, Event **event)
{
    *event = handle_object(self, &events, handle, "event");
    return *event == NULL ? INVALID_HANDLE : SUCCESS;
}

/* ------------------------------------------------------------------------- the end of a context */

/* What is queued there has ended by then; no handle of it means anything afterwards. */
int context_end(Thread *self, Context *context)
{
    work_sync_context(self, context);
    events_end(context);
    for (Stream *stream = context->streams; stream != NULL; stream = stream->next) {
        if (stream->slot != NULL)
            stream_destroy(self, stream);
        stream->owner = NULL;
        stream->is_legacy = stream->blocking = false;
    }
    context->legacy = NULL;
    if (context->primary)
        context->reset = true;
    else
        context->retained = 0;
    return SUCCESS;
}

/* ------------------------------------------------------------------------------------ as a whole
 */

int objects_live(const char *what)
{
    return strcmp(what, "events") == 0 ? events.live : streams.live;
}

static void forget_streams(Context *context)
{
    for (Stream *stream = context->streams, *next; stream != NULL; stream = next) {
        next = stream->next;
        clocks_free(&stream->clock);
        free(stream);
    }
}

void objects_reset(void)
{
    for (int i = 0; i < MAX_DEVICES; i++) {
        forget_streams(&contexts[i]);
        contexts[i] = (Context){.device = i, .primary = true};
    }
    for (Context *context = others, *next; context != NULL; context = next) {
        next = context->another;
        forget_streams(context);
        free(context);
    }
    others = NULL;
    last_id = 0;
    events_end(NULL);
    handles_reset(&events);
    handles_reset(&streams);
    serial = 0;
    for (Thread *thread = threads; thread != NULL; thread = thread->next) {
        clocks_free(&thread->clock);
        thread->depth = thread->device = thread->mode = 0;
        thread->component = clocks_component();
    }
}
