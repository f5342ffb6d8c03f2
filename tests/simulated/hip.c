/* SPDX-License-Identifier: Apache-2.0 */

/* The symbols of libamdhip64.so.6 that CUDA has not, or in another form. HIP has no stack of
 * contexts: each thread has a current device, and the runtime looks after the rest. */
#include "simulated.h"

#include <unistd.h>

typedef void *hipStream_t;

typedef struct {
    int type, device;
    void *devicePointer, *hostPointer;
    int isManaged;
    unsigned allocationFlags;
} hipPointerAttribute_t;

enum {
    INFERRED = 4, /* the direction of a copy, from its pointers */
    NO_SUCH_DIRECTION = 21,
    ROCM_6 = 60000000
};

/* ------------------------------------------------------------------------------ runtime, devices
 */

/* Most calls initialise the runtime by themselves. */
int driver_ready(void)
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
    CALL(0);
    GIVE(flags == 0 ? SUCCESS : INVALID_VALUE);
}

EXPORT int hipGetDevice(int *device)
{
    CALL(0);
    *device = self->device;
    GIVE(SUCCESS);
}

EXPORT int hipSetDevice(int device)
{
    CALL(0);
    if (context_of(device) == NULL)
        GIVE(INVALID_DEVICE);
    self->device = device;
    GIVE(SUCCESS);
}

/* These cannot fail: what they return is what another call has failed with. */
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

/* --------------------------------------------------------------------------------------- memory */

/* ROCm 6 renumbered the kinds of memory, and knows one for pointers that are not its own. */
static int memory_type(const Allocation *allocation)
{
    bool old = driver_version() < ROCM_6;
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
    CALL(0);
    const Allocation *allocation = memory_ask(self, (uintptr_t)pointer);
    if (allocation == NULL) {
        if (driver_version() < ROCM_6)
            GIVE(INVALID_VALUE);
        *attributes = (hipPointerAttribute_t){.type = 0, .device = -2};
        GIVE(SUCCESS);
    }
    bool device = allocation->kind == DEVICE_MEMORY;
    *attributes = (hipPointerAttribute_t){.type = memory_type(allocation),
                                          .device = allocation->device,
                                          .devicePointer = (void *)(uintptr_t)pointer,
                                          .hostPointer = device ? NULL : (void *)(uintptr_t)pointer,
                                          .isManaged = allocation->kind == MANAGED_MEMORY};
    GIVE(SUCCESS);
}

/* --------------------------------------------------------------------------------------- copies */

EXPORT int hipMemcpyAsync(void *to, const void *from, size_t size, int kind, hipStream_t handle)
{
    CALL(0);
    STREAM(handle);
    FAIL_ON(kind == INFERRED ? SUCCESS : NO_SUCH_DIRECTION);
    Box box = {(uintptr_t)to, (uintptr_t)from, size, 1, size, size};
    GIVE(work_copy(self, stream, "copy", &box));
}

EXPORT int hipMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                            size_t width, size_t height, int kind, hipStream_t handle)
{
    CALL(0);
    STREAM(handle);
    FAIL_ON(kind == INFERRED ? SUCCESS : NO_SUCH_DIRECTION);
    Box box = {(uintptr_t)to, (uintptr_t)from, width, height, to_pitch, from_pitch};
    GIVE(work_copy(self, stream, "2D copy", &box));
}
