/* Random programs over which the two engines must agree: clocks.c reports a race if and only if
 * some legal order of the work gives other bytes than another.
 *
 * Nothing runs while a program is made, not even the host: all of it becomes a graph. Every
 * operation mixes what it finds into what it leaves and keeps a hash of what it found, so no two
 * operations that conflict can change places unnoticed. All legal orders are reached from one of
 * them by exchanging neighbours that have no order, hence it is enough to look, for each two
 * operations that can be neighbours, at one order with them side by side and at the same one with
 * them exchanged. */
#include "simulated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STREAMS = 14, /* seven of each of two devices */
    EVENTS = 4,   /* two of each */
    MAX_NODES = 64,
    SPARE_NODES = 6, /* what one action adds at most */
    CELL = 8,        /* bytes; enough for no two mixes to give the same */
    CELLS = 4,
    BLOCK_CELLS = 2 /* of the memory from a pool */
};

typedef struct {
    uint64_t random;
    Thread *thread[2];
    Stream *stream[STREAMS];
    Event *event[EVENTS];
    uintptr_t memory;
    uintptr_t block, last_block; /* 0 while there is none; where it was last */
    int operations;
    Text text;
} Program;

static unsigned draw(Program *program, unsigned limit)
{
    program->random = program->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(program->random >> 33) % limit;
}

/* --------------------------------------------------------------------------------- making programs
 */

static void say_touch(Program *program, Op *op)
{
    uintptr_t base = program->memory;
    unsigned cells = CELLS;
    if (program->block != 0 && draw(program, 2) == 0) {
        base = program->block;
        cells = BLOCK_CELLS;
    }
    unsigned first = draw(program, cells), count = 1 + draw(program, cells - first);
    bool write = draw(program, 2) == 0;
    op_touch(op, base + first * CELL, (size_t)count * CELL, write, -1);
    text_add(&program->text, " %s %s%u..%u", write ? "writes" : "reads",
             base == program->block ? "block " : "", first, first + count - 1);
}

/* Seven streams of each device: legacy, two per-thread, two blocking, two not. */
static void make_streams(Program *program)
{
    for (int device = 0; device < 2; device++) {
        Context *context = context_of(device);
        Stream **stream = program->stream + device * STREAMS / 2;
        context->retained = 1;
        stream[0] = stream_legacy(context);
        stream[1] = stream_per_thread(context, program->thread[0]);
        stream[2] = stream_per_thread(context, program->thread[1]);
        for (int i = 3; i < STREAMS / 2; i++) {
            void *handle = NULL;
            stream_create(context, i >= 5, 0, &handle);
            stream_from(program->thread[0], context, handle, &stream[i]);
        }
        for (int i = 0; i < EVENTS / 2; i++) {
            void *handle = NULL;
            event_create(context, 2, &handle);
            event_from(program->thread[0], handle, &program->event[device * EVENTS / 2 + i]);
        }
    }
}

static void start(Program *program, uint64_t seed)
{
    static Thread *threads[2];
    for (int i = 0; i < 2; i++)
        if (threads[i] == NULL)
            threads[i] = thread_new();
    simulation_reset();
    memset(program, 0, sizeof *program);
    program->random = seed * 2862933555777941757u + 3037000493u;
    program->thread[0] = threads[0];
    program->thread[1] = threads[1];
    make_streams(program);
    memory_allocate(threads[0], NULL, 0, MANAGED_MEMORY, 1, CELLS * CELL, &program->memory);
    graph_reset();
    clocks_forget(program->memory, CELLS * CELL);
}

static Thread *some_thread(Program *program, const Stream *stream, int *number)
{
    *number = draw(program, 4) == 0;
    if (stream != NULL && stream->owner != NULL) /* no other thread has a handle of it */
        *number = stream->owner == program->thread[1];
    return program->thread[*number];
}

