/* SPDX-License-Identifier: Apache-2.0 */
#include "import.h"

/* The part that both forms share. The block has no owner yet. */
static fdl_description *build(const DLTensor *tensor, uint64_t flags, fdl_fault *fault)
{
    fdl_layout layout;
    fdl_description *description;
    *fault = fdl_layout_check(tensor, flags, &layout);
    if (*fault != FDL_OK)
        return NULL;
    description = fdl_block_new(tensor->ndim);
    if (description == NULL) {
        *fault = FDL_NO_MEMORY;
        return NULL;
    }
    fdl_description_fill(description, tensor, flags);
    if (description->managed.dl_tensor.device.device_type == kDLCPU)
        description->managed.dl_tensor.device.device_id = 0; /* there is one host */
    return description;
}

static void keep_alive(fdl_block *block, PyObject *keep)
{
    if (keep != NULL) {
        Py_INCREF(keep);
        fdl_own_object(block, keep);
    }
}

fdl_description *fdl_import_versioned(DLManagedTensorVersioned *managed, PyObject *keep,
                                      fdl_fault *fault)
{
    fdl_description *description = fdl_description_of(managed);
    if (description != NULL)
        return description; /* one of ours comes back */
    if (managed->version.major != FASTDL_DLPACK_MAJOR) {
        *fault = FDL_BAD_VERSION;
        return NULL;
    }
    description = build(&managed->dl_tensor, managed->flags, fault);
    if (description == NULL)
        return NULL;
    if (managed->deleter != NULL)
        fdl_own_versioned(description->block, managed);
    else
        keep_alive(description->block, keep);
    return description;
}

fdl_description *fdl_import_legacy(DLManagedTensor *managed, uint64_t flags, PyObject *keep,
                                   fdl_fault *fault)
{
    fdl_description *description = build(&managed->dl_tensor, flags, fault);
    if (description == NULL)
        return NULL;
    if (managed->deleter != NULL)
        fdl_own_legacy(description->block, managed);
    else
        keep_alive(description->block, keep);
    return description;
}
