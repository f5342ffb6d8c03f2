/* The symbols of libamdhip64.so.6. HIP has no stack of contexts: each thread has a current device,
 * and the runtime looks after the rest. */
#include "simulated.h"

#include <string.h>
#include <unistd.h>

typedef int hipDevice_t;
typedef void *hipStream_t, *hipEvent_t, *hipGraph_t, *hipArray_t, *hipCtx_t, *hipMemPool_t;

typedef struct {
    int type, device;
    void *devicePointer, *hostPointer;
    int isManaged;
    unsigned allocationFlags;
} hipPointerAttribute_t;

enum {
    NO_SUCH_DIRECTION = 21,
    DEFAULT_VERSION = 60241133,
    CAPTURES_SURVIVE = 70253211, /* ROCm 7.2.1 */
    ROCM_6 = 60000000
};

/* ------------------------------------------------------------------------------ runtime, devices
 */

/* Most calls initialise the runtime by themselves. */
#define HIP_CALL(name, flags)                                                                      \
    CALL(name, (flags) | ANYTIME);                                                                 \
    FAIL_ON(initialize())

static int initialize(void)
{
    if (settings.initialized && settings.process != getpid())
        return NOT_INITIALIZED;
    if (settings.devices == 0)
        return NO_DEVICE;
    settings.initialized = true;
    settings.process = getpid();
    return SUCCESS;
}

EXPORT int hipInit(unsigned flags)
{
    HIP_CALL("hipInit", 0);
    GIVE(flags == 0 ? SUCCESS : INVALID_VALUE);
}

static int runtime_version(void)
{
    return settings.version != 0 ? settings.version : DEFAULT_VERSION;
}

EXPORT int hipRuntimeGetVersion(int *version)
{
    CALL("hipRuntimeGetVersion", ANYTIME);
    if (version == NULL)
        GIVE(INVALID_VALUE);
    *version = runtime_version();
    GIVE(SUCCESS);
}

EXPORT int hipDriverGetVersion(int *version)
{
    CALL("hipDriverGetVersion", ANYTIME);
    if (version == NULL)
        GIVE(INVALID_VALUE);
    *version = runtime_version();
    GIVE(SUCCESS);
}

EXPORT int hipGetDeviceCount(int *count)
{
    HIP_CALL("hipGetDeviceCount", 0);
    if (count == NULL)
        GIVE(INVALID_VALUE);
    *count = settings.devices;
    GIVE(SUCCESS);
}

EXPORT int hipGetDevice(int *device)
{
    HIP_CALL("hipGetDevice", 0);
    if (device == NULL)
        GIVE(INVALID_VALUE);
    *device = self->device;
    GIVE(SUCCESS);
}

EXPORT int hipSetDevice(int device)
{
    HIP_CALL("hipSetDevice", 0);
    if (context_of(device) == NULL)
        GIVE(INVALID_DEVICE);
    self->device = device;
    GIVE(SUCCESS);
}

EXPORT int hipDeviceSynchronize(void)
{
    HIP_CALL("hipDeviceSynchronize", 0);
    GIVE(work_sync_context(self, context_of(self->device)));
}