static void pool(Program *program, Thread *thread, Stream *stream)
{
    if (program->block == 0) {
        text_add(&program->text, "allocates the block");
        memory_allocate(thread, stream, 0, POOL_MEMORY, 0, BLOCK_CELLS * CELL, &program->block);
    } else {
        text_add(&program->text, "frees the block");
        memory_free(thread, stream, program->block, false);
        program->last_block = program->block;
        program->block = 0;
    }
    program->operations++;
}

static void act(Program *program, unsigned used_streams, const unsigned *used)
{
    unsigned what = draw(program, 100);
    Stream *stream = program->stream[used[draw(program, used_streams)]];
    Event *event = program->event[draw(program, EVENTS)];
    for (int i = 0; i < 4 && !event->recorded; i++) /* mostly one that means something */
        event = program->event[draw(program, EVENTS)];
    int number;
    Thread *thread = some_thread(program, stream, &number);
    char name[64];
    stream_name(stream, name, sizeof name);
    text_add(&program->text, "thread %d: ", number);
    if (what < 40) {
        Op *op = op_new("kernel");
        text_add(&program->text, "kernel on %s", name);
        for (unsigned i = 0, count = 1 + draw(program, 2); i < count; i++)
            say_touch(program, op);
        work_submit(thread, stream, op);
        program->operations++;
    } else if (what < 50) {
        /* The host touches managed memory only. */
        Op *op = op_new("host");
        uintptr_t block = program->block;
        program->block = 0;
        text_add(&program->text, "host");
        say_touch(program, op);
        program->block = block;
        work_host(thread, op);
        program->operations++;
    } else if (what < 64) {
        event = program->event[stream->context->device * EVENTS / 2 + (int)draw(program, 2)];
        text_add(&program->text, "records event %d on %s", event->serial, name);
        work_record(thread, event, stream);
    } else if (what < 78) {
        text_add(&program->text, "%s waits for event %d", name, event->serial);
        work_wait(thread, stream, event);
    } else if (what < 83) {
        text_add(&program->text, "synchronizes %s", name);
        work_sync_stream(thread, stream);
    } else if (what < 87) {
        text_add(&program->text, "synchronizes event %d", event->serial);
        work_sync_event(thread, event);
    } else if (what < 88) {
        text_add(&program->text, "synchronizes device %d", stream->context->device);
        work_sync_context(thread, stream->context);
    } else if (what < 94) {
        text_add(&program->text, "on %s, ", name);
        pool(program, thread, stream);
    } else if (what < 97) {
        text_add(&program->text, "publishes");
        clocks_publish(thread);
        graph_publish(thread);
    } else {
        text_add(&program->text, "acquires");
        clocks_acquire(thread);
        graph_acquire(thread);
    }
    text_add(&program->text, "\n");
}

static void make(Program *program, uint64_t seed)
{
    unsigned used[4];
    start(program, seed);
    unsigned used_streams = 1 + draw(program, 4);
    for (unsigned i = 0; i < used_streams; i++)
        used[i] = draw(program, STREAMS);
    int operations = 2 + (int)draw(program, 11);
    for (int actions = 0; actions < 48 && program->operations < operations; actions++) {
        if (graph_size() + STREAMS + SPARE_NODES > MAX_NODES)
            break;
        act(program, used_streams, used);
    }
}

/* -------------------------------------------------------------------------------- running programs
 */

typedef struct {
    Node *node[MAX_NODES];
    uint64_t before[MAX_NODES]; /* a set of those that must come earlier */
    size_t count;
} Orders;

static void read_graph(Orders *orders)
{
    orders->count = graph_size();
    for (size_t i = 0; i < orders->count; i++) {
        Node *node = orders->node[i] = graph_nodes()[i];
        orders->before[i] = 0;
        for (size_t k = 0; k < node->count; k++)
            for (size_t j = 0; j < i; j++)
                if (orders->node[j]->id == node->needs[k])
                    orders->before[i] |= orders->before[j] | (uint64_t)1 << j;
    }
}

static void fill(uintptr_t at, unsigned count)
{
    for (unsigned i = 0; at != 0 && i < count; i++)
        ((unsigned char *)at)[i] = (unsigned char)(i * 37 + 11);
}

