/* SPDX-License-Identifier: Apache-2.0 */
#include "object.h"

#include "lifetime.h"

static PyTypeObject *tensor_type;

int fdl_is_tensor(PyObject *object)
{
    return Py_TYPE(object) == tensor_type;
}

/* Dead objects kept for reuse, as block.c keeps blocks; not where the interpreter counts or lists
 * all references. */
#if !defined(FDL_NO_SPARES) && !defined(Py_REF_DEBUG) && !defined(Py_TRACE_REFS)
#define USE_SPARES
#define SPARES 64
static fdl_tensor *spares[SPARES];
static int spare_count;
#endif

static fdl_tensor *allocate(void)
{
#ifdef USE_SPARES
    if (spare_count > 0) {
        fdl_tensor *spare = spares[--spare_count]; /* its type is still set */
        Py_SET_REFCNT((PyObject *)spare, 1);
        return spare;
    }
#endif
    return PyObject_GC_New(fdl_tensor, tensor_type);
}

static void deallocate(PyObject *self)
{
    fdl_tensor *tensor = (fdl_tensor *)self;
    PyObject_GC_UnTrack(self);
    if (tensor->weakrefs != NULL)
        PyObject_ClearWeakRefs(self);
    Py_DECREF(tensor->shape);
    /* Decremented first: an export must never look like a view, see `traverse`. */
    if (tensor->root != Py_None)
        (void)fdl_count_release(&((fdl_tensor *)tensor->root)->views);
    fdl_description_release(tensor->description, 1);
    Py_DECREF(tensor->root);
#ifdef USE_SPARES
    if (spare_count < SPARES)
        spares[spare_count++] = tensor;
    else
#endif
        PyObject_GC_Del(tensor);
}

/* The shape is a tuple of ints and part of no cycle. There is no tp_clear: like a tuple, a Tensor
 * is never the only kind of object in a cycle, and it must keep its description. */
static int traverse(PyObject *self, visitproc visit, void *arg)
{
    fdl_tensor *tensor = (fdl_tensor *)self;
    Py_VISIT(tensor->root);
    /* The block holds the object, and this Tensor and its views hold the block; if anything else
     * holds the block, the collector cannot know what keeps the object alive. No Python thread runs
     * during a collection. Other threads may release exports meanwhile, so that the object is first
     * visited in a later pass: that only keeps it alive until the next collection. */
    if (fdl_count_get(&tensor->description->block->refs) == 1 + fdl_count_get(&tensor->views))
        Py_VISIT(fdl_object_behind(tensor->description->block));
    return 0;
}

PyObject *fdl_tensor_new(fdl_description *description)
{
    PyObject *owner;
    fdl_tensor *tensor = allocate();
    if (tensor == NULL)
        return NULL;
    tensor->description = description;
    tensor->shape = Py_NewRef(Py_None);
    tensor->root = Py_NewRef(Py_None);
    fdl_count_set(&tensor->views, 0);
    tensor->weakrefs = NULL;
    owner = fdl_object_behind(description->block);
    if (owner != NULL && PyObject_IS_GC(owner))
        PyObject_GC_Track(tensor);
    return (PyObject *)tensor;
}

PyObject *fdl_tensor_wrap(fdl_description *description)
{
    PyObject *tensor = fdl_tensor_new(description);
    if (tensor == NULL)
        fdl_description_release(description, 1);
    return tensor;
}

PyObject *fdl_tensor_wrap_view(fdl_description *description, PyObject *tensor)
{
    PyObject *root =
        ((fdl_tensor *)tensor)->root != Py_None ? ((fdl_tensor *)tensor)->root : tensor;
    PyObject *view = fdl_tensor_wrap(description);
    if (view != NULL) {
        Py_SETREF(((fdl_tensor *)view)->root, Py_NewRef(root));
        fdl_count_retain(&((fdl_tensor *)root)->views);
    }
    return view;
}

PyObject *fdl_make_view(PyObject *tensor, const DLTensor *geometry, uint64_t flags)
{
    fdl_description *description =
        fdl_description_new(fdl_description_in(tensor)->block, geometry->ndim);
    if (description == NULL)
        return PyErr_NoMemory();
    fdl_description_fill(description, geometry, flags);
    return fdl_tensor_wrap_view(description, tensor);
}

