/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors from the buffer protocol, for libraries whose `__dlpack__` takes longer.
 */
#ifndef FASTDL_CORE_BUFFER_H_
#define FASTDL_CORE_BUFFER_H_

#include <Python.h>

#include <stdint.h>

/* A new Tensor with these flags on the memory of an object's buffer, which stays locked as long as
 * the memory is in use. NULL without an exception if the object has no buffer, or one of a type
 * without a letter of its own: then `__dlpack__` has to do. NULL with MemoryError. */
PyObject *fdl_take_buffer(PyObject *object, uint64_t flags);

/* Whether nobody ever changes the memory of what a buffer, or an array of NumPy, is on: bytes, a
 * Tensor that knows it, or a memoryview of one. `exporter` may be NULL. */
int fdl_never_changes(PyObject *exporter);

#endif
