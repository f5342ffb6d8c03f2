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

/* ---- enumerators: those of the suite, CLAIM(kDLCPU == 1); CLAIM(kDLCUDA == 2); ... ---- */

NUMBERS

CLAIM(DLPACK_FLAG_BITMASK_READ_ONLY == 1);
CLAIM(DLPACK_FLAG_BITMASK_IS_COPIED == 2);
CLAIM(DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED == 4);

/* ---- layouts, where pointers have 64 bits ---- */

CLAIM(sizeof(void *) == 8);

SIZE(DLPackVersion, 8);
FIELD(DLPackVersion, major, 0, 4);
FIELD(DLPackVersion, minor, 4, 4);

SIZE(DLDeviceType, 4);
SIZE(DLDevice, 8);
FIELD(DLDevice, device_type, 0, 4);
FIELD(DLDevice, device_id, 4, 4);

SIZE(DLDataType, 4);
FIELD(DLDataType, code, 0, 1);
FIELD(DLDataType, bits, 1, 1);
FIELD(DLDataType, lanes, 2, 2);

SIZE(DLTensor, 48);
FIELD(DLTensor, data, 0, 8);
FIELD(DLTensor, device, 8, 8);
FIELD(DLTensor, ndim, 16, 4);
FIELD(DLTensor, dtype, 20, 4);
FIELD(DLTensor, shape, 24, 8);
FIELD(DLTensor, strides, 32, 8);
FIELD(DLTensor, byte_offset, 40, 8);

SIZE(DLManagedTensor, 64);
FIELD(DLManagedTensor, dl_tensor, 0, 48);
FIELD(DLManagedTensor, manager_ctx, 48, 8);
FIELD(DLManagedTensor, deleter, 56, 8);

SIZE(DLManagedTensorVersioned, 80);
FIELD(DLManagedTensorVersioned, version, 0, 8);
FIELD(DLManagedTensorVersioned, manager_ctx, 8, 8);
FIELD(DLManagedTensorVersioned, deleter, 16, 8);
FIELD(DLManagedTensorVersioned, flags, 24, 8);
FIELD(DLManagedTensorVersioned, dl_tensor, 32, 48);

SIZE(DLPackExchangeAPIHeader, 16);
FIELD(DLPackExchangeAPIHeader, version, 0, 8);
FIELD(DLPackExchangeAPIHeader, prev_api, 8, 8);

SIZE(DLPackExchangeAPI, 56);
FIELD(DLPackExchangeAPI, header, 0, 16);
FIELD(DLPackExchangeAPI, managed_tensor_allocator, 16, 8);
FIELD(DLPackExchangeAPI, managed_tensor_from_py_object_no_sync, 24, 8);
FIELD(DLPackExchangeAPI, managed_tensor_to_py_object_no_sync, 32, 8);
FIELD(DLPackExchangeAPI, dltensor_from_py_object_no_sync, 40, 8);
FIELD(DLPackExchangeAPI, current_work_stream, 48, 8);

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
