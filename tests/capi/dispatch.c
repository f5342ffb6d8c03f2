/* SPDX-License-Identifier: Apache-2.0
 *
 * The dispatch macros of the public header, and elements that C has no type for. Compiled as C and
 * as C++.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef OWN_HALF
typedef struct {
    unsigned short payload;
} my_half;
#define FASTDL_FLOAT16_TYPE my_half
#endif
#define FASTDL_IMPLEMENTATION
#include <fastdl/fastdl.h>

#include "module.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* One function for each type of a list. */
#define DEFINE(number, type, name)                                                                 \
    static type name##_##type(type a, type b)                                                      \
    {                                                                                              \
        return (type)(a + b);                                                                      \
    }
FASTDL_EACH_REAL(DEFINE, sum)

/* double_it(x, y): y = 2 * x, for vectors of one element type of the family `floating`. */
static PyObject *double_it(PyObject *self, PyObject *arguments)
{
    static const uint32_t floating[] = {FASTDL_LIST_FLOATING};
    fastdl_view views[2];
    const fastdl_argument x = {&views[0], "x"};
    fastdl_dim n = FASTDL_DIM("n");
    fastdl_dim *const shape[] = {&n};
    fastdl_spec of_x, of_y;
    fastdl_parameter parameters[2];
    PyObject *objects[2];
    uint32_t seen = 0;
    memset(&of_x, 0, sizeof(of_x));
    of_x.dtypes = floating;
    of_x.dtype_count = COUNT(floating);
    of_x.ndim = 1;
    of_x.shape = shape;
    of_y = of_x;
    of_y.rules = FASTDL_WRITABLE;
    of_y.like = &x;
    parameters[0].name = "x";
    parameters[0].spec = &of_x;
    parameters[1].name = "y";
    parameters[1].spec = &of_y;
    if (!PyArg_ParseTuple(arguments, "OO", &objects[0], &objects[1]) ||
        fastdl_borrow_all(objects, parameters, 2, views) < 0)
        return NULL;
    FASTDL_DISPATCH_FLOATING(fastdl_dtype(views[0].dl.dtype), T, {
        const T *from = (const T *)views[0].dl.data;
        T *to = (T *)views[1].dl.data;
        for (int64_t i = 0, j = 0, k = 0; i < n.size;
             i++, j += views[0].dl.strides[0], k += views[1].dl.strides[0])
            fastdl_store(T_DTYPE, to + k, 2 * fastdl_load(T_DTYPE, from + j));
        seen = T_DTYPE;
    })
    fastdl_release_all(views, 2);
    return PyLong_FromUnsignedLong(seen);
}

/* total(x): the sum of any numbers, in double. */
static PyObject *total(PyObject *self, PyObject *obj)
{
    static const uint32_t numbers[] = {FASTDL_LIST_NUMBER};
    fastdl_view x;
    fastdl_spec spec;
    double sum = 0;
    memset(&spec, 0, sizeof(spec));
    spec.dtypes = numbers;
    spec.dtype_count = COUNT(numbers);
    spec.ndim = 1;
    if (fastdl_borrow_as(obj, "x", &spec, &x) < 0)
        return NULL;
    FASTDL_DISPATCH_NUMBER(fastdl_dtype(x.dl.dtype), T, {
        for (int64_t i = 0; i < x.dl.shape[0]; i++)
            sum += (double)((const T *)x.dl.data)[i * x.dl.strides[0]];
    })
    fastdl_release(&x);
    return PyFloat_FromDouble(sum);
}

/* sizes(a, b, detached): the sizes of two types, one of INTEGER and one of REAL, perhaps found
 * without the GIL. */
static PyObject *sizes(PyObject *self, PyObject *arguments)
{
    unsigned int a, b;
    int of_a = 0, of_b = 0, detached;
    PyThreadState *state;
    if (!PyArg_ParseTuple(arguments, "IIp", &a, &b, &detached))
        return NULL;
    state = detached ? PyEval_SaveThread() : NULL;
    FASTDL_DISPATCH_INTEGER(a, I, {
        FASTDL_DISPATCH_REAL(b, R, {
            if (sizeof(I) == 8)
                break; /* leaves the inner block */
            of_b = (int)sizeof(R);
        })
        of_a = (int)sizeof(I);
    })
    if (detached)
        PyEval_RestoreThread(state);
    return PyErr_Occurred() ? NULL : Py_BuildValue("(ii)", of_a, of_b);
}

/* load(dtype, bytes) and store(dtype, bytearray, value) */
static PyObject *load(PyObject *self, PyObject *arguments)
{
    unsigned int dtype;
    const char *bytes;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(arguments, "Iy#", &dtype, &bytes, &length))
        return NULL;
    return PyFloat_FromDouble(fastdl_load(dtype, bytes));
}

static PyObject *store(PyObject *self, PyObject *arguments)
{
    unsigned int dtype;
    double value;
    char bytes[8] = "unset..";
    int size;
    if (!PyArg_ParseTuple(arguments, "Iid", &dtype, &size, &value))
        return NULL;
    fastdl_store(dtype, bytes, value);
    return PyBytes_FromStringAndSize(bytes, size);
}

static PyObject *sum(PyObject *self, PyObject *unused)
{
    return PyFloat_FromDouble(sum_double(1.5, (double)sum_float(2.0f, 4.0f)));
}

static PyMethodDef functions[] = {
    {"double_it", double_it, METH_VARARGS, NULL},
    {"total", total, METH_O, NULL},
    {"sizes", sizes, METH_VARARGS, NULL},
    {"load", load, METH_VARARGS, NULL},
    {"store", store, METH_VARARGS, NULL},
    {"sum", sum, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

DEFINE_MODULE(dispatch, functions)
