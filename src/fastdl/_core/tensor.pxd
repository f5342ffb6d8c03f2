# What the floors above may do with a Tensor from Cython.
from libc.stdint cimport uint64_t
from fastdl._core.dlpack cimport DLManagedTensorVersioned, DLPackExchangeAPI, DLTensor
from fastdl._core.native cimport fdl_description


cdef class Tensor:
    cdef fdl_description *description  # owned; never NULL once a caller can see the object
    cdef tuple _shape                  # made at first use
    cdef object __weakref__


# A new Tensor that owns `description`, also when this raises.
cdef Tensor wrap(fdl_description *description)

# A new Tensor on `managed`, which is consumed, also when this raises. `producer` is kept alive
# in the place of a missing deleter; None where there is no producer.
cdef Tensor take_managed(DLManagedTensorVersioned *managed, object producer)

# The same for what is in a capsule. `immutable`: read-only even if the capsule cannot say so.
# The capsule is untouched if this raises before it was renamed, and consumed afterwards.
cdef Tensor take_capsule(object capsule, bint immutable, object producer)

# A description that keeps `owner` alive and stands for `tensor`, which is checked.
cdef fdl_description *describe_object(object owner, const DLTensor *tensor, uint64_t flags) except NULL

# ---- for tables of other types: see the slot of the same name in Tensor's own ----

cdef const DLPackExchangeAPI *tensor_table() noexcept
cdef int table_from_object(void *candidate, DLManagedTensorVersioned **out) except -1

# A new Tensor on `managed`, which is consumed on success only.
cdef Tensor make_tensor(DLManagedTensorVersioned *managed)

# Takes `managed` out of a Tensor that make_tensor made and that nobody else refers to: it is the
# caller's again, and the Tensor is fit only for being dropped.
cdef void unmake(Tensor tensor, DLManagedTensorVersioned *managed) noexcept
