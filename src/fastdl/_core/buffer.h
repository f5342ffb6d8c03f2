/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors from the buffer protocol.
 */
#ifndef FASTDL_CORE_BUFFER_H_
#define FASTDL_CORE_BUFFER_H_

#include <Python.h>

#include <stdint.h>

/* A new Tensor with these flags and those of `buffer`, which stays locked as long as the memory is
 * in use. Takes `buffer`, in memory of PyMem_RawMalloc, also on failure. NULL with an exception. */
PyObject *fdl_take_buffer(Py_buffer *buffer, uint64_t flags);

/* The same of the buffer of an object whose library's `__dlpack__` takes longer. NULL without an
 * exception if it has none, or one that DLPack cannot describe: then `__dlpack__` has to do. NULL
 * with MemoryError. */
PyObject *fdl_try_buffer(PyObject *object, uint64_t flags);

/* Releases a buffer in memory of PyMem_RawMalloc. */
void fdl_unlock_buffer(Py_buffer *buffer);

/* Whether nobody ever changes the memory of what a buffer, or an array of NumPy, is on: bytes, a
 * Tensor that knows it, or a memoryview of one. `exporter` may be NULL. */
int fdl_never_changes(PyObject *exporter);

#endif
