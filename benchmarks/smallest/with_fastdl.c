// SPDX-License-Identifier: Apache-2.0
//
// take(x): a float32 vector on the host, bound with fastdl.h in C.

#define FASTDL_IMPLEMENTATION
#include <fastdl/fastdl.h>

static volatile float sink; // so that the tensor is read

static PyObject *take(PyObject *module, PyObject *argument)
{
    static const uint32_t types[] = {FASTDL_FLOAT32};
    static const fastdl_spec spec = {.dtypes = types, .dtype_count = 1, .ndim = 1};
    fastdl_view x;
    (void)module;
    if (fastdl_borrow_as(argument, "x", &spec, &x) < 0)
        return NULL;
    sink = *(const float *)x.dl.data;
    fastdl_release(&x);
    return Py_NewRef(Py_None);
}

static PyMethodDef methods[] = {{"take", take, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "with_fastdl", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_with_fastdl(void)
{
    if (fastdl_import() < 0)
        PyErr_Clear();
    return PyModule_Create(&definition);
}