static const struct {
    int code;
    const char *name, *text;
} errors[] = {
    {SUCCESS, "hipSuccess", "no error"},
    {INVALID_VALUE, "hipErrorInvalidValue", "invalid argument"},
    {OUT_OF_MEMORY, "hipErrorOutOfMemory", "out of memory"},
    {NOT_INITIALIZED, "hipErrorNotInitialized", "initialization error"},
    {DEINITIALIZED, "hipErrorDeinitialized", "driver shutting down"},
    {NO_SUCH_DIRECTION, "hipErrorInvalidMemcpyDirection", "invalid copy direction"},
    {NO_DEVICE, "hipErrorNoDevice", "no device is detected"},
    {INVALID_DEVICE, "hipErrorInvalidDevice", "invalid device ordinal"},
    {INVALID_CONTEXT, "hipErrorInvalidContext", "invalid device context"},
    {INVALID_HANDLE, "hipErrorInvalidHandle", "invalid resource handle"},
    {ILLEGAL_STATE, "hipErrorIllegalState", "not permitted in the present state"},
    {NOT_READY, "hipErrorNotReady", "device not ready"},
    {700, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {NOT_SUPPORTED, "hipErrorNotSupported", "operation not supported"},
    {CAPTURE_UNSUPPORTED, "hipErrorStreamCaptureUnsupported", "not while capturing"},
    {CAPTURE_INVALIDATED, "hipErrorStreamCaptureInvalidated", "the capture was broken"},
    {CAPTURE_MERGE, "hipErrorStreamCaptureMerge", "two captures cannot become one"},
    {CAPTURE_UNMATCHED, "hipErrorStreamCaptureUnmatched", "not the stream it began with"},
    {CAPTURE_UNJOINED, "hipErrorStreamCaptureUnjoined", "a fork was not joined"},
    {CAPTURE_ISOLATION, "hipErrorStreamCaptureIsolation", "an edge crosses the border"},
    {CAPTURE_IMPLICIT, "hipErrorStreamCaptureImplicit", "an implicit edge on a capture"},
    {CAPTURED_EVENT, "hipErrorCapturedEvent", "the event belongs to a capture"},
    {CAPTURE_WRONG_THREAD, "hipErrorStreamCaptureWrongThread", "another thread's capture"},
};

static void check_gil(const char *name)
{
    if (!holds_gil())
        return;
    lock();
    gil_violation(name);
    unlock();
}

/* These two return texts, and so cannot fail. */
static const char *error_text(int code, bool name)
{
    check_gil(name ? "hipGetErrorName" : "hipGetErrorString");
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code)
            return name ? errors[i].name : errors[i].text;
    return name ? "hipErrorUnknown" : "unknown error";
}

EXPORT const char *hipGetErrorName(int code)
{
    return error_text(code, true);
}

EXPORT const char *hipGetErrorString(int code)
{
    return error_text(code, false);
}

/* Nor can these: what they return is what another call has failed with. */
static int last_error(bool forget)
{
    check_gil(forget ? "hipGetLastError" : "hipPeekAtLastError");
    lock();
    Thread *self = thread_self();
    int code = self->last_error;
    if (forget)
        self->last_error = SUCCESS;
    unlock();
    return code;
}

EXPORT int hipGetLastError(void)
{
    return last_error(true);
}

EXPORT int hipPeekAtLastError(void)
{
    return last_error(false);
}

/* --------------------------------------------------------------------------------------- events */

EXPORT int hipEventCreateWithFlags(hipEvent_t *handle, unsigned flags)
{
    HIP_CALL("hipEventCreateWithFlags", 0);
    /* Flags above CUDA's three choose fences, which have no meaning here. */
    GIVE(event_create(context_of(self->device), flags & 7u, handle));
}

EXPORT int hipEventRecord(hipEvent_t event_handle, hipStream_t handle)
{
    HIP_CALL("hipEventRecord", 0);
    EVENT(event_handle);
    STREAM(settings.has_misdirect ? settings.misdirect : handle);
    GIVE(work_record(self, event, stream));
}

/* Of calls that make the host wait, or ask whether it would: whatever is being captured breaks,
 * whoever calls, and in whatever mode; from ROCm 7.2.1 on as on CUDA. */
static int break_captures(void)
{
    if (!capture_any() || runtime_version() >= CAPTURES_SURVIVE)
        return SUCCESS;
    capture_invalidate_all();
    return CAPTURE_UNSUPPORTED;
}

EXPORT int hipEventQuery(hipEvent_t event_handle)
{
    HIP_CALL("hipEventQuery", 0);
    EVENT(event_handle);
    FAIL_ON(break_captures());
    GIVE(work_query_event(self, event));
}

EXPORT int hipEventSynchronize(hipEvent_t event_handle)
{
    HIP_CALL("hipEventSynchronize", 0);
    EVENT(event_handle);
    FAIL_ON(break_captures());
    GIVE(work_sync_event(self, event));
}

