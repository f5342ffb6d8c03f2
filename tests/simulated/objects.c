/* Threads, contexts, streams and events; handles, which are used again as soon as they are free. */
#include "simulated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Slot stream_slots[MAX_STREAMS], event_slots[MAX_EVENTS];
static Slot *free_streams, *free_events;
static size_t used_streams, used_events; /* slots that were ever handed out */
static int live_streams, live_events, serial;
static Context contexts[MAX_DEVICES]; /* the primary ones */
static Context *others;               /* destroyed ones too */
static uint64_t last_id;
static Thread *threads;
static _Thread_local Thread *this_thread;

/* What a destroyed event leaves; pending work may still name it. */
static Event **events;
static size_t event_count, event_capacity;

void *must_have(void *memory)
{
    if (memory == NULL) {
        fputs("simulated driver: out of memory\n", stderr);
        abort();
    }
    return memory;
}

/* ------------------------------------------------------------------------------------ handles */

static Slot *slot_take(Slot *slots, size_t size, size_t *used, Slot **first_free, void *object)
{
    Slot *slot = *first_free;
    if (slot != NULL)
        *first_free = slot->next_free;
    else if (*used < size)
        slot = &slots[(*used)++];
    else
        return NULL;
    slot->object = object;
    slot->used = true;
    return slot;
}

static void slot_give(Slot *slot, Slot **first_free)
{
    slot->object = NULL;
    slot->next_free = *first_free;
    *first_free = slot;
}

/* The object of a handle, or NULL after saying what a real driver would have done with it. */
static void *slot_object(Thread *self, Slot *slots, size_t size, void *handle, const char *what)
{
    uintptr_t at = (uintptr_t)handle, start = (uintptr_t)slots;
    if (at < start || at >= start + size * sizeof(Slot) || (at - start) % sizeof(Slot) != 0) {
        violation(self, "%p is no %s: a real driver would dereference it", handle, what);
        return NULL;
    }
    Slot *slot = &slots[(at - start) / sizeof(Slot)];
    if (slot->object == NULL)
        violation(self, "%s %p %s: a real driver may crash", what, handle,
                  slot->used ? "is used after it was destroyed" : "was never made");
    return slot->object;
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
    *context = contexts[device];
    context->primary = false;
    context->retained = 1;
    context->reset = false;
    context->id = ++last_id;
    context->legacy = NULL;
    context->streams = NULL;
    context->another = others;
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

Stream *stream_legacy(Context *context)
{
    if (context->legacy == NULL) {
        context->legacy = stream_new(context, false);
        context->legacy->is_legacy = true;
    }
    return context->legacy;
}

Stream *stream_per_thread(Context *context, Thread *thread)
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
    if (handle == NULL || flags > 1)
        return INVALID_VALUE;
    Slot *slot = slot_take(stream_slots, MAX_STREAMS, &used_streams, &free_streams, NULL);
    if (slot == NULL)
        return OUT_OF_MEMORY;
    Stream *stream = stream_new(context, flags == 0);
    stream->slot = slot;
    slot->object = stream;
    live_streams++;
    *handle = slot;
    return SUCCESS;
}

int stream_destroy(Thread *self, Stream *stream)
{
    if (stream->slot == NULL) {
        violation(self, "a default stream cannot be destroyed");
        return INVALID_HANDLE;
    }
    slot_give(stream->slot, &free_streams);
    stream->slot = NULL; /* what was queued on it goes on */
    live_streams--;
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
    *stream = slot_object(self, stream_slots, MAX_STREAMS, handle, "stream");
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
    if (handle == NULL || flags > 7)
        return INVALID_VALUE;
    Slot *slot = slot_take(event_slots, MAX_EVENTS, &used_events, &free_events, NULL);
    if (slot == NULL)
        return OUT_OF_MEMORY;
    Event *event = must_have(calloc(1, sizeof(Event)));
    event->serial = ++serial;
    event->context = context;
    event->slot = slot;
    slot->object = event;
    if (event_count == event_capacity) {
        event_capacity = event_capacity ? 2 * event_capacity : 64;
        events = must_have(realloc(events, event_capacity * sizeof *events));
    }
    events[event_count++] = event;
    live_events++;
    *handle = slot;
    return SUCCESS;
}

int event_destroy(Event *event)
{
    slot_give(event->slot, &free_events);
    for (size_t i = event_count; i-- > 0;)
        if (events[i] == event) {
            events[i] = events[--event_count];
            break;
        }
    clocks_free(&event->clock);
    free(event);
    live_events--;
    return SUCCESS;
}

int event_from(Thread *self, void *handle, Event **event)
{
    *event = slot_object(self, event_slots, MAX_EVENTS, handle, "event");
    return *event == NULL ? INVALID_HANDLE : SUCCESS;
}

/* ------------------------------------------------------------------------- the end of a context */

/* What is queued there has ended by then; no handle of it means anything afterwards. */
int context_end(Thread *self, Context *context)
{
    int code = work_sync_context(self, context);
    if (code != SUCCESS)
        return code;
    for (size_t i = event_count; i-- > 0;)
        if (events[i]->context == context)
            event_destroy(events[i]);
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
    if (strcmp(what, "events") == 0)
        return live_events;
    if (strcmp(what, "streams") == 0)
        return live_streams;
    return -1;
}

static void forget_streams(Context *context)
{
    for (Stream *stream = context->streams, *next; stream != NULL; stream = next) {
        next = stream->next;
        clocks_free(&stream->clock);
        free(stream);
    }
}

static void context_reset(Context *context, int device)
{
    forget_streams(context);
    memset(context, 0, sizeof *context);
    context->device = device;
    context->primary = true;
}

void objects_reset(void)
{
    for (int i = 0; i < MAX_DEVICES; i++)
        context_reset(&contexts[i], i);
    for (Context *context = others, *next; context != NULL; context = next) {
        next = context->another;
        forget_streams(context);
        free(context);
    }
    others = NULL;
    last_id = 0;
    while (event_count > 0)
        event_destroy(events[event_count - 1]);
    memset(stream_slots, 0, used_streams * sizeof(Slot));
    memset(event_slots, 0, used_events * sizeof(Slot));
    free_streams = free_events = NULL;
    used_streams = used_events = 0;
    live_streams = live_events = serial = 0;
    for (Thread *thread = threads; thread != NULL; thread = thread->next) {
        clocks_free(&thread->clock);
        thread->depth = thread->device = thread->mode = 0;
        thread->component = clocks_component();
    }
}
