# The DLPack ABI, as include/fastdl/dlpack.h declares it: what fastdl/__init__.pxd leaves out, and a
# way to the rest.
from libc.stdint cimport int32_t, uint64_t

from fastdl cimport (
    DLDataType, DLDataTypeCode, DLDevice, DLDeviceType, DLManagedTensorVersioned,
    DLPACK_FLAG_BITMASK_IS_COPIED, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED,
    DLPACK_FLAG_BITMASK_READ_ONLY, DLPackExchangeAPI, DLPackExchangeAPIHeader, DLPackVersion,
    DLTensor, kDLBool, kDLComplex, kDLCPU, kDLFloat, kDLInt, kDLUInt,
)


cdef extern from "<fastdl/dlpack.h>":
    ctypedef struct DLManagedTensor:
        DLTensor dl_tensor
        void *manager_ctx
        void (*deleter)(DLManagedTensor *) noexcept

    enum:
        kDLFloat4_e2m1fn  # the last code that DLPack 1.3 knows

    const int FASTDL_DLPACK_MAJOR
    const int FASTDL_DLPACK_MINOR

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
