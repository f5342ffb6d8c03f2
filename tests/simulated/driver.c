/* SPDX-License-Identifier: Apache-2.0 */

/* The symbols that CUDA and HIP have in common, but for their names. */
#include "simulated.h"

#ifdef FK_HIP
#define NAME(cuda, hip) hip
typedef void *Address;
typedef int Byte;
enum {
    HIP = 1,
    VERSION = 70253211
};
#else
#define NAME(cuda, hip) cuda
typedef unsigned long long Address;
typedef unsigned char Byte;
enum {
    HIP = 0,
    VERSION = 12080
};
#endif

int driver_version(void)
{
    return settings.version != 0 ? settings.version : VERSION;
}

EXPORT int NAME(cuDriverGetVersion, hipRuntimeGetVersion)(int *version)
{
    CALL(ANYTIME);
    *version = driver_version();
    GIVE(SUCCESS);
}

EXPORT int NAME(cuDeviceGetCount, hipGetDeviceCount)(int *count)
{
    CALL(0);
    *count = settings.devices;
    GIVE(SUCCESS);
}

static const struct {
    int code;
    const char *name;
} errors[] = {
    {SUCCESS, NAME("CUDA_SUCCESS", "hipSuccess")},
    {INVALID_VALUE, NAME("CUDA_ERROR_INVALID_VALUE", "hipErrorInvalidValue")},
    {OUT_OF_MEMORY, NAME("CUDA_ERROR_OUT_OF_MEMORY", "hipErrorOutOfMemory")},
    {NOT_INITIALIZED, NAME("CUDA_ERROR_NOT_INITIALIZED", "hipErrorNotInitialized")},
    {DEINITIALIZED, NAME("CUDA_ERROR_DEINITIALIZED", "hipErrorDeinitialized")},
    {NO_DEVICE, NAME("CUDA_ERROR_NO_DEVICE", "hipErrorNoDevice")},
    {INVALID_DEVICE, NAME("CUDA_ERROR_INVALID_DEVICE", "hipErrorInvalidDevice")},
    {INVALID_CONTEXT, NAME("CUDA_ERROR_INVALID_CONTEXT", "hipErrorInvalidContext")},
    {INVALID_HANDLE, NAME("CUDA_ERROR_INVALID_HANDLE", "hipErrorInvalidHandle")},
    {UNKNOWN, NAME("CUDA_ERROR_UNKNOWN", "hipErrorUnknown")},
};

/* Of those that the tests let happen. */
static const char *error_name(int code)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code)
            return errors[i].name;
    return NULL;
}

#ifdef FK_HIP
/* This one returns a text, and so cannot fail. */
EXPORT const char *hipGetErrorName(int code)
{
    check_gil("hipGetErrorName");
    const char *name = error_name(code);
    return name == NULL ? "hipErrorUnknown" : name;
}
#else
EXPORT int cuGetErrorName(int code, const char **name)
{
    CALL(ANYTIME | CALLBACK);
    *name = error_name(code);
    GIVE(*name == NULL ? INVALID_VALUE : SUCCESS);
}
#endif

/* --------------------------------------------------------------------------------------- events */

EXPORT int NAME(cuEventCreate, hipEventCreateWithFlags)(void **handle, unsigned flags)
{
    CALL(CONTEXT);
    /* HIP's flags above CUDA's three choose fences, which have no meaning here. */
    GIVE(event_create(context_here(self), HIP ? flags & 7u : flags, handle));
}

EXPORT int NAME(cuEventRecord, hipEventRecord)(void *event_handle, void *handle)
{
    CALL(CONTEXT);
    EVENT(event_handle);
    STREAM(handle);
    GIVE(work_record(self, event, stream));
}

EXPORT int NAME(cuEventQuery, hipEventQuery)(void *event_handle)
{
    CALL(CONTEXT);
    EVENT(event_handle);
    GIVE(work_query_event(self, event));
}

EXPORT int NAME(cuEventSynchronize, hipEventSynchronize)(void *event_handle)
{
    CALL(CONTEXT);
    EVENT(event_handle);
    GIVE(work_sync_event(self, event));
}

EXPORT int NAME(cuEventDestroy_v2, hipEventDestroy)(void *event_handle)
{
    CALL(CONTEXT);
    EVENT(event_handle);
    GIVE(event_destroy(event));
}

/* -------------------------------------------------------------------------------------- streams */

EXPORT int NAME(cuStreamCreate, hipStreamCreateWithFlags)(void **handle, unsigned flags)
{
    CALL(CONTEXT);
    GIVE(stream_create(context_here(self), flags, handle));
}

EXPORT int NAME(cuStreamDestroy_v2, hipStreamDestroy)(void *handle)
{
    CALL(CONTEXT);
    STREAM(handle);
    FAIL_ON(capture_ask(stream));
    GIVE(stream_destroy(self, stream));
}

