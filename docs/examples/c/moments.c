/* SPDX-License-Identifier: Apache-2.0 */

/* The mean and the variance of each column: an argument that is converted, and two results.
 *
 * Build:

cc -O2 -fPIC -shared $(python -m fastdl --cflags) \
    -I$(python -c "from sysconfig import *; print(get_path('include'))") moments.c \
    -o moments$(python -c "from sysconfig import *; print(get_config_var('EXT_SUFFIX'))")
 */
#define FASTDL_IMPLEMENTATION
#include <fastdl/fastdl.h>

static const uint32_t DOUBLE[] = {FASTDL_FLOAT64};

static void compute(const DLTensor *x, double *means, double *variances)
{
    const double *data = x->data;
    int64_t rows = x->shape[0], columns = x->shape[1];
    for (int64_t j = 0; j < columns; j++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < rows; i++)
            sum += data[i * columns + j];
        means[j] = sum / (double)rows;
        for (int64_t i = 0; i < rows; i++)
            squares += (data[i * columns + j] - means[j]) * (data[i * columns + j] - means[j]);
        variances[j] = squares / (double)rows;
    }
}

/* [moments] */
/* Both as a tuple. Takes them, whatever happens. */
static PyObject *pair(DLManagedTensorVersioned *a, DLManagedTensorVersioned *b, PyTypeObject *like)
{
    PyObject *first = NULL, *second = NULL, *both = NULL;
    if (fastdl_wrap(a, like, &first) < 0)
        fastdl_drop(b);
    else if (fastdl_wrap(b, like, &second) == 0)
        both = PyTuple_Pack(2, first, second);
    Py_XDECREF(first);
    Py_XDECREF(second);
    return both;
}

/* moments(samples): the mean and the variance of each column, like `samples`. */
static PyObject *moments(PyObject *module, PyObject *samples)
{
    const fastdl_spec matrix = {
        .dtypes = DOUBLE, .dtype_count = 1, .ndim = 2, .layout = FASTDL_C, .rules = FASTDL_CONVERT};
    DLManagedTensorVersioned *means, *variances;
    PyObject *result = NULL;
    DLTensor row;
    fastdl_view x;
    (void)module;
    if (fastdl_borrow_as(samples, "samples", &matrix, &x) < 0)
        return NULL;
    row = x.dl; /* of its element type, and where it is */
    row.ndim = 1;
    row.shape = x.dl.shape + 1;
    if (fastdl_empty(&row, Py_TYPE(samples), &means) == 0 &&
        fastdl_empty(&row, Py_TYPE(samples), &variances) == 0) {
        compute(&x.dl, means->dl_tensor.data, variances->dl_tensor.data);
        result = pair(means, variances, Py_TYPE(samples));
    } else {
        fastdl_drop(means);
    }
    fastdl_release(&x);
    return result;
}
/* [/moments] */

static PyMethodDef methods[] = {
    {"moments", moments, METH_O, "The mean and the variance of each column."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "moments", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_moments(void)
{
    if (fastdl_import() < 0) {
        if (!PyErr_ExceptionMatches(PyExc_ImportError))
            return NULL;
        PyErr_Clear();
    }
    return PyModule_Create(&definition);
}
