/* SPDX-License-Identifier: Apache-2.0
 *
 * From a foreign managed tensor to a Tensor: the one gate through which every tensor enters
 * fastdl. All functions need a thread state.
 */
#ifndef FASTDL_CORE_IMPORT_H_
#define FASTDL_CORE_IMPORT_H_

#include "layout.h"
#include "lifetime.h"
#include "object.h"

/* A new Tensor on `managed`, which is consumed, also on failure. `keep` (may be NULL) is kept
 * alive in the place of a missing deleter. A managed tensor that fastdl exported is unwrapped. */
PyObject *fdl_take_versioned(DLManagedTensorVersioned *managed, PyObject *keep);

/* The same for the form before 1.0; `flags` says what that form cannot. */
PyObject *fdl_take_legacy(DLManagedTensor *managed, uint64_t flags, PyObject *keep);

/* A new Tensor on `managed`, which is consumed on success only. */
PyObject *fdl_make_tensor(DLManagedTensorVersioned *managed);

/* Undoes fdl_make_tensor: `managed` is the caller's again, and the Tensor, which has not been
 * given away, becomes one without elements. */
void fdl_unmake_tensor(PyObject *tensor, DLManagedTensorVersioned *managed);

/* A new tuple of `n` ints, or NULL with MemoryError. */
PyObject *fdl_int_tuple(const int64_t *values, Py_ssize_t n);

#endif
