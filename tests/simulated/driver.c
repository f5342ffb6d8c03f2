/* The symbols that CUDA and HIP have in common, but for their names. */
#include "simulated.h"

#ifdef FK_HIP
#define NAME(cuda, hip) hip
typedef void *Address;
enum {
    HIP = 1,
    VERSION = 70253211
};
#else
#define NAME(cuda, hip) cuda
typedef unsigned long long Address;
enum {
    HIP = 0,
    VERSION = 12080
};
#endif

enum {
    CAPTURES_SURVIVE = 70253211 /* ROCm 7.2.1 */
};

int driver_version(void)
{
    return settings.version != 0 ? settings.version : VERSION;
}

EXPORT int NAME(cuDriverGetVersion, hipRuntimeGetVersion)(int *version)
{
    CALL(ANYTIME);
    if (version == NULL)
        GIVE(INVALID_VALUE);
    *version = driver_version();
    GIVE(SUCCESS);
}

EXPORT int NAME(cuDeviceGetCount, hipGetDeviceCount)(int *count)
{
    CALL(0);
    if (count == NULL)
        GIVE(INVALID_VALUE);
    *count = settings.devices;
    GIVE(SUCCESS);
}

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

/* Of HIP's calls that make the host wait, or ask whether it would: whatever is being captured
 * breaks, whoever calls, and in whatever mode; from ROCm 7.2.1 on as on CUDA. */
static int break_captures(void)
{
    if (!HIP || !capture_any() || driver_version() >= CAPTURES_SURVIVE)
        return SUCCESS;
    capture_invalidate_all();
    return CAPTURE_UNSUPPORTED;
}

EXPORT int NAME(cuEventQuery, hipEventQuery)(void *event_handle)
{
    CALL(CONTEXT);
    EVENT(event_handle);
    FAIL_ON(break_captures());
    GIVE(work_query_event(self, event));
}

EXPORT int NAME(cuEventSynchronize, hipEventSynchronize)(void *event_handle)
{
    CALL(CONTEXT);
    EVENT(event_handle);
    FAIL_ON(break_captures());
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
    if (flags > 1)
        GIVE(INVALID_VALUE);
    GIVE(work_wait(self, stream, event));
}

EXPORT int NAME(cuStreamSynchronize, hipStreamSynchronize)(void *handle)
{
    CALL(CONTEXT);
    STREAM(handle);
    FAIL_ON(break_captures());
    GIVE(work_sync_stream(self, stream));
}

EXPORT int NAME(cuLaunchHostFunc, hipLaunchHostFunc)(void *handle, void (*function)(void *),
                                                     void *data)
{
    CALL(CONTEXT);
    STREAM(handle);
    if (function == NULL)
        GIVE(INVALID_VALUE);
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
    GIVE(capture_status(stream, status, NULL, NULL));
}

EXPORT_OPTIONAL int NAME(cuStreamGetCaptureInfo_v2,
                         hipStreamGetCaptureInfo_v2)(void *handle, int *status,
                                                     unsigned long long *id, void **graph,
                                                     const void **nodes, size_t *count)
{
    CALL(CONTEXT);
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

EXPORT int NAME(cuThreadExchangeStreamCaptureMode, hipThreadExchangeStreamCaptureMode)(int *mode)
{
    CALL(0);
    if (mode == NULL || *mode < MODE_GLOBAL || *mode > MODE_RELAXED)
        GIVE(INVALID_VALUE);
    int previous = self->mode;
    self->mode = *mode;
    *mode = previous;
    GIVE(SUCCESS);
}

/* --------------------------------------------------------------------------------------- memory */

int driver_allocate(Thread *self, int device, Kind kind, size_t size, uintptr_t *address)
{
    int code = capture_unsafe(self);
    return code == SUCCESS ? memory_allocate(self, device, kind, size, address) : code;
}

/* On the current device; `pointer`: where the result goes. */
static int allocate_here(Thread *self, Kind kind, size_t size, Address *pointer)
{
    uintptr_t address = 0;
    int device = context_here(self)->device;
    int code = driver_allocate(self, device, kind, size, pointer == NULL ? NULL : &address);
    if (code == SUCCESS)
        *pointer = (Address)address;
    return code;
}

static int give_back(Thread *self, uintptr_t address, bool host_call)
{
    int code = break_captures();
    if (code == SUCCESS)
        code = capture_unsafe(self);
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
    if (!HIP && flags != 1 && flags != 2)
        GIVE(INVALID_VALUE);
    GIVE(allocate_here(self, MANAGED_MEMORY, size, pointer));
}

EXPORT int NAME(cuMemHostAlloc, hipHostMalloc)(void **pointer, size_t size, unsigned flags)
{
    CALL(CONTEXT);
    Address address = 0;
    if (!HIP && flags > 7)
        GIVE(INVALID_VALUE);
    FAIL_ON(allocate_here(self, PINNED_MEMORY, size, pointer == NULL ? NULL : &address));
    *pointer = (void *)(uintptr_t)address;
    GIVE(SUCCESS);
}

EXPORT int NAME(cuMemFreeHost, hipHostFree)(void *pointer)
{
    CALL(CONTEXT);
    if (!HIP && pointer == NULL)
        GIVE(INVALID_VALUE);
    GIVE(give_back(self, (uintptr_t)pointer, true));
}

/* --------------------------------------------------------------------------------------- copies */

int driver_copy(Thread *self, Stream *stream, uintptr_t to, uintptr_t from, size_t size)
{
    Box box = {to, from, size, 1, size, size};
    return work_copy(self, stream, "copy", &box);
}

/* Memory that a device cannot see cannot be filled by it. */
int driver_fill(Thread *self, Stream *stream, uintptr_t to, int value, size_t size)
{
    Op *op = op_new("memset");
    op_touch(op, to, size, true, value & 0xff);
    return work_submit(self, stream, op);
}
