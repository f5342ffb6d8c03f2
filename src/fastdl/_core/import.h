/* SPDX-License-Identifier: Apache-2.0
 *
 * From a foreign managed tensor, a buffer or an object to a Tensor: every tensor enters fastdl
 * here. All functions need a thread state.
 */
#ifndef FASTDL_CORE_IMPORT_H_
#define FASTDL_CORE_IMPORT_H_

#include "_memory/layout.h"

#include "interface.h"
#include "lifetime.h"
#include "object.h"

/* A new Tensor on `managed`, which is consumed, even on failure. `keep` (may be NULL) is kept alive
 * if there is no deleter. A managed tensor that fastdl exported is unwrapped. */
PyObject *fdl_take_versioned(DLManagedTensorVersioned *managed, PyObject *keep);

/* fdl_take_versioned for the legacy form; `flags` supplies the flags that it cannot carry. */
PyObject *fdl_take_legacy(DLManagedTensor *managed, uint64_t flags, PyObject *keep);

/* Call this for a Tensor that was just imported, with the FASTDL_TYPE_* of its producer: its block
 * records whether its memory is immutable. */
void fdl_note_immutable(PyObject *tensor, uint32_t facts);

/* Keeps the owner of the memory of `object` alive (if the facts of its type have FASTDL_TYPE_KEEP)
 * as long as `block`, which was just imported from it and shares its memory: 0, or -1 with an
 * exception. */
int fdl_keep_memory(fdl_block *block, PyObject *object, uint32_t facts);

/* A new Tensor on `managed`, which is consumed on success only. */
PyObject *fdl_make_tensor(DLManagedTensorVersioned *managed);

/* Undoes fdl_make_tensor: the caller owns `managed` again, and the Tensor, which no other code has
 * seen, becomes one without elements. */
void fdl_unmake_tensor(PyObject *tensor, DLManagedTensorVersioned *managed);

/* A new tuple of `n` ints, or NULL with MemoryError. */
PyObject *fdl_int_tuple(const int64_t *values, Py_ssize_t n);

/* ---- the buffer protocol, for libraries whose `__dlpack__` is slower ---- */

/* A new Tensor with these flags and those of `buffer`, which stays locked as long as the memory is
 * in use. Takes `buffer`, allocated by PyMem_RawMalloc, even on failure: NULL with an exception. */
PyObject *fdl_take_buffer(Py_buffer *buffer, uint64_t flags);

/* Whether the memory of this exporter of a buffer, or base of a NumPy array, never changes: bytes,
 * a Tensor that is marked as immutable, or a memoryview of one. `exporter` may be NULL. */
int fdl_never_changes(PyObject *exporter);

/* ---- the fast path: through the exchange table of a type ---- */

/* A new Tensor on `object`, whose type has this record, through the record's table, which must not
 * be the general bridge. None (a new reference) if a native table refused and the object's
 * `__dlpack__` should be tried. NULL with an exception on failure. */
PyObject *fdl_acquire(PyObject *object, const fastdl_record *record, int order);

/* The device of such an object, without importing anything: from its table if that lends, or else
 * from `__dlpack_device__`. 1; 0 if neither reports it; -1 with an exception. */
int fdl_where(PyObject *object, const fastdl_record *record, DLDevice *device);

/* A new Tensor on host data of an object whose type has only `__dlpack__`, by the fast path in the
 * facts of the type: its buffer, or a single call without `__dlpack_device__`. NULL without an
 * exception if there is no such path, or if it does not apply to this object. */
PyObject *fdl_try_fast_path(PyObject *object, uint32_t facts);

/* The facts for a type whose objects `function`, kept alive for ever, may refuse. 0 with
 * RuntimeError if there are too many functions. */
uint32_t fdl_refusal(PyObject *function);

/* Calls the function of these facts, if any, which may refuse an object: 0, or -1 with an
 * exception. Call it before each call of `__dlpack__`, and after reading integers from a buffer. */
int fdl_refuse_object(PyObject *object, uint32_t facts);

/* fastdl.from_dlpack: a builtin function that handles the plain call on a known type with a table,
 * and the calls that pass only a stream, or only device="cpu". Any other call goes to `complete`
 * with the same arguments; an object that its native table refused, or whose type has only
 * `__dlpack__` and no fast path, goes to `over_protocol`. Call it once: all arguments are kept
 * until the process ends. */
PyObject *fdl_make_from_dlpack(PyObject *doc, PyObject *complete, PyObject *over_protocol);

#endif
