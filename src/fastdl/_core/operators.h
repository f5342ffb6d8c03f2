/* SPDX-License-Identifier: Apache-2.0
 *
 * What a Tensor does not do, with a message that says what to do instead: arithmetic, comparisons,
 * assignment to elements, and calls of its type.
 *
 * Only operators between Tensors and Python's own numbers are refused here. All others are left to
 * the other operand, which comes next: an array of NumPy computes with a Tensor as with any object
 * that it can read, and a list is repeated as often as an integer Tensor says.
 */
#ifndef FASTDL_CORE_OPERATORS_H_
#define FASTDL_CORE_OPERATORS_H_

#include "object.h"

/* The result of an operator with at least one Tensor: NULL with TypeError, or NotImplemented. */
PyObject *fdl_operate(PyObject *left, PyObject *right, const char *sign);

/* Gives the type these refusals. They are in its slots only, so that it has no attributes
 * (`__add__`, `__setitem__`) by which others conclude that it computes. */
void fdl_install_refusals(PyTypeObject *type);

#endif