int fdl_raise(const fdl_failure *failure)
{
    if (!PyErr_Occurred())
        PyErr_Format(failure->no_memory ? PyExc_MemoryError : PyExc_BufferError, "%s",
                     failure->text);
    return -1;
}

static PyObject *describe_call;

PyObject *fdl_tensor_summary(PyObject *tensor)
{
    return PyObject_CallOneArg(describe_call, tensor);
}

int fdl_raise_about(PyObject *tensor, const fdl_failure *failure, const char *what, int64_t stream)
{
    PyObject *summary;
    char number[24] = "";
    if (PyErr_Occurred() || failure->no_memory)
        return fdl_raise(failure);
    if (stream != -1)
        (void)PyOS_snprintf(number, sizeof(number), " %lld", (long long)stream);
    summary = fdl_tensor_summary(tensor);
    if (summary != NULL)
        PyErr_Format(PyExc_BufferError, "%U cannot be %s%s: %s", summary, what, number,
                     failure->text);
    Py_XDECREF(summary);
    return -1;
}

/* ---- refused operations ---- */

static PyObject *refuse(const char *sign)
{
    return PyErr_Format(
        PyExc_TypeError,
        "a fastdl.Tensor has no operator '%s', since fastdl moves tensors and does "
        "not compute: use an array on the same memory, numpy.from_dlpack(tensor) or "
        "fastdl.convert(tensor, ...)",
        sign);
}

/* Whether `operand` is of a type that does not define operators with Tensors itself. Subclasses of
 * numbers may, such as numpy.float64. */
static int is_plain(PyObject *operand)
{
    return fdl_is_tensor(operand) || PyLong_CheckExact(operand) || PyFloat_CheckExact(operand) ||
           PyComplex_CheckExact(operand) || PyBool_Check(operand);
}

PyObject *fdl_operate(PyObject *left, PyObject *right, const char *sign)
{
    if (is_plain(left) && is_plain(right))
        return refuse(sign);
    return Py_NewRef(Py_NotImplemented);
}

#define BINARY_OPERATORS(X)                                                                        \
    X(add, "+")                                                                                    \
    X(subtract, "-")                                                                               \
    X(multiply, "*")                                                                               \
    X(matrix_multiply, "@")                                                                        \
    X(true_divide, "/")                                                                            \
    X(floor_divide, "//")                                                                          \
    X(remainder, "%")                                                                              \
    X(divmod, "divmod()")                                                                          \
    X(lshift, "<<")                                                                                \
    X(rshift, ">>")                                                                                \
    X(and, "&")                                                                                    \
    X(or, "|")                                                                                     \
    X(xor, "^")
#define UNARY_OPERATORS(X)                                                                         \
    X(negative, "-")                                                                               \
    X(positive, "+")                                                                               \
    X(invert, "~")                                                                                 \
    X(absolute, "abs()")

#define BINARY(name, sign)                                                                         \
    static PyObject *nb_##name(PyObject *left, PyObject *right)                                    \
    {                                                                                              \
        return fdl_operate(left, right, sign);                                                     \
    }
#define UNARY(name, sign)                                                                          \
    static PyObject *nb_##name(PyObject *Py_UNUSED(operand))                                       \
    {                                                                                              \
        return refuse(sign);                                                                       \
    }
#define INSTALL(name, sign) number->nb_##name = nb_##name;

BINARY_OPERATORS(BINARY)
UNARY_OPERATORS(UNARY)

static PyObject *power(PyObject *left, PyObject *right, PyObject *Py_UNUSED(modulus))
{
    return fdl_operate(left, right, "**");
}

/* `value` is NULL for `del tensor[key]`. */
static int assign(PyObject *Py_UNUSED(tensor), PyObject *Py_UNUSED(key), PyObject *value)
{
    PyErr_SetString(PyExc_TypeError,
                    value == NULL
                        ? "elements of a fastdl.Tensor cannot be deleted: index those to keep"
                        : "a fastdl.Tensor has no assignment: write through an array on the same "
                          "memory, as in tensor.numpy()[...] = x on the host");
    return -1;
}

