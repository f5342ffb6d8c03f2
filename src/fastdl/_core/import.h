/* SPDX-License-Identifier: Apache-2.0
 *
 * From a foreign managed tensor to a description: the one gate through which every tensor
 * enters fastdl.
 */
#ifndef FASTDL_CORE_IMPORT_H_
#define FASTDL_CORE_IMPORT_H_

#include "layout.h"
#include "lifetime.h"

/* Checks `managed` and builds a block on it. On success the description owns `managed`, and if
 * that has no deleter a new reference to `keep` instead (which may be NULL). On failure returns
 * NULL with *fault set, and `managed` is still the caller's. Needs a thread state for `keep`
 * alone; sets no exception. A managed tensor that fastdl exported is unwrapped, not wrapped.
 *
 * FDL_BAD_VERSION means that nothing but the deleter may be touched. */
fdl_description *fdl_import_versioned(DLManagedTensorVersioned *managed, PyObject *keep,
                                      fdl_fault *fault);

/* The same for the form before 1.0; `flags` says what that form cannot. */
fdl_description *fdl_import_legacy(DLManagedTensor *managed, uint64_t flags, PyObject *keep,
                                   fdl_fault *fault);

#endif
