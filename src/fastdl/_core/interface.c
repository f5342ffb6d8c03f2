/* SPDX-License-Identifier: Apache-2.0 */
#define FASTDL_SHARED_ /* not static */
#include "interface.h"

#include <fastdl/fastdl.c>

#include "devices.h"

PyObject *fdl_special(PyObject *obj, PyObject *name)
{
    fastdl_method_ method;
    PyObject *bound;
    if (fastdl_find_method_(obj, name, &method) <= 0)
        return NULL;
    if (method.self == NULL)
        return method.callable;
    bound = fastdl_getter_(method.callable)(method.callable, obj, (PyObject *)Py_TYPE(obj));
    Py_DECREF(method.callable);
    return bound;
}

int fdl_make_home(void)
{
    return fastdl_get_names_() == NULL ? -1 : 0;
}

int fdl_announced_device(PyObject *obj, DLDevice *device)
{
    const fastdl_names_ *names = fastdl_get_names_();
    int32_t numbers[2];
    if (names == NULL || fastdl_request_device_(obj, names, numbers) < 0)
        return -1;
    device->device_type = (DLDeviceType)numbers[0];
    device->device_id = numbers[1];
    return 0;
}

PyObject *fdl_request(PyObject *obj, int plain)
{
    const fastdl_names_ *names = fastdl_get_names_();
    PyObject *arguments[3];
    if (names == NULL)
        return NULL;
    arguments[0] = NULL; /* for the callee: PY_VECTORCALL_ARGUMENTS_OFFSET */
    arguments[1] = obj;
    arguments[2] = names->version;
    return PyObject_VectorcallMethod(names->dlpack, arguments + 1,
                                     1 | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                     plain ? NULL : names->max_version);
}

/* ---- the allocator of every exchange table of fastdl ---- */

int fdl_allocate(DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
                 void (*SetError)(void *error_ctx, const char *kind, const char *message))
{
    const char *kind = "BufferError", *message;
    fastdl_layout layout;
    /* Only these members of a prototype are valid. */
    DLTensor tensor = {.data = &layout,
                       .device = prototype->device,
                       .ndim = prototype->ndim,
                       .dtype = prototype->dtype,
                       .shape = prototype->shape};
    fastdl_fault fault = fastdl_check(&tensor, 0, &layout);
    fdl_description *description;

    if (fault == FASTDL_OFFSET_OVERFLOW) { /* on 32 bits, from the size itself */
        kind = "MemoryError";
        message = "the tensor is larger than the address space";
    } else if (fault != FASTDL_OK) {
        message = fastdl_fault_text(fault);
    } else if (tensor.device.device_type != kDLCPU) {
        message =
            "fastdl allocates ordinary host memory only: allocate with your library, and pass "
            "its tensor to fastdl_own (torch, Paddle and CuPy allocate device memory for their own "
            "types)";
    } else {
        description = fdl_memory_new(&tensor, 0, layout.nbytes);
        if (description != NULL) {
            *out = &description->managed;
            return 0;
        }
        kind = "MemoryError";
        message = "there is not enough memory on the host";
    }
    if (SetError != NULL)
        SetError(error_ctx, kind, message);
    return -1;
}

/* ---- calls into the device layer ---- */

const fdl_device_calls *fdl_devices;

int fdl_current_work_stream(DLDeviceType type, int32_t id, void **out)
{
    if (fdl_devices == NULL) {
        *out = NULL;
        return 0;
    }
    return fdl_devices->current_work_stream(type, id, out);
}

int fdl_order(DLDevice device, void *source, void *stream)
{
    const fastdl_device_fact *fact = fastdl_find_device((int32_t)device.device_type);
    int64_t legacy = fdl_default_stream(fact->stream);
    if (fdl_devices != NULL && fdl_is_ordered(fact))
        return fdl_devices->order_streams(device,
                                          source == NULL ? legacy : (int64_t)(uintptr_t)source,
                                          stream == NULL ? legacy : (int64_t)(uintptr_t)stream);
    PyErr_Format(
        PyExc_BufferError,
        "expected a tensor on a device of CUDA or ROCm, whose streams fastdl can order, got "
        "device (%d, %d): work on the stream from fastdl_work_stream",
        (int)device.device_type, (int)device.device_id);
    return -1;
}
