/* SPDX-License-Identifier: Apache-2.0 */
#include "export.h"

#include <string.h>

#include "devices.h"
#include "lifetime.h"

static const char versioned_name[] = "dltensor_versioned";
static const char legacy_name[] = "dltensor";

/* Whether no consumer has taken the tensor out of `capsule`, which would have renamed it. The name
 * pointers differ only if it was renamed back. */
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

static PyObject *full_dlpack_method; /* the method that handles every call */

/* The keywords, interned like those in a call. */
enum {
    MAX_VERSION,
    STREAM,
    DL_DEVICE,
    COPY,
    VERSION,
    KEYWORDS
};
static const char *const keyword_text[KEYWORDS] = {"max_version", "stream", "dl_device", "copy",
                                                   "version"};
static PyObject *keywords[KEYWORDS];
static PyObject *one; /* CPython has one object for each small int */

/* Whether `number` is an ordinary int of at least `least`. */
static int is_at_least(PyObject *number, long least)
{
    int overflow;
    long value;
    if (number == one)
        return 1 >= least;
    if (!PyLong_CheckExact(number))
        return 0;
    value = PyLong_AsLongAndOverflow(number, &overflow);
    return overflow == 0 && value >= least;
}

static int is_version(PyObject *value)
{
    return PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == 2 &&
           is_at_least(PyTuple_GET_ITEM(value, 0), FASTDL_DLPACK_MAJOR) &&
           is_at_least(PyTuple_GET_ITEM(value, 1), 0);
}

/* Which keyword `name` is, or KEYWORDS if it is none. Callers in Python intern their names; some
 * in C (NumPy 2.2) do not. */
static int keyword_of(PyObject *name)
{
    int k = 0;
    while (k < KEYWORDS && name != keywords[k])
        k++;
    if (k == KEYWORDS)
        for (k = 0; k < KEYWORDS; k++)
            if (PyUnicode_CompareWithASCIIString(name, keyword_text[k]) == 0)
                break;
    return k;
}

/* Whether the keywords are a max_version that allows a versioned capsule, a stream, and others that
 * are None. 0 when in doubt, here and below: the full method then decides. */
static int wants_versioned(PyObject *const *values, PyObject *names, PyObject **stream)
{
    int wanted = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        int keyword = keyword_of(PyTuple_GET_ITEM(names, i));
        if (keyword == STREAM)
            *stream = values[i];
        else if (keyword == MAX_VERSION ? !is_version(values[i])
                                        : keyword == KEYWORDS || values[i] != Py_None)
            return 0;
        wanted |= keyword == MAX_VERSION;
    }
    return wanted;
}

/* Reads the `stream` argument that a consumer of device memory passed. 0 if it is not clear. */
static int is_stream(PyObject *passed, int kind, int64_t *stream)
{
    int overflow;
    *stream = fdl_default_stream(kind);
    if (passed == Py_None)
        return 1;
    if (!PyLong_CheckExact(passed))
        return 0;
    *stream = PyLong_AsLongLongAndOverflow(passed, &overflow);
    return !overflow && (*stream == -1 || *stream > 2 || *stream == fdl_default_stream(kind));
}

/* A capsule for an unambiguous call. NULL without an exception for any other. */
static PyObject *plain_capsule(PyObject *self, PyObject *const *arguments, PyObject *names)
{
    const DLManagedTensorVersioned *managed = &fdl_description_in(self)->managed;
    DLDevice device = managed->dl_tensor.device;
    const fastdl_device_fact *fact;
    PyObject *passed = Py_None;
    int64_t stream;
    if (!wants_versioned(arguments, names, &passed) ||
        fastdl_is_packed(managed->dl_tensor.dtype, managed->flags))
        return NULL;
    if (device.device_type == kDLCPU)
        return passed == Py_None ? fdl_versioned_capsule(self, 0) : NULL;
    fact = fastdl_find_device((int32_t)device.device_type);
    if (!fdl_is_ordered(fact) || !is_stream(passed, fact->stream, &stream) ||
        fdl_order_for(self, stream) < 0)
        return NULL;
    return fdl_versioned_capsule(self, 0);
}

static PyObject *dlpack(PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                        PyObject *names)
{
    PyObject *method, *result;
    if (count == 0 && names != NULL) {
        result = plain_capsule(self, arguments, names);
        if (result != NULL || PyErr_Occurred())
            return result;
    }
    method = Py_TYPE(full_dlpack_method)
                 ->tp_descr_get(full_dlpack_method, self, (PyObject *)Py_TYPE(self));
    if (method == NULL)
        return NULL;
    result = PyObject_Vectorcall(method, arguments, (size_t)count, names);
    Py_DECREF(method);
    return result;
}

int fdl_speed_up_dlpack(PyTypeObject *type)
{
    static PyMethodDef definition = {"__dlpack__", (PyCFunction)(void (*)(void))dlpack,
                                     METH_FASTCALL | METH_KEYWORDS, NULL};
    PyObject *front;
    int failed;
    one = PyLong_FromLong(1);
    if (one == NULL)
        return -1;
    for (int i = 0; i < KEYWORDS; i++) {
        keywords[i] = PyUnicode_InternFromString(keyword_text[i]);
        if (keywords[i] == NULL)
            return -1;
    }
    full_dlpack_method = fastdl_class_item_(type->tp_dict, definition.ml_name);
    if (full_dlpack_method == NULL ||
        !PyObject_TypeCheck(full_dlpack_method, &PyMethodDescr_Type)) {
        PyErr_SetString(PyExc_ImportError, "fastdl.Tensor has no method __dlpack__ to speed up");
        return -1;
    }
    definition.ml_doc = ((PyMethodDescrObject *)full_dlpack_method)->d_method->ml_doc;
    front = PyDescr_NewMethod(type, &definition);
    if (front == NULL)
        return -1;
    failed = PyDict_SetItemString(type->tp_dict, definition.ml_name, front);
    Py_DECREF(front);
    PyType_Modified(type);
    return failed;
}
