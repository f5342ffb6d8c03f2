/* The symbols of libcuda.so.1 that HIP has not, or in another form: the driver itself, contexts,
 * what a pointer is, copies. */
#include "simulated.h"

#include <unistd.h>

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef void *CUcontext, *CUstream, *CUarray;

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
    if (flags != 0)
        GIVE(INVALID_VALUE);
    if (settings.initialized && settings.process != getpid())
        GIVE(NOT_INITIALIZED); /* a driver does not survive a fork */
    settings.initialized = true;
    settings.process = getpid();
    GIVE(SUCCESS);
}

EXPORT int cuDeviceGet(CUdevice *device, int ordinal)
{
    CALL(0);
    if (device == NULL)
        GIVE(INVALID_VALUE);
    if (context_of(ordinal) == NULL)
        GIVE(INVALID_DEVICE);
    *device = ordinal;
    GIVE(SUCCESS);
}

/* ------------------------------------------------------------------------------------- contexts */

EXPORT int cuDevicePrimaryCtxRetain(CUcontext *handle, CUdevice device)
{
    CALL(0);
    Context *context = context_of(device);
    if (handle == NULL)
        GIVE(INVALID_VALUE);
    if (context == NULL)
        GIVE(INVALID_DEVICE);
    context_retain(context);
    *handle = context;
    GIVE(SUCCESS);
}

EXPORT_OPTIONAL int cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    CALL(0);
    Context *context = context_of(device);
    if (context == NULL)
        GIVE(INVALID_DEVICE);
    if (context->retained == 0)
        GIVE(INVALID_CONTEXT);
    context->retained--;
    GIVE(SUCCESS);
}

EXPORT int cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    CALL(0);
    Context *context = context_of(device);
    if (flags == NULL || active == NULL)
        GIVE(INVALID_VALUE);
    if (context == NULL)
        GIVE(INVALID_DEVICE);
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
    if (handle == NULL)
        GIVE(INVALID_VALUE);
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
    if (device == NULL)
        GIVE(INVALID_VALUE);
    *device = context_current(self)->device;
    GIVE(SUCCESS);
}

/* Unique for the life of the process, other than handles. */
EXPORT_OPTIONAL int cuCtxGetId(CUcontext handle, uint64_t *id)
{
    CALL(0);
    Context *top = self->depth == 0 ? NULL : self->stack[self->depth - 1];
    Context *context = handle == NULL ? top : context_from(self, handle);
    if (id == NULL)
        GIVE(INVALID_VALUE);
    if (context == NULL)
        GIVE(INVALID_CONTEXT);
    if (context->retained == 0 || context->reset)
        GIVE(CONTEXT_IS_DESTROYED);
    *id = context->id;
    GIVE(SUCCESS);
}

/* Whoever has retained the context still has: it is alive again when it is next retained. It stays
 * current where it was. */
EXPORT int cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    CALL(0);
    Context *context = context_of(device);
    if (context == NULL)
        GIVE(INVALID_DEVICE);
    GIVE(context->reset ? SUCCESS : context_end(self, context));
}

/* One beside the primary one. */ EXPORT int cuCtxCreate_v2(CUcontext *handle, unsigned flags,
                                                            CUdevice device)
{
    CALL(0);
    if (handle == NULL || flags != 0)
        GIVE(INVALID_VALUE);
    if (context_of(device) == NULL)
        GIVE(INVALID_DEVICE);
    if (self->depth == MAX_DEPTH)
        GIVE(OUT_OF_MEMORY);
    Context *made = context_make(device);
    self->stack[self->depth++] = made;
    *handle = made;
    GIVE(SUCCESS);
}

EXPORT int cuCtxDestroy_v2(CUcontext handle)
{
    CALL(0);
    Context *context = handle == NULL ? NULL : context_from(self, handle);
    if (context == NULL || context->primary)
        GIVE(INVALID_CONTEXT);
    FAIL_ON(context_end(self, context));
    if (self->depth > 0 && self->stack[self->depth - 1] == context)
        self->depth--;
    GIVE(SUCCESS);
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
    if (count == 0 || attributes == NULL || data == NULL)
        GIVE(INVALID_VALUE);
    const Allocation *allocation = memory_find((uintptr_t)pointer);
    if (allocation == NULL && memory_is_ours((uintptr_t)pointer))
        violation(self, "the attributes of freed memory at %#llx are asked for", pointer);
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
    size_t srcXInBytes, srcY;
    unsigned srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    unsigned dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

enum {
    MAX_PITCH = 0x7fffffff
};

/* The address of one side by its memory type: host, device or unified; 0 for others. */
static uintptr_t side(unsigned type, const void *host, CUdeviceptr device)
{
    if (type == 1)
        return (uintptr_t)host;
    return type == 2 || type == 4 ? (uintptr_t)device : 0;
}

EXPORT int cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream handle)
{
    CALL(CONTEXT);
    STREAM(handle);
    if (copy == NULL)
        GIVE(INVALID_VALUE);
    Box box = {.to = side(copy->dstMemoryType, copy->dstHost, copy->dstDevice),
               .from = side(copy->srcMemoryType, copy->srcHost, copy->srcDevice),
               .width = copy->WidthInBytes,
               .height = copy->Height,
               .to_pitch = copy->dstPitch,
               .from_pitch = copy->srcPitch};
    size_t to_end = copy->dstXInBytes + box.width, from_end = copy->srcXInBytes + box.width;
    /* Without a pitch rows touch. */
    box.to_pitch = box.to_pitch ? box.to_pitch : to_end;
    box.from_pitch = box.from_pitch ? box.from_pitch : from_end;
    if (box.to_pitch > MAX_PITCH || box.from_pitch > MAX_PITCH || to_end > box.to_pitch ||
        from_end > box.from_pitch)
        GIVE(INVALID_VALUE);
    if (box.to == 0 || box.from == 0)
        GIVE(INVALID_VALUE);
    box.to += copy->dstXInBytes + copy->dstY * box.to_pitch;
    box.from += copy->srcXInBytes + copy->srcY * box.from_pitch;
    GIVE(work_copy(self, stream, "2D copy", &box));
}
