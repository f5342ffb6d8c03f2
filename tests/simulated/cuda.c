/* SPDX-License-Identifier: Apache-2.0 */

/* The symbols of libcuda.so.1 that HIP has not, or in another form: the driver itself, contexts,
 * what a pointer is, copies. */
#include "simulated.h"

#include <unistd.h>

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef void *CUcontext, *CUstream;

#define DEVICE(ordinal)                                                                            \
    Context *context = context_of(ordinal);                                                        \
    FAIL_ON(context == NULL ? INVALID_DEVICE : SUCCESS)

/* ------------------------------------------------------------------------------ driver, devices */

int driver_ready(void)
{
    return settings.initialized && settings.process == getpid() ? SUCCESS : NOT_INITIALIZED;
}

EXPORT int cuInit(unsigned flags)
{
    CALL(ANYTIME);
    if (settings.devices == 0)
        GIVE(NO_DEVICE);
    if (flags != 0 || (settings.initialized && settings.process != getpid()))
        GIVE(NOT_INITIALIZED); /* a driver does not survive a fork */
    settings.initialized = true;
    settings.process = getpid();
    GIVE(SUCCESS);
}

EXPORT int cuDeviceGet(CUdevice *device, int ordinal)
{
    CALL(0);
    DEVICE(ordinal);
    *device = context->device;
    GIVE(SUCCESS);
}

/* ------------------------------------------------------------------------------------- contexts */

EXPORT int cuDevicePrimaryCtxRetain(CUcontext *handle, CUdevice device)
{
    CALL(0);
    DEVICE(device);
    context_retain(context);
    *handle = context;
    GIVE(SUCCESS);
}

EXPORT_OPTIONAL int cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    CALL(0);
    DEVICE(device);
    FAIL_ON(context->retained == 0 ? INVALID_CONTEXT : SUCCESS);
    context->retained--;
    GIVE(SUCCESS);
}

EXPORT int cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    CALL(0);
    DEVICE(device);
    *flags = 0;
    *active = context->retained > 0 && !context->reset;
    GIVE(SUCCESS);
}

static int push(Thread *self, CUcontext handle)
{
    Context *context = handle == NULL ? NULL : context_from(self, handle);
    if (context == NULL)
        return INVALID_CONTEXT;
    if (self->depth == MAX_DEPTH)
        return OUT_OF_MEMORY;
    self->stack[self->depth++] = context;
    return SUCCESS;
}

EXPORT int cuCtxPushCurrent_v2(CUcontext handle)
{
    CALL(0);
    GIVE(push(self, handle));
}

EXPORT int cuCtxPopCurrent_v2(CUcontext *handle)
{
    CALL(0);
    if (self->depth == 0)
        GIVE(INVALID_CONTEXT);
    self->depth--;
    if (handle != NULL)
        *handle = self->stack[self->depth];
    GIVE(SUCCESS);
}

EXPORT int cuCtxGetCurrent(CUcontext *handle)
{
    CALL(0);
    *handle = self->depth == 0 ? NULL : self->stack[self->depth - 1];
    GIVE(SUCCESS);
}

/* Replaces the top of the stack; with NULL it is taken off. */
EXPORT int cuCtxSetCurrent(CUcontext handle)
{
    CALL(0);
    if (handle != NULL && context_from(self, handle) == NULL)
        GIVE(INVALID_CONTEXT);
    if (self->depth > 0)
        self->depth--;
    GIVE(handle == NULL ? SUCCESS : push(self, handle));
}

EXPORT int cuCtxGetDevice(CUdevice *device)
{
    CALL(CONTEXT);
    *device = context_current(self)->device;
    GIVE(SUCCESS);
}

/* Unique for the life of the process, other than handles. */
EXPORT_OPTIONAL int cuCtxGetId(CUcontext handle, uint64_t *id)
{
    CALL(0);
    Context *top = self->depth == 0 ? NULL : self->stack[self->depth - 1];
    Context *context = handle == NULL ? top : context_from(self, handle);
    FAIL_ON(context == NULL ? INVALID_CONTEXT : SUCCESS);
    FAIL_ON(context->retained == 0 || context->reset ? CONTEXT_IS_DESTROYED : SUCCESS);
    *id = context->id;
    GIVE(SUCCESS);
}

