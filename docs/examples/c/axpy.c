/* y += a * x, for vectors of any framework, and a result in the caller's framework.
 *
 * Build: cc -O2 -fPIC -shared $(python -m pkgconf --cflags fastdl) \
 *     -I$(python -c "from sysconfig import *; print(get_path('include'))") axpy.c \
 *     -o axpy$(python -c "from sysconfig import *; print(get_config_var('EXT_SUFFIX'))")
 */
#include <fastdl/fastdl.h>

static const uint32_t REAL[] = {FASTDL_FLOAT32, FASTDL_FLOAT64};

/* The kernels, for one element type. Strides count elements and may be negative or zero. */
#define KERNELS(T)                                                                                 \
    static void add_##T(T a, const DLTensor *x, const DLTensor *y)                                 \
    {                                                                                              \
        for (int64_t i = 0; i < x->shape[0]; i++)                                                  \
            ((T *)y->data)[i * y->strides[0]] += a * ((const T *)x->data)[i * x->strides[0]];      \
    }                                                                                              \
                                                                                                   \
    static void multiply_##T(T a, const DLTensor *x, const DLTensor *y)                            \
    {                                                                                              \
        for (int64_t i = 0; i < x->shape[0]; i++)                                                  \
            ((T *)y->data)[i] = a * ((const T *)x->data)[i * x->strides[0]];                       \
    }

KERNELS(float)
KERNELS(double)

/* axpy(a, x, y): adds a * x to y, in place. */
static PyObject *axpy(PyObject *module, PyObject *arguments)
{
    double a;
    PyObject *x_object, *y_object, *result = NULL;
    fastdl_view x, y;
    fastdl_dim n = FASTDL_DIM("n"); /* the size that both must have */
    fastdl_dim *const shape[] = {&n};
    const fastdl_argument input = {&x, "x"};
    const fastdl_spec of_x = {.dtypes = REAL, .dtype_count = 2, .ndim = 1, .shape = shape};
    const fastdl_spec of_y = {.ndim = 1,
                              .shape = shape,
                              .rules = FASTDL_WRITABLE | FASTDL_IN_PLACE, /* x itself is fine */
                              .like = &input, /* of the element type of x */
                              .no_alias = &input,
                              .no_alias_count = 1};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "dOO:axpy", &a, &x_object, &y_object) ||
        fastdl_borrow(x_object, &x) < 0)
        return NULL;
    if (fastdl_borrow(y_object, &y) == 0 && fastdl_expect(&x, "x", &of_x) == 0 &&
        fastdl_expect(&y, "y", &of_y) == 0) {
        if (fastdl_dtype(x.dl.dtype) == FASTDL_FLOAT32)
            add_float((float)a, &x.dl, &y.dl);
        else
            add_double(a, &x.dl, &y.dl);
        result = Py_NewRef(Py_None);
    }
    fastdl_release(&y); /* allowed after a borrow that failed */
    fastdl_release(&x);
    return result;
}

/* scaled(a, x): a * x, as a tensor of the framework that x is of. */
static PyObject *scaled(PyObject *module, PyObject *arguments)
{
    double a;
    PyObject *x_object, *result = NULL;
    DLManagedTensorVersioned *y;
    fastdl_view x;
    const fastdl_spec of_x = {.dtypes = REAL, .dtype_count = 2, .ndim = 1};
    (void)module;
    if (!PyArg_ParseTuple(arguments, "dO:scaled", &a, &x_object) || fastdl_borrow(x_object, &x) < 0)
        return NULL;
    if (fastdl_expect(&x, "x", &of_x) == 0 && fastdl_empty(&x.dl, Py_TYPE(x_object), &y) == 0) {
        if (fastdl_dtype(x.dl.dtype) == FASTDL_FLOAT32)
            multiply_float((float)a, &x.dl, &y->dl_tensor);
        else
            multiply_double(a, &x.dl, &y->dl_tensor);
        fastdl_wrap(y, Py_TYPE(x_object), &result); /* takes y; result is NULL if it fails */
    }
    fastdl_release(&x);
    return result;
}

static PyMethodDef methods[] = {
    {"axpy", axpy, METH_VARARGS, "axpy(a, x, y): adds a * x to y, in place."},
    {"scaled", scaled, METH_VARARGS, "scaled(a, x): a * x, of the framework that x is of."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "axpy", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_axpy(void)
{
    if (fastdl_import() < 0) /* NumPy's arrays at the speed of torch's tensors, */
        PyErr_Clear();       /* or, where fastdl is not installed, by __dlpack__ */
    return PyModule_Create(&definition);
}
