/* SPDX-License-Identifier: Apache-2.0 */
#include "import.h"

#include <string.h>

#include "interface.h"

PyObject *fdl_int_tuple(const int64_t *values, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple != NULL && i < n; i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);
        if (value == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, value);
    }
    return tuple;
}

/* Whether the managed tensor in a capsule may be taken. */
static int is_wanted(const DLTensor *tensor, int host_only)
{
    return !host_only || tensor->device.device_type == kDLCPU;
}

void fdl_open_capsule(PyObject *capsule, int host_only, DLManagedTensorVersioned **versioned,
                      DLManagedTensor **legacy)
{
    const char *name;
    *versioned = NULL;
    *legacy = NULL;
    if (!PyCapsule_CheckExact(capsule))
        return;
#ifdef Py_GIL_DISABLED
    Py_BEGIN_CRITICAL_SECTION(capsule); /* two threads could both see the name */
#endif
    name = PyCapsule_GetName(capsule);
    if (name != NULL && strcmp(name, "dltensor_versioned") == 0) {
        DLManagedTensorVersioned *found = PyCapsule_GetPointer(capsule, name);
        /* Of another major version only the deleter is where it is expected. */
        if (found->version.major != FASTDL_DLPACK_MAJOR ||
            is_wanted(&found->dl_tensor, host_only)) {
            *versioned = found;
            PyCapsule_SetName(capsule, "used_dltensor_versioned");
        }
    } else if (name != NULL && strcmp(name, "dltensor") == 0) {
        DLManagedTensor *found = PyCapsule_GetPointer(capsule, name);
        if (is_wanted(&found->dl_tensor, host_only)) {
            *legacy = found;
            PyCapsule_SetName(capsule, "used_dltensor");
        }
    }
#ifdef Py_GIL_DISABLED
    Py_END_CRITICAL_SECTION();
#endif
}

/* The part that both forms share: a checked description of `block`, or if that is NULL of a new
 * block that has no owner yet. */
static fdl_description *build(fdl_block *block, const DLTensor *tensor, uint64_t flags)
{
    fastdl_layout layout;
    fdl_description *description;
    fastdl_fault fault = fastdl_check(tensor, flags, &layout);
    if (fault != FASTDL_OK) {
        fastdl_raise_fault(fault, tensor);
        return NULL;
    }
    description =
        block == NULL ? fdl_block_new(tensor->ndim) : fdl_description_new(block, tensor->ndim);
    if (description == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    fdl_description_fill(description, tensor, flags);
    return description;
}

static void keep_alive(fdl_block *block, PyObject *keep)
{
    if (keep != NULL) {
        Py_INCREF(keep);
        fdl_own_object(block, keep);
    }
}

/* The description owns `managed` on success; on failure `managed` is still the caller's. */
static fdl_description *import_versioned(DLManagedTensorVersioned *managed, PyObject *keep)
{
    fdl_description *description = fdl_description_of(managed);
    if (description != NULL) {
        /* One of ours has come back, and its consumer may have changed it. */
        DLTensor *own = &managed->dl_tensor;
        fastdl_layout layout;
        fastdl_fault fault = fastdl_check(own, managed->flags, &layout);
        if (fault != FASTDL_OK) {
            fastdl_raise_fault(fault, own);
            return NULL;
        }
        fdl_description_fill(description, own, managed->flags);
        return description;
    }
    if (fastdl_check_version(managed) < 0)
        return NULL;
    description = build(NULL, &managed->dl_tensor, managed->flags);
    if (description == NULL)
        return NULL;
    if (managed->deleter != NULL)
        fdl_own_versioned(description->block, managed);
    else
        keep_alive(description->block, keep);
    return description;
}

void fdl_note_immutable(PyObject *tensor, uint32_t facts)
{
    const fdl_description *description = fdl_description_in(tensor);
    if (facts & FASTDL_TYPE_IMMUTABLE &&
        description->managed.flags & DLPACK_FLAG_BITMASK_READ_ONLY &&
        fdl_count_get(&description->block->refs) == 1)
        description->block->immutable = 1;
}

PyObject *fdl_take_versioned(DLManagedTensorVersioned *managed, PyObject *keep)
{
    fdl_description *description = fastdl_has_succeeded_() ? import_versioned(managed, keep) : NULL;
    if (description == NULL) {
        if (!fastdl_is_really_legacy(managed))
            fdl_discard_versioned(managed);
        return NULL;
    }
    return fdl_tensor_wrap(description);
}

PyObject *fdl_take_legacy(DLManagedTensor *managed, uint64_t flags, PyObject *keep)
{
    fdl_block *block = fdl_block_of_legacy(managed);
    fdl_description *description = build(block, &managed->dl_tensor, flags);
    if (description == NULL) {
        if (!fastdl_is_really_versioned(managed))
            fdl_discard_legacy(managed);
        return NULL;
    }
    if (block != NULL)
        managed->deleter(managed); /* one of ours has come back: the description replaces it */
    else if (managed->deleter != NULL)
        fdl_own_legacy(description->block, managed);
    else
        keep_alive(description->block, keep);
    return fdl_tensor_wrap(description);
}

/* Gives `managed` back to the caller of fdl_make_tensor. */
static void return_to_caller(fdl_description *description, DLManagedTensorVersioned *managed)
{
    if (&description->managed == managed)
        return; /* it was unwrapped, so nothing else is left */
    fdl_disown(description->block);
    fdl_description_release(description, 1);
}

PyObject *fdl_make_tensor(DLManagedTensorVersioned *managed)
{
    PyObject *tensor;
    fdl_description *description = import_versioned(managed, NULL);
    if (description == NULL)
        return NULL;
    tensor = fdl_tensor_new(description);
    if (tensor == NULL)
        return_to_caller(description, managed);
    return tensor;
}

void fdl_unmake_tensor(PyObject *tensor, DLManagedTensorVersioned *managed)
{
    fdl_description *description = fdl_description_in(tensor);
    /* Frames of the traceback may hold the Tensor: it must stay safe to look at. */
    ((fdl_tensor *)tensor)->description = fdl_description_of_nothing();
    return_to_caller(description, managed);
}
