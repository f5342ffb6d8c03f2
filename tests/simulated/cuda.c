/* The symbols of libcuda.so.1. */
#include "simulated.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef int CUdevice;
typedef unsigned long long CUdeviceptr, cuuint64_t;
typedef void *CUcontext, *CUstream, *CUevent, *CUgraph, *CUarray;

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

typedef struct {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    unsigned srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    void *reserved0;
    size_t srcPitch, srcHeight;
    size_t dstXInBytes, dstY, dstZ, dstLOD;
    unsigned dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    void *reserved1;
    size_t dstPitch, dstHeight;
    size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;

/* Finds the stream of a handle, or leaves the call. */
#define STREAM(handle)                                                                             \
    Stream *stream = NULL;                                                                         \
    FAIL_ON(stream_from(self, context_current(self), (handle), &stream))
#define EVENT(handle)                                                                              \
    Event *event = NULL;                                                                           \
    FAIL_ON(event_from(self, (handle), &event))

/* ------------------------------------------------------------------------------ driver, devices */

EXPORT int cuInit(unsigned flags)
{
    CALL("cuInit", ANYTIME);
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

EXPORT int cuDriverGetVersion(int *version)
{
    CALL("cuDriverGetVersion", ANYTIME);
    if (version == NULL)
        GIVE(INVALID_VALUE);
    *version = settings.version != 0 ? settings.version : 12080;
    GIVE(SUCCESS);
}

EXPORT int cuDeviceGetCount(int *count)
{
    CALL("cuDeviceGetCount", 0);
    if (count == NULL)
        GIVE(INVALID_VALUE);
    *count = settings.devices;
    GIVE(SUCCESS);
}

EXPORT int cuDeviceGet(CUdevice *device, int ordinal)
{
    CALL("cuDeviceGet", 0);
    if (device == NULL)
        GIVE(INVALID_VALUE);
    if (context_of(ordinal) == NULL)
        GIVE(INVALID_DEVICE);
    *device = ordinal;
    GIVE(SUCCESS);
}

EXPORT int cuDeviceGetName(char *name, int length, CUdevice device)
{
    CALL("cuDeviceGetName", 0);
    if (name == NULL || length <= 0)
        GIVE(INVALID_VALUE);
    if (context_of(device) == NULL)
        GIVE(INVALID_DEVICE);
    snprintf(name, (size_t)length, "Simulated device");
    GIVE(SUCCESS);
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    CALL("cuDeviceGetAttribute", 0);
    Context *context = context_of(device);
    if (value == NULL || attribute <= 0 || attribute >= DEVICE_ATTRIBUTES)
        GIVE(INVALID_VALUE);
    if (context == NULL)
        GIVE(INVALID_DEVICE);
    *value = context->attributes[attribute];
    GIVE(SUCCESS);
}

static const struct {
    int code;
    const char *name, *text;
} errors[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "the library is a stub"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "the device is busy or unavailable"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "not permitted in the present state"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not while capturing"},
    {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "the capture was broken"},
    {CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "two captures cannot become one"},
    {CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "not the stream it began with"},
    {CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "a fork was not joined"},
    {CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "an edge crosses the border"},
    {CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "an implicit edge on a capture"},
    {CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT", "the event belongs to a capture"},
    {CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "another thread's capture"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static int error_text(int code, bool name, const char **text)
{
    if (text == NULL)
        return INVALID_VALUE;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) {
            *text = name ? errors[i].name : errors[i].text;
            return SUCCESS;
        }
    *text = NULL;
    return INVALID_VALUE;
}

EXPORT int cuGetErrorName(int code, const char **name)
{
    CALL("cuGetErrorName", ANYTIME | CALLBACK);
    GIVE(error_text(code, true, name));
}

EXPORT int cuGetErrorString(int code, const char **text)
{
    CALL("cuGetErrorString", ANYTIME | CALLBACK);
    GIVE(error_text(code, false, text));
}

/* ------------------------------------------------------------------------------------- contexts */

EXPORT int cuDevicePrimaryCtxRetain(CUcontext *handle, CUdevice device)
{
    CALL("cuDevicePrimaryCtxRetain", BLOCKS);
    Context *context = context_of(device);
    if (handle == NULL)
        GIVE(INVALID_VALUE);
    if (context == NULL)
        GIVE(INVALID_DEVICE);
    context->retained++;
    *handle = context;
    GIVE(SUCCESS);
}

EXPORT_OPTIONAL int cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    CALL("cuDevicePrimaryCtxRelease_v2", BLOCKS);
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
    CALL("cuDevicePrimaryCtxGetState", 0);
    Context *context = context_of(device);
    if (flags == NULL || active == NULL)
        GIVE(INVALID_VALUE);
    if (context == NULL)
        GIVE(INVALID_DEVICE);
    *flags = context->flags;
    *active = context->retained > 0;
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
    CALL("cuCtxPushCurrent_v2", 0);
    GIVE(push(self, handle));
}

EXPORT int cuCtxPopCurrent_v2(CUcontext *handle)
{
    CALL("cuCtxPopCurrent_v2", 0);
    if (self->depth == 0)
        GIVE(INVALID_CONTEXT);
    self->depth--;
    if (handle != NULL)
        *handle = self->stack[self->depth];
    GIVE(SUCCESS);
}

EXPORT int cuCtxGetCurrent(CUcontext *handle)
{
    CALL("cuCtxGetCurrent", 0);
    if (handle == NULL)
        GIVE(INVALID_VALUE);
    *handle = self->depth == 0 ? NULL : self->stack[self->depth - 1];
    GIVE(SUCCESS);
}

/* Replaces the top of the stack; with NULL it is taken off. */
EXPORT int cuCtxSetCurrent(CUcontext handle)
{
    CALL("cuCtxSetCurrent", 0);
    if (handle != NULL && context_from(self, handle) == NULL)
        GIVE(INVALID_CONTEXT);
    if (self->depth > 0)
        self->depth--;
    GIVE(handle == NULL ? SUCCESS : push(self, handle));
}

EXPORT int cuCtxGetDevice(CUdevice *device)
{
    CALL("cuCtxGetDevice", CONTEXT);
    if (device == NULL)
        GIVE(INVALID_VALUE);
    *device = context_current(self)->device;
    GIVE(SUCCESS);
}

EXPORT int cuCtxSynchronize(void)
{
    CALL("cuCtxSynchronize", CONTEXT | BLOCKS);
    GIVE(work_sync_context(self, context_current(self)));
}

/* --------------------------------------------------------------------------------------- events */

EXPORT int cuEventCreate(CUevent *handle, unsigned flags)
{
    CALL("cuEventCreate", CONTEXT);
    GIVE(event_create(context_current(self), flags, handle));
}

EXPORT int cuEventRecord(CUevent event_handle, CUstream handle)
{
    CALL("cuEventRecord", CONTEXT);
    EVENT(event_handle);
    STREAM(settings.has_misdirect ? settings.misdirect : handle);
    GIVE(work_record(self, event, stream));
}

EXPORT int cuEventQuery(CUevent event_handle)
{
    CALL("cuEventQuery", CONTEXT);
    EVENT(event_handle);
    GIVE(work_query_event(self, event));
}

EXPORT int cuEventSynchronize(CUevent event_handle)
{
    CALL("cuEventSynchronize", CONTEXT | BLOCKS);
    EVENT(event_handle);
    GIVE(work_sync_event(self, event));
}

EXPORT int cuEventDestroy_v2(CUevent event_handle)
{
    CALL("cuEventDestroy_v2", CONTEXT | BLOCKS);
    EVENT(event_handle);
    GIVE(event_destroy(event));
}

/* -------------------------------------------------------------------------------------- streams */

EXPORT int cuStreamCreate(CUstream *handle, unsigned flags)
{
    CALL("cuStreamCreate", CONTEXT);
    GIVE(stream_create(context_current(self), flags, 0, handle));
}

EXPORT int cuStreamCreateWithPriority(CUstream *handle, unsigned flags, int priority)
{
    CALL("cuStreamCreateWithPriority", CONTEXT);
    GIVE(stream_create(context_current(self), flags, priority, handle));
}

EXPORT int cuStreamDestroy_v2(CUstream handle)
{
    CALL("cuStreamDestroy_v2", CONTEXT);
    STREAM(handle);
    FAIL_ON(capture_ask(stream));
    GIVE(stream_destroy(self, stream));
}

EXPORT int cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned flags)
{
    CALL("cuStreamWaitEvent", CONTEXT);
    EVENT(event_handle);
    STREAM(handle);
    if (flags > 1)
        GIVE(INVALID_VALUE);
    GIVE(work_wait(self, stream, event));
}

EXPORT int cuStreamSynchronize(CUstream handle)
{
    CALL("cuStreamSynchronize", CONTEXT | BLOCKS);
    STREAM(handle);
    GIVE(work_sync_stream(self, stream));
}

EXPORT int cuStreamQuery(CUstream handle)
{
    CALL("cuStreamQuery", CONTEXT);
    STREAM(handle);
    GIVE(work_query_stream(self, stream));
}

EXPORT int cuStreamGetFlags(CUstream handle, unsigned *flags)
{
    CALL("cuStreamGetFlags", CONTEXT);
    STREAM(handle);
    if (flags == NULL)
        GIVE(INVALID_VALUE);
    *flags = stream->flags;
    GIVE(SUCCESS);
}

EXPORT int cuStreamGetCtx(CUstream handle, CUcontext *context)
{
    CALL("cuStreamGetCtx", CONTEXT);
    STREAM(handle);
    if (context == NULL)
        GIVE(INVALID_VALUE);
    *context = stream->context;
    GIVE(SUCCESS);
}

EXPORT_OPTIONAL int cuStreamGetId(CUstream handle, unsigned long long *id)
{
    CALL("cuStreamGetId", CONTEXT);
    STREAM(handle);
    if (id == NULL)
        GIVE(INVALID_VALUE);
    FAIL_ON(capture_ask(stream));
    *id = (unsigned long long)stream->serial;
    GIVE(SUCCESS);
}

EXPORT int cuLaunchHostFunc(CUstream handle, void (*function)(void *), void *data)
{
    CALL("cuLaunchHostFunc", CONTEXT);
    STREAM(handle);
    if (function == NULL)
        GIVE(INVALID_VALUE);
    Op *op = op_new("host function");
    op->function = function;
    op->data = data;
    GIVE(work_submit(self, stream, op));
}

/* -------------------------------------------------------------------------------------- capture */

EXPORT int cuStreamBeginCapture_v2(CUstream handle, int mode)
{
    CALL("cuStreamBeginCapture_v2", CONTEXT);
    STREAM(handle);
    GIVE(capture_begin(self, stream, mode));
}

EXPORT int cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
    CALL("cuStreamEndCapture", CONTEXT);
    STREAM(handle);
    GIVE(capture_end(self, stream, graph));
}

/* Graphs are not run here, and live until the next fk_reset. */
EXPORT int cuGraphDestroy(CUgraph graph)
{
    CALL("cuGraphDestroy", 0);
    GIVE(graph == NULL ? INVALID_VALUE : SUCCESS);
}

EXPORT int cuStreamIsCapturing(CUstream handle, int *status)
{
    CALL("cuStreamIsCapturing", CONTEXT);
    STREAM(handle);
    GIVE(capture_status(stream, status, NULL, NULL));
}

EXPORT_OPTIONAL int cuStreamGetCaptureInfo_v2(CUstream handle, int *status, cuuint64_t *id,
                                              CUgraph *graph, const void **nodes, size_t *count)
{
    CALL("cuStreamGetCaptureInfo_v2", CONTEXT);
    STREAM(handle);
    uint64_t number = 0;
    FAIL_ON(capture_status(stream, status, &number, graph));
    if (id != NULL)
        *id = number;
    if (nodes != NULL)
        *nodes = NULL;
    if (count != NULL)
        *count = 0;
    GIVE(SUCCESS);
}

EXPORT_OPTIONAL int cuStreamGetCaptureInfo_v3(CUstream handle, int *status, cuuint64_t *id,
                                              CUgraph *graph, const void **nodes,
                                              const void **edges, size_t *count)
{
    CALL("cuStreamGetCaptureInfo_v3", CONTEXT);
    STREAM(handle);
    uint64_t number = 0;
    FAIL_ON(capture_status(stream, status, &number, graph));
    if (id != NULL)
        *id = number;
    if (nodes != NULL)
        *nodes = NULL;
    if (edges != NULL)
        *edges = NULL;
    if (count != NULL)
        *count = 0;
    GIVE(SUCCESS);
}

EXPORT int cuThreadExchangeStreamCaptureMode(int *mode)
{
    CALL("cuThreadExchangeStreamCaptureMode", 0);
    if (mode == NULL || *mode < MODE_GLOBAL || *mode > MODE_RELAXED)
        GIVE(INVALID_VALUE);
    int previous = self->mode;
    self->mode = *mode;
    *mode = previous;
    GIVE(SUCCESS);
}

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

static int memory_type(const Allocation *allocation)
{
    if (allocation == NULL)
        return 0;
    if (allocation->kind == PINNED_MEMORY)
        return 1;
    return allocation->kind == MANAGED_MEMORY ? settings.managed_type : 2;
}

/* One attribute; unknown pointers have none of them. */
static int pointer_attribute(int attribute, void *data, uintptr_t address, const Allocation *a)
{
    bool on_host = a != NULL && (a->kind == PINNED_MEMORY || a->kind == MANAGED_MEMORY);
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
    case ATTRIBUTE_IS_MANAGED:
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
        *(void **)data = a != NULL && a->kind == POOL_MEMORY ? context_of(a->device) : NULL;
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
    if (code == SUCCESS)
        *pointer = address;
    return code;
}

EXPORT int cuMemAlloc_v2(CUdeviceptr *pointer, size_t size)
{
    CALL("cuMemAlloc_v2", CONTEXT | BLOCKS);
    int device = context_current(self)->device;
    GIVE(allocate(self, NULL, device, DEVICE_MEMORY, 0, size, pointer));
}

EXPORT int cuMemFree_v2(CUdeviceptr pointer)
{
    CALL("cuMemFree_v2", CONTEXT | BLOCKS);
    FAIL_ON(capture_unsafe(self));
    GIVE(pointer == 0 ? SUCCESS : memory_free(self, NULL, (uintptr_t)pointer, false));
}

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

EXPORT_OPTIONAL int cuMemAllocManaged(CUdeviceptr *pointer, size_t size, unsigned flags)
{
    CALL("cuMemAllocManaged", CONTEXT | BLOCKS);
    if (flags != 1 && flags != 2)
        GIVE(INVALID_VALUE);
    int device = context_current(self)->device;
    GIVE(allocate(self, NULL, device, MANAGED_MEMORY, flags, size, pointer));
}

EXPORT int cuMemHostAlloc(void **pointer, size_t size, unsigned flags)
{
    CALL("cuMemHostAlloc", CONTEXT | BLOCKS);
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
    CALL("cuMemFreeHost", CONTEXT | BLOCKS);
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
                     CUdeviceptr from, size_t size)
{
    Box box = {.to = (uintptr_t)to,
               .from = (uintptr_t)from,
               .width = size,
               .height = 1,
               .depth = 1,
               .to_pitch = size,
               .from_pitch = size};
    return work_copy(self, stream, name, &box);
}

EXPORT int cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream handle)
{
    CALL("cuMemcpyAsync", CONTEXT);
    STREAM(handle);
    GIVE(copy_line(self, stream, "copy", to, from, size));
}

