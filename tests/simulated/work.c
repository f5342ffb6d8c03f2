/* Every action of the program: first whether a capture has a say in it, then each of the two
 * engines, which decide for themselves what it means. */
#include "simulated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned op_serial;

Op *op_new(const char *name)
{
    Op *op = must_have(calloc(1, sizeof(Op)));
    op->name = name;
    op->serial = ++op_serial;
    return op;
}

void op_free(Op *op)
{
    free(op->ranges);
    free(op);
}

void op_touch(Op *op, uintptr_t start, size_t length, bool write, int payload)
{
    if (op->count == op->capacity) {
        op->capacity = op->capacity ? 2 * op->capacity : 2;
        op->ranges = must_have(realloc(op->ranges, op->capacity * sizeof *op->ranges));
    }
    op->ranges[op->count++] = (Range){start, length, write, payload};
}

static void describe(const Thread *self, const Stream *stream, Op *op)
{
    char where[64] = "the host";
    if (stream != NULL)
        stream_name(stream, where, sizeof where);
    snprintf(op->who, sizeof op->who, "%s #%u (%s) on %s from thread %d", op->name, op->serial,
             self->symbol == NULL ? "by the test" : self->symbol, where, self->serial);
}

/* Memory of the driver's must be alive and large enough. A kernel needs memory that a device
 * reaches; the host needs memory that it reaches itself. */
static int check_range(Thread *self, const Op *op, const Range *range, bool device, bool host)
{
    if (range->length == 0)
        return SUCCESS;
    Allocation *allocation = memory_find(range->start);
    if (allocation == NULL) {
        if (memory_is_ours(range->start)) {
            violation(self, "use after free: %s touches %zu bytes at %#zx", op->who, range->length,
                      (size_t)range->start);
            return INVALID_VALUE;
        }
        if (device) {
            violation(self, "%s touches %#zx, which no device can reach", op->who,
                      (size_t)range->start);
            return INVALID_VALUE;
        }
        return SUCCESS;
    }
    if (range->length > allocation->size - (range->start - allocation->start)) {
        violation(self, "%s touches %zu bytes at %#zx, beyond the end of its allocation", op->who,
                  range->length, (size_t)range->start);
        return INVALID_VALUE;
    }
    if (host && allocation->kind == DEVICE_MEMORY) {
        violation(self, "%s touches memory of device %d", op->who, allocation->device);
        return INVALID_VALUE;
    }
    return SUCCESS;
}

static int check(Thread *self, const Op *op, bool device, bool host)
{
    int code = SUCCESS;
    for (size_t i = 0; i < op->count && code == SUCCESS; i++)
        code = check_range(self, op, &op->ranges[i], device, host);
    return code;
}

int work_submit(Thread *self, Stream *stream, Op *op)
{
    bool captured;
    describe(self, stream, op);
    int code = check(self, op, !op->is_copy && !op->is_block, false);
    if (code == SUCCESS)
        code = capture_submit(stream, &captured);
    if (code != SUCCESS || captured) {
        op_free(op);
        return code;
    }
    clocks_submit(self, stream, op);
    graph_submit(self, stream, op);
    return SUCCESS;
}

int work_host(Thread *self, Op *op)
{
    describe(self, NULL, op);
    int code = check(self, op, false, !op->is_block);
    if (code != SUCCESS) {
        op_free(op);
        return code;
    }
    clocks_host(self, op);
    graph_host(op);
    return SUCCESS;
}

/* The bytes of one side of a box; touching rows are one range. */
static void touch_side(Op *op, uintptr_t at, const Box *box, size_t pitch, bool write)
{
    bool whole_rows = pitch == box->width || box->height == 1;
    size_t rows = whole_rows ? 1 : box->height;
    size_t length = whole_rows ? box->width * box->height : box->width;
    for (size_t y = 0; y < rows; y++)
        op_touch(op, at + y * pitch, length, write, 0);
}

int work_copy(Thread *self, Stream *stream, const char *name, const Box *box)
{
    if (box->width == 0 || box->height == 0)
        return SUCCESS;
    if (box->to == 0 || box->from == 0)
        return INVALID_VALUE;
    Op *op = op_new(name);
    op->is_copy = true;
    op->box = *box;
    touch_side(op, box->from, box, box->from_pitch, false);
    touch_side(op, box->to, box, box->to_pitch, true);
    return work_submit(self, stream, op);
}

int work_record(Thread *self, Event *event, Stream *stream)
{
    bool captured;
    if (event->context != stream->context)
        return INVALID_HANDLE;
    int code = capture_record(event, stream, &captured);
    if (code != SUCCESS)
        return code;
    event->recorded = true;
    if (captured)
        return SUCCESS;
    clocks_record(self, event, stream);
    graph_record(self, event, stream);
    return SUCCESS;
}

int work_wait(Thread *self, Stream *stream, Event *event)
{
    bool captured;
    int code = capture_wait(stream, event, &captured);
    if (code != SUCCESS || captured || !event->recorded)
        return code;
    clocks_wait(self, stream, event);
    graph_wait(self, stream, event);
    return SUCCESS;
}

int work_sync_stream(Thread *self, Stream *stream)
{
    int code = capture_sync_stream(self, stream);
    if (code != SUCCESS)
        return code;
    clocks_sync_stream(self, stream);
    graph_sync_stream(stream);
    return SUCCESS;
}

int work_sync_event(Thread *self, Event *event)
{
    int code = capture_sync_event(self, event);
    if (code != SUCCESS || !event->recorded)
        return code;
    clocks_sync_event(self, event);
    graph_sync_event(event);
    return SUCCESS;
}

int work_sync_context(Thread *self, Context *context)
{
    int code = capture_sync_context(context);
    for (Stream *s = context->streams; s != NULL && code == SUCCESS; s = s->next) {
        clocks_sync_stream(self, s);
        graph_sync_stream(s);
    }
    return code;
}

int work_query_event(Thread *self, Event *event)
{
    int code = capture_sync_event(self, event);
    if (code != SUCCESS || !event->recorded)
        return code;
    if (graph_pending(event->node))
        return NOT_READY;
    clocks_sync_event(self, event);
    return SUCCESS;
}
