/* SPDX-License-Identifier: Apache-2.0
 *
 * From a foreign managed tensor to a Tensor: every tensor enters fastdl here. All functions need a
 * thread state.
 */
#ifndef FASTDL_CORE_IMPORT_H_
#define FASTDL_CORE_IMPORT_H_

#include "_memory/layout.h"
#include "lifetime.h"
#include "object.h"

/* Takes the managed tensor out of a capsule, which is renamed, into *versioned or *legacy. Both are
 * NULL if there is none, or if it is not in host memory and nothing else is wanted (`host_only`).
 */
void fdl_open_capsule(PyObject *capsule, int host_only, DLManagedTensorVersioned **versioned,
                      DLManagedTensor **legacy);

/* A new Tensor on `managed`, which is consumed, even on failure. `keep` (may be NULL) is kept alive
 * if there is no deleter. A managed tensor that fastdl exported is unwrapped. */
PyObject *fdl_take_versioned(DLManagedTensorVersioned *managed, PyObject *keep);

/* The same for the legacy form; `flags` supplies the flags that it cannot carry. */
PyObject *fdl_take_legacy(DLManagedTensor *managed, uint64_t flags, PyObject *keep);

/* Call this for a Tensor that was just imported, with the FASTDL_TYPE_* of its producer: its block
 * remembers whether they say that its memory never changes. */
void fdl_note_immutable(PyObject *tensor, uint32_t facts);

/* A new Tensor on `managed`, which is consumed on success only. */
PyObject *fdl_make_tensor(DLManagedTensorVersioned *managed);

/* Undoes fdl_make_tensor: the caller owns `managed` again, and the Tensor, which nobody else has
 * seen, becomes one without elements. */
void fdl_unmake_tensor(PyObject *tensor, DLManagedTensorVersioned *managed);

/* A new tuple of `n` ints, or NULL with MemoryError. */
PyObject *fdl_int_tuple(const int64_t *values, Py_ssize_t n);

#endif
