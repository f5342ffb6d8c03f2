/* SPDX-License-Identifier: Apache-2.0 */

/* A buffer exporter that says of its memory whatever it is told to, and may call a function when it
 * is released: with the exception that is pending then, as CPython's own exporters do not. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "module.h"

#define MAX_NDIM 8

typedef struct {
    PyObject_HEAD
    PyObject *memory; /* bytes */
    char format[16];
    Py_ssize_t itemsize, shape[MAX_NDIM], strides[MAX_NDIM], suboffsets[MAX_NDIM];
    int ndim, of_pointers; /* whether there are suboffsets */
    PyObject *released;    /* NULL, or what is called */
} exporter;

/* All is given, asked for by the flags or not. */
static int get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    exporter *own = (exporter *)self;
    view->buf = PyBytes_AS_STRING(own->memory);
    view->obj = Py_NewRef(self);
    view->len = 0;
    view->itemsize = own->itemsize;
    view->readonly = 1;
    view->ndim = own->ndim;
    view->format = own->format;
    view->shape = own->shape;
    view->strides = own->strides;
    view->suboffsets = own->of_pointers ? own->suboffsets : NULL;
    view->internal = NULL;
    return 0;
}

static void release_buffer(PyObject *self, Py_buffer *view)
{
    PyObject *function = ((exporter *)self)->released;
    PyObject *result = function == NULL ? NULL : PyObject_CallNoArgs(function);
    Py_XDECREF(result);
}

static void dealloc(PyObject *self)
{
    Py_DECREF(((exporter *)self)->memory);
    Py_XDECREF(((exporter *)self)->released);
    PyObject_Free(self);
}

static PyBufferProcs procs = {get_buffer, release_buffer};

static PyTypeObject type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "exporter.Exporter",
    .tp_basicsize = sizeof(exporter),
    .tp_dealloc = dealloc,
    .tp_as_buffer = &procs,
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

/* exporter(memory, format, itemsize, shape, strides, released=..., suboffsets=...) */
static PyObject *make(PyObject *module, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"memory",  "format",   "itemsize",   "shape",
                            "strides", "released", "suboffsets", NULL};
    PyObject *memory, *shape, *strides, *released = NULL, *suboffsets = NULL;
    const char *format;
    Py_ssize_t itemsize;
    exporter *made;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "SsnO!O!|OO!", names, &memory, &format,
                                     &itemsize, &PyTuple_Type, &shape, &PyTuple_Type, &strides,
                                     &released, &PyTuple_Type, &suboffsets))
        return NULL;
    if (PyTuple_GET_SIZE(shape) > MAX_NDIM ||
        PyTuple_GET_SIZE(strides) != PyTuple_GET_SIZE(shape) ||
        (suboffsets != NULL && PyTuple_GET_SIZE(suboffsets) != PyTuple_GET_SIZE(shape)))
        return PyErr_Format(PyExc_ValueError, "expected tuples of one length up to 8");
    made = PyObject_New(exporter, &type);
    if (made == NULL)
        return NULL;
    made->memory = Py_NewRef(memory);
    made->released = Py_XNewRef(released);
    made->itemsize = itemsize;
    PyOS_snprintf(made->format, sizeof(made->format), "%s", format);
    made->ndim = (int)PyTuple_GET_SIZE(shape);
    made->of_pointers = suboffsets != NULL;
    for (int i = 0; i < made->ndim; i++) {
        made->shape[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i));
        made->strides[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(strides, i));
        if (suboffsets != NULL)
            made->suboffsets[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(suboffsets, i));
    }
    if (PyErr_Occurred())
        Py_CLEAR(made);
    return (PyObject *)made;
}

static PyMethodDef methods[] = {
    {"exporter", (PyCFunction)(void (*)(void))make, METH_VARARGS | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "exporter", .m_size = -1,
                             .m_methods = methods};

PyMODINIT_FUNC PyInit_exporter(void)
{
    return PyType_Ready(&type) < 0 ? NULL : create_module(&module);
}
