/* SPDX-License-Identifier: Apache-2.0
 *
 * From a Tensor to a capsule or a view. All functions need a thread state.
 */
#ifndef FASTDL_CORE_EXPORT_H_
#define FASTDL_CORE_EXPORT_H_

#include "interface.h"

#include "object.h"

/* New capsules on the memory of a fastdl.Tensor. Their destructors release the managed tensor
 * unless a consumer took it. Their flags are the lasting ones plus `more_flags`. A legacy capsule
 * cannot carry flags: the caller has already refused read-only tensors. NULL with MemoryError on
 * failure. */
PyObject *fdl_versioned_capsule(PyObject *tensor, uint64_t more_flags);
PyObject *fdl_legacy_capsule(PyObject *tensor);

/* fastdl_borrow of a fastdl.Tensor: see fastdl_record. */
int fdl_tensor_borrow(PyObject *tensor, fastdl_view *view);

/* Exports a tensor for a request. `draft` is the argument `version`, or NULL. */
typedef PyObject *(*fdl_exporter)(PyObject *tensor, const fastdl_request_ *request,
                                  PyObject *draft);

/* Defines the method `__dlpack__`, which `type` only declares: it handles the plain call for a
 * versioned capsule on the host, or on a device if the stream is unambiguous, and passes all other
 * calls to `exporter`. 0, or -1 with an exception. Call it once. */
int fdl_define_dlpack(PyTypeObject *type, fdl_exporter exporter);

#endif
