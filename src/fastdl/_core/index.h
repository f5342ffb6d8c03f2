/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FASTDL_CORE_INDEX_H_
#define FASTDL_CORE_INDEX_H_

#include "object.h"

/* The view of a fastdl.Tensor that `key` selects, as NumPy's basic indexing: integers, slices, None
 * and one Ellipsis, alone or in a tuple. A new reference, or NULL with IndexError, TypeError,
 * BufferError (elements that share bytes cannot be selected) or MemoryError. */
PyObject *fdl_index(PyObject *tensor, PyObject *key);

/* Whether `number` is an int, or what stands for one, and no bool. */
int fdl_is_index(PyObject *number);

#endif
