/* SPDX-License-Identifier: Apache-2.0 */

/* y += a * x, for vectors of any framework, and a result in the caller's framework.
 *
 * Build:

cc -O2 -fPIC -shared $(python -m fastdl --cflags) \
    -I$(python -c "from sysconfig import *; print(get_path('include'))") axpy.c \
    -o axpy$(python -c "from sysconfig import *; print(get_config_var('EXT_SUFFIX'))")
 */
#define FASTDL_IMPLEMENTATION
#include <fastdl/fastdl.h>

static const uint32_t REAL[] = {FASTDL_LIST_REAL}; /* float and double */

/* axpy(a, x, y): adds a * x to y, in place. */
static PyObject *axpy(PyObject *module, PyObject *arguments)
{
    double a;
    PyObject *objects[2];
    fastdl_view views[2], *x = &views[0], *y = &views[1];
    fastdl_dim n = FASTDL_DIM("n"); /* the size that both must have */
    fastdl_dim *const shape[] = {&n};
    const fastdl_argument input = {x, "x"};
    const fastdl_spec of_x = {.dtypes = REAL, .dtype_count = 2, .ndim = 1, .shape = shape};
    const fastdl_spec of_y = {.ndim = 1,
                              .shape = shape,
                              .rules = FASTDL_WRITABLE | FASTDL_IN_PLACE, /* x itself is fine */
                              .like = &input, /* of the element type of x */
                              .no_alias = &input,
                              .no_alias_count = 1};
    const fastdl_parameter parameters[] = {{"x", &of_x}, {"y", &of_y}};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "dOO:axpy", &a, &objects[0], &objects[1]) ||
        fastdl_borrow_all(objects, parameters, 2, views) < 0)
        return NULL;
    /* Compiled for each of the two types. Strides count elements and may be negative or zero. */
    FASTDL_DISPATCH_REAL(fastdl_dtype(x->dl.dtype), T, {
        const T *from = x->dl.data;
        T *to = y->dl.data;
        for (int64_t i = 0; i < n.size; i++)
            to[i * y->dl.strides[0]] += (T)a * from[i * x->dl.strides[0]];
    })
    fastdl_release_all(views, 2);
    return Py_NewRef(Py_None);
}

/* scaled(a, x): a * x, as a tensor of x's framework. */
static PyObject *scaled(PyObject *module, PyObject *arguments)
{
    double a;
    PyObject *x_object, *result = NULL;
    DLManagedTensorVersioned *y;
    fastdl_view x;
    const fastdl_spec of_x = {.dtypes = REAL, .dtype_count = 2, .ndim = 1};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "dO:scaled", &a, &x_object) ||
        fastdl_borrow_as(x_object, "x", &of_x, &x) < 0)
        return NULL;
    if (fastdl_empty(&x.dl, Py_TYPE(x_object), &y) == 0) {
        FASTDL_DISPATCH_REAL(fastdl_dtype(x.dl.dtype), T, {
            const T *from = x.dl.data;
            T *to = y->dl_tensor.data;
            for (int64_t i = 0; i < x.dl.shape[0]; i++)
                to[i] = (T)a * from[i * x.dl.strides[0]];
        })
        fastdl_wrap(y, Py_TYPE(x_object), &result); /* takes y; result is NULL if it fails */
    }
    fastdl_release(&x);
    return result;
}

static PyMethodDef methods[] = {
    {"axpy", axpy, METH_VARARGS, "axpy(a, x, y): adds a * x to y, in place."},
    {"scaled", scaled, METH_VARARGS, "scaled(a, x): a * x, as a tensor of x's framework."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "axpy", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_axpy(void)
{
    if (fastdl_import() < 0) { /* reads NumPy's arrays directly */
        if (!PyErr_ExceptionMatches(PyExc_ImportError))
            return NULL;
        PyErr_Clear(); /* without the package: by __dlpack__ */
    }
    return PyModule_Create(&definition);
}
