/* The symbols of libcuda.so.1 about memory that HIP has not, or in another form: what a pointer is,
 * pools, copies. */
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
    ON_DEVICE = 1,          /* CU_MEM_LOCATION_TYPE_DEVICE */
    MAX_PITCH = 0x7fffffff
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
    ATTRIBUTE_MEMORY_TYPE = 2,
    ATTRIBUTE_IS_MANAGED = 8,
    ATTRIBUTE_DEVICE_ORDINAL = 9,
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

static char pools[MAX_DEVICES]; /* of managed memory; their addresses are the handles */

/* The pool that memory of that kind is from, or NULL. */
static void *pool_of(int device, Kind kind)
{
    return kind == MANAGED_POOL_MEMORY ? &pools[device] : NULL;
}

/* One attribute; unknown pointers have none of them. */
static int pointer_attribute(int attribute, void *data, const Allocation *a)
{
    switch (attribute) {
    case ATTRIBUTE_MEMORY_TYPE:
        *(int *)data = memory_type(a);
        return SUCCESS;
    case ATTRIBUTE_IS_MANAGED: /* of a pool it is not set */
        *(int *)data = a != NULL && a->kind == MANAGED_MEMORY;
        return SUCCESS;
    case ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = a == NULL ? -2 : a->device;
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

/* A pool of managed memory is all that can be made. */
EXPORT_OPTIONAL int cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    CALL(0);
    if (pool == NULL || properties == NULL || properties->allocType != MANAGED_ALLOCATION ||
        properties->locationType != ON_DEVICE || context_of(properties->locationId) == NULL)
        GIVE(INVALID_VALUE);
    *pool = pool_of(properties->locationId, MANAGED_POOL_MEMORY);
    GIVE(SUCCESS);
}

/* On the device of the pool, which need not be the stream's, and ready at once. */
EXPORT_OPTIONAL int cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t size, CUmemoryPool pool,
                                            CUstream handle)
{
    CALL(CONTEXT);
    uintptr_t address = 0;
    int device = 0;
    (void)handle;
    for (; device < settings.devices; device++)
        if (pool == pool_of(device, MANAGED_POOL_MEMORY))
            break;
    if (pool == NULL || device == settings.devices || pointer == NULL)
        GIVE(INVALID_VALUE);
    FAIL_ON(driver_allocate(self, device, MANAGED_POOL_MEMORY, size, &address));
    *pointer = address;
    GIVE(SUCCESS);
}

/* --------------------------------------------------------------------------------------- copies */

EXPORT int cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream handle)
{
    CALL(CONTEXT);
    STREAM(handle);
    GIVE(driver_copy(self, stream, (uintptr_t)to, (uintptr_t)from, size));
}

EXPORT int cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream handle)
{
    CALL(CONTEXT);
    STREAM(handle);
    GIVE(driver_fill(self, stream, (uintptr_t)to, value, count));
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
