/* SPDX-License-Identifier: Apache-2.0
 *
 * Owners that need Python to be released: a foreign managed tensor, an object, a buffer.
 *
 * The functions here are used as the `drop` of a block. They run on whichever thread released the
 * last reference, possibly with an exception pending, without a thread state, or after the
 * interpreter has ended. They attach, set the pending exception aside, release the owner, and
 * restore everything. After the interpreter has ended, and on a thread attached to another
 * interpreter, they leak the owner on purpose. Attaching may wait for the GIL, on any thread;
 * owners of device memory are not released where that could deadlock (_devices/put_off.h, also on
 * why owners of host memory are).
 */
#ifndef FASTDL_CORE_LIFETIME_H_
#define FASTDL_CORE_LIFETIME_H_

#include <Python.h>

#include "_memory/block.h"

/* Not 0 while this thread has a Python thread state only because a deleter needed one: during such
 * a release the thread may be in a callback of a driver. */
extern FDL_THREAD_LOCAL int fdl_state_is_temporary;

/* Each sets the owner of `block`, and takes over: the managed tensor; one reference to the object,
 * or to an exporter, which the collector must not visit (fdl_object_behind); a filled Py_buffer
 * that was allocated by PyMem_RawMalloc. */
void fdl_own_versioned(fdl_block *block, DLManagedTensorVersioned *managed);
void fdl_own_legacy(fdl_block *block, DLManagedTensor *managed);
void fdl_own_object(fdl_block *block, PyObject *object);
void fdl_own_exporter(fdl_block *block, PyObject *exporter);
void fdl_own_buffer(fdl_block *block, Py_buffer *buffer);

/* Releases a buffer that was allocated by PyMem_RawMalloc. */
void fdl_unlock_buffer(Py_buffer *buffer);

/* Keeps another object alive until the owner of `block`, which was just imported, has been
 * released. Takes a new reference, except for a re-import of fastdl's own memory, which lives as
 * long as its block. 0, or -1 with MemoryError. */
int fdl_keep_also(fdl_block *block, PyObject *object);

/* `block`, which was just imported and owns an object, also calls `deleter` (NULL: nothing),
 * without arguments, before it releases that object. Exceptions of the deleter are unraisable.
 * Takes a new reference. From now on the collector does not visit the object, since clearing it may
 * free the memory. 0, or -1 with MemoryError and nothing changed. */
int fdl_delete_with(fdl_block *block, PyObject *deleter);

/* Detaches the owner of `block` without releasing it: the caller owns it again. */
void fdl_disown(fdl_block *block);

/* The Python object that keeps the memory of `block` alive, for the garbage collector, or NULL. The
 * collector may clear the objects that it visits before the block is dropped. Only a plain
 * reference tolerates that: the lock of a buffer is released through its exporter, and a cleared
 * memoryview, PickleBuffer or ctypes array has released its memory. So exporters are not
 * visited. */
PyObject *fdl_object_behind(const fdl_block *block);

/* Let other Python threads run while this one waits for something outside Python. Do not use Python
 * between the two calls; pass the result of the first to the second. Both do nothing on a thread
 * that does not hold the GIL, or without an interpreter. */
void *fdl_pause_python(void);
void fdl_resume_python(void *paused);

#endif
