/* An object that keeps a tensor of its caller: Dot(weights)(x) is the dot product of the two.
 *
 * Build: cc -O2 -fPIC -shared $(python -m fastdl --cflags) \
 *     -I$(python -c "from sysconfig import *; print(get_path('include'))") keep.c \
 *     -o keep$(python -c "from sysconfig import *; print(get_config_var('EXT_SUFFIX'))")
 */
#define FASTDL_IMPLEMENTATION
#include <fastdl/fastdl.h>

static const uint32_t DOUBLE[] = {FASTDL_FLOAT64};

typedef struct {
    PyObject_HEAD
    DLManagedTensorVersioned *weights; /* owned: lasts as long as the object */
} dot;

/* A vector of any framework and any number type. Of float64 without gaps it is shared; of anything
 * else there is a copy, which does not see later changes. */
static PyObject *dot_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"weights", NULL};
    const fastdl_spec vector = {
        .dtypes = DOUBLE, .dtype_count = 1, .ndim = 1, .layout = FASTDL_C, .rules = FASTDL_CONVERT};
    PyObject *weights;
    DLManagedTensorVersioned *managed;
    dot *self;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O:Dot", names, &weights) ||
        fastdl_own_as(weights, "weights", &vector, &managed) < 0)
        return NULL;
    self = (dot *)type->tp_alloc(type, 0);
    if (self == NULL)
        fastdl_drop(managed);
    else
        self->weights = managed;
    return (PyObject *)self;
}

static void dot_dealloc(PyObject *self)
{
    fastdl_drop(((dot *)self)->weights);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *dot_call(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"x", NULL};
    const DLTensor *weights = &((dot *)self)->weights->dl_tensor;
    /* Of an owned tensor, byte_offset may be other than 0. */
    const double *w = (const double *)((const char *)weights->data + weights->byte_offset);
    fastdl_dim n = {.name = "n", .size = weights->shape[0], .from = "weights"};
    fastdl_dim *const shape[] = {&n};
    const fastdl_spec vector = {
        .dtypes = DOUBLE, .dtype_count = 1, .ndim = 1, .shape = shape, .rules = FASTDL_CONVERT};
    PyObject *argument;
    fastdl_view x;
    double sum = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O", names, &argument) ||
        fastdl_borrow_as(argument, "x", &vector, &x) < 0)
        return NULL;
    for (int64_t i = 0; i < n.size; i++)
        sum += w[i] * ((const double *)x.dl.data)[i * x.dl.strides[0]];
    fastdl_release(&x); /* the tensor, or the copy that stood in for it */
    return PyFloat_FromDouble(sum);
}

static PyTypeObject dot_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "keep.Dot",
    .tp_basicsize = sizeof(dot),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Dot(weights)(x): the dot product of two vectors.",
    .tp_new = dot_new,
    .tp_dealloc = dot_dealloc,
    .tp_call = dot_call,
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
    if (PyType_Ready(&dot_type) < 0)
        return NULL;
    module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddObjectRef(module, "Dot", (PyObject *)&dot_type) < 0)
        Py_CLEAR(module);
    return module;
}
