/* SPDX-License-Identifier: Apache-2.0
 *
 * fast_histogram._histogram_core on fastdl.h: histograms of any tensor, in its own framework.
 */
#define Py_LIMITED_API 0x030a0000
#define FASTDL_IMPLEMENTATION
#include <fastdl/fastdl.h>

#define MOST 32 /* dimensions of a histogram */

typedef struct {
    int n;
    PyObject *objects[MOST + 1]; /* a sample for each dimension, then the weights or NULL */
    int64_t bins[MOST];
    double low[MOST], high[MOST];
} request;

static const uint32_t DOUBLE[] = {FASTDL_FLOAT64}, INT64[] = {FASTDL_INT64};
static const fastdl_spec numbers = {
    .dtypes = DOUBLE, .dtype_count = 1, .layout = FASTDL_C, .rules = FASTDL_CONVERT};
static const fastdl_spec integers = {
    .dtypes = INT64, .dtype_count = 1, .ndim = 1, .layout = FASTDL_C, .rules = FASTDL_CONVERT};

/* Any real numbers, as doubles in row-major order. DLPack has no byte order: an array of the other
 * one becomes *swapped, by its own library. */
static int borrow_numbers(PyObject *obj, const char *name, fastdl_view *view, PyObject **swapped)
{
    int result = fastdl_borrow_as(obj, name, &numbers, view);
    if (result == 0 || !PyErr_ExceptionMatches(PyExc_BufferError))
        return result;
    PyErr_Clear();
    *swapped = PyObject_CallMethod(obj, "astype", "s", "d");
    return *swapped == NULL ? -1 : fastdl_borrow_as(*swapped, name, &numbers, view);
}

/* Adds each point to its bin. `n` is a constant where there are one or two dimensions. */
static inline void count(int n, const request *all, const fastdl_view *views, double *counts)
{
    const double *weights = all->objects[n] != NULL ? views[n].dl.data : NULL;
    const int64_t points = fastdl_size(&views[0].dl);
    const request r = *all; /* which `counts` does not alias */
    const double *x[MOST];
    double scale[MOST];
    for (int d = 0; d < n; d++) {
        x[d] = views[d].dl.data;
        scale[d] = (double)r.bins[d] / (r.high[d] - r.low[d]);
    }
    for (int64_t i = 0; i < points; i++) {
        int64_t bin = 0;
        for (int d = 0; d < n; d++) {
            int64_t step;
            if (!(x[d][i] >= r.low[d] && x[d][i] < r.high[d]))
                goto outside;
            step = (int64_t)((x[d][i] - r.low[d]) * scale[d]);
            bin = bin * r.bins[d] + (step < r.bins[d] ? step : r.bins[d] - 1);
        }
        counts[bin] += weights != NULL ? weights[i] : 1;
    outside:;
    }
}

static PyObject *histogram(const request *all)
{
    const int used = all->n + (all->objects[all->n] != NULL);
    PyTypeObject *like = Py_TYPE(all->objects[0]);
    DLTensor shape = {.device = {kDLCPU, 0}, .ndim = all->n, .shape = (int64_t *)all->bins};
    PyObject *swapped[MOST + 1] = {NULL}, *result = NULL;
    DLManagedTensorVersioned *counts;
    fastdl_view views[MOST + 1];
    int held = 0, status = 0;
    shape.dtype = fastdl_data_type(FASTDL_FLOAT64);
    for (; held < used && status == 0; held++) {
        const char *name = held < all->n ? "sample" : "weights";
        status = borrow_numbers(all->objects[held], name, &views[held], &swapped[held]);
        if (status == 0 && fastdl_size(&views[held].dl) != fastdl_size(&views[0].dl)) {
            PyErr_Format(PyExc_RuntimeError, "%s: expected as many elements as in the first", name);
            status = -1;
        }
    }
    if (status == 0 && fastdl_zeros(&shape, like, &counts) == 0) {
        Py_BEGIN_ALLOW_THREADS
        double *out = counts->dl_tensor.data;
        all->n == 1   ? count(1, all, views, out)
        : all->n == 2 ? count(2, all, views, out)
                      : count(all->n, all, views, out);
        Py_END_ALLOW_THREADS
        fastdl_wrap(counts, like, &result);
    }
    fastdl_release_all(views, (size_t)held);
    while (held-- > 0)
        Py_XDECREF(swapped[held]);
    return result;
}

