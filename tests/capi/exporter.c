/* A buffer exporter that says of its memory whatever it is told to, and may call a function when it
 * is released: with the exception that is pending then, as CPython's own exporters do not. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "module.h"

#define MAX_NDIM 8

typedef struct {
    PyObject_HEAD
    PyObject *memory; /* bytes */
    char format[8];
    Py_ssize_t itemsize, shape[MAX_NDIM], strides[MAX_NDIM];
    int ndim;
    PyObject *released; /* NULL, or what is called */
} exporter;

static int get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    exporter *own = (exporter *)self;
    (void)flags; /* all is given, asked for or not */
    view->buf = PyBytes_AS_STRING(own->memory);
    view->obj = Py_NewRef(self);
    view->len = 0;
    view->itemsize = own->itemsize;
    view->readonly = 1;
    view->ndim = own->ndim;
    view->format = own->format;
    view->shape = own->shape;
    view->strides = own->strides;
    view->suboffsets = NULL;
    view->internal = NULL;
    return 0;
}

static void release_buffer(PyObject *self, Py_buffer *view)
{
    PyObject *function = ((exporter *)self)->released;
    PyObject *result = function == NULL ? NULL : PyObject_CallNoArgs(function);
    (void)view;
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

/* exporter(memory, format, itemsize, shape, strides, released=None) */
static PyObject *make(PyObject *module, PyObject *arguments)
{
    PyObject *memory, *shape, *strides, *released = NULL;
    const char *format;
    Py_ssize_t itemsize;
    exporter *made;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "SsnO!O!|O", &memory, &format, &itemsize, &PyTuple_Type,
                          &shape, &PyTuple_Type, &strides, &released))
        return NULL;
    if (PyTuple_GET_SIZE(shape) > MAX_NDIM || PyTuple_GET_SIZE(strides) != PyTuple_GET_SIZE(shape))
        return PyErr_Format(PyExc_ValueError, "expected two tuples of one length up to 8");
    made = PyObject_New(exporter, &type);
    if (made == NULL)
        return NULL;
    made->memory = Py_NewRef(memory);
    made->released = Py_XNewRef(released);
    made->itemsize = itemsize;
    PyOS_snprintf(made->format, sizeof(made->format), "%s", format);
    made->ndim = (int)PyTuple_GET_SIZE(shape);
    for (int i = 0; i < made->ndim; i++) {
        made->shape[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i));
        made->strides[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(strides, i));
    }
    if (PyErr_Occurred())
        Py_CLEAR(made);
    return (PyObject *)made;
}

static PyMethodDef methods[] = {{"exporter", make, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "exporter", .m_size = -1,
                             .m_methods = methods};

PyMODINIT_FUNC PyInit_exporter(void)
{
    return PyType_Ready(&type) < 0 ? NULL : create_module(&module);
}
