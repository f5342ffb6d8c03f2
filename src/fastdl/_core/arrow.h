/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrow arrays in both directions, over the Arrow C data and stream interfaces and their capsules.
 * All functions need a thread state.
 */
#ifndef FASTDL_CORE_ARROW_H_
#define FASTDL_CORE_ARROW_H_

#include "object.h"

/* The tuple (capsule "arrow_schema", capsule "arrow_array") of a compact host Tensor, which shares
 * its memory (bools are copied, since Arrow's are bits): an array of its elements if it has one
 * dimension; if it has two, a table whose columns are its rows. Each capsule releases its struct
 * unless a consumer took it; arrays hold references to the block, which the consumer may release on
 * any thread. NULL with an exception on failure. */
PyObject *fdl_arrow_export(PyObject *tensor);

/* Whether Arrow has an element type like this one. */
int fdl_arrow_has(DLDataType dtype);

/* The tuple (Tensor, metadata) of an Arrow array: a read-only Tensor on its memory, for which the
 * array is moved out of its capsule; or a writable copy of bools and of the columns of a table.
 * Numbers and bools have one dimension, lists of fixed sizes one more for each level; a table has
 * one of rows and one of columns. The metadata are the bytes of the type "fixed_shape_tensor"; None
 * for other types. NULL with an exception: ValueError if the array was consumed already,
 * BufferError for nulls and for other types. On failure the capsules still own the array, unless
 * making the Tensor failed: then the array was released. The caller holds the critical section of
 * `array`. */
PyObject *fdl_arrow_import(PyObject *schema, PyObject *array);

/* fdl_arrow_import for all arrays in a capsule "arrow_array_stream"; a copy if there are several.
 * The stream is moved out of the capsule, and released in any case. The caller holds the critical
 * section of the capsule. */
PyObject *fdl_arrow_import_stream(PyObject *stream);

/* How many values of an Arrow array are null, nested ones too, or of all arrays in a capsule
 * "arrow_array_stream", which is consumed: an int. None unless the elements are plain
 * numbers, bools, lists of one size, structs, dictionaries or runs. NULL with an exception. */
PyObject *fdl_arrow_nulls(PyObject *schema, PyObject *array);
PyObject *fdl_arrow_stream_nulls(PyObject *stream);

#endif