EXPORT_OPTIONAL int cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                      CUcontext from_context, size_t size, CUstream handle)
{
    CALL("cuMemcpyPeerAsync", CONTEXT);
    STREAM(handle);
    if (context_from(self, to_context) == NULL || context_from(self, from_context) == NULL)
        GIVE(INVALID_CONTEXT);
    GIVE(copy_line(self, stream, "peer copy", to, from, size));
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
               .depth = 1,
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

EXPORT int cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream handle)
{
    CALL("cuMemcpy3DAsync_v2", CONTEXT);
    STREAM(handle);
    if (copy == NULL || copy->reserved0 != NULL || copy->reserved1 != NULL || copy->srcLOD != 0 ||
        copy->dstLOD != 0)
        GIVE(INVALID_VALUE);
    Box box = {.to = side(copy->dstMemoryType, copy->dstHost, copy->dstDevice),
               .from = side(copy->srcMemoryType, copy->srcHost, copy->srcDevice),
               .width = copy->WidthInBytes,
               .height = copy->Height,
               .depth = copy->Depth,
               .to_pitch = copy->dstPitch,
               .from_pitch = copy->srcPitch};
    size_t limit = (size_t)context_current(self)->attributes[11];
    size_t to_end = copy->dstXInBytes + box.width, from_end = copy->srcXInBytes + box.width;
    size_t to_rows = copy->dstY + box.height, from_rows = copy->srcY + box.height;
    box.to_pitch = box.to_pitch ? box.to_pitch : to_end;
    box.from_pitch = box.from_pitch ? box.from_pitch : from_end;
    size_t to_height = copy->dstHeight ? copy->dstHeight : to_rows;
    size_t from_height = copy->srcHeight ? copy->srcHeight : from_rows;
    if (box.to_pitch > limit || box.from_pitch > limit || to_end > box.to_pitch ||
        from_end > box.from_pitch || to_rows > to_height || from_rows > from_height)
        GIVE(INVALID_VALUE);
    if (box.to == 0 || box.from == 0)
        GIVE(INVALID_VALUE);
    box.to_slice = box.to_pitch * to_height;
    box.from_slice = box.from_pitch * from_height;
    box.to += copy->dstXInBytes + copy->dstY * box.to_pitch + copy->dstZ * box.to_slice;
    box.from += copy->srcXInBytes + copy->srcY * box.from_pitch + copy->srcZ * box.from_slice;
    GIVE(work_copy(self, stream, "3D copy", &box));
}
