/* Allocations. Their bytes are a part of the process that nothing else uses, and a block that is
 * given back is handed out again at the next chance. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "simulated.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* What an allocation holds at first, and what is left of it afterwards. */
enum {
    ALIGNMENT = 512,
    FRESH = 0xCD,
    GONE = 0xDD
};
/* Addresses, not memory: only what is written costs any. */
#define ARENA ((size_t)1 << (SIZE_MAX > UINT32_MAX ? 36 : 30))

static uintptr_t arena;
static size_t arena_used;
static Allocation *allocations;                    /* in the order of their addresses, last first */
static Allocation *free_lists[MAX_DEVICES][KINDS]; /* last freed first */
static size_t in_use[MAX_DEVICES];
static int live;

void memory_reset(void)
{
    for (Allocation *allocation = allocations, *next; allocation != NULL; allocation = next) {
        next = allocation->next;
        clocks_free(&allocation->freed);
        free(allocation);
    }
    allocations = NULL;
    memset(free_lists, 0, sizeof free_lists);
    memset(in_use, 0, sizeof in_use);
    arena_used = 0;
    live = 0;
}

static bool arena_map(void)
{
    if (arena == 0) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void *mapped = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, flags, -1, 0);
        arena = mapped == MAP_FAILED ? 0 : (uintptr_t)mapped;
    }
    return arena != 0;
}

static Allocation *block_take(int device, Kind kind, size_t reserved)
{
    for (Allocation **at = &free_lists[device][kind]; *at != NULL; at = &(*at)->next_free)
        if ((*at)->reserved == reserved) {
            Allocation *found = *at;
            *at = found->next_free;
            return found;
        }
    if (!arena_map() || reserved > ARENA - arena_used)
        return NULL;
    Allocation *made = must_have(calloc(1, sizeof(Allocation)));
    made->start = arena + arena_used;
    made->reserved = reserved;
    made->kind = kind;
    made->device = device;
    made->next = allocations;
    allocations = made;
    arena_used += reserved;
    return made;
}

int memory_allocate(Thread *self, Stream *stream, int device, Kind kind, unsigned flags,
                    size_t size, uintptr_t *address)
{
    if (address == NULL || size == 0)
        return INVALID_VALUE;
    if (size > settings.memory || in_use[device] > settings.memory - size)
        return OUT_OF_MEMORY;
    int refused = stream == NULL ? SUCCESS : capture_ask(stream);
    if (refused != SUCCESS)
        return refused;
    size_t reserved = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    Allocation *allocation = block_take(device, kind, reserved);
    if (allocation == NULL)
        return OUT_OF_MEMORY;
    allocation->size = size;
    allocation->flags = flags;
    allocation->context = NULL;
    allocation->live = true;
    in_use[device] += size;
    live++;
    clocks_allocated(self, stream, allocation);
    graph_allocated(self, stream, allocation);
    Op *op = op_new("allocation");
    op->is_block = true;
    op_touch(op, allocation->start, size, true, FRESH);
    if (stream == NULL)
        work_host(self, op);
    else
        work_submit(self, stream, op);
    *address = allocation->start;
    return SUCCESS;
}

Allocation *memory_find(uintptr_t address)
{
    for (Allocation *a = allocations; a != NULL; a = a->next)
        if (a->start <= address && address < a->start + a->reserved)
            return a->live && address - a->start < a->size ? a : NULL;
    return NULL;
}

bool memory_is_ours(uintptr_t address)
{
    return arena != 0 && arena <= address && address - arena < arena_used;
}

int memory_free(Thread *self, Stream *stream, uintptr_t address, bool host_call)
{
    Allocation *allocation = memory_find(address);
    if (allocation == NULL || allocation->start != address) {
        violation(self, "%#zx is freed, and is %s", (size_t)address,
                  memory_is_ours(address) ? "no allocation, or no longer one" : "not the driver's");
        return INVALID_VALUE;
    }
    if (host_call != (allocation->kind == PINNED_MEMORY)) {
        violation(self, "%#zx is freed by the call for another kind of memory", (size_t)address);
        return INVALID_VALUE;
    }
    bool pooled = allocation->kind == POOL_MEMORY || allocation->kind == MANAGED_POOL_MEMORY;
    if (stream != NULL && !pooled) {
        violation(self, "%#zx is freed on a stream, and was not allocated on one", (size_t)address);
        return INVALID_VALUE;
    }
    int refused = stream == NULL ? SUCCESS : capture_ask(stream);
    if (refused != SUCCESS)
        return refused;
    Op *op = op_new("free");
    op->is_block = true;
    op_touch(op, allocation->start, allocation->size, true, GONE);
    if (stream == NULL)
        work_host(self, op);
    else
        work_submit(self, stream, op);
    clocks_freed(self, stream, allocation);
    graph_freed(self, stream, allocation);
    allocation->live = false;
    in_use[allocation->device] -= allocation->size;
    live--;
    Allocation **list = &free_lists[allocation->device][allocation->kind];
    allocation->next_free = *list;
    *list = allocation;
    return SUCCESS;
}

void memory_end(Thread *self, const Context *context)
{
    for (Allocation *a = allocations; a != NULL; a = a->next)
        if (a->live && a->context == context)
            memory_free(self, NULL, a->start, a->kind == PINNED_MEMORY);
}

int memory_live(void)
{
    return live;
}