static PyObject *call(PyObject *Py_UNUSED(type), PyObject *const *Py_UNUSED(arguments),
                      size_t Py_UNUSED(count), PyObject *Py_UNUSED(keywords))
{
    PyErr_SetString(PyExc_TypeError,
                    "a fastdl.Tensor is not made by calling its type: use fastdl.from_dlpack(x) "
                    "for an array of another library, fastdl.asarray(x) for a buffer too, "
                    "fastdl.asarray(numpy.array(x)) for numbers, fastdl.empty(shape) for memory");
    return NULL;
}

/* Installs these refusals. They are only in slots, so that the type lacks the attributes
 * (`__add__`, `__setitem__`) from which other code concludes that it supports arithmetic. */
static void install_refusals(PyTypeObject *type)
{
    PyNumberMethods *number = type->tp_as_number;
    BINARY_OPERATORS(INSTALL)
    UNARY_OPERATORS(INSTALL)
    number->nb_power = power;
    type->tp_as_mapping->mp_ass_subscript = assign;
    type->tp_vectorcall = call;
}

/* ---- attributes of other libraries' tensors ---- */

/* Common names of operations that fastdl leaves to other libraries, or has under another name. */
static const struct {
    const char *name, *advice;
} absent[] = {
    {"astype", "x.numpy().astype(dtype)"},
    {"clone", "x.copy()"},
    {"cpu", "x.to('cpu')"},
    {"cuda", "fastdl.convert(x, torch.Tensor, device='cuda:0')"},
    {"save", "numpy.save(file, x.numpy())"},
    {"sum", "x.numpy().sum()"},
    {"tofile", "x.numpy().tofile(file)"},
    {"transpose", "x.permute(...), or x.mT for the last two dimensions"},
};

#define ABSENT (sizeof absent / sizeof absent[0])

static struct {
    PyObject_HEAD
} absences[ABSENT];

/* Raises AttributeError for the class, too, so that hasattr finds nothing. An attribute hook would
 * do the same, and make all other attributes slower. */
static PyObject *get_absent(PyObject *self, PyObject *instance, PyObject *cls)
{
    size_t i = 0;
    (void)instance;
    (void)cls;
    while ((PyObject *)&absences[i] != self)
        i++;
    return PyErr_Format(PyExc_AttributeError,
                        "'fastdl.Tensor' object has no attribute '%s', since fastdl moves tensors "
                        "and does not compute: write %s",
                        absent[i].name, absent[i].advice);
}

static PyTypeObject absence_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "fastdl._Absent",
    .tp_basicsize = sizeof absences[0],
    .tp_doc = "An attribute that a fastdl.Tensor lacks: reading it raises AttributeError with the "
              "alternative.",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_descr_get = get_absent,
};

static int install_absent(PyTypeObject *type)
{
    if (PyType_Ready(&absence_type) < 0)
        return -1;
    for (size_t i = 0; i < ABSENT; i++) {
        (void)PyObject_Init((PyObject *)&absences[i], &absence_type);
        if (PyDict_SetItemString(type->tp_dict, absent[i].name, (PyObject *)&absences[i]) < 0)
            return -1;
    }
    return 0;
}

/* ---- the type ---- */

int fdl_finish_tensor_type(PyTypeObject *type, PyObject *describe)
{
    if (type->tp_basicsize != sizeof(fdl_tensor) ||
        type->tp_weaklistoffset != offsetof(fdl_tensor, weakrefs)) {
        PyErr_SetString(PyExc_ImportError,
                        "fastdl was built with a Cython of another class layout: use one of the "
                        "versions in pyproject.toml");
        return -1;
    }
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        /* Instances of a heap type hold a reference to it, which the functions here do not
         * count. */
        PyErr_SetString(PyExc_ImportError, "fastdl must be built with static Cython types");
        return -1;
    }
    type->tp_name = "fastdl.Tensor";
    type->tp_dealloc = deallocate;
    type->tp_traverse = traverse;
    type->tp_clear = NULL; /* Cython's would drop `root` without decrementing its `views` */
    type->tp_new = NULL;
    install_refusals(type);
    type->tp_flags |= Py_TPFLAGS_DISALLOW_INSTANTIATION;
    if (PyDict_DelItemString(type->tp_dict, "__new__") < 0 || install_absent(type) < 0)
        return -1;
    PyType_Modified(type);
    tensor_type = type;
    describe_call = Py_NewRef(describe);
    return 0;
}