/* Whoever has retained the context still has: it is alive again when it is next retained. It stays
 * current where it was. */
EXPORT int cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    CALL(0);
    DEVICE(device);
    GIVE(context->reset ? SUCCESS : context_end(self, context));
}

/* One beside the primary one. */
EXPORT int cuCtxCreate_v2(CUcontext *handle, unsigned flags, CUdevice device)
{
    CALL(0);
    DEVICE(device);
    *handle = context_make(context->device);
    GIVE(flags != 0 ? INVALID_VALUE : push(self, *handle));
}

EXPORT int cuCtxDestroy_v2(CUcontext handle)
{
    CALL(0);
    Context *context = context_from(self, handle);
    GIVE(context == NULL || context->primary ? INVALID_CONTEXT : context_end(self, context));
}

/* --------------------------------------------------------------------------------------- memory */

enum {
    ATTRIBUTE_MEMORY_TYPE = 2,
    ATTRIBUTE_IS_MANAGED = 8,
    ATTRIBUTE_DEVICE_ORDINAL = 9,
    ATTRIBUTE_MEMPOOL_HANDLE = 17
};

static int memory_type(const Allocation *allocation)
{
    if (allocation == NULL)
        return 0;
    if (allocation->kind == PINNED_MEMORY)
        return 1;
    return allocation->kind == MANAGED_MEMORY ? settings.managed_type : 2;
}

/* One attribute; unknown pointers have none of them. */
static int pointer_attribute(int attribute, void *data, const Allocation *a)
{
    bool managed = a != NULL && a->kind == MANAGED_MEMORY;
    switch (attribute) {
    case ATTRIBUTE_MEMORY_TYPE:
        *(int *)data = memory_type(a);
        return SUCCESS;
    case ATTRIBUTE_IS_MANAGED: /* of a pool it is not set */
        *(int *)data = managed && !settings.managed_pool;
        return SUCCESS;
    case ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = a == NULL ? -2 : a->device;
        return SUCCESS;
    case ATTRIBUTE_MEMPOOL_HANDLE:
        *(void **)data = managed && settings.managed_pool ? &settings : NULL;
        return SUCCESS;
    default:
        return INVALID_VALUE;
    }
}

EXPORT int cuPointerGetAttributes(unsigned count, int *attributes, void **data, CUdeviceptr pointer)
{
    CALL(0);
    const Allocation *allocation = memory_ask(self, (uintptr_t)pointer);
    for (unsigned i = 0; i < count; i++)
        FAIL_ON(pointer_attribute(attributes[i], data[i], allocation));
    GIVE(SUCCESS);
}

/* --------------------------------------------------------------------------------------- copies */

EXPORT int cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream handle)
{
    CALL(CONTEXT);
    STREAM(handle);
    Box box = {(uintptr_t)to, (uintptr_t)from, size, 1, size, size};
    GIVE(work_copy(self, stream, "copy", &box));
}

typedef struct {
    size_t x, y;
    unsigned type; /* of memory: host, or unified */
    const void *host;
    CUdeviceptr device;
    void *array;
    size_t pitch;
} Side;

typedef struct {
    Side from, to;
    size_t width, height;
} CUDA_MEMCPY2D;

enum {
    HOST = 1,
    UNIFIED = 4,
    MAX_PITCH = 0x7fffffff
};

/* 0 if it is none that a test copies. */
static uintptr_t address_of(const Side *side)
{
    if (side->x != 0 || side->y != 0 || side->pitch > MAX_PITCH)
        return 0;
    return side->type == HOST      ? (uintptr_t)side->host
           : side->type == UNIFIED ? (uintptr_t)side->device
                                   : 0;
}

EXPORT int cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream handle)
{
    CALL(CONTEXT);
    STREAM(handle);
    Box box = {address_of(&copy->to), address_of(&copy->from), copy->width,
               copy->height,          copy->to.pitch,          copy->from.pitch};
    GIVE(work_copy(self, stream, "2D copy", &box));
}
