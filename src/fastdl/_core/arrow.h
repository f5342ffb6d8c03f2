/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrow arrays of one dimension, in both directions, over the Arrow C data interface and its
 * capsules. All functions need a thread state.
 */
#ifndef FASTDL_CORE_ARROW_H_
#define FASTDL_CORE_ARROW_H_

#include "object.h"

/* The tuple (capsule "arrow_schema", capsule "arrow_array") of a compact host Tensor of one
 * dimension, which shares its memory (bools are copied, since Arrow's are bits). Each capsule
 * releases its struct unless a consumer took it; the array holds a reference to the block, which
 * the consumer may release on any thread. NULL with an exception on failure: BufferError if Arrow
 * has no such type. */
PyObject *fdl_arrow_export(PyObject *tensor);

/* Whether Arrow has an element type like this one. */
int fdl_arrow_has(DLDataType dtype);

/* A new read-only Tensor on the memory of an Arrow array, which is moved out of its capsule. NULL
 * with an exception: ValueError if it was consumed already, BufferError for nulls, and for types
 * that are not plain numbers. On failure the capsules are untouched, and still own the array. */
PyObject *fdl_arrow_import(PyObject *schema, PyObject *array);

/* How many values of an Arrow array are null, nested ones too, or of all arrays in a capsule
 * "arrow_array_stream", which is read to its end: an int. None unless the elements are plain
 * numbers, bools, lists of one size, structs, dictionaries or runs. NULL with an exception. */
PyObject *fdl_arrow_nulls(PyObject *schema, PyObject *array);
PyObject *fdl_arrow_stream_nulls(PyObject *stream);

#endif
