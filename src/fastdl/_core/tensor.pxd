# What the floors above may do with a Tensor from Cython.
from cpython.object cimport PyTypeObject
from libc.stdint cimport int32_t, int64_t, uint64_t
from fastdl._core.dlpack cimport (
    DLDevice, DLManagedTensorVersioned, DLPackExchangeAPI, DLTensor,
)
from fastdl._core.native cimport (
    fdl_description, fdl_shared_calls, fastdl_borrower, fastdl_record, fastdl_slot,
)


cdef class Tensor:
    cdef fdl_description *description  # owned, never NULL
    cdef tuple _shape                  # made at first use
    cdef object root                   # None, or the Tensor that this is a view of
    cdef Py_ssize_t views              # how many Tensors have this one as their root
    cdef object __weakref__


# A new Tensor on what is in a capsule. `immutable`: read-only even if the capsule cannot say so.
# `producer` is kept alive in the place of a missing deleter; None where there is no producer.
# `unordered`: the caller orders all work on device memory; else nothing is known of such work yet.
# The capsule is untouched if this raises before it was renamed, and consumed afterwards.
cdef Tensor take_capsule(object capsule, bint immutable, object producer, bint unordered)

# A new managed tensor on the memory of `owner`, which it keeps alive. What `tensor` describes is
# checked, and copied.
cdef DLManagedTensorVersioned *describe_object(
    const DLTensor *tensor, uint64_t flags, object owner) except NULL

# ---- for tables of other types: see the slot of the same name in Tensor's own ----

cdef const DLPackExchangeAPI *tensor_table() noexcept
cdef int table_from_object(void *candidate, DLManagedTensorVersioned **out) except -1

# See import.h.
cdef Tensor make_tensor(DLManagedTensorVersioned *managed)
cdef void unmake_tensor(Tensor tensor, DLManagedTensorVersioned *managed) noexcept

# See acquire.h and types.h.
cdef Tensor acquire(object x, const fastdl_record *record, int order)
cdef int check_lazy_bits(object x, Tensor tensor) except -1
cdef const fastdl_record *find_type(PyTypeObject *cls) noexcept
cdef fastdl_slot *type_slots() noexcept

# How a C function borrows a Tensor: see fastdl_record in fastdl.h.
cdef fastdl_borrower tensor_borrower() noexcept

# Whether the CPU may touch memory of that device type.
cdef bint is_host_type(int32_t type) noexcept

# Keeps `x` alive for as long as the memory of `tensor`, beside its owner.
cdef int keep_also(Tensor tensor, object x) except -1

# The host is about to touch the memory of `tensor`, or to let others do so: see transfer.h.
cdef int await_for_host(Tensor tensor) except -1

# For device.pyx: see shared.h. `make_prototype` describes memory to allocate, with room for 64
# sizes at `dims`, and returns how many bytes that is; `wrap` consumes a description.
cdef const fdl_shared_calls *shared_calls() noexcept
cdef int64_t make_prototype(
    tuple shape, tuple dtype, DLDevice device, DLTensor *prototype, int64_t *dims) except -1
cdef Tensor wrap(fdl_description *description)