EXPORT int hipEventDestroy(hipEvent_t event_handle)
{
    HIP_CALL("hipEventDestroy", 0);
    EVENT(event_handle);
    GIVE(event_destroy(event));
}

/* -------------------------------------------------------------------------------------- streams */

EXPORT int hipStreamCreateWithFlags(hipStream_t *handle, unsigned flags)
{
    HIP_CALL("hipStreamCreateWithFlags", 0);
    GIVE(stream_create(context_of(self->device), flags, 0, handle));
}

EXPORT int hipStreamDestroy(hipStream_t handle)
{
    HIP_CALL("hipStreamDestroy", 0);
    STREAM(handle);
    FAIL_ON(capture_ask(stream));
    GIVE(stream_destroy(self, stream));
}

EXPORT int hipStreamWaitEvent(hipStream_t handle, hipEvent_t event_handle, unsigned flags)
{
    HIP_CALL("hipStreamWaitEvent", 0);
    EVENT(event_handle);
    STREAM(handle);
    if (flags > 1)
        GIVE(INVALID_VALUE);
    GIVE(work_wait(self, stream, event));
}

EXPORT int hipStreamSynchronize(hipStream_t handle)
{
    HIP_CALL("hipStreamSynchronize", 0);
    STREAM(handle);
    FAIL_ON(break_captures());
    GIVE(work_sync_stream(self, stream));
}

EXPORT int hipStreamQuery(hipStream_t handle)
{
    HIP_CALL("hipStreamQuery", 0);
    STREAM(handle);
    GIVE(work_query_stream(self, stream));
}

EXPORT int hipStreamGetFlags(hipStream_t handle, unsigned *flags)
{
    HIP_CALL("hipStreamGetFlags", 0);
    STREAM(handle);
    if (flags == NULL)
        GIVE(INVALID_VALUE);
    *flags = stream->flags;
    GIVE(SUCCESS);
}

EXPORT_OPTIONAL int hipStreamGetDevice(hipStream_t handle, hipDevice_t *device)
{
    HIP_CALL("hipStreamGetDevice", 0);
    STREAM(handle);
    if (device == NULL)
        GIVE(INVALID_VALUE);
    FAIL_ON(capture_ask(stream));
    *device = stream->context->device;
    GIVE(SUCCESS);
}

EXPORT int hipLaunchHostFunc(hipStream_t handle, void (*function)(void *), void *data)
{
    HIP_CALL("hipLaunchHostFunc", 0);
    STREAM(handle);
    if (function == NULL)
        GIVE(INVALID_VALUE);
    Op *op = op_new("host function");
    op->function = function;
    op->data = data;
    GIVE(work_submit(self, stream, op));
}

/* -------------------------------------------------------------------------------------- capture */

EXPORT int hipStreamBeginCapture(hipStream_t handle, int mode)
{
    HIP_CALL("hipStreamBeginCapture", 0);
    STREAM(handle);
    GIVE(capture_begin(self, stream, mode));
}

EXPORT int hipStreamEndCapture(hipStream_t handle, hipGraph_t *graph)
{
    HIP_CALL("hipStreamEndCapture", 0);
    STREAM(handle);
    GIVE(capture_end(self, stream, graph));
}

EXPORT int hipGraphDestroy(hipGraph_t graph)
{
    HIP_CALL("hipGraphDestroy", 0);
    GIVE(graph == NULL ? INVALID_VALUE : SUCCESS);
}

EXPORT int hipStreamIsCapturing(hipStream_t handle, int *status)
{
    HIP_CALL("hipStreamIsCapturing", 0);
    STREAM(handle);
    GIVE(capture_status(stream, status, NULL, NULL));
}

