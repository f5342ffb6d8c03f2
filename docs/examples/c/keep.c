/* SPDX-License-Identifier: Apache-2.0 */

/* WeightedSum(weights).of([x, y, ...]): the sum of vectors, times `weights` unless that is None.
 *
 * Build:

cc -O2 -fPIC -shared $(python -m fastdl --cflags) \
    -I$(python -c "from sysconfig import *; print(get_path('include'))") keep.c \
    -o keep$(python -c "from sysconfig import *; print(get_config_var('EXT_SUFFIX'))")
 */
#define FASTDL_IMPLEMENTATION
#include <fastdl/fastdl.h>

// [keep]
typedef struct {
    PyObject_HEAD
    DLManagedTensorVersioned *weights; /* owned; NULL for None */
} weighted_sum;

/* Contiguous float64 is used in place; other layouts are copied, other types converted. */
static const uint32_t DOUBLE[] = {FASTDL_FLOAT64};
static const fastdl_spec VECTOR = {
    .dtypes = DOUBLE, .dtype_count = 1, .ndim = 1, .layout = FASTDL_C, .rules = FASTDL_CONVERT};

static PyObject *weighted_sum_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"weights", NULL};
    PyObject *weights = Py_None, *self;
    DLManagedTensorVersioned *owned = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O", names, &weights) ||
        (weights != Py_None && fastdl_own_as(weights, "weights", &VECTOR, &owned) < 0))
        return NULL;
    self = type->tp_alloc(type, 0);
    if (self == NULL)
        fastdl_drop(owned);
    else
        ((weighted_sum *)self)->weights = owned;
    return self;
}

static void weighted_sum_dealloc(PyObject *self)
{
    fastdl_drop(((weighted_sum *)self)->weights); /* NULL is allowed */
    Py_TYPE(self)->tp_free(self);
}

static void add(double *sum, const double *x, const DLManagedTensorVersioned *weights, int64_t n)
{
    const DLTensor *w = weights != NULL ? &weights->dl_tensor : NULL;
    for (int64_t i = 0; i < n; i++) /* an owned tensor may have a byte_offset */
        sum[i] += w ? x[i] * ((double *)((char *)w->data + w->byte_offset))[i] : x[i];
}

static PyObject *weighted_sum_of(PyObject *self, PyObject *list)
{
    DLManagedTensorVersioned *weights = ((weighted_sum *)self)->weights, *sum = NULL;
    PyObject *result = NULL, *vectors = PySequence_Tuple(list); /* lists may change meanwhile */
    fastdl_dim n = FASTDL_DIM("n");                             /* the size of all vectors */
    fastdl_dim *const shape[] = {&n};
    fastdl_spec vector = VECTOR;
    vector.shape = shape;
    if (vectors == NULL)
        return NULL;
    if (weights != NULL)
        n = (fastdl_dim){"n", weights->dl_tensor.shape[0], "weights"};
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(vectors) && !PyErr_Occurred(); i++) {
        PyObject *item = PyTuple_GET_ITEM(vectors, i);
        fastdl_view x;
        char name[32];
        PyOS_snprintf(name, sizeof(name), "vectors[%zd]", i);
        if (fastdl_borrow_as(item, name, &vector, &x) == 0 &&
            (sum != NULL || fastdl_zeros(&x.dl, Py_TYPE(item), &sum) == 0))
            add(sum->dl_tensor.data, x.dl.data, weights, n.size);
        fastdl_release(&x);
    }
    if (PyErr_Occurred())
        fastdl_drop(sum);
    else if (sum == NULL)
        PyErr_SetString(PyExc_ValueError, "vectors: expected at least one");
    else
        fastdl_wrap(sum, Py_TYPE(PyTuple_GET_ITEM(vectors, 0)), &result); /* takes `sum` */
    Py_DECREF(vectors);
    return result;
}
// [/keep]

static PyMethodDef methods[] = {
    {"of", weighted_sum_of, METH_O, "of(vectors): their sum, of the framework of the first."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject weighted_sum_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "keep.WeightedSum",
    .tp_basicsize = sizeof(weighted_sum),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = weighted_sum_new,
    .tp_dealloc = weighted_sum_dealloc,
    .tp_methods = methods,
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "keep"};

PyMODINIT_FUNC PyInit_keep(void)
{
    PyObject *module;
    if (fastdl_import() < 0) {
        if (!PyErr_ExceptionMatches(PyExc_ImportError))
            return NULL;
        PyErr_Clear();
    }
    if (PyType_Ready(&weighted_sum_type) < 0)
        return NULL;
    module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddType(module, &weighted_sum_type) < 0)
        Py_CLEAR(module);
    return module;
}
