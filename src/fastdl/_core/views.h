/* SPDX-License-Identifier: Apache-2.0
 *
 * Views of a Tensor: a part of its memory, or all of it in another shape, order or type.
 *
 * Each function returns a new Tensor on the block of `tensor`, read-only if `tensor` is, or NULL
 * with an exception: TypeError for arguments of another type, ValueError for an impossible view,
 * CopyRequiredError for a view that only a compact copy allows, BufferError if elements share bytes
 * and the view would not be in row-major order, MemoryError. The memory is not read, so it may be
 * on any device.
 */
#ifndef FASTDL_CORE_VIEWS_H_
#define FASTDL_CORE_VIEWS_H_

#include "object.h"

/* The same elements in another shape. `sizes`, here and below, and `axes` are a tuple of ints, or
 * of one sequence of ints. One size may be -1: it is computed from the others. */
PyObject *fdl_reshape(PyObject *tensor, PyObject *sizes);

/* The dimensions in another order: dimension i of the view is dimension axes[i] of the tensor. */
PyObject *fdl_permute(PyObject *tensor, PyObject *axes);

/* The transpose of a matrix, or with `stacked` of each matrix in a stack: the last two dimensions
 * change places. */
PyObject *fdl_transpose(PyObject *tensor, int stacked);

/* Drops the dimensions `axis`, an int or a sequence of ints, each of size 1; None: all such. */
PyObject *fdl_squeeze(PyObject *tensor, PyObject *axis);

/* Adds a dimension of size 1, which is dimension `axis` of the view, an int. */
PyObject *fdl_unsqueeze(PyObject *tensor, PyObject *axis);

/* Dimensions of size 1 become any size, and new ones come before the first; -1 keeps a size. Always
 * read-only: one write would change several elements. */
PyObject *fdl_expand(PyObject *tensor, PyObject *sizes);

/* The same elements, read-only. */
PyObject *fdl_as_readonly(PyObject *tensor);

/* The same bytes as elements of another type; if it has another size, the last dimension, which
 * must have no gaps, changes its size accordingly. */
PyObject *fdl_view_as(PyObject *tensor, DLDataType dtype);

/* The view of a fastdl.Tensor that `key` selects, as NumPy's basic indexing: integers, slices, None
 * and one Ellipsis, or a tuple of them. A new reference, or NULL with IndexError, TypeError,
 * BufferError (elements that share bytes cannot be selected) or MemoryError. */
PyObject *fdl_index(PyObject *tensor, PyObject *key);

#endif
