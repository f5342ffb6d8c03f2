/* SPDX-License-Identifier: Apache-2.0
 *
 * From a foreign managed tensor to a Tensor: every tensor enters fastdl here. All functions need a
 * thread state.
 */
#ifndef FASTDL_CORE_IMPORT_H_
#define FASTDL_CORE_IMPORT_H_

#include "layout.h"
#include "lifetime.h"
#include "object.h"

/* A new Tensor on `managed`, which is consumed, even on failure. `keep` (may be NULL) is kept alive
 * if there is no deleter. A managed tensor that fastdl exported is unwrapped. */
PyObject *fdl_take_versioned(DLManagedTensorVersioned *managed, PyObject *keep);

/* The same for the legacy form; `flags` supplies the flags that it cannot carry. */
PyObject *fdl_take_legacy(DLManagedTensor *managed, uint64_t flags, PyObject *keep);

/* A new Tensor on `managed`, which is consumed on success only. */
PyObject *fdl_make_tensor(DLManagedTensorVersioned *managed);

/* Undoes fdl_make_tensor: the caller owns `managed` again, and the Tensor, which nobody else has
 * seen, becomes one without elements. */
void fdl_unmake_tensor(PyObject *tensor, DLManagedTensorVersioned *managed);

/* A new tuple of `n` ints, or NULL with MemoryError. */
PyObject *fdl_int_tuple(const int64_t *values, Py_ssize_t n);

#endif
