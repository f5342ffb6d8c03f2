/* SPDX-License-Identifier: Apache-2.0
 *
 * The hot path: from an object to a Tensor through the exchange table of its type.
 */
#ifndef FASTDL_CORE_ACQUIRE_H_
#define FASTDL_CORE_ACQUIRE_H_

#include "import.h"
#include "types.h"

/* A new Tensor on `object`, whose type has this record, through the record's table, which must not
 * be the general bridge. None (a new reference) if a native table refused and the object's
 * `__dlpack__` should be tried. NULL with an exception on failure. */
PyObject *fdl_acquire(PyObject *object, const fastdl_record *record, int order);

/* A new Tensor on host data of an object whose type has only `__dlpack__`, by the quicker way that
 * the facts of the type name: its buffer, or one call without asking where the data is. NULL
 * without an exception if there is no such way, or if it does not serve this object. */
PyObject *fdl_ask_quickly(PyObject *object, uint32_t facts);

/* fastdl.from_dlpack: a builtin function that serves the plain call on a known type with a table,
 * and the calls that pass only a stream, or only device="cpu". Any other call goes to `complete`
 * with the same arguments; an object that its native table refused, or whose type has only
 * `__dlpack__` and no quick way that serves it, goes to `over_protocol`;
 * `finish` gets the object, its Tensor (None if its table refused), the device and the stream, if
 * more is to be done. Call it once: all arguments are kept until the process ends. */
PyObject *fdl_make_from_dlpack(PyObject *doc, PyObject *complete, PyObject *over_protocol,
                               PyObject *finish);

#endif