EXPORT_OPTIONAL int hipStreamGetCaptureInfo_v2(hipStream_t handle, int *status,
                                               unsigned long long *id, hipGraph_t *graph,
                                               const void **nodes, size_t *count)
{
    HIP_CALL("hipStreamGetCaptureInfo_v2", 0);
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

EXPORT int hipThreadExchangeStreamCaptureMode(int *mode)
{
    HIP_CALL("hipThreadExchangeStreamCaptureMode", 0);
    if (mode == NULL || *mode < MODE_GLOBAL || *mode > MODE_RELAXED)
        GIVE(INVALID_VALUE);
    int previous = self->mode;
    self->mode = *mode;
    *mode = previous;
    GIVE(SUCCESS);
}

/* --------------------------------------------------------------------------------------- memory */

/* ROCm 6 renumbered the kinds of memory, and knows one for pointers that are not its own. */
static int memory_type(const Allocation *allocation)
{
    bool old = runtime_version() < ROCM_6;
    switch (allocation->kind) {
    case PINNED_MEMORY:
        return old ? 0 : 1;
    case MANAGED_MEMORY:
        return old ? 4 : 3;
    default:
        return old ? 1 : 2;
    }
}

EXPORT int hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *pointer)
{
    HIP_CALL("hipPointerGetAttributes", 0);
    const Allocation *allocation = memory_find((uintptr_t)pointer);
    if (attributes == NULL || pointer == NULL)
        GIVE(INVALID_VALUE);
    if (allocation == NULL) {
        if (memory_is_ours((uintptr_t)pointer))
            violation(self, "the attributes of freed memory at %p are asked for", pointer);
        if (runtime_version() < ROCM_6)
            GIVE(INVALID_VALUE);
        *attributes = (hipPointerAttribute_t){.type = 0, .device = -2};
        GIVE(SUCCESS);
    }
    bool device = allocation->kind == DEVICE_MEMORY || allocation->kind == POOL_MEMORY;
    *attributes = (hipPointerAttribute_t){.type = memory_type(allocation),
                                          .device = allocation->device,
                                          .devicePointer = (void *)(uintptr_t)pointer,
                                          .hostPointer = device ? NULL : (void *)(uintptr_t)pointer,
                                          .isManaged = allocation->kind == MANAGED_MEMORY,
                                          .allocationFlags = allocation->flags};
    GIVE(SUCCESS);
}

static int allocate(Thread *self, Stream *stream, int device, Kind kind, unsigned flags,
                    size_t size, void **pointer)
{
    uintptr_t address = 0;
    int code = stream == NULL ? capture_unsafe(self) : SUCCESS;
    if (code == SUCCESS && pointer == NULL)
        code = INVALID_VALUE;
    if (code == SUCCESS && size > 0) /* HIP gives NULL for nothing, CUDA refuses */
        code = memory_allocate(self, stream, device, kind, flags, size, &address);
    if (code == SUCCESS)
        *pointer = (void *)address;
    return code;
}

static int give_back(Thread *self, Stream *stream, void *pointer, bool host_call)
{
    int code = stream == NULL ? capture_unsafe(self) : SUCCESS;
    if (code != SUCCESS || pointer == NULL)
        return code;
    return memory_free(self, stream, (uintptr_t)pointer, host_call);
}

EXPORT int hipMalloc(void **pointer, size_t size)
{
    HIP_CALL("hipMalloc", 0);
    GIVE(allocate(self, NULL, self->device, DEVICE_MEMORY, 0, size, pointer));
}

EXPORT int hipFree(void *pointer)
{
    HIP_CALL("hipFree", 0);
    FAIL_ON(break_captures());
    GIVE(give_back(self, NULL, pointer, false));
}

EXPORT_OPTIONAL int hipMallocAsync(void **pointer, size_t size, hipStream_t handle)
{
    HIP_CALL("hipMallocAsync", 0);
    STREAM(handle);
    if (!stream->context->attributes[115])
        GIVE(NOT_SUPPORTED);
    GIVE(allocate(self, stream, stream->context->device, POOL_MEMORY, 0, size, pointer));
}

