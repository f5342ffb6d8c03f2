/* The symbols of libcuda.so.1 that are about memory: what a pointer is, allocations, copies. */
#include "simulated.h"

typedef unsigned long long CUdeviceptr;
typedef void *CUcontext, *CUstream, *CUarray, *CUmemoryPool;

typedef struct {
    int allocType, handleTypes, locationType, locationId;
    void *securityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
} CUmemPoolProps;

enum {
    MANAGED_ALLOCATION = 2, /* CU_MEM_ALLOCATION_TYPE_MANAGED */
    ON_DEVICE = 1           /* CU_MEM_LOCATION_TYPE_DEVICE */
};

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

/* --------------------------------------------------------------------------------------- memory */

enum {
    ATTRIBUTE_CONTEXT = 1,
    ATTRIBUTE_MEMORY_TYPE = 2,
    ATTRIBUTE_DEVICE_POINTER = 3,
    ATTRIBUTE_HOST_POINTER = 4,
    ATTRIBUTE_BUFFER_ID = 7,
    ATTRIBUTE_IS_MANAGED = 8,
    ATTRIBUTE_DEVICE_ORDINAL = 9,
    ATTRIBUTE_RANGE_START = 11,
    ATTRIBUTE_RANGE_SIZE = 12,
    ATTRIBUTE_MAPPED = 13,
    ATTRIBUTE_MEMPOOL_HANDLE = 17
};

static bool is_managed(const Allocation *allocation)
{
    return allocation->kind == MANAGED_MEMORY || allocation->kind == MANAGED_POOL_MEMORY;
}

static int memory_type(const Allocation *allocation)
{
    if (allocation == NULL)
        return 0;
    if (allocation->kind == PINNED_MEMORY)
        return 1;
    return is_managed(allocation) ? settings.managed_type : 2;
}

static char pools[MAX_DEVICES][KINDS]; /* whose addresses are the handles */

/* The pool that memory of that kind is from, or NULL. */
static void *pool_of(int device, Kind kind)
{
    bool pooled = kind == POOL_MEMORY || kind == MANAGED_POOL_MEMORY;
    return pooled ? &pools[device][kind] : NULL;
}

/* One attribute; unknown pointers have none of them. */
static int pointer_attribute(int attribute, void *data, uintptr_t address, const Allocation *a)
{
    bool on_host = a != NULL && a->kind != DEVICE_MEMORY && a->kind != POOL_MEMORY;
    switch (attribute) {
    case ATTRIBUTE_CONTEXT:
        *(void **)data = a == NULL ? NULL : context_of(a->device);
        return SUCCESS;
    case ATTRIBUTE_MEMORY_TYPE:
        *(int *)data = memory_type(a);
        return SUCCESS;
    case ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = a == NULL ? 0 : address;
        return SUCCESS;
    case ATTRIBUTE_HOST_POINTER:
        *(uintptr_t *)data = on_host ? address : 0;
        return SUCCESS;
    case ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = a == NULL ? 0 : (unsigned long long)a->start;
        return SUCCESS;
    case ATTRIBUTE_IS_MANAGED: /* of a pool it is not set */
        *(int *)data = a != NULL && a->kind == MANAGED_MEMORY;
        return SUCCESS;
    case ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = a == NULL ? -2 : a->device;
        return SUCCESS;
    case ATTRIBUTE_RANGE_START:
        *(uintptr_t *)data = a == NULL ? 0 : a->start;
        return SUCCESS;
    case ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = a == NULL ? 0 : a->size;
        return SUCCESS;
    case ATTRIBUTE_MAPPED:
        *(unsigned char *)data = a != NULL;
        return SUCCESS;
    case ATTRIBUTE_MEMPOOL_HANDLE:
        *(void **)data = a == NULL ? NULL : pool_of(a->device, a->kind);
        return SUCCESS;
    default:
        return INVALID_VALUE;
    }
}

EXPORT int cuPointerGetAttributes(unsigned count, int *attributes, void **data, CUdeviceptr pointer)
{
    CALL("cuPointerGetAttributes", 0);
    if (count == 0 || attributes == NULL || data == NULL)
        GIVE(INVALID_VALUE);
    const Allocation *allocation = memory_find((uintptr_t)pointer);
    if (allocation == NULL && memory_is_ours((uintptr_t)pointer))
        violation(self, "the attributes of freed memory at %#llx are asked for", pointer);
    for (unsigned i = 0; i < count; i++)
        FAIL_ON(pointer_attribute(attributes[i], data[i], (uintptr_t)pointer, allocation));
    GIVE(SUCCESS);
}

