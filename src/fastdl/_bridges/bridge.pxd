# The facts of a Bridge, which conversions read, and the interface of compiled bridges.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

from fastdl._core.native cimport DLPackExchangeAPI, DLTensor, kDLFloat4_e2m1fn
from fastdl._core.tensor cimport Tensor

cdef enum:
    # The strides that a library accepts: all; all but negative ones; those of elements without
    # gaps, with the dimensions in any order; those of row-major elements without gaps. Dimensions
    # of size 1, and tensors without elements, always fit.
    ANY_, POSITIVE_, DENSE_, COMPACT_

cdef enum:
    # What becomes of read-only data in a library: it stays read-only; or all data there is
    # read-only, so immutable memory is shared; or all its arrays are writable, so a copy is needed.
    KEPT_, IMMUTABLE_, COPIED_


# In a capsule "fastdl_maker" that stays valid until the process ends.
ctypedef struct fastdl_maker:
    # An object on a tensor of host memory that fits, which it may keep: no other code refers to it.
    object (*make)(Tensor tensor)
    # An object on writable host memory that fits and that `owner` keeps alive; None if this is for
    # `make`. May be NULL.
    object (*make_on)(const DLTensor *memory, object owner)


@cython.final
cdef class Bridge:
    cdef readonly str name, title
    cdef readonly tuple classes
    cdef readonly object make, read, read_copy, move, empty, copies, quick, built
    cdef readonly str since
    cdef readonly dict before
    cdef dict facts  # those of BY_VERSION for the newest version
    cdef readonly str outdated  # the loaded version, if it is older than `since`
    cdef object importer  # importer(tensor) is make(tensor, like), if there is one function for it
    cdef readonly frozenset reads
    cdef readonly int strides, readonly
    cdef readonly int64_t alignment
    cdef readonly tuple ndims
    cdef readonly frozenset dtypes
    cdef readonly str devices
    cdef int32_t least_ndim, most_ndim
    cdef uint8_t sizes[kDLFloat4_e2m1fn + 1]  # `dtypes` of one lane by their codes: bits, or-ed
    cdef bint host, device
    cdef const void *started  # not NULL once `quick` was called
    cdef const fastdl_maker *maker       # a fast `make` for host memory, or NULL
    cdef const DLPackExchangeAPI *table  # a table for all memory that fastdl orders, or NULL
    cdef void follow(self, Bridge other) noexcept
    cdef int use(self, path) except -1
