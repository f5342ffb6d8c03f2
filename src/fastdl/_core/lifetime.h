/* SPDX-License-Identifier: Apache-2.0
 *
 * Owners that need Python to be released: a foreign managed tensor, an object, a buffer.
 *
 * The functions here serve as the `drop` of a block. They run on whichever thread released the last
 * reference, possibly with an exception pending, without a thread state, or after the interpreter
 * is gone. They attach, set the pending exception aside, release the owner, and restore everything.
 * Once the interpreter is gone they leak on purpose. To attach they may wait for the GIL, on any
 * thread; owners of device memory are not released where that could matter (_devices/deferred.h,
 * which also says why those of host memory are).
 */
#ifndef FASTDL_CORE_LIFETIME_H_
#define FASTDL_CORE_LIFETIME_H_

#include <Python.h>

#include "block.h"

/* Clears an exception that a foreign function left behind although it reported success. Needs a
 * thread state. */
void fdl_clear_error(void);

/* Runs the deleter of a managed tensor that has not become a block (a failed import). Needs a
 * thread state; a pending exception is kept. A NULL deleter is skipped. */
void fdl_discard_versioned(DLManagedTensorVersioned *managed);
void fdl_discard_legacy(DLManagedTensor *managed);

/* Each sets the owner of `block`. The caller transfers ownership of: the managed tensor; one
 * reference to the object; a filled Py_buffer in memory of PyMem_RawMalloc. */
void fdl_own_versioned(fdl_block *block, DLManagedTensorVersioned *managed);
void fdl_own_legacy(fdl_block *block, DLManagedTensor *managed);
void fdl_own_object(fdl_block *block, PyObject *object);
void fdl_own_buffer(fdl_block *block, Py_buffer *buffer);

/* Keeps another object alive until the owner of `block` has been released. Takes a new reference,
 * but none for memory of fastdl's own, which lives as long as its block. 0, or -1 with MemoryError.
 */
int fdl_keep_also(fdl_block *block, PyObject *object);

/* Detaches the owner of `block` without releasing it: the caller owns it again. */
void fdl_disown(fdl_block *block);

/* The Python object that keeps the memory of `block` alive, or NULL. */
PyObject *fdl_object_behind(const fdl_block *block);

#endif