EXPORT int cuPointerGetAttribute(void *data, int attribute, CUdeviceptr pointer)
{
    CALL("cuPointerGetAttribute", 0);
    const Allocation *allocation = memory_find((uintptr_t)pointer);
    if (data == NULL || allocation == NULL)
        GIVE(INVALID_VALUE);
    GIVE(pointer_attribute(attribute, data, (uintptr_t)pointer, allocation));
}

/* What the callers of cuMem* have in common: a capture may forbid it, and where the result goes. */
static int allocate(Thread *self, Stream *stream, int device, Kind kind, unsigned flags,
                    size_t size, CUdeviceptr *pointer)
{
    uintptr_t address;
    int code = stream == NULL ? capture_unsafe(self) : SUCCESS;
    if (code == SUCCESS && pointer == NULL)
        code = INVALID_VALUE;
    if (code == SUCCESS)
        code = memory_allocate(self, stream, device, kind, flags, size, &address);
    if (code == SUCCESS) { /* that of pools and green contexts ends with the primary context */
        Context *here = context_current(self);
        bool own = !here->green && kind != POOL_MEMORY && kind != MANAGED_POOL_MEMORY;
        memory_find(address)->context = own ? here : context_of(device);
        *pointer = address;
    }
    return code;
}

EXPORT int cuMemAlloc_v2(CUdeviceptr *pointer, size_t size)
{
    CALL("cuMemAlloc_v2", CONTEXT);
    int device = context_current(self)->device;
    GIVE(allocate(self, NULL, device, DEVICE_MEMORY, 0, size, pointer));
}

EXPORT int cuMemFree_v2(CUdeviceptr pointer)
{
    CALL("cuMemFree_v2", CONTEXT);
    FAIL_ON(capture_unsafe(self));
    GIVE(pointer == 0 ? SUCCESS : memory_free(self, NULL, (uintptr_t)pointer, false));
}

/* A pool of managed memory is all that can be made. */
EXPORT_OPTIONAL int cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    CALL("cuMemPoolCreate", 0);
    if (pool == NULL || properties == NULL || properties->allocType != MANAGED_ALLOCATION ||
        properties->locationType != ON_DEVICE || context_of(properties->locationId) == NULL)
        GIVE(INVALID_VALUE);
    *pool = pool_of(properties->locationId, MANAGED_POOL_MEMORY);
    GIVE(SUCCESS);
}

EXPORT_OPTIONAL int cuMemPoolDestroy(CUmemoryPool pool)
{
    CALL("cuMemPoolDestroy", 0);
    GIVE(pool == NULL ? INVALID_VALUE : SUCCESS);
}

/* On the device of the pool, which need not be the stream's. */
EXPORT_OPTIONAL int cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t size, CUmemoryPool pool,
                                            CUstream handle)
{
    CALL("cuMemAllocFromPoolAsync", CONTEXT);
    STREAM(handle);
    for (int device = 0; pool != NULL && device < settings.devices; device++)
        if (pool == pool_of(device, MANAGED_POOL_MEMORY))
            GIVE(allocate(self, stream, device, MANAGED_POOL_MEMORY, 0, size, pointer));
    GIVE(INVALID_VALUE);
}

/* On the device of the stream, whatever is current. */
EXPORT_OPTIONAL int cuMemAllocAsync(CUdeviceptr *pointer, size_t size, CUstream handle)
{
    CALL("cuMemAllocAsync", CONTEXT);
    STREAM(handle);
    if (!stream->context->attributes[115])
        GIVE(NOT_SUPPORTED);
    GIVE(allocate(self, stream, stream->context->device, POOL_MEMORY, 0, size, pointer));
}

EXPORT_OPTIONAL int cuMemFreeAsync(CUdeviceptr pointer, CUstream handle)
{
    CALL("cuMemFreeAsync", CONTEXT);
    STREAM(handle);
    GIVE(pointer == 0 ? SUCCESS : memory_free(self, stream, (uintptr_t)pointer, false));
}

EXPORT int cuMemAllocManaged(CUdeviceptr *pointer, size_t size, unsigned flags)
{
    CALL("cuMemAllocManaged", CONTEXT);
    if (flags != 1 && flags != 2)
        GIVE(INVALID_VALUE);
    int device = context_current(self)->device;
    GIVE(allocate(self, NULL, device, MANAGED_MEMORY, flags, size, pointer));
}

