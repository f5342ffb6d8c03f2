# The DLPack ABI, as include/fastdl/dlpack.h declares it.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "<fastdl/dlpack.h>":
    ctypedef enum DLDeviceType:
        kDLCPU

    ctypedef enum DLDataTypeCode:
        kDLInt
        kDLUInt
        kDLFloat
        kDLComplex
        kDLBool

    ctypedef struct DLDevice:
        DLDeviceType device_type
        int32_t device_id

    ctypedef struct DLDataType:
        uint8_t code
        uint8_t bits
        uint16_t lanes

    ctypedef struct DLTensor:
        void *data
        DLDevice device
        int32_t ndim
        DLDataType dtype
        int64_t *shape
        int64_t *strides
        uint64_t byte_offset

    ctypedef struct DLManagedTensor:
        DLTensor dl_tensor
        void *manager_ctx
        void (*deleter)(DLManagedTensor *) noexcept

    ctypedef struct DLPackVersion:
        uint32_t major
        uint32_t minor

    ctypedef struct DLManagedTensorVersioned:
        DLPackVersion version
        void *manager_ctx
        void (*deleter)(DLManagedTensorVersioned *) noexcept
        uint64_t flags
        DLTensor dl_tensor

    const int FASTDL_DLPACK_MAJOR
    const int FASTDL_DLPACK_MINOR
    const uint64_t DLPACK_FLAG_BITMASK_READ_ONLY
    const uint64_t DLPACK_FLAG_BITMASK_IS_COPIED
    const uint64_t DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED

    # The functions of a table report failure as C does: -1, with a Python exception
    # or, from a careless library, without one. So Cython must not look for it.
    ctypedef int (*DLPackManagedTensorAllocator)(
        DLTensor *, DLManagedTensorVersioned **, void *,
        void (*)(void *, const char *, const char *) noexcept) noexcept
    ctypedef int (*DLPackManagedTensorFromPyObjectNoSync)(
        void *, DLManagedTensorVersioned **) noexcept
    ctypedef int (*DLPackManagedTensorToPyObjectNoSync)(
        DLManagedTensorVersioned *, void **) noexcept
    ctypedef int (*DLPackDLTensorFromPyObjectNoSync)(void *, DLTensor *) noexcept
    ctypedef int (*DLPackCurrentWorkStream)(DLDeviceType, int32_t, void **) noexcept

    ctypedef struct DLPackExchangeAPIHeader:
        DLPackVersion version
        DLPackExchangeAPIHeader *prev_api

    ctypedef struct DLPackExchangeAPI:
        DLPackExchangeAPIHeader header
        DLPackManagedTensorAllocator managed_tensor_allocator
        DLPackManagedTensorFromPyObjectNoSync managed_tensor_from_py_object_no_sync
        DLPackManagedTensorToPyObjectNoSync managed_tensor_to_py_object_no_sync
        DLPackDLTensorFromPyObjectNoSync dltensor_from_py_object_no_sync
        DLPackCurrentWorkStream current_work_stream
