/* SPDX-License-Identifier: Apache-2.0
 *
 * What the extension modules of the tests have in common: what they say of a tensor, and that they
 * leave the GIL of a free-threaded CPython off. Fit for C++ and the limited API.
 */
#ifndef FASTDL_TESTS_MODULE_H_
#define FASTDL_TESTS_MODULE_H_

#include <Python.h>

#include <fastdl/dlpack.h>

/* What CPython calls has parameters that it may have no use for. */
#ifdef __GNUC__
#pragma GCC diagnostic ignored "-Wunused-parameter"
#endif

static inline PyObject *create_module(PyModuleDef *definition)
{
    PyObject *module = PyModule_Create(definition);
#ifdef Py_GIL_DISABLED
    if (module != NULL && PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED) < 0)
        Py_CLEAR(module);
#endif
    return module;
}

/* The module itself, of these functions. */
#define DEFINE_MODULE(name, functions)                                                             \
    static struct PyModuleDef module = {                                                           \
        PyModuleDef_HEAD_INIT, #name, NULL, -1, functions, NULL, NULL, NULL, NULL,                 \
    };                                                                                             \
    PyMODINIT_FUNC PyInit_##name(void)                                                             \
    {                                                                                              \
        return create_module(&module);                                                             \
    }

static inline PyObject *int_tuple(const int64_t *values, int32_t n)
{
    PyObject *tuple = PyTuple_New(n);
    for (int32_t i = 0; tuple != NULL && i < n; i++)
        PyTuple_SetItem(tuple, i, PyLong_FromLongLong(values[i]));
    return tuple;
}

/* What is in a tensor, as a dict, with `more`, a dict that this takes over; its strides are None
 * if there are none but should be. NULL if `more` is. */
static inline PyObject *tensor_fields(const DLTensor *t, PyObject *more)
{
    PyObject *strides =
        t->strides == NULL && t->ndim != 0 ? Py_BuildValue("") : int_tuple(t->strides, t->ndim);
    PyObject *fields = Py_BuildValue(
        "{sK s(ii) si s(iii) sN sN sK}", "data", (unsigned long long)(uintptr_t)t->data, "device",
        (int)t->device.device_type, (int)t->device.device_id, "ndim", (int)t->ndim, "dtype",
        (int)t->dtype.code, (int)t->dtype.bits, (int)t->dtype.lanes, "shape",
        int_tuple(t->shape, t->ndim), "strides", strides, "byte_offset",
        (unsigned long long)t->byte_offset);
    if (fields != NULL && (more == NULL || PyDict_Update(fields, more) < 0))
        Py_CLEAR(fields);
    Py_XDECREF(more);
    return fields;
}

#ifdef FASTDL_FASTDL_H_
/* The same of a view, and whether something was owned for it. */
static inline PyObject *seen(const fastdl_view *view)
{
    return tensor_fields(&view->dl,
                         Py_BuildValue("{sK sN}", "flags", (unsigned long long)view->flags, "owned",
                                       PyBool_FromLong(view->own_ != NULL)));
}

/* import_runtime() */
static inline PyObject *import_runtime(PyObject *self, PyObject *unused)
{
    if (fastdl_import() < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* borrow(obj): what was seen() in the borrowed tensor. */
static inline PyObject *borrow(PyObject *self, PyObject *obj)
{
    fastdl_view view;
    PyObject *result;
    if (fastdl_borrow(obj, &view) < 0) {
        fastdl_release(&view); /* allowed after a failure */
        return NULL;
    }
    result = seen(&view);
    fastdl_release(&view);
    fastdl_release(&view); /* idempotent */
    return result;
}
#endif

#endif
