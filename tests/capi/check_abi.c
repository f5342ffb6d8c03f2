/* SPDX-License-Identifier: Apache-2.0
 *
 * Compile-only: the layout of DLPack 1.3 is what it is for good. test_abi.py compiles this file
 * as C99 and as C++17, alone and beside other headers that declare the same names:
 *
 *     BEFORE, AFTER    a header that comes before, or after, <fastdl/dlpack.h>
 *     WITHOUT_OURS     only BEFORE: the other header is what is checked
 */
#include <stddef.h>

#ifdef BEFORE
#include BEFORE
#endif
#ifndef WITHOUT_OURS
#include <fastdl/dlpack.h>
#endif
#ifdef AFTER
#include AFTER
#endif

/* C99 has no static assertion: an array of negative size will do. */
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define CLAIM(holds) extern char JOIN(claim_in_line_, __LINE__)[(holds) ? 1 : -1]

#define SIZE(type, size) CLAIM(sizeof(type) == (size))
#define FIELD(type, field, offset, size)                                                           \
    CLAIM(offsetof(type, field) == (offset) && sizeof(((type *)0)->field) == (size))

/* ---- versions ---- */

#ifndef WITHOUT_OURS
CLAIM(FASTDL_DLPACK_MAJOR == 1 && FASTDL_DLPACK_MINOR == 3);
#endif
#ifndef BEFORE
CLAIM(DLPACK_MAJOR_VERSION == 1 && DLPACK_MINOR_VERSION == 3);
#endif

/* ---- enumerators, and layouts where pointers have 64 bits: those of the suite,
 * CLAIM(kDLCPU == 1); SIZE(DLPackVersion, 8); FIELD(DLPackVersion, major, 0, 4); ... ---- */

CLAIMS

CLAIM(DLPACK_FLAG_BITMASK_READ_ONLY == 1);
CLAIM(DLPACK_FLAG_BITMASK_IS_COPIED == 2);
CLAIM(DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED == 4);
#ifndef BEFORE /* ~ of it has all bits of `flags`: the official masks are unsigned longs */
CLAIM(sizeof(DLPACK_FLAG_BITMASK_READ_ONLY) == sizeof(uint64_t));
#endif
CLAIM(sizeof(void *) == 8);

/* ---- signatures: these do not compile as anything else ---- */

extern int allocate(DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
                    void (*SetError)(void *error_ctx, const char *kind, const char *message));
extern int from_object(void *py_object, DLManagedTensorVersioned **out);
extern int to_object(DLManagedTensorVersioned *tensor, void **out_py_object);
extern int borrow(void *py_object, DLTensor *out);
extern int work_stream(DLDeviceType device_type, int32_t device_id, void **out_current_stream);
extern void delete_versioned(struct DLManagedTensorVersioned *self);
extern void delete_legacy(struct DLManagedTensor *self);
extern void check_signatures(DLPackExchangeAPI *table, DLManagedTensorVersioned *versioned,
                             DLManagedTensor *legacy);

void check_signatures(DLPackExchangeAPI *table, DLManagedTensorVersioned *versioned,
                      DLManagedTensor *legacy)
{
    DLPackManagedTensorAllocator allocator = allocate;
    DLPackManagedTensorFromPyObjectNoSync from_py_object = from_object;
    DLPackManagedTensorToPyObjectNoSync to_py_object = to_object;
    DLPackDLTensorFromPyObjectNoSync borrowing = borrow;
    DLPackCurrentWorkStream stream = work_stream;
    struct DLPackExchangeAPIHeader *previous = &table->header;
    uint64_t *flags = &versioned->flags;
    int64_t *dims = legacy->dl_tensor.shape = legacy->dl_tensor.strides;
    table->header.prev_api = previous;
    table->managed_tensor_allocator = allocator;
    table->managed_tensor_from_py_object_no_sync = from_py_object;
    table->managed_tensor_to_py_object_no_sync = to_py_object;
    table->dltensor_from_py_object_no_sync = borrowing;
    table->current_work_stream = stream;
    versioned->deleter = delete_versioned;
    versioned->dl_tensor.shape = dims;
    versioned->dl_tensor.device.device_type = kDLTrn; /* an enumerator, not just a number */
    *flags = DLPACK_FLAG_BITMASK_READ_ONLY;
    legacy->deleter = delete_legacy;
}
