/* The second engine: the graph of what is queued, and who must wait for whom. It knows no clocks.
 * It runs the work on real bytes in an order of its own choice that breaks no edge: as late as it
 * can, and with one stream far ahead of another. */
#include "simulated.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    NodeId id;
    NodeId *needs;
    size_t count, capacity;
    Op *op;        /* NULL: a record, a wait, or a point of the host */
    uint32_t lane; /* the stream or thread that it was submitted by */
    bool done;
    size_t missing;
    int urgency;
} Node;

static Node **pending; /* in the order of submission, which is one that breaks no edge */
static size_t pending_count, pending_capacity;
static NodeId last_id, published;
static uint64_t seed; /* of the next order */

enum {
    BLOCK_FILL = 1 << 20 /* as much of a fresh or freed allocation is overwritten */
};

static void node_free(Node *node)
{
    if (node->op != NULL)
        op_free(node->op);
    free(node->needs);
    free(node);
}

void graph_reset(bool all)
{
    if (all)
        seed = 0;
    for (size_t i = 0; i < pending_count; i++)
        node_free(pending[i]);
    pending_count = 0;
    published = 0;
}

static size_t position(NodeId id)
{
    size_t low = 0, high = pending_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pending[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static Node *find(NodeId id)
{
    size_t at = id == 0 ? pending_count : position(id);
    return at < pending_count && pending[at]->id == id && !pending[at]->done ? pending[at] : NULL;
}

bool graph_pending(NodeId id)
{
    return find(id) != NULL;
}

/* ---------------------------------------------------------------------------------------- edges */

static Node *node_new(Op *op, uint32_t lane)
{
    Node *node = must_have(calloc(1, sizeof(Node)));
    node->id = ++last_id;
    node->op = op;
    node->lane = lane;
    return node;
}

static void need(Node *node, NodeId id)
{
    if (!graph_pending(id))
        return;
    if (node->count == node->capacity) {
        node->capacity = node->capacity ? 2 * node->capacity : 4;
        node->needs = must_have(realloc(node->needs, node->capacity * sizeof *node->needs));
    }
    node->needs[node->count++] = id;
}

/* The id under which the node is to be waited for; 0 if that is over already. */
static NodeId enter(Node *node)
{
    if (node->op == NULL && node->count == 0) {
        node_free(node);
        return 0;
    }
    if (pending_count == pending_capacity) {
        pending_capacity = pending_capacity ? 2 * pending_capacity : 64;
        pending = must_have(realloc(pending, pending_capacity * sizeof *pending));
    }
    pending[pending_count++] = node;
    return node->id;
}

/* An item of a stream's queue starts after the one before it, after what the thread has seen, and,
 * by the rule of the legacy stream, after that stream or after all that it blocks. */
static Node *item(Thread *self, Stream *stream, Op *op)
{
    Node *node = node_new(op, stream->component);
    need(node, stream->tail);
    need(node, self->tail);
    const Context *context = stream->context;
    if (stream->is_legacy) {
        for (const Stream *other = context->streams; other != NULL; other = other->next)
            if (other->blocking)
                need(node, other->tail);
    } else if (stream->blocking && context->legacy != NULL) {
        need(node, context->legacy->tail);
    }
    return node;
}

/* -------------------------------------------------------------------------------------- running */

static uint64_t mix(uint64_t value)
{
    value ^= value >> 31;
    value *= 0x9E3779B97F4A7C15u;
    value ^= value >> 29;
    value *= 0xBF58476D1CE4E5B9u;
    return value ^ (value >> 32);
}

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

/* On the bytes; no function of the host. */
static void execute(const Op *op)
{
    if (op->is_copy) {
        copy_box(&op->box);
        return;
    }
    for (size_t i = 0; i < op->count; i++)
        if (op->ranges[i].write)
            write_range(op, &op->ranges[i]);
}

static uint64_t next_random(uint64_t *state)
{
    *state += 0x9E3779B97F4A7C15u;
    return mix(*state);
}

static size_t bytes_written(const Op *op)
{
    size_t total = 0;
    for (size_t i = 0; i < op->count; i++)
        total += op->ranges[i].write ? op->ranges[i].length : 0;
    return total;
}

/* Which of the nodes that may run comes next. Points without work are never held back. Otherwise it
 * is, in turn, the one of the most urgent stream, where the urgencies are drawn once for the whole
 * run so that one stream gets far ahead of another; or one that writes little, so that readers are
 * early and writers late; or just any. */
static Node *choose(Node **ready, size_t count, uint64_t *random, int style)
{
    Node *best = ready[next_random(random) % count];
    for (size_t i = 0; i < count; i++)
        if (ready[i]->op == NULL)
            return ready[i];
    for (size_t i = 0; i < count; i++) {
        if (style == 1 && ready[i]->urgency > best->urgency)
            best = ready[i];
        if (style == 2 && bytes_written(ready[i]->op) < bytes_written(best->op))
            best = ready[i];
    }
    return best;
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

/* The nodes that `target` cannot do without, or all if it is 0; the count. */
static size_t select_nodes(NodeId target, Node **chosen)
{
    size_t count = 0;
    bool *wanted = must_have(calloc(pending_count + 1, 1));
    for (size_t i = pending_count; i-- > 0;) {
        Node *node = pending[i];
        if (node->done || (target != 0 && node->id != target && !wanted[i]))
            continue;
        for (size_t k = 0; k < node->count; k++)
            if (graph_pending(node->needs[k]))
                wanted[position(node->needs[k])] = true;
        chosen[count++] = node;
    }
    free(wanted);
    for (size_t i = 0; i < count / 2; i++) { /* in the order of submission */
        Node *node = chosen[i];
        chosen[i] = chosen[count - 1 - i];
        chosen[count - 1 - i] = node;
    }
    return count;
}

/* After `node`: those that needed it are closer to being ready. */
static void took(Node **chosen, size_t count, const Node *node)
{
    for (size_t i = count; i-- > 0 && chosen[i]->id > node->id;)
        for (size_t k = 0; k < chosen[i]->count; k++)
            chosen[i]->missing -= chosen[i]->needs[k] == node->id;
}

/* Walks over the chosen nodes in an order that breaks no edge. */
static void walk(Node **chosen, size_t count, Node **order)
{
    uint64_t random = mix(++seed);
    int style = (int)(next_random(&random) % 3);
    uint64_t salt = next_random(&random);
    Node **left = must_have(malloc((count + 1) * sizeof *left));
    Node **ready = must_have(malloc((count + 1) * sizeof *ready));
    for (size_t i = 0; i < count; i++) {
        left[i] = chosen[i];
        chosen[i]->urgency = (int)(mix(salt + chosen[i]->lane) & 0xffff);
        chosen[i]->missing = 0;
        for (size_t k = 0; k < chosen[i]->count; k++)
            chosen[i]->missing += graph_pending(chosen[i]->needs[k]);
    }
    for (size_t step = 0; step < count; step++) {
        size_t ready_count = 0, kept = 0;
        for (size_t i = 0; i < count - step; i++)
            if (left[i]->missing == 0)
                ready[ready_count++] = left[i];
        Node *next = order[step] = choose(ready, ready_count, &random, style);
        took(left, count - step, next);
        for (size_t i = 0; i < count - step; i++)
            if (left[i] != next)
                left[kept++] = left[i];
    }
    free(left);
    free(ready);
}

static void drop_done(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < pending_count; i++)
        if (pending[i]->done)
            node_free(pending[i]);
        else
            pending[kept++] = pending[i];
    pending_count = kept;
}

static void settle(void)
{
    for (size_t i = 0; i < pending_count; i++) {
        Node *node = pending[i];
        bool blocked = node->done || node->op != NULL;
        for (size_t k = 0; k < node->count && !blocked; k++)
            blocked = graph_pending(node->needs[k]);
        if (!blocked)
            node->done = true;
    }
    drop_done();
}

static void run(NodeId target)
{
    executor_free();
    if (pending_count == 0)
        return;
    Node **chosen = must_have(malloc(pending_count * sizeof *chosen));
    Node **order = must_have(malloc(pending_count * sizeof *order));
    size_t count = select_nodes(target, chosen);
    walk(chosen, count, order);
    for (size_t i = 0; i < count; i++) {
        if (order[i]->op != NULL && order[i]->op->function != NULL)
            run_function(order[i]->op);
        else if (order[i]->op != NULL)
            execute(order[i]->op);
        order[i]->done = true;
    }
    free(chosen);
    free(order);
    settle();
}

void graph_run(void)
{
    run(0);
}

/* -------------------------------------------------------------------------------------- actions */

void graph_submit(Thread *self, Stream *stream, Op *op)
{
    stream->tail = enter(item(self, stream, op));
}

void graph_host(Op *op) /* the host does not wait for the simulation */
{
    execute(op);
    op_free(op);
}

void graph_record(Thread *self, Event *event, Stream *stream)
{
    event->node = stream->tail = enter(item(self, stream, NULL));
}

void graph_wait(Thread *self, Stream *stream, const Event *event)
{
    Node *node = node_new(NULL, stream->component);
    need(node, stream->tail);
    need(node, self->tail);
    need(node, event->node);
    stream->tail = enter(node);
}

static void host_after(NodeId id)
{
    if (graph_pending(id))
        run(id);
}

void graph_sync_stream(const Stream *stream)
{
    host_after(stream->tail);
}

void graph_sync_event(const Event *event)
{
    host_after(event->node);
}

void graph_freed(const Thread *self, Allocation *allocation)
{
    allocation->freed_node = self->tail;
}

void graph_allocated(Thread *self, const Allocation *allocation)
{
    Node *node = node_new(NULL, self->component);
    need(node, self->tail);
    need(node, allocation->freed_node);
    self->tail = enter(node);
}

void graph_publish(const Thread *self)
{
    Node *node = node_new(NULL, 0);
    need(node, published);
    need(node, self->tail);
    published = enter(node);
}

void graph_acquire(Thread *self)
{
    Node *node = node_new(NULL, self->component);
    need(node, self->tail);
    need(node, published);
    self->tail = enter(node);
}
