/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that fastdl.signer returns.
 */
#ifndef FDL_LAUNCH_H
#define FDL_LAUNCH_H

#include <Python.h>

#include <fastdl/launch.h>

/* A builtin function of tensors whose result is the bytes of their keys. `layout`, a str that is
 * known to be of letters of fastdl_pack, is kept; so is `doc`, bytes; `discover` finds out about a
 * type that is not known yet. A new reference, or NULL with MemoryError. */
PyObject *fdl_make_signer(const fastdl_signature_rules *rules, PyObject *layout, PyObject *doc,
                          const fastdl_record *(*discover)(PyTypeObject *));

#endif
