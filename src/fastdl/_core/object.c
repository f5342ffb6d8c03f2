/* SPDX-License-Identifier: Apache-2.0 */
#include "object.h"

#include "lifetime.h"
#include "operators.h"

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
    /* Counted down first: an export may never look like a view, see `traverse`. */
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
    /* The object is held by the block, which is held by this Tensor and its views; if by anything
     * else as well, the collector cannot know what keeps it alive. No Python thread runs while the
     * collector looks. Others may release exports, so that the object is seen in a later pass than
     * the first: that only keeps it alive until the next collection. */
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
    PyErr_SetString(failure->no_memory ? PyExc_MemoryError : PyExc_BufferError, failure->text);
    return -1;
}

static PyObject *describe_call;

PyObject *fdl_tensor_summary(PyObject *tensor)
{
    return PyObject_CallOneArg(describe_call, tensor);
}

int fdl_raise_about(PyObject *tensor, const fdl_failure *failure, const char *what, int64_t stream)
{
    PyObject *words;
    if (PyErr_Occurred())
        return -1;
    if (failure->no_memory)
        return fdl_raise(failure);
    words = fdl_tensor_summary(tensor);
    if (words != NULL)
        PyErr_Format(PyExc_BufferError, "%U cannot be %s %lld: %s", words, what, (long long)stream,
                     failure->text);
    Py_XDECREF(words);
    return -1;
}

int fdl_finish_tensor_type(PyTypeObject *type, PyObject *describe)
{
    if (type->tp_basicsize != sizeof(fdl_tensor) ||
        type->tp_weaklistoffset != offsetof(fdl_tensor, weakrefs)) {
        PyErr_SetString(PyExc_ImportError,
                        "fastdl was built with a Cython that lays classes out in another way: "
                        "use one of the versions in pyproject.toml");
        return -1;
    }
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        /* Objects would count their type, which the functions here do not do. */
        PyErr_SetString(PyExc_ImportError, "fastdl must be built with static Cython types");
        return -1;
    }
    type->tp_name = "fastdl.Tensor";
    type->tp_dealloc = deallocate;
    type->tp_traverse = traverse;
    type->tp_clear = NULL; /* Cython's would drop `root` without counting its `views` down */
    type->tp_new = NULL;
    fdl_install_refusals(type);
    type->tp_flags |= Py_TPFLAGS_DISALLOW_INSTANTIATION;
    if (PyDict_DelItemString(type->tp_dict, "__new__") < 0)
        return -1;
    PyType_Modified(type);
    tensor_type = type;
    describe_call = Py_NewRef(describe);
    return 0;
}
