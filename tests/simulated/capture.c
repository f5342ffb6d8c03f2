/* SPDX-License-Identifier: Apache-2.0 */

/* Stream capture. Captured work is not run: all that counts is who belongs to which graph, what is
 * refused with which code, and whose capture is broken by it. */
#include "simulated.h"

#include <stdlib.h>
#include <string.h>

static Capture *captures; /* ended ones too: events name them */
static uint64_t last_id;

void capture_reset(void)
{
    for (Capture *capture = captures, *next; capture != NULL; capture = next) {
        next = capture->next;
        free(capture);
    }
    captures = NULL;
    last_id = 0;
}

int capture_live(void)
{
    int count = 0;
    for (Capture *capture = captures; capture != NULL; capture = capture->next)
        count += !capture->ended;
    return count;
}

/* The legacy stream is unusable while a blocking stream of its context captures. Whoever uses it
 * all the same breaks those captures; asking whether it captures does not. */
static int legacy_conflict(const Stream *stream, bool breaks)
{
    bool found = false;
    if (!stream->is_legacy)
        return SUCCESS;
    for (Stream *s = stream->context->streams; s != NULL; s = s->next)
        if (s->blocking && s->capture != NULL) {
            found = true;
            if (breaks)
                s->capture->invalid = true;
        }
    return found ? CAPTURE_IMPLICIT : SUCCESS;
}

static bool join(Capture *capture, Stream *stream)
{
    if (capture->size == CAPTURE_STREAMS)
        return false;
    stream->capture = capture;
    stream->member = capture->size;
    memset(stream->seen, 0, sizeof stream->seen);
    capture->members[capture->size++] = stream;
    return true;
}

int capture_begin(Thread *self, Stream *stream, int mode)
{
    if (stream->is_legacy)
        return CAPTURE_UNSUPPORTED;
    if (stream->capture != NULL)
        return ILLEGAL_STATE;
    Capture *capture = must_have(calloc(1, sizeof(Capture)));
    capture->id = ++last_id;
    capture->mode = mode;
    capture->thread = self;
    capture->next = captures;
    captures = capture;
    join(capture, stream);
    return SUCCESS;
}

int capture_end(Thread *self, Stream *stream, void **graph)
{
    Capture *capture = stream->capture;
    if (graph != NULL)
        *graph = NULL;
    if (capture == NULL)
        return ILLEGAL_STATE;
    if (capture->mode != MODE_RELAXED && capture->thread != self)
        return CAPTURE_WRONG_THREAD;
    bool joined = true;
    for (int i = 1; i < capture->size; i++)
        joined = joined && stream->seen[i] >= capture->count[i];
    for (int i = 0; i < capture->size; i++)
        capture->members[i]->capture = NULL;
    capture->ended = true;
    if (capture->invalid)
        return CAPTURE_INVALIDATED;
    if (!joined)
        return CAPTURE_UNJOINED;
    if (graph != NULL)
        *graph = capture;
    return SUCCESS;
}

int capture_status(Stream *stream, int *status)
{
    const Capture *capture = stream->capture;
    *status = capture == NULL ? 0 : capture->invalid ? 2 : 1;
    return legacy_conflict(stream, false);
}

int capture_submit(Stream *stream, bool *captured)
{
    *captured = false;
    int conflict = legacy_conflict(stream, true);
    if (conflict != SUCCESS || stream->capture == NULL)
        return conflict;
    if (stream->capture->invalid)
        return CAPTURE_INVALIDATED;
    *captured = true;
    stream->seen[stream->member] = ++stream->capture->count[stream->member];
    return SUCCESS;
}

int capture_record(Event *event, Stream *stream, bool *captured)
{
    *captured = false;
    int conflict = legacy_conflict(stream, true);
    if (conflict != SUCCESS)
        return conflict;
    if (stream->capture != NULL && stream->capture->invalid)
        return CAPTURE_INVALIDATED;
    *captured = stream->capture != NULL;
    event->capture = stream->capture;
    memcpy(event->seen, stream->seen, sizeof event->seen);
    return SUCCESS;
}

static int broken(Capture *capture, int code)
{
    capture->invalid = true;
    return code;
}

int capture_wait(Stream *stream, Event *event, bool *captured)
{
    Capture *capture = stream->capture, *other = event->recorded ? event->capture : NULL;
    *captured = false;
    int conflict = legacy_conflict(stream, true);
    if (conflict != SUCCESS)
        return conflict;
    if (capture != NULL && capture->invalid)
        return CAPTURE_INVALIDATED;
    if (!event->recorded)
        return SUCCESS;
    if (other == NULL) /* work from outside cannot be an edge of the graph */
        return capture == NULL ? SUCCESS : broken(capture, CAPTURE_ISOLATION);
    *captured = true;
    if (other->ended)
        return capture == NULL ? CAPTURED_EVENT : broken(capture, CAPTURE_ISOLATION);
    if (other->invalid)
        return CAPTURE_INVALIDATED;
    if (capture == NULL) {
        if (stream->is_legacy) /* would become a part of the graph */
            return broken(other, CAPTURE_IMPLICIT);
        if (!join(other, stream))
            return broken(other, OUT_OF_MEMORY);
        /* That it joined is something to be joined again. */
        stream->seen[stream->member] = ++other->count[stream->member];
    } else if (capture != other) {
        capture->invalid = true;
        return broken(other, CAPTURE_MERGE);
    }
    for (int i = 0; i < CAPTURE_STREAMS; i++)
        if (stream->seen[i] < event->seen[i])
            stream->seen[i] = event->seen[i];
    return SUCCESS;
}

int capture_unsafe(Thread *self)
{
    int code = SUCCESS;
    for (Capture *capture = captures; capture != NULL; capture = capture->next) {
        if (capture->ended || self->mode == MODE_RELAXED || capture->mode == MODE_RELAXED)
            continue;
        bool others = self->mode == MODE_GLOBAL && capture->mode == MODE_GLOBAL;
        if (capture->thread == self || others)
            code = broken(capture, CAPTURE_UNSUPPORTED);
    }
    return code;
}

int capture_ask(Stream *stream)
{
    int conflict = legacy_conflict(stream, true);
    if (conflict != SUCCESS)
        return conflict;
    return stream->capture == NULL ? SUCCESS : broken(stream->capture, CAPTURE_UNSUPPORTED);
}

int capture_sync_stream(Thread *self, Stream *stream)
{
    int code = capture_ask(stream);
    return code == SUCCESS ? capture_unsafe(self) : code;
}

int capture_sync_event(Thread *self, Event *event)
{
    if (event->recorded && event->capture != NULL)
        return broken(event->capture, CAPTURED_EVENT);
    return capture_unsafe(self);
}
