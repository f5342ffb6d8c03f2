/* SPDX-License-Identifier: Apache-2.0
 *
 * Owners that need Python to be released: a foreign managed tensor, an object, a buffer.
 *
 * The functions here are the `drop` of a block. They run on whatever thread gave back the
 * last reference, possibly with an exception pending, without a thread state, or after the
 * interpreter is gone. They attach, set the pending exception aside, let the owner go, and
 * restore everything. When the interpreter is gone they leak on purpose.
 */
#ifndef FASTDL_CORE_LIFETIME_H_
#define FASTDL_CORE_LIFETIME_H_

#include <Python.h>

#include "block.h"

/* Forgets an exception that a foreign function left behind although it claims to have succeeded.
 * Needs a thread state. */
void fdl_clear_error(void);

/* Runs the deleter of a managed tensor that has not become a block (a failed import). Needs a
 * thread state; a pending exception is kept. A NULL deleter is nothing to do. */
void fdl_discard_versioned(DLManagedTensorVersioned *managed);
void fdl_discard_legacy(DLManagedTensor *managed);

/* Each gives `block` its owner. The caller hands over: the managed tensor; one reference to the
 * object; a filled Py_buffer in memory of PyMem_RawMalloc. */
void fdl_own_versioned(fdl_block *block, DLManagedTensorVersioned *managed);
void fdl_own_legacy(fdl_block *block, DLManagedTensor *managed);
void fdl_own_object(fdl_block *block, PyObject *object);
void fdl_own_buffer(fdl_block *block, Py_buffer *buffer);

/* Keeps one more object alive until the owner of `block` has been released. A new reference is
 * taken. 0, or -1 with MemoryError. */
int fdl_keep_also(fdl_block *block, PyObject *object);

/* Takes the owner of `block` away without giving it back: it is the caller's again. */
void fdl_disown(fdl_block *block);

/* The Python object that keeps the memory of `block` alive, or NULL. */
PyObject *fdl_object_behind(const fdl_block *block);

#endif
