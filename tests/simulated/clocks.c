/* SPDX-License-Identifier: Apache-2.0 */

/* Vector clocks. Components are streams and host threads; the clock of each says how much of every
 * other has certainly happened before what it does next. An access to bytes is compared with all
 * earlier accesses to them: if one of the two writes and neither knows the other, they have no
 * order, and that is reported whether or not any byte came out wrong. */
#include "simulated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One operation's access, as later ones find it. */
typedef struct Note {
    char who[160];
    uint32_t component, clock;
    unsigned reported; /* the operation that was last reported with this one */
    struct Note *next;
} Note;

typedef struct {
    Note *note;
    bool write;
} Access;

/* Bytes with the same history. */
typedef struct {
    uintptr_t start, end;
    Access *accesses;
    size_t count, capacity;
} Segment;

static Segment *segments; /* sorted, without overlap */
static size_t segment_count, segment_capacity;
static Note *notes;
static uint32_t components;
static Text report;
static Clock published;

/* ------------------------------------------------------------------------------------- clocks */

static void reach(Clock *clock, size_t length)
{
    if (clock->length >= length)
        return;
    clock->at = must_have(realloc(clock->at, length * sizeof *clock->at));
    memset(clock->at + clock->length, 0, (length - clock->length) * sizeof *clock->at);
    clock->length = length;
}

static void join(Clock *clock, const Clock *other)
{
    reach(clock, other->length);
    for (size_t i = 0; i < other->length; i++)
        if (clock->at[i] < other->at[i])
            clock->at[i] = other->at[i];
}

static uint32_t tick(Clock *clock, uint32_t component)
{
    reach(clock, component + 1);
    return ++clock->at[component];
}

bool clocks_know(const Clock *clock, uint32_t component, uint32_t value)
{
    return component < clock->length && clock->at[component] >= value;
}

static void assign(Clock *clock, const Clock *other)
{
    clocks_free(clock);
    join(clock, other);
}

void clocks_free(Clock *clock)
{
    free(clock->at);
    clock->at = NULL;
    clock->length = 0;
}

uint32_t clocks_component(void)
{
    return components++;
}

void clocks_reset(bool all)
{
    if (all) {
        components = 0;
        clocks_free(&published);
    }
    for (size_t i = 0; i < segment_count; i++)
        free(segments[i].accesses);
    segment_count = 0;
    for (Note *note = notes, *next; note != NULL; note = next) {
        next = note->next;
        free(note);
    }
    notes = NULL;
    text_clear(&report);
}

const Text *clocks_report(void)
{
    return &report;
}

/* ------------------------------------------------------------------------------------- accesses */

/* The first segment that ends after `at`. */
static size_t segment_after(uintptr_t at)
{
    size_t low = 0, high = segment_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (segments[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static Segment *segment_insert(size_t index, uintptr_t start, uintptr_t end)
{
    if (segment_count == segment_capacity) {
        segment_capacity = segment_capacity ? 2 * segment_capacity : 64;
        segments = must_have(realloc(segments, segment_capacity * sizeof *segments));
    }
    memmove(segments + index + 1, segments + index, (segment_count - index) * sizeof *segments);
    segment_count++;
    segments[index] = (Segment){.start = start, .end = end};
    return &segments[index];
}

/* Makes `at` a border, if it lies inside of a segment. */
static void segment_split(uintptr_t at)
{
    size_t index = segment_after(at);
    if (index == segment_count || segments[index].start >= at)
        return;
    Segment *second = segment_insert(index + 1, at, segments[index].end);
    Segment *first = &segments[index];
    first->end = at;
    second->count = second->capacity = first->count;
    if (first->count == 0)
        return;
    second->accesses = must_have(malloc(first->count * sizeof(Access)));
    memcpy(second->accesses, first->accesses, first->count * sizeof(Access));
}

static void segment_add(Segment *segment, Note *note, bool write)
{
    if (segment->count == segment->capacity) {
        segment->capacity = segment->capacity ? 2 * segment->capacity : 2;
        size_t size = segment->capacity * sizeof(Access);
        segment->accesses = must_have(realloc(segment->accesses, size));
    }
    segment->accesses[segment->count++] = (Access){note, write};
}

static void compare(const Segment *segment, const Op *op, const Note *note, bool write,
                    const Clock *clock)
{
    for (size_t i = 0; i < segment->count; i++) {
        Access *old = &segment->accesses[i];
        if (old->note == note || (!old->write && !write) ||
            clocks_know(clock, old->note->component, old->note->clock) ||
            old->note->reported == op->serial)
            continue;
        old->note->reported = op->serial;
        text_add(&report, "race on %zu bytes at %#zx: %s by %s, and %s by %s, have no order\n",
                 (size_t)(segment->end - segment->start), (size_t)segment->start,
                 old->write ? "write" : "read", old->note->who, write ? "write" : "read", op->who);
    }
}

static void touch(const Op *op, Note *note, const Range *range, const Clock *clock)
{
    uintptr_t at = range->start, end = range->start + range->length;
    segment_split(at);
    segment_split(end);
    for (size_t i = segment_after(at); at < end; i++) {
        bool gap = i == segment_count || segments[i].start > at;
        if (gap) {
            bool last = i == segment_count || segments[i].start > end;
            segment_insert(i, at, last ? end : segments[i].start);
        }
        compare(&segments[i], op, note, range->write, clock);
        segment_add(&segments[i], note, range->write);
        at = segments[i].end;
    }
}

static void access_all(Op *op, uint32_t component, Clock *clock)
{
    Note *note = must_have(calloc(1, sizeof(Note)));
    memcpy(note->who, op->who, sizeof note->who);
    note->component = op->component = component;
    note->clock = op->clock = tick(clock, component);
    note->next = notes;
    notes = note;
    for (size_t i = 0; i < op->count; i++)
        if (op->ranges[i].length > 0)
            touch(op, note, &op->ranges[i], clock);
}

/* -------------------------------------------------------------------------------------- actions */

/* What comes before anything that is queued on the stream now. */
static void arrive(Thread *self, Stream *stream)
{
    join(&stream->clock, &self->clock);
    if (stream->is_legacy) {
        for (Stream *s = stream->context->streams; s != NULL; s = s->next)
            if (s->blocking)
                join(&stream->clock, &s->clock);
    } else if (stream->blocking && stream->context->legacy != NULL) {
        join(&stream->clock, &stream->context->legacy->clock);
    }
}

void clocks_thread(Thread *thread)
{
    /* Whatever starts a thread orders it after what was done before. */
    for (Thread *other = threads_all(); other != NULL; other = other->next)
        if (other != thread)
            join(&thread->clock, &other->clock);
}

void clocks_submit(Thread *self, Stream *stream, Op *op)
{
    arrive(self, stream);
    access_all(op, stream->component, &stream->clock);
}

void clocks_host(Thread *self, Op *op)
{
    access_all(op, self->component, &self->clock);
}

void clocks_record(Thread *self, Event *event, Stream *stream)
{
    arrive(self, stream);
    assign(&event->clock, &stream->clock);
}

void clocks_wait(Thread *self, Stream *stream, const Event *event)
{
    join(&stream->clock, &self->clock);
    join(&stream->clock, &event->clock);
}

void clocks_sync_stream(Thread *self, const Stream *stream)
{
    join(&self->clock, &stream->clock);
}

void clocks_sync_event(Thread *self, const Event *event)
{
    join(&self->clock, &event->clock);
}

void clocks_publish(const Thread *self)
{
    join(&published, &self->clock);
}

void clocks_acquire(Thread *self)
{
    join(&self->clock, &published);
}