EXPORT_OPTIONAL int hipFreeAsync(void *pointer, hipStream_t handle)
{
    HIP_CALL("hipFreeAsync", 0);
    STREAM(handle);
    GIVE(give_back(self, stream, pointer, false));
}

EXPORT_OPTIONAL int hipMallocManaged(void **pointer, size_t size, unsigned flags)
{
    HIP_CALL("hipMallocManaged", 0);
    GIVE(allocate(self, NULL, self->device, MANAGED_MEMORY, flags, size, pointer));
}

EXPORT int hipHostMalloc(void **pointer, size_t size, unsigned flags)
{
    HIP_CALL("hipHostMalloc", 0);
    GIVE(allocate(self, NULL, self->device, PINNED_MEMORY, flags, size, pointer));
}

EXPORT int hipHostFree(void *pointer)
{
    HIP_CALL("hipHostFree", 0);
    FAIL_ON(break_captures());
    GIVE(give_back(self, NULL, pointer, true));
}

EXPORT int hipHostGetDevicePointer(void **pointer, void *host, unsigned flags)
{
    HIP_CALL("hipHostGetDevicePointer", 0);
    const Allocation *allocation = memory_find((uintptr_t)host);
    if (pointer == NULL || flags != 0 || allocation == NULL || allocation->kind != PINNED_MEMORY)
        GIVE(INVALID_VALUE);
    *pointer = host;
    GIVE(SUCCESS);
}

/* --------------------------------------------------------------------------------------- copies */

static int copy_box(Thread *self, Stream *stream, const char *name, const Box *box, int kind)
{
    if (kind < 0 || kind > 4 || box->width > box->to_pitch || box->width > box->from_pitch)
        return kind < 0 || kind > 4 ? NO_SUCH_DIRECTION : INVALID_VALUE;
    return work_copy(self, stream, name, box);
}

static int copy_line(Thread *self, Stream *stream, const char *name, void *to, const void *from,
                     size_t size, int kind, bool peer)
{
    Box box = {.to = (uintptr_t)to,
               .from = (uintptr_t)from,
               .width = size,
               .height = 1,
               .to_pitch = size,
               .from_pitch = size,
               .peer = peer};
    return copy_box(self, stream, name, &box, kind);
}

EXPORT int hipMemcpyAsync(void *to, const void *from, size_t size, int kind, hipStream_t handle)
{
    HIP_CALL("hipMemcpyAsync", 0);
    STREAM(handle);
    GIVE(copy_line(self, stream, "copy", to, from, size, kind, false));
}

/* Whether memory is of a device. */
static bool is_of(const void *pointer, int device)
{
    const Allocation *allocation = memory_find((uintptr_t)pointer);
    return allocation == NULL || allocation->device == device;
}

EXPORT int hipMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                              size_t size, hipStream_t handle)
{
    HIP_CALL("hipMemcpyPeerAsync", 0);
    STREAM(handle);
    if (context_of(to_device) == NULL || context_of(from_device) == NULL)
        GIVE(INVALID_DEVICE);
    if (!is_of(to, to_device) || !is_of(from, from_device))
        GIVE(INVALID_VALUE);
    GIVE(copy_line(self, stream, "peer copy", to, from, size, 4, true));
}

EXPORT int hipMemsetAsync(void *to, int value, size_t size, hipStream_t handle)
{
    HIP_CALL("hipMemsetAsync", 0);
    STREAM(handle);
    Op *op = op_new("memset");
    op_touch(op, (uintptr_t)to, size, true, value & 0xff);
    GIVE(work_submit(self, stream, op));
}

EXPORT int hipMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                            size_t width, size_t height, int kind, hipStream_t handle)
{
    HIP_CALL("hipMemcpy2DAsync", 0);
    STREAM(handle);
    Box box = {.to = (uintptr_t)to,
               .from = (uintptr_t)from,
               .width = width,
               .height = height,
               .to_pitch = to_pitch,
               .from_pitch = from_pitch};
    GIVE(copy_box(self, stream, "2D copy", &box, kind));
}