EXPORT int cuMemHostAlloc(void **pointer, size_t size, unsigned flags)
{
    CALL("cuMemHostAlloc", CONTEXT);
    CUdeviceptr address = 0;
    if (pointer == NULL || flags > 7)
        GIVE(INVALID_VALUE);
    int device = context_current(self)->device;
    FAIL_ON(allocate(self, NULL, device, PINNED_MEMORY, flags, size, &address));
    *pointer = (void *)(uintptr_t)address;
    GIVE(SUCCESS);
}

EXPORT int cuMemFreeHost(void *pointer)
{
    CALL("cuMemFreeHost", CONTEXT);
    FAIL_ON(capture_unsafe(self));
    if (pointer == NULL)
        GIVE(INVALID_VALUE);
    GIVE(memory_free(self, NULL, (uintptr_t)pointer, true));
}

EXPORT int cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *host, unsigned flags)
{
    CALL("cuMemHostGetDevicePointer_v2", CONTEXT);
    const Allocation *allocation = memory_find((uintptr_t)host);
    if (pointer == NULL || flags != 0 || allocation == NULL || allocation->kind != PINNED_MEMORY)
        GIVE(INVALID_VALUE);
    *pointer = (uintptr_t)host;
    GIVE(SUCCESS);
}

/* --------------------------------------------------------------------------------------- copies */

static int copy_line(Thread *self, Stream *stream, const char *name, CUdeviceptr to,
                     CUdeviceptr from, size_t size, bool peer)
{
    Box box = {.to = (uintptr_t)to,
               .from = (uintptr_t)from,
               .width = size,
               .height = 1,
               .to_pitch = size,
               .from_pitch = size,
               .peer = peer};
    return work_copy(self, stream, name, &box);
}

EXPORT int cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream handle)
{
    CALL("cuMemcpyAsync", CONTEXT);
    STREAM(handle);
    GIVE(copy_line(self, stream, "copy", to, from, size, false));
}

/* Whether memory is of the device of a context. */
static bool is_of(CUdeviceptr pointer, const Context *context)
{
    const Allocation *allocation = memory_find((uintptr_t)pointer);
    return allocation == NULL || allocation->device == context->device;
}

EXPORT int cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_handle, CUdeviceptr from,
                             CUcontext from_handle, size_t size, CUstream handle)
{
    CALL("cuMemcpyPeerAsync", CONTEXT);
    STREAM(handle);
    const Context *to_context = context_from(self, to_handle);
    const Context *from_context = context_from(self, from_handle);
    if (to_context == NULL || from_context == NULL)
        GIVE(INVALID_CONTEXT);
    if (!is_of(to, to_context) || !is_of(from, from_context))
        GIVE(INVALID_VALUE);
    GIVE(copy_line(self, stream, "peer copy", to, from, size, true));
}

/* Memory that a device cannot see cannot be memset by it. */
EXPORT int cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream handle)
{
    CALL("cuMemsetD8Async", CONTEXT);
    STREAM(handle);
    Op *op = op_new("memset");
    op_touch(op, (uintptr_t)to, count, true, value);
    GIVE(work_submit(self, stream, op));
}

/* The address of one side by its memory type: host, device or unified; 0 for others. */
static uintptr_t side(unsigned type, const void *host, CUdeviceptr device)
{
    if (type == 1)
        return (uintptr_t)host;
    return type == 2 || type == 4 ? (uintptr_t)device : 0;
}

EXPORT int cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream handle)
{
    CALL("cuMemcpy2DAsync_v2", CONTEXT);
    STREAM(handle);
    if (copy == NULL)
        GIVE(INVALID_VALUE);
    Box box = {.to = side(copy->dstMemoryType, copy->dstHost, copy->dstDevice),
               .from = side(copy->srcMemoryType, copy->srcHost, copy->srcDevice),
               .width = copy->WidthInBytes,
               .height = copy->Height,
               .to_pitch = copy->dstPitch,
               .from_pitch = copy->srcPitch};
    size_t limit = (size_t)context_current(self)->attributes[11];
    size_t to_end = copy->dstXInBytes + box.width, from_end = copy->srcXInBytes + box.width;
    /* Without a pitch rows touch. */
    box.to_pitch = box.to_pitch ? box.to_pitch : to_end;
    box.from_pitch = box.from_pitch ? box.from_pitch : from_end;
    if (box.to_pitch > limit || box.from_pitch > limit || to_end > box.to_pitch ||
        from_end > box.from_pitch)
        GIVE(INVALID_VALUE);
    if (box.to == 0 || box.from == 0)
        GIVE(INVALID_VALUE);
    box.to += copy->dstXInBytes + copy->dstY * box.to_pitch;
    box.from += copy->srcXInBytes + copy->srcY * box.from_pitch;
    GIVE(work_copy(self, stream, "2D copy", &box));
}
