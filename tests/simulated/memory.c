/* SPDX-License-Identifier: Apache-2.0 */

/* Allocations. Their bytes are a part of the process that nothing else uses, and what is given back
 * is not handed out again: each later touch of it is found. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "simulated.h"

#include <stdlib.h>
#ifdef _WIN32
#include <malloc.h>
#else
#include <sys/mman.h>
#endif

/* What an allocation holds at first, and what is left of it afterwards. */
enum {
    ALIGNMENT = 512,
    FRESH = 0xCD,
    GONE = 0xDD
};
/* Addresses, not memory: only what is written costs any. Windows counts it against its limit. */
#ifdef _WIN32
#define ARENA ((size_t)1 << 28)
#else
#define ARENA ((size_t)1 << (SIZE_MAX > UINT32_MAX ? 36 : 30))
#endif

static uintptr_t arena;
static size_t arena_used;
static Allocation *allocations;
static int live;

void memory_reset(void)
{
    for (Allocation *allocation = allocations, *next; allocation != NULL; allocation = next) {
        next = allocation->next;
        free(allocation);
    }
    allocations = NULL;
    arena_used = 0;
    live = 0;
}

static bool arena_map(void)
{
#ifdef _WIN32
    if (arena == 0)
        arena = (uintptr_t)_aligned_malloc(ARENA, 4096);
#else
    if (arena == 0) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void *mapped = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, flags, -1, 0);
        arena = mapped == MAP_FAILED ? 0 : (uintptr_t)mapped;
    }
#endif
    return arena != 0;
}

int memory_allocate(Thread *self, int device, Kind kind, size_t size, uintptr_t *address)
{
    size_t reserved = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!arena_map() || reserved > ARENA - arena_used)
        return OUT_OF_MEMORY;
    Allocation *allocation = must_have(calloc(1, sizeof(Allocation)));
    *allocation = (Allocation){arena + arena_used, size, kind, device, true, allocations};
    allocations = allocation;
    arena_used += reserved;
    live++;
    Op *op = op_new("allocation");
    op->is_block = true;
    op_touch(op, allocation->start, size, true, FRESH);
    work_host(self, op);
    *address = allocation->start;
    return SUCCESS;
}

Allocation *memory_find(uintptr_t address)
{
    for (Allocation *a = allocations; a != NULL; a = a->next)
        if (a->start <= address && address - a->start < a->size)
            return a->live ? a : NULL;
    return NULL;
}

bool memory_is_ours(uintptr_t address)
{
    return arena != 0 && arena <= address && address - arena < arena_used;
}

Allocation *memory_ask(Thread *self, uintptr_t address)
{
    Allocation *found = memory_find(address);
    if (found == NULL && memory_is_ours(address))
        violation(self, "the attributes of freed memory at %#zx are asked for", (size_t)address);
    return found;
}

int memory_free(Thread *self, uintptr_t address, bool host_call)
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
    Op *op = op_new("free");
    op->is_block = true;
    op_touch(op, allocation->start, allocation->size, true, GONE);
    work_host(self, op);
    allocation->live = false;
    live--;
    return SUCCESS;
}

int memory_live(void)
{
    return live;
}
