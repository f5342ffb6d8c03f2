/* The symbols of libcuda.so.1 that HIP has not: the driver itself, devices, primary contexts. */
#include "simulated.h"

#include <unistd.h>

typedef int CUdevice;
typedef void *CUcontext;

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

static const struct {
    int code;
    const char *name;
} errors[] = {
    {SUCCESS, "CUDA_SUCCESS"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
    {DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED"},
    {34, "CUDA_ERROR_STUB_LIBRARY"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
    {ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE"},
    {NOT_READY, "CUDA_ERROR_NOT_READY"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
    {NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
    {CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE"},
    {CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"},
    {CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
    {CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
    {CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
    {CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT"},
    {CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"},
    {999, "CUDA_ERROR_UNKNOWN"},
};

EXPORT int cuGetErrorName(int code, const char **name)
{
    CALL(ANYTIME | CALLBACK);
    if (name == NULL)
        GIVE(INVALID_VALUE);
    *name = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code)
            *name = errors[i].name;
    GIVE(*name == NULL ? INVALID_VALUE : SUCCESS);
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
