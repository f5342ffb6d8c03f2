/* SPDX-License-Identifier: Apache-2.0 */

/* Every action of the program: first whether a capture has a say in it, then what it means to the
 * clocks. What is queued stays so until the host waits for something that comes after it: of two
 * operations without an order, the one that nobody waits for comes late. */
#include "simulated.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned op_serial;
static Op *queued, **queue_end = &queued; /* in the order of submission, which breaks none */

enum {
    BLOCK_FILL = 1 << 20 /* as much of a fresh or freed allocation is overwritten */
};

Op *op_new(const char *name)
{
    Op *op = must_have(calloc(1, sizeof(Op)));
    op->name = name;
    op->serial = ++op_serial;
    return op;
}

static void op_free(Op *op)
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
    const Allocation *allocation = memory_find(range->start);
    const char *what = NULL;
    if (allocation == NULL)
        what = memory_is_ours(range->start) ? "freed memory"
               : device                     ? "memory that no device can reach"
                                            : NULL;
    else if (range->length > allocation->size - (range->start - allocation->start))
        what = "memory beyond the end of its allocation";
    else if (host && allocation->kind == DEVICE_MEMORY)
        what = "memory of a device";
    if (what == NULL || range->length == 0)
        return SUCCESS;
    violation(self, "%s touches %zu bytes at %#zx, %s", op->who, range->length,
              (size_t)range->start, what);
    return INVALID_VALUE;
}

static int check(Thread *self, const Op *op, bool device, bool host)
{
    int code = SUCCESS;
    for (size_t i = 0; i < op->count && code == SUCCESS; i++)
        code = check_range(self, op, &op->ranges[i], device, host);
    return code;
}

/* ------------------------------------------------------------------------------------- running */

static void write_range(const Op *op, const Range *range)
{
    bool most = op->is_block && range->length > BLOCK_FILL;
    if (range->payload < 256)
        memset((void *)range->start, range->payload, most ? BLOCK_FILL : range->length);
}

static void copy_box(const Box *box)
{
    for (size_t y = 0; y < box->height; y++)
        memmove((void *)(box->to + y * box->to_pitch),
                (const void *)(box->from + y * box->from_pitch), box->width);
}

static void *call_function(void *data)
{
    const Op *op = data;
    lock();
    thread_self()->in_callback = true;
    unlock();
    op->function(op->data);
    return NULL;
}

/* On a thread of its own, as real drivers do, which therefore has no state of Python's and no
 * current context. The function may wait for other threads, which may call the driver: the lock is
 * given up, and no other thread runs work meanwhile. */
static void run_function(const Op *op)
{
    pthread_t thread;
    executor_leave();
    if (pthread_create(&thread, NULL, call_function, (void *)(uintptr_t)op) != 0)
        abort();
    pthread_join(thread, NULL);
    executor_return();
}

static void execute(const Op *op)
{
    if (op->function != NULL)
        run_function(op);
    if (op->is_copy)
        copy_box(&op->box);
    for (size_t i = 0; i < op->count && !op->is_copy; i++)
        if (op->ranges[i].write)
            write_range(op, &op->ranges[i]);
}

static bool comes_before(const Op *op, const Clock *clock)
{
    return clocks_know(clock, op->component, op->clock);
}

static void dequeue(Op **at)
{
    Op *op = *at;
    *at = op->next;
    if (queue_end == &op->next)
        queue_end = at;
    op_free(op);
}

/* What comes before `until`, or all if it is NULL; no more, though more is queued meanwhile. */
static void run(const Clock *until)
{
    executor_free();
    for (Op *op = queued; op != NULL; op = op->next)
        op->wanted = until == NULL || comes_before(op, until);
    for (Op **at = &queued; *at != NULL;) {
        Op *op = *at;
        if (op->wanted) {
            execute(op);
            dequeue(at);
        } else {
            at = &op->next;
        }
    }
}

void work_run(void)
{
    run(NULL);
}

void work_reset(void)
{
    while (queued != NULL)
        dequeue(&queued);
}

/* ------------------------------------------------------------------------------------- actions */

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
    *queue_end = op;
    queue_end = &op->next;
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
    execute(op); /* the host does not wait for the simulation */
    op_free(op);
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
    if (box->to == 0 || box->from == 0 || box->width > box->to_pitch ||
        box->width > box->from_pitch)
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
    return SUCCESS;
}

int work_wait(Thread *self, Stream *stream, Event *event)
{
    bool captured;
    int code = capture_wait(stream, event, &captured);
    if (code != SUCCESS || captured || !event->recorded)
        return code;
    clocks_wait(self, stream, event);
    return SUCCESS;
}

int work_sync_stream(Thread *self, Stream *stream)
{
    int code = capture_sync_stream(self, stream);
    if (code != SUCCESS)
        return code;
    clocks_sync_stream(self, stream);
    run(&stream->clock);
    return SUCCESS;
}

int work_sync_event(Thread *self, Event *event)
{
    int code = capture_sync_event(self, event);
    if (code != SUCCESS || !event->recorded)
        return code;
    clocks_sync_event(self, event);
    run(&event->clock);
    return SUCCESS;
}

void work_sync_context(Thread *self, const Context *context)
{
    for (const Stream *s = context->streams; s != NULL; s = s->next) {
        clocks_sync_stream(self, s);
        run(&s->clock);
    }
}

int work_query_event(Thread *self, Event *event)
{
    int code = capture_sync_event(self, event);
    if (code != SUCCESS || !event->recorded)
        return code;
    for (const Op *op = queued; op != NULL; op = op->next)
        if (comes_before(op, &event->clock))
            return NOT_READY;
    clocks_sync_event(self, event);
    return SUCCESS;
}
