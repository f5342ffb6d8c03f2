/* SPDX-License-Identifier: Apache-2.0
 *
 * The floors: what a function costs that takes nothing, that knows its arguments to be torch's and
 * calls torch's table itself, or that knows them to be NumPy's and reads the array struct.
 */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <Python.h>

#include <numpy/arrayobject.h>

#include <fastdl/dlpack.h>

#define MOST 8

static volatile float sink; /* so that each tensor is read */

/* ---- NumPy's struct ---- */

/* What a DLTensor needs of a one-dimensional float array. */
static inline int read_array(PyObject *object, DLTensor *tensor, int64_t *stride)
{
    PyArrayObject *array = (PyArrayObject *)object;
    if (!PyArray_CheckExact(object) || PyArray_TYPE(array) != NPY_FLOAT32 ||
        PyArray_NDIM(array) != 1 || !PyArray_ISBEHAVED_RO(array)) {
        PyErr_SetString(PyExc_TypeError, "expected a float32 array of one dimension");
        return -1;
    }
    *stride = PyArray_STRIDES(array)[0] / (npy_intp)sizeof(float);
    tensor->data = PyArray_DATA(array);
    tensor->device = (DLDevice){kDLCPU, 0};
    tensor->ndim = 1;
    tensor->dtype = (DLDataType){kDLFloat, 32, 1};
    tensor->shape = (int64_t *)PyArray_DIMS(array);
    tensor->strides = stride;
    tensor->byte_offset = 0;
    return 0;
}

/* array(n, object): reads the struct n times */
static PyObject *array(PyObject *module, PyObject *args)
{
    Py_ssize_t n;
    PyObject *object;
    (void)module;
    if (!PyArg_ParseTuple(args, "nO", &n, &object))
        return NULL;
    while (n-- > 0) {
        PyObject *volatile hidden = object; /* so that the compiler reads it each time */
        DLTensor tensor;
        int64_t stride;
        if (read_array(hidden, &tensor, &stride) < 0)
            return NULL;
        sink = *(const float *)tensor.data;
    }
    Py_RETURN_NONE;
}

/* result(n): an array to be filled, made and dropped */
static PyObject *result(PyObject *module, PyObject *count)
{
    npy_intp shape[] = {4, 4};
    Py_ssize_t n = PyLong_AsSsize_t(count);
    (void)module;
    if (PyErr_Occurred())
        return NULL;
    while (n-- > 0) {
        PyObject *made = PyArray_SimpleNew(2, shape, NPY_FLOAT32);
        if (made == NULL)
            return NULL;
        Py_DECREF(made);
    }
    Py_RETURN_NONE;
}

/* ---- functions over one table ---- */

static const DLPackExchangeAPI *table;

/* use(capsule): the table for `one`, `three` and `eight` */
static PyObject *use(PyObject *module, PyObject *capsule)
{
    (void)module;
    table = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (table == NULL)
        return NULL;
    if (table->dltensor_from_py_object_no_sync == NULL) {
        table = NULL;
        PyErr_SetString(PyExc_TypeError, "this table does not borrow");
        return NULL;
    }
    Py_RETURN_NONE;
}

static inline PyObject *take(PyObject *const *args, Py_ssize_t given, Py_ssize_t wanted)
{
    DLTensor tensors[MOST];
    Py_ssize_t i;
    if (given != wanted || table == NULL) {
        PyErr_Format(PyExc_TypeError, "expected %zd tensors of a known table", wanted);
        return NULL;
    }
    for (i = 0; i < wanted; i++)
        if (table->dltensor_from_py_object_no_sync(args[i], &tensors[i]) != 0)
            return NULL;
    for (i = 0; i < wanted; i++)
        sink = *(const float *)tensors[i].data;
    Py_RETURN_NONE;
}

static PyObject *one(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    return take(args, count, 1);
}

static PyObject *three(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    return take(args, count, 3);
}

static PyObject *eight(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    return take(args, count, 8);
}

static PyObject *empty(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    (void)args;
    (void)count;
    Py_RETURN_NONE;
}

#define FAST(function) #function, (PyCFunction)(void (*)(void))function, METH_FASTCALL, NULL

static PyMethodDef methods[] = {
    {"array", array, METH_VARARGS, NULL},
    {"result", result, METH_O, NULL},
    {"use", use, METH_O, NULL},
    {FAST(one)},
    {FAST(three)},
    {FAST(eight)},
    {FAST(empty)},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "direct", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_direct(void)
{
    import_array();
    return PyModule_Create(&definition);
}