EXPORT int NAME(cuStreamWaitEvent, hipStreamWaitEvent)(void *handle, void *event_handle,
                                                       unsigned flags)
{
    CALL(CONTEXT);
    EVENT(event_handle);
    STREAM(handle);
    GIVE(flags > 1 ? INVALID_VALUE : work_wait(self, stream, event));
}

EXPORT int NAME(cuStreamSynchronize, hipStreamSynchronize)(void *handle)
{
    CALL(CONTEXT);
    STREAM(handle);
    GIVE(work_sync_stream(self, stream));
}

EXPORT int NAME(cuLaunchHostFunc, hipLaunchHostFunc)(void *handle, void (*function)(void *),
                                                     void *data)
{
    CALL(CONTEXT);
    STREAM(handle);
    Op *op = op_new("host function");
    op->function = function;
    op->data = data;
    GIVE(work_submit(self, stream, op));
}

/* -------------------------------------------------------------------------------------- capture */

EXPORT int NAME(cuStreamBeginCapture_v2, hipStreamBeginCapture)(void *handle, int mode)
{
    CALL(CONTEXT);
    STREAM(handle);
    GIVE(capture_begin(self, stream, mode));
}

EXPORT int NAME(cuStreamEndCapture, hipStreamEndCapture)(void *handle, void **graph)
{
    CALL(CONTEXT);
    STREAM(handle);
    GIVE(capture_end(self, stream, graph));
}

/* Graphs are not run here, and live until the next fk_reset. */
EXPORT int NAME(cuGraphDestroy, hipGraphDestroy)(void *graph)
{
    CALL(0);
    GIVE(graph == NULL ? INVALID_VALUE : SUCCESS);
}

EXPORT int NAME(cuStreamIsCapturing, hipStreamIsCapturing)(void *handle, int *status)
{
    CALL(CONTEXT);
    STREAM(handle);
    GIVE(capture_status(stream, status));
}

EXPORT_OPTIONAL int NAME(cuStreamGetCaptureInfo_v2,
                         hipStreamGetCaptureInfo_v2)(void *handle, int *status,
                                                     unsigned long long *id, void **graph,
                                                     const void **nodes, size_t *count)
{
    CALL(CONTEXT);
    STREAM(handle);
    FAIL_ON(capture_status(stream, status));
    *id = *status == 0 ? 0 : stream->capture->id;
    GIVE(graph != NULL || nodes != NULL || count != NULL ? INVALID_VALUE : SUCCESS);
}

EXPORT int NAME(cuThreadExchangeStreamCaptureMode, hipThreadExchangeStreamCaptureMode)(int *mode)
{
    CALL(0);
    int previous = self->mode;
    self->mode = *mode;
    *mode = previous;
    GIVE(SUCCESS);
}

/* --------------------------------------------------------------------------------------- memory */

/* On the current device; `pointer`: where the result goes. */
static int allocate_here(Thread *self, Kind kind, size_t size, Address *pointer)
{
    uintptr_t address = 0;
    int code = capture_unsafe(self);
    if (code == SUCCESS)
        code = memory_allocate(self, context_here(self)->device, kind, size, &address);
    if (code == SUCCESS)
        *pointer = (Address)address;
    return code;
}

static int give_back(Thread *self, uintptr_t address, bool host_call)
{
    int code = capture_unsafe(self);
    return code == SUCCESS ? memory_free(self, address, host_call) : code;
}

EXPORT int NAME(cuMemAlloc_v2, hipMalloc)(Address *pointer, size_t size)
{
    CALL(CONTEXT);
    GIVE(allocate_here(self, DEVICE_MEMORY, size, pointer));
}

EXPORT int NAME(cuMemFree_v2, hipFree)(Address pointer)
{
    CALL(CONTEXT);
    GIVE(give_back(self, (uintptr_t)pointer, false));
}

EXPORT int NAME(cuMemAllocManaged, hipMallocManaged)(Address *pointer, size_t size, unsigned flags)
{
    CALL(CONTEXT);
    GIVE(flags != 1 ? INVALID_VALUE : allocate_here(self, MANAGED_MEMORY, size, pointer));
}

EXPORT int NAME(cuMemHostAlloc, hipHostMalloc)(void **pointer, size_t size, unsigned flags)
{
    CALL(CONTEXT);
    Address address = 0;
    FAIL_ON(flags != 0 ? INVALID_VALUE : allocate_here(self, PINNED_MEMORY, size, &address));
    *pointer = (void *)(uintptr_t)address;
    GIVE(SUCCESS);
}

EXPORT int NAME(cuMemFreeHost, hipHostFree)(void *pointer)
{
    CALL(CONTEXT);
    GIVE(give_back(self, (uintptr_t)pointer, true));
}

/* Memory that a device cannot see cannot be filled by it. */
EXPORT int NAME(cuMemsetD8Async, hipMemsetAsync)(Address to, Byte value, size_t size, void *handle)
{
    CALL(CONTEXT);
    STREAM(handle);
    Op *op = op_new("memset");
    op_touch(op, (uintptr_t)to, size, true, value & 0xff);
    GIVE(work_submit(self, stream, op));
}
