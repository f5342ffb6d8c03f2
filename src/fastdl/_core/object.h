/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a fastdl.Tensor object: allocation, garbage collection, deallocation.
 *
 * tensor.pyx declares the type and its methods; Cython's own allocation and deallocation are
 * replaced by the ones here, for four reasons. The garbage collector must find the Python object
 * behind the C block. Most objects cannot be part of a cycle and need not be tracked. No instance
 * without a description may ever be visible. And creation is most of the cost of an exchange.
 */
#ifndef FASTDL_CORE_OBJECT_H_
#define FASTDL_CORE_OBJECT_H_

#include <Python.h>

#include "_memory/block.h"
#include "_memory/failure.h"

/* The fields of `cdef class Tensor`, in its order. fdl_finish_tensor_type checks the size. */
typedef struct {
    PyObject_HEAD
    fdl_description *description; /* owned, never NULL */
    PyObject *shape;              /* None, or a tuple once it has been requested */
    PyObject *root;               /* None, or the Tensor that this is a view of */
    fdl_count views;              /* how many Tensors have this one as their root */
    PyObject *weakrefs;
} fdl_tensor;

static inline fdl_description *fdl_description_in(PyObject *tensor)
{
    return ((fdl_tensor *)tensor)->description;
}

int fdl_is_tensor(PyObject *object);

/* A new Tensor that owns `description`. NULL with MemoryError on failure; the caller then still
 * owns the description. */
PyObject *fdl_tensor_new(fdl_description *description);

/* fdl_tensor_new, but on failure the description is released. */
PyObject *fdl_tensor_wrap(fdl_description *description);

/* fdl_tensor_wrap for a view of `tensor`: `description` is of the same block. The view keeps
 * `tensor` (or the Tensor that `tensor` is a view of) alive, so that the collector sees how they
 * share a block.
 */
PyObject *fdl_tensor_wrap_view(fdl_description *description, PyObject *tensor);

/* A view of `tensor` with the data, type, shape and strides in `geometry`, which have been
 * checked. */
PyObject *fdl_make_view(PyObject *tensor, const DLTensor *geometry, uint64_t flags);

/* A short description of a Tensor for messages: a new str, or NULL with an exception. */
PyObject *fdl_tensor_summary(PyObject *tensor);

/* Raises a failure of the lower layers as MemoryError or BufferError, unless an exception is
 * pending, such as one of a producer's table. Returns -1. */
int fdl_raise(const fdl_failure *failure);

/* fdl_raise with a message about a Tensor: "... cannot be `what` `stream`: ..." (-1: no stream). */
int fdl_raise_about(PyObject *tensor, const fdl_failure *failure, const char *what, int64_t stream);

/* Installs these functions, and makes the type impossible to instantiate from Python. Call it once,
 * at module initialisation, before any instance exists. `describe` returns a short description of a
 * Tensor. 0, or -1 with ImportError. */
int fdl_finish_tensor_type(PyTypeObject *type, PyObject *describe);

/* ---- refused operations ----
 *
 * Arithmetic, comparisons, assignment to elements and calls of the type raise an error with advice.
 * Only operators between Tensors and Python's own numbers are refused here. All others return
 * NotImplemented, so Python tries the other operand: a NumPy array computes with a Tensor as with
 * any object that it can read, and an integer Tensor can multiply a list. */

/* The result of an operator with at least one Tensor: NULL with TypeError, or NotImplemented. */
PyObject *fdl_operate(PyObject *left, PyObject *right, const char *sign);

#endif
