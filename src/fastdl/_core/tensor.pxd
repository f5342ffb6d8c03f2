# SPDX-License-Identifier: Apache-2.0
# The interface of Tensor for the layers above, in Cython.
from libc.stdint cimport uint32_t, uint64_t
from fastdl._core.native cimport (
    DLManagedTensorVersioned, DLPackExchangeAPI, DLTensor, fdl_count, fdl_description,
)


cdef class Tensor:
    cdef fdl_description *description  # owned, never NULL
    cdef tuple _shape                  # made at first use
    cdef object root                   # None, or the Tensor that this is a view of
    cdef fdl_count views               # how many Tensors have this one as their root
    cdef object __weakref__


# Tensor.numpy() for the types that NumPy itself has: an array on the memory of a Tensor, or None if
# the function in Python must make it. It must stay valid until the process ends.
ctypedef struct array_maker:
    object (*make)(Tensor)

cdef void install_array_maker(const array_maker *maker) noexcept

# A new Tensor on the managed tensor in a capsule. `facts`: FASTDL_TYPE_* of the producer.
# `producer` is kept alive if there is no deleter; None if there is no producer. `unordered`: the
# caller orders all work on device memory; otherwise the order is not decided yet. If this raises
# before the capsule is renamed, it is untouched; afterwards it is consumed.
cdef Tensor take_capsule(object capsule, uint32_t facts, object producer, bint unordered)

# A new managed tensor on the memory of `owner`, which it keeps alive. The description is checked,
# and copied. If it is invalid, the error blames the producer or, with `given`, names those
# arguments (shape, strides, dtype, device and address).
cdef DLManagedTensorVersioned *describe_object(
    const DLTensor *tensor, uint64_t flags, object owner, tuple given=*) except NULL

# The address of the first element of a host tensor; never NULL.
cdef char *first_byte(const DLTensor *tensor) noexcept

# ---- for tables of other types: see the slot of the same name in Tensor's own ----

cdef const DLPackExchangeAPI *tensor_table() noexcept
cdef int table_from_object(void *candidate, DLManagedTensorVersioned **out) except -1