static uint64_t hash_memory(uint64_t hash, uintptr_t at, unsigned count)
{
    for (unsigned i = 0; at != 0 && i < count; i++)
        hash = (hash ^ ((unsigned char *)at)[i]) * 1099511628211u;
    return hash;
}

/* A hash of all that the operations met and left, when run in this order. */
static uint64_t outcome(const Program *program, const Orders *orders, Node *const *order)
{
    uintptr_t block = program->block != 0 ? program->block : program->last_block;
    uint64_t hash = 0;
    fill(program->memory, CELLS * CELL);
    fill(block, BLOCK_CELLS * CELL);
    for (size_t i = 0; i < orders->count; i++)
        if (order[i]->op != NULL)
            graph_execute(order[i]->op);
    for (size_t i = 0; i < orders->count; i++)
        if (orders->node[i]->op != NULL)
            hash = (hash ^ orders->node[i]->op->result) * 1099511628211u;
    hash = hash_memory(hash, program->memory, CELLS * CELL);
    return hash_memory(hash, block, BLOCK_CELLS * CELL);
}

static void side_by_side(const Orders *orders, size_t first, size_t second, Node **order)
{
    uint64_t early = orders->before[first] | orders->before[second];
    size_t at = 0;
    for (size_t i = 0; i < orders->count; i++)
        if (early >> i & 1)
            order[at++] = orders->node[i];
    order[at++] = orders->node[first];
    order[at++] = orders->node[second];
    for (size_t i = 0; i < orders->count; i++)
        if (!(early >> i & 1) && i != first && i != second)
            order[at++] = orders->node[i];
}

/* Whether exchanging some neighbours changes a byte. */
static bool order_matters(const Program *program, const Orders *orders)
{
    Node *order[MAX_NODES];
    for (size_t i = 0; i < orders->count; i++)
        for (size_t j = i + 1; j < orders->count; j++) {
            bool ordered = orders->before[j] >> i & 1;
            if (ordered || orders->node[i]->op == NULL || orders->node[j]->op == NULL)
                continue;
            side_by_side(orders, i, j, order);
            uint64_t one = outcome(program, orders, order);
            side_by_side(orders, j, i, order);
            if (outcome(program, orders, order) != one)
                return true;
        }
    return false;
}

/* Whether the executor, left to choose, comes to other bytes than the order of submission. */
static bool executor_differs(const Program *program, const Orders *orders)
{
    enum {
        TRIES = 8
    };
    Node *order[MAX_NODES];
    uint64_t plain = outcome(program, orders, orders->node);
    for (uint64_t seed = 0; seed < TRIES; seed++) {
        graph_order(seed, order);
        if (outcome(program, orders, order) != plain)
            return true;
    }
    return false;
}

/* Makes `count` programs from `seed` on. Returns how many of them passed before the first over
 * which the engines disagree, whose text is left in `text`. counts[0]: those with a race;
 * counts[1]: those whose race a few runs of the executor showed. The simulation is as after
 * fk_reset. */
EXPORT unsigned long long fk_agree(unsigned long long seed, unsigned long long count,
                                   unsigned long long *counts, char *text, size_t size)
{
    unsigned long long passed;
    counts[0] = counts[1] = 0;
    lock();
    settings.deferred = true;
    for (passed = 0; passed < count; passed++) {
        Program program;
        Orders orders;
        make(&program, seed + passed);
        read_graph(&orders);
        bool race = clocks_races() > 0, matters = order_matters(&program, &orders);
        bool seen = executor_differs(&program, &orders);
        counts[0] += race;
        counts[1] += seen;
        bool agreed = race == matters && (matters || !seen);
        if (!agreed && size > 0)
            snprintf(text, size, "%sthe clocks say %d, the orders %d, the executor %d\n%s",
                     program.text.data == NULL ? "" : program.text.data, race, matters, seen,
                     clocks_report()->data == NULL ? "" : clocks_report()->data);
        text_clear(&program.text);
        if (!agreed)
            break;
    }
    settings.deferred = false;
    settings.initialized = false;
    simulation_reset();
    unlock();
    return passed;
}
