/* SPDX-License-Identifier: Apache-2.0
 *
 * The elements of host memory as Python numbers.
 *
 * An element of several lanes is a tuple. Narrow integers and floats are decoded bit by bit, packed
 * or padded; elements need not be aligned. The device is not checked, and work not waited for: the
 * caller has done both, and holds a reference to the Tensor.
 */
#ifndef FASTDL_CORE_VALUES_H_
#define FASTDL_CORE_VALUES_H_

#include <Python.h>

#include "_memory/layout.h"

/* Whether Python has numbers for the values of a type. The functions below are for such types. */
int fdl_has_numbers(DLDataType dtype);

/* Nested lists of all elements; of a tensor without dimensions, its element. A new reference, or
 * NULL with MemoryError. `flags` are those of the managed tensor, here and below. */
PyObject *fdl_list_of(const DLTensor *tensor, uint64_t flags);

/* The first element of a tensor that has one. */
PyObject *fdl_first_of(const DLTensor *tensor, uint64_t flags);

/* Whether an element equals `number`: 1, 0, or -1 with the exception of the comparison. */
int fdl_any_equals(const DLTensor *tensor, uint64_t flags, PyObject *number);

#endif