/* ---- what fast_histogram calls ---- */

/* Samples, weights if there are any, and for each dimension bins, low and high. */
static PyObject *one_by_one(PyObject *args, int n, int weighted)
{
    request all = {.n = n};
    Py_ssize_t at = 0;
    if (PyTuple_Size(args) != 4 * n + weighted)
        return PyErr_Format(PyExc_TypeError, "expected %d arguments", 4 * n + weighted);
    for (; at < n + weighted; at++)
        all.objects[at] = PyTuple_GetItem(args, at);
    for (int d = 0; d < n; d++) {
        all.bins[d] = PyLong_AsLongLong(PyTuple_GetItem(args, at++));
        all.low[d] = PyFloat_AsDouble(PyTuple_GetItem(args, at++));
        all.high[d] = PyFloat_AsDouble(PyTuple_GetItem(args, at++));
    }
    return PyErr_Occurred() != NULL ? NULL : histogram(&all);
}

/* A tuple of samples, bins, the range as a matrix, and weights if there are any. */
static PyObject *of_tuple(PyObject *args, const char *format)
{
    request all = {.n = 0};
    PyObject *samples, *bins, *range, *weights = NULL;
    fastdl_dim n = FASTDL_DIM("n"), two = FASTDL_SIZE(2);
    fastdl_dim *const row[] = {&n}, *const pairs[] = {&n, &two};
    fastdl_spec of_bins = integers, of_range = numbers;
    fastdl_view views[2];
    of_bins.shape = row;
    of_range.ndim = 2;
    of_range.shape = pairs;
    if (!PyArg_ParseTuple(args, format, &PyTuple_Type, &samples, &bins, &range, &weights))
        return NULL;
    n.size = PyTuple_Size(samples);
    n.from = "samples";
    {
        PyObject *const objects[] = {bins, range};
        const fastdl_parameter parameters[] = {{"bins", &of_bins}, {"range", &of_range}};
        if (n.size < 1 || n.size > MOST)
            return PyErr_Format(PyExc_ValueError, "expected 1 to %d samples", MOST);
        if (fastdl_borrow_all(objects, parameters, 2, views) < 0)
            return NULL;
    }
    for (all.n = 0; all.n < n.size; all.n++) {
        all.objects[all.n] = PyTuple_GetItem(samples, all.n);
        all.bins[all.n] = ((const int64_t *)views[0].dl.data)[all.n];
        all.low[all.n] = ((const double *)views[1].dl.data)[2 * all.n];
        all.high[all.n] = ((const double *)views[1].dl.data)[2 * all.n + 1];
    }
    all.objects[all.n] = weights;
    fastdl_release_all(views, 2);
    return histogram(&all);
}

#define FUNCTION(name, call)                                                                       \
    static PyObject *name(PyObject *module, PyObject *args)                                        \
    {                                                                                              \
        (void)module;                                                                              \
        return call;                                                                               \
    }
FUNCTION(histogram1d, one_by_one(args, 1, 0))
FUNCTION(histogram2d, one_by_one(args, 2, 0))
FUNCTION(histogramdd, of_tuple(args, "O!OO"))
FUNCTION(histogram1d_weighted, one_by_one(args, 1, 1))
FUNCTION(histogram2d_weighted, one_by_one(args, 2, 1))
FUNCTION(histogramdd_weighted, of_tuple(args, "O!OOO"))

static PyMethodDef methods[] = {
    {"_histogram1d", histogram1d, METH_VARARGS, NULL},
    {"_histogram2d", histogram2d, METH_VARARGS, NULL},
    {"_histogramdd", histogramdd, METH_VARARGS, NULL},
    {"_histogram1d_weighted", histogram1d_weighted, METH_VARARGS, NULL},
    {"_histogram2d_weighted", histogram2d_weighted, METH_VARARGS, NULL},
    {"_histogramdd_weighted", histogramdd_weighted, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_histogram_core", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__histogram_core(void)
{
    return fastdl_import() < 0 ? NULL : PyModule_Create(&definition);
}
