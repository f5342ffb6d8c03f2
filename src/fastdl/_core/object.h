/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a fastdl.Tensor object: allocation, garbage collection, deallocation.
 *
 * tensor.pyx declares the type and its methods; Cython's own allocation and deallocation are
 * replaced by the ones here, for four reasons. The collector must see through the C block to the
 * Python object behind it. Objects that can be part of no cycle need not be tracked, which is
 * most of them. An instance without a description must never be seen. And creation is most of
 * the cost of an exchange.
 */
#ifndef FASTDL_CORE_OBJECT_H_
#define FASTDL_CORE_OBJECT_H_

#include <Python.h>

#include "block.h"
#include "failure.h"

/* The fields of `cdef class Tensor`, in its order. fdl_finish_tensor_type checks the size. */
typedef struct {
    PyObject_HEAD
    fdl_description *description; /* owned, never NULL */
    PyObject *shape;              /* None, or a tuple once it was asked for */
    PyObject *root;               /* None, or the Tensor that this is a view of */
    fdl_count views;              /* how many Tensors have this one as their root */
    PyObject *weakrefs;
} fdl_tensor;

static inline fdl_description *fdl_description_in(PyObject *tensor)
{
    return ((fdl_tensor *)tensor)->description;
}

/* A new Tensor that owns `description`. NULL with MemoryError on failure, and the description is
 * still the caller's. */
PyObject *fdl_tensor_new(fdl_description *description);

/* The same, but on failure the description is released. */
PyObject *fdl_tensor_wrap(fdl_description *description);

/* The same for a view of `tensor`: `description` is of the same block. The view keeps `tensor`, or
 * what that is a view of, alive: so the collector sees that one block holds them together. */
PyObject *fdl_tensor_wrap_view(fdl_description *description, PyObject *tensor);

/* Sets the exception that a failure of the layers below is: MemoryError or BufferError. Returns
 * -1. */
int fdl_raise(const fdl_failure *failure);

/* The same with words about a Tensor: that it cannot be `what` `stream`, and why. An exception that
 * is pending stays instead. */
int fdl_raise_about(PyObject *tensor, const fdl_failure *failure, const char *what, int64_t stream);

/* Puts these functions in place, and makes the type impossible to instantiate from Python. To be
 * called once, at module initialisation, before any instance exists. `describe` makes words of a
 * Tensor. 0, or -1 with ImportError. */
int fdl_finish_tensor_type(PyTypeObject *type, PyObject *describe);

#endif
