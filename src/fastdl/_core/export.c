/* SPDX-License-Identifier: Apache-2.0 */
#include "export.h"

#include <string.h>

#include "devices.h"
#include "lifetime.h"

static const char versioned_name[] = "dltensor_versioned";
static const char legacy_name[] = "dltensor";

/* Whether no consumer has taken the tensor out of `capsule`; taking it renames the capsule. The
 * name pointers differ only if it was renamed back. */
static int untouched(PyObject *capsule, const char *name)
{
    const char *found = PyCapsule_GetName(capsule);
    /* The names that consumers give begin with "u". */
    return found == name || (found != NULL && found[0] == name[0] && strcmp(found, name) == 0);
}

static void destroy_versioned(PyObject *capsule)
{
    if (untouched(capsule, versioned_name))
        fdl_description_release(PyCapsule_GetPointer(capsule, versioned_name), 1);
}

static void destroy_legacy(PyObject *capsule)
{
    if (untouched(capsule, legacy_name))
        fastdl_discard_(NULL, PyCapsule_GetPointer(capsule, legacy_name));
}

int fdl_tensor_borrow(PyObject *tensor, fastdl_view *view)
{
    const fdl_description *description = fdl_description_in(tensor);
    view->dl = description->managed.dl_tensor;
    view->flags = description->managed.flags;
    fastdl_fold_offset_(&view->dl);
    return fdl_lend(description);
}

PyObject *fdl_versioned_capsule(PyObject *tensor, uint64_t more_flags)
{
    PyObject *capsule;
    fdl_description *copy = fdl_description_copy(fdl_description_in(tensor), more_flags);
    if (copy == NULL)
        return PyErr_NoMemory();
    capsule = PyCapsule_New(&copy->managed, versioned_name, destroy_versioned);
    if (capsule == NULL)
        fdl_description_release(copy, 1);
    return capsule;
}

PyObject *fdl_legacy_capsule(PyObject *tensor)
{
    PyObject *capsule;
    DLManagedTensor *copy = fdl_legacy_copy(fdl_description_in(tensor));
    if (copy == NULL)
        return PyErr_NoMemory();
    capsule = PyCapsule_New(copy, legacy_name, destroy_legacy);
    if (capsule == NULL)
        fastdl_discard_(NULL, copy);
    return capsule;
}

/* ---- the front of __dlpack__ ---- */

static fdl_exporter export_any; /* handles every call */

/* A capsule of device memory, for an unambiguous stream. NULL without an exception for any other
 * call. */
static PyObject *device_capsule(PyObject *self, const fastdl_request_ *request)
{
    DLDevice device = fdl_description_in(self)->managed.dl_tensor.device;
    const fastdl_device_fact *fact = fastdl_find_device((int32_t)device.device_type);
    int64_t legacy = fdl_default_stream(fact->stream);
    int64_t stream = request->has_stream ? request->stream : legacy;
    if (request->max_version[0] < FASTDL_DLPACK_MAJOR || request->copy >= 0 ||
        request->device.device_type != 0 || !fdl_is_ordered(fact) ||
        (stream >= 0 && stream <= 2 && stream != legacy) || fdl_order_for(self, stream) < 0)
        return NULL;
    return fdl_versioned_capsule(self, 0);
}

static PyObject *dlpack(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                        PyObject *names)
{
    const DLManagedTensorVersioned *managed = &fdl_description_in(self)->managed;
    fastdl_request_ request;
    PyObject *draft, *result;
    int is_plain = fastdl_read_request_(arguments, count, names, &request, &draft);
    if (is_plain < 0)
        return NULL;
    if (draft == NULL && !fastdl_is_packed(managed->dl_tensor.dtype, managed->flags)) {
        if (managed->dl_tensor.device.device_type != kDLCPU) {
            result = device_capsule(self, &request);
            if (result != NULL || PyErr_Occurred())
                return result;
        } else if (is_plain) {
            return fdl_versioned_capsule(self, 0);
        }
    }
    return export_any(self, &request, draft);
}

int fdl_define_dlpack(PyTypeObject *type, fdl_exporter exporter)
{
    static PyMethodDef definition = {"__dlpack__", (PyCFunction)(void (*)(void))dlpack,
                                     METH_FASTCALL | METH_KEYWORDS, NULL};
    PyObject *front, *declared = fastdl_class_item_(type->tp_dict, definition.ml_name);
    int failed;
    if (declared == NULL || !PyObject_TypeCheck(declared, &PyMethodDescr_Type)) {
        PyErr_SetString(PyExc_ImportError, "fastdl.Tensor does not declare __dlpack__");
        Py_XDECREF(declared);
        return -1;
    }
    definition.ml_doc = ((PyMethodDescrObject *)declared)->d_method->ml_doc;
    Py_DECREF(declared);
    export_any = exporter;
    front = PyDescr_NewMethod(type, &definition);
    if (front == NULL)
        return -1;
    failed = PyDict_SetItemString(type->tp_dict, definition.ml_name, front);
    Py_DECREF(front);
    PyType_Modified(type);
    return failed;
}
