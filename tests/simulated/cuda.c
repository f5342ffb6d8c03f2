/* The symbols of libcuda.so.1, but for those about memory, and contexts beside the primary ones. */
#include "simulated.h"

#include <stdio.h>
#include <unistd.h>

typedef int CUdevice;
typedef unsigned long long cuuint64_t;
typedef void *CUcontext, *CUstream, *CUevent, *CUgraph;

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
    {CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
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
    CALL("cuDevicePrimaryCtxRetain", 0);
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
    CALL("cuDevicePrimaryCtxRelease_v2", 0);
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
    CALL("cuCtxSynchronize", CONTEXT);
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
    CALL("cuEventSynchronize", CONTEXT);
    EVENT(event_handle);
    GIVE(work_sync_event(self, event));
}

EXPORT int cuEventDestroy_v2(CUevent event_handle)
{
    CALL("cuEventDestroy_v2", CONTEXT);
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
    CALL("cuStreamSynchronize", CONTEXT);
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
