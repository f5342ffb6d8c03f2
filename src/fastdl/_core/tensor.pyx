# SPDX-License-Identifier: Apache-2.0
"""fastdl.Tensor: a neutral tensor, and its exchange table.

Ownership: a Tensor owns one description (block.h), which is one reference to a block. Every view
and every export is another description of the same block. Code in this file that holds a
description either stores it in a Tensor, passes it to a consumer, or releases it before the
function ends; functions that consume an argument say so.
"""
import cython

from cpython.buffer cimport (
    PyBUF_ANY_CONTIGUOUS, PyBUF_C_CONTIGUOUS, PyBUF_F_CONTIGUOUS, PyBUF_FORMAT, PyBUF_ND,
    PyBUF_RECORDS_RO, PyBUF_STRIDES, PyBUF_WRITABLE, PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.iterobject cimport PySeqIter_New
from cpython.long cimport (
    PyLong_AsLongLong, PyLong_AsLongLongAndOverflow, PyLong_CheckExact,
)
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cpython.object cimport PyObject, PyTypeObject
from cpython.pycapsule cimport (
    PyCapsule_CheckExact, PyCapsule_GetName, PyCapsule_IsValid, PyCapsule_New,
)
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_CheckExact
from libc.stdint cimport (
    int32_t, INT64_MAX, INT64_MIN, int64_t, uint16_t, uint32_t, uint64_t, uint8_t, uintptr_t,
)

from fastdl._core.device import CPU, Device, make_device
from fastdl._core.dtype import DType, make_dtype, typestr_of
from fastdl._core.errors import refusal, type_name
from fastdl._core.native cimport (
    DLDataType, DLDevice, DLManagedTensor, DLPACK_FLAG_BITMASK_IS_COPIED,
    DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED, DLPACK_FLAG_BITMASK_READ_ONLY,
    DLPackDLTensorFromPyObjectNoSync, DLPackExchangeAPI, DLPackManagedTensorFromPyObjectNoSync,
    DLPackManagedTensorToPyObjectNoSync, fastdl_check, fastdl_check_values_, FASTDL_DLPACK_MAJOR,
    FASTDL_DLPACK_MINOR, fastdl_fault, fastdl_fault_text, fastdl_find_device, fastdl_is_contiguous,
    fastdl_is_packed, fastdl_is_really_legacy, fastdl_is_really_versioned, fastdl_itemsize,
    FASTDL_LARGE_COPY_, fastdl_layout, FASTDL_MAX_NDIM,
    FASTDL_OFFSET_OVERFLOW, FASTDL_OK, fastdl_open_capsule_, fastdl_raise_fault, fastdl_request_,
    FASTDL_SIZE_OVERFLOW, FASTDL_TYPE_READ_ONLY, fdl_allocate, fdl_any_equals, fdl_arrow_export,
    fdl_arrow_has, fdl_arrow_import, fdl_arrow_import_stream, fdl_arrow_nulls,
    fdl_arrow_stream_nulls, fdl_as_readonly,
    fdl_await_for_host, fdl_block_new, fdl_copy_compact, fdl_current_work_stream, fdl_define_dlpack,
    fdl_delete_with, fdl_description, fdl_description_copy, fdl_description_fill,
    fdl_description_new, fdl_device_object, fdl_dtype_fact, fdl_dtype_find, fdl_dtype_object,
    fdl_dtype_of, fdl_expand, fdl_finish_tensor_type, fdl_first_of, fdl_has_numbers,
    fdl_imported_from_c, fdl_index, fdl_int_tuple, fdl_is_memory, fdl_is_ordered, fdl_keep_also,
    fdl_keep_memory, FDL_LASTING_FLAGS, fdl_legacy_capsule, fdl_lend, fdl_list_of,
    fdl_make_from_dlpack, fdl_make_tensor, fdl_means_host, fdl_memory_new, fdl_never_changes,
    fdl_note_immutable, fdl_operate, fdl_ordered_by_caller, fdl_own_buffer, fdl_own_object,
    fdl_permute, fdl_pointer, fdl_pointer_get, fdl_pointer_set, fdl_reshape,
    fdl_set_dtype_and_device_factories, fdl_squeeze, fdl_take_buffer, fdl_take_legacy,
    fdl_take_versioned, fdl_tensor_wrap, fdl_tensor_wrap_view, fdl_transpose, fdl_unlock_buffer,
    fdl_unmake_tensor, fdl_unsqueeze, fdl_versioned_capsule, fdl_view_as, kDLCPU, kDLUInt,
)


# ---- element types and devices --------------------------------------------------------------

fdl_set_dtype_and_device_factories(make_dtype, make_device)
fdl_device_object(host_device())  # cached from the start: see fdl_means_host


# ---- the layers above -----------------------------------------------------------------------

cdef object policy = None  # the module fastdl/_policy.py: the rest of the methods of Tensor


def install(module):
    """Called once, on import."""
    global policy
    policy = module


# ---- making tensors -------------------------------------------------------------------------


cdef DLDevice host_device() noexcept:
    cdef DLDevice device
    device.device_type = kDLCPU
    device.device_id = 0
    return device


cdef bint is_plain_host(Tensor tensor) noexcept:
    """Whether the memory is ordinary host memory, without work of devices."""
    return tensor.description.managed.dl_tensor.device.device_type == kDLCPU


cdef Tensor take_capsule(object capsule, uint32_t facts, object producer, bint unordered):
    cdef DLManagedTensorVersioned *managed = NULL
    cdef DLManagedTensor *legacy = NULL
    cdef const char *name
    fastdl_open_capsule_(<PyObject *>capsule, False, &managed, &legacy)
    keep = <PyObject *>(capsule if producer is None else producer)
    cdef Tensor tensor
    if managed is not NULL or legacy is not NULL:
        if managed is not NULL:
            tensor = fdl_take_versioned(managed, keep)
        else:
            tensor = fdl_take_legacy(
                legacy, DLPACK_FLAG_BITMASK_READ_ONLY if facts & FASTDL_TYPE_READ_ONLY else 0, keep)
        fdl_note_immutable(tensor, facts)
        if unordered:
            fdl_ordered_by_caller(tensor.description)
        return tensor
    if not PyCapsule_CheckExact(capsule):
        raise refusal(
            TypeError,
            f"expected a DLPack capsule, got {type_name(capsule)!r}: "
            f"__dlpack__ must return a PyCapsule")
    name = PyCapsule_GetName(capsule)
    text = name.decode("utf-8", "replace") if name is not NULL else None
    if text in ("used_dltensor", "used_dltensor_versioned"):
        raise refusal(
            ValueError,
            "the DLPack capsule has been consumed already: a capsule can be imported once; "
            "call __dlpack__ again for another")
    raise refusal(
        TypeError,
        f"expected a capsule named 'dltensor' or 'dltensor_versioned', got one named {text!r}")


cdef DLManagedTensorVersioned *describe_object(
        const DLTensor *tensor, uint64_t flags, object owner, tuple given=None) except NULL:
    cdef fastdl_layout layout
    cdef fdl_description *description
    cdef fastdl_fault fault = fastdl_check(tensor, flags, &layout)
    if fault != FASTDL_OK and given is not None:
        shape, strides, dtype, device, address = given
        raise BufferError(
            f"expected arguments that describe a tensor, got {fastdl_fault_text(fault).decode()}: "
            f"shape {shape}, strides {strides}, {dtype} on {device} at {address:#x}")
    if fault != FASTDL_OK:
        fastdl_raise_fault(fault, tensor)
    description = fdl_block_new(tensor.ndim)
    if description is NULL:
        raise MemoryError()
    fdl_description_fill(description, tensor, flags)
    Py_INCREF(owner)
    fdl_own_object(description.block, <PyObject *>owner)
    return &description.managed


cdef int64_t check_sizes(DLTensor *prototype, uint64_t flags) except -1:
    cdef fastdl_layout layout
    cdef fastdl_fault fault
    prototype.data = prototype  # anything but NULL: only the sizes are checked
    prototype.strides = NULL
    prototype.byte_offset = 0
    fault = fastdl_check(prototype, flags, &layout)
    if fault == FASTDL_SIZE_OVERFLOW or fault == FASTDL_OFFSET_OVERFLOW:
        raise MemoryError("cannot allocate a tensor larger than the address space")
    if fault != FASTDL_OK:
        raise ValueError(f"cannot allocate a tensor with {fastdl_fault_text(fault).decode()}")
    return layout.nbytes


cdef extern from "Python.h":
    PyObject *PyDict_GetItemWithError(object, object) except? NULL  # borrowed
    Py_ssize_t Py_REFCNT(PyObject *)


cdef int fill_prototype(
        tuple shape, tuple dtype, DLTensor *prototype, int64_t *dims) except -1:
    """Fills in type and shape of row-major host memory, unchecked."""
    cdef Py_ssize_t i
    if len(shape) > FASTDL_MAX_NDIM:
        raise ValueError(f"expected at most {FASTDL_MAX_NDIM} dimensions, got {len(shape)}")
    for i in range(len(shape)):
        dims[i] = as_int(shape[i], INT64_MIN, INT64_MAX, "shape")
    prototype.device = host_device()
    prototype.ndim = <int32_t>len(shape)
    prototype.shape = dims
    prototype.strides = NULL
    prototype.byte_offset = 0
    code, bits, lanes = dtype
    prototype.dtype.code = <uint8_t>as_int(code, 0, 255, "type code")
    prototype.dtype.bits = <uint8_t>as_int(bits, 0, 255, "bits")
    prototype.dtype.lanes = <uint16_t>as_int(lanes, 0, 65535, "lanes")
    return 0


cdef int64_t as_int(object n, int64_t least, int64_t most, str what) except? -1:
    """`n` as an int within limits, since a pickle may contain anything."""
    cdef int overflow = 0
    cdef int64_t value
    if not PyLong_CheckExact(n):
        raise TypeError(f"expected ints as {what}, got {n!r}")
    value = PyLong_AsLongLongAndOverflow(n, &overflow)
    if overflow or not least <= value <= most:
        raise ValueError(f"expected ints from {least} to {most} as {what}, got {n}")
    return value


cdef Tensor host_memory(const DLTensor *prototype, uint64_t flags, int64_t nbytes):
    """A Tensor on new host memory, of the type and shape of `prototype`."""
    cdef fdl_description *description = fdl_memory_new(prototype, flags, nbytes)
    if description is NULL:
        raise MemoryError(f"cannot allocate {nbytes} bytes on the host")
    return fdl_tensor_wrap(description)


cdef bint plain_size(object n, int64_t *size) except -1:
    """Whether `n` is an ordinary int that is certainly a size."""
    if not PyLong_CheckExact(n):
        return False
    try:
        size[0] = PyLong_AsLongLong(n)
    except OverflowError:
        return False
    return size[0] >= 0


cdef bint plain_shape(object shape, DLTensor *prototype, int64_t *dims) except -1:
    """Whether `shape` is an ordinary int, or a tuple of such; if so it goes to `dims`, which has
    room for 64."""
    cdef Py_ssize_t i
    prototype.shape = dims
    if PyTuple_CheckExact(shape):
        if len(<tuple>shape) > FASTDL_MAX_NDIM:
            return False
        prototype.ndim = <int32_t>len(<tuple>shape)
        for i in range(prototype.ndim):
            if not plain_size((<tuple>shape)[i], &dims[i]):
                return False
        return True
    prototype.ndim = 1
    return plain_size(shape, dims)


def empty(shape, dtype="float32", device="cpu"):
    """A new row-major tensor of uninitialised memory, aligned to 256 bytes.

    shape: the sizes of the dimensions in elements, an int or a sequence of ints.
    dtype: anything that fastdl.DType accepts: "float32", numpy.float32, torch.float32, ...
    device: the host, in any form that fastdl.Device accepts.

    The tensor owns its memory. MemoryError if memory runs out. ValueError or TypeError for an
    invalid shape. BufferError for other devices: allocate there with your library, and import the
    result. Other errors as for DType and Device.

    >>> tensor = fastdl.empty((2, 3), "bfloat16")
    >>> tensor.shape, tensor.nbytes, tensor.data_ptr % 256
    ((2, 3), 12, 0)
    """
    cdef int64_t dims[64]
    cdef DLTensor prototype
    cdef Tensor made
    prototype.device = host_device()
    if (fdl_means_host(device) and fdl_dtype_of(dtype, &prototype.dtype)
            and plain_shape(shape, &prototype, dims)):
        return host_memory(&prototype, 0, check_sizes(&prototype, 0))
    made = general_empty(shape, dtype, device)
    fdl_dtype_object(made.description.managed.dl_tensor.dtype)  # the next call may know it
    return made


def general_empty(shape, dtype="float32", device="cpu"):
    """`empty` for all arguments."""
    cdef int64_t dims[64]
    cdef DLTensor prototype
    target = Device(device)
    numbers = DType(dtype).__dlpack_data_type__()
    shape = sizes_of(shape)
    if target != CPU:
        raise BufferError(
            f"fastdl allocates on the host, not on {target}: allocate there with your library, and "
            f"import the result")
    fill_prototype(shape, numbers, &prototype, dims)
    return host_memory(&prototype, 0, check_sizes(&prototype, 0))


cdef tuple sizes_of(shape):
    """A shape as `empty` accepts it: an int or ints."""
    try:
        return (size_of(shape),)  # an int, or an object like one, as an array without dimensions
    except TypeError as error:
        try:
            sizes = tuple(shape)
        except TypeError:
            raise error from None
    return tuple([size_of(n) for n in sizes])


cdef object size_of(n):
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"expected ints as shape, got {n!r}")
    n = n.__index__()
    if not 0 <= n < 2**63:
        raise ValueError(f"expected sizes from 0 to 2**63 - 1 as shape, got {n}")
    return n


def import_capsule(capsule, *, uint32_t facts=0, producer=None, bint unordered=True):
    """The tensor in a DLPack capsule, which is consumed. `facts`: the TYPE_* of its producer.

    `unordered`: the caller orders all work on device memory, as a caller that passes a capsule
    does; otherwise device.ready_on must follow.
    """
    return take_capsule(capsule, facts, producer, unordered)


def take_managed(uintptr_t address, *, bint versioned):
    """The tensor at an address, ordered by the caller. The managed tensor is consumed, even on
    failure (see import.h), but not if it has the other form."""
    cdef Tensor tensor
    cdef DLManagedTensorVersioned *managed = <DLManagedTensorVersioned *>address
    cdef DLManagedTensor *legacy = <DLManagedTensor *>address
    cdef bint is_other = (fastdl_is_really_legacy(managed) if versioned
                          else fastdl_is_really_versioned(legacy))
    try:
        tensor = (fdl_take_versioned(managed, NULL) if versioned
                  else fdl_take_legacy(legacy, 0, NULL))
    except BufferError:
        if is_other:
            forms = "DLManagedTensorVersioned", "DLManagedTensor"
            raise BufferError(
                f"expected a {forms[not versioned]} at {address:#x}, got a {forms[versioned]}: "
                f"pass versioned={not versioned}") from None
        raise
    fdl_ordered_by_caller(tensor.description)
    return tensor


def give_managed(capsule):
    """The address of the tensor in a new capsule, which is consumed: the caller owns the tensor."""
    cdef DLManagedTensorVersioned *managed = NULL
    cdef DLManagedTensor *legacy = NULL
    fastdl_open_capsule_(<PyObject *>capsule, False, &managed, &legacy)
    return <uintptr_t>managed if managed is not NULL else <uintptr_t>legacy


def is_legacy_capsule(capsule):
    """Whether `capsule` is unconsumed and holds a tensor in the form before DLPack 1.0."""
    return bool(PyCapsule_IsValid(capsule, "dltensor"))


cdef Py_buffer *lock_buffer(object source, int flags) except NULL:
    """A new lock on the memory of a buffer exporter, for fdl_own_buffer or fdl_unlock_buffer."""
    cdef Py_buffer *view = <Py_buffer *>PyMem_RawMalloc(sizeof(Py_buffer))
    if view is NULL:
        raise MemoryError()
    try:
        PyObject_GetBuffer(source, view, flags)
    except ValueError as error:  # from CPython: the exporter is released, or closed
        PyMem_RawFree(view)
        raise refusal(
            BufferError, f"cannot get the buffer of {type_name(source)!r}: {error}") from error
    except:
        PyMem_RawFree(view)
        raise
    return view


def from_buffer(object source):
    """A Tensor on the memory of a buffer exporter."""
    return fdl_take_buffer(lock_buffer(source, PyBUF_RECORDS_RO), 0)


cdef bint has_objects(const char *format) noexcept:
    """Whether the elements of a buffer contain references to Python objects, which writing would
    break."""
    cdef bint in_name = False
    while format is not NULL and format[0] != c"\0":
        if format[0] == c"O" and not in_name:
            return True
        in_name ^= format[0] == c":"
        format += 1
    return False


def from_memory(object source, tuple shape, tuple dtype, tuple strides=None, Py_ssize_t offset=0,
                *, bint padded=False):
    """A Tensor on the bytes of a buffer exporter, from byte `offset` on; read-only if the buffer
    is.

    `dtype` as (code, bits, lanes), `strides` in elements, row-major if None. TypeError for a number
    that is not an int. ValueError if no such tensor can exist, or if elements would be outside the
    buffer. `padded`: elements narrower than a byte take one byte each.
    """
    cdef DLTensor tensor
    cdef int64_t dims[128]
    cdef Py_ssize_t i
    cdef fastdl_layout layout
    cdef fastdl_fault fault
    cdef fdl_description *description
    cdef uint64_t flags = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED if padded else 0
    cdef Py_buffer *view = lock_buffer(source, PyBUF_ND | PyBUF_FORMAT)
    try:
        if has_objects(view.format):
            raise BufferError(
                f"expected a buffer of bytes, got {type_name(source)!r} with Python objects")
        fill_prototype(shape, dtype, &tensor, dims)
        if strides is not None:
            if len(strides) != tensor.ndim:
                raise ValueError(f"expected {tensor.ndim} strides, got {len(strides)}")
            tensor.strides = dims + tensor.ndim
            for i in range(tensor.ndim):
                tensor.strides[i] = as_int(strides[i], INT64_MIN, INT64_MAX, "strides")
        if view.readonly:
            flags |= DLPACK_FLAG_BITMASK_READ_ONLY
        tensor.data = view.buf
        fault = fastdl_check(&tensor, flags, &layout)
        if fault != FASTDL_OK:
            raise ValueError(
                f"a buffer cannot hold a tensor with {fastdl_fault_text(fault).decode()}")
        if (not 0 <= offset <= view.len or layout.high > view.len - offset
                or layout.low + offset < 0):
            raise ValueError(
                f"elements from byte {<object>offset + layout.low} to "
                f"{<object>offset + layout.high} are not all in a buffer of {view.len} bytes")
        tensor.data = <char *>view.buf + offset
        description = fdl_block_new(tensor.ndim)
        if description is NULL:
            raise MemoryError()
    except:
        fdl_unlock_buffer(view)
        raise
    fdl_description_fill(description, &tensor, flags)
    description.block.immutable = view.readonly and fdl_never_changes(<PyObject *>view.obj)
    fdl_own_buffer(description.block, view)
    return fdl_tensor_wrap(description)


def from_arrow(schema, array):
    """(Tensor, metadata) of an Arrow array, which may leave its capsule: see arrow.h."""
    with cython.critical_section(array):
        return fdl_arrow_import(<PyObject *>schema, <PyObject *>array)


def from_arrow_stream(stream):
    """(Tensor, metadata) of all arrays in a capsule "arrow_array_stream": see arrow.h."""
    with cython.critical_section(stream):
        return fdl_arrow_import_stream(<PyObject *>stream)


def arrow_nulls(schema, array):
    """How many values of an Arrow array are null; None if unknown: see arrow.h."""
    with cython.critical_section(array):
        return fdl_arrow_nulls(<PyObject *>schema, <PyObject *>array)


def arrow_stream_nulls(stream):
    """How many values of the arrays in a capsule "arrow_array_stream" are null; reads the stream to
    its end."""
    with cython.critical_section(stream):
        return fdl_arrow_stream_nulls(<PyObject *>stream)


def as_bytes(Tensor tensor not None):
    """A view of a compact tensor, in row-major or column-major order, as uint8 of shape (nbytes,).
    BufferError if the elements have gaps."""
    cdef DLTensor *source = &tensor.description.managed.dl_tensor
    cdef DLTensor result = source[0]
    cdef fastdl_layout layout
    cdef fdl_description *description
    if not (fastdl_is_contiguous(source, c"C") or fastdl_is_contiguous(source, c"F")):
        raise BufferError(f"{describe(tensor)} has gaps between its elements")
    layout_of(tensor, &layout)
    result.ndim = 1
    result.shape = &layout.nbytes
    result.strides = NULL
    result.dtype.code, result.dtype.bits, result.dtype.lanes = kDLUInt, 8, 1
    description = fdl_description_new(tensor.description.block, 1)
    if description is NULL:
        raise MemoryError()
    fdl_description_fill(
        description, &result, tensor.description.managed.flags & DLPACK_FLAG_BITMASK_READ_ONLY)
    return fdl_tensor_wrap_view(description, <PyObject *>tensor)


def copy_host(Tensor tensor not None):
    """A compact, writable copy of a host tensor, marked as copied."""
    cdef DLTensor *source = &tensor.description.managed.dl_tensor
    cdef uint64_t flags = tensor.description.managed.flags & ~DLPACK_FLAG_BITMASK_READ_ONLY
    cdef DLTensor prototype = source[0]
    fdl_await_for_host(tensor.description)
    prototype.device.device_type = kDLCPU
    nbytes = check_sizes(&prototype, flags)
    cdef Tensor copy = host_memory(&prototype, flags & FDL_LASTING_FLAGS, nbytes)
    copy.description.managed.flags |= DLPACK_FLAG_BITMASK_IS_COPIED
    copy_elements(source, flags, copy.description.managed.dl_tensor.data, nbytes)
    return copy


cdef void copy_elements(
        const DLTensor *source, uint64_t flags, void *target, int64_t nbytes) noexcept:
    """fdl_copy_compact. A large copy releases the GIL: the caller keeps both sides alive."""
    if nbytes <= FASTDL_LARGE_COPY_:
        fdl_copy_compact(source, flags, target)
        return
    with nogil:
        fdl_copy_compact(source, flags, target)


def is_immutable(Tensor tensor not None):
    """Whether the memory is known to be immutable."""
    return bool(tensor.description.block.immutable)


def is_packed(Tensor tensor not None):
    """Whether elements of the tensor share bytes."""
    return bool(fastdl_is_packed(
        tensor.description.managed.dl_tensor.dtype, tensor.description.managed.flags))


def copier(Tensor tensor not None):
    """What copies a tensor on a device to the host, for messages."""
    device = tensor.description.managed.dl_tensor.device.device_type
    is_ordered = fdl_is_ordered(fastdl_find_device(device))
    return "to('cpu') or its own library" if is_ordered else "its own library"


cdef int check_host(Tensor tensor, str what) except -1:
    """BufferError, which names the method `what`, unless the host can read the memory. Waits for
    known work."""
    if not fastdl_find_device(tensor.description.managed.dl_tensor.device.device_type).host:
        raise BufferError(
            f"{what} reads host memory, and this is {describe(tensor)}: copy it to the host first, "
            f"with {copier(tensor)}")
    fdl_await_for_host(tensor.description)
    return 0


cdef int check_numbers(Tensor tensor, str what) except -1:
    """check_host, and TypeError unless Python has numbers for the elements."""
    check_host(tensor, what)
    if not fdl_has_numbers(tensor.description.managed.dl_tensor.dtype):
        raise TypeError(
            f"the values of {tensor.dtype} cannot be expressed in Python: use numpy() or DLPack")
    return 0


def host(Tensor tensor not None, str what not None):
    """`tensor`, if the method `what` may read it on the host: see check_host."""
    check_host(tensor, what)
    return tensor


def has_numbers(Tensor tensor not None):
    """Whether Python has numbers for the elements."""
    return bool(fdl_has_numbers(tensor.description.managed.dl_tensor.dtype))


def only_element(Tensor tensor not None, str what not None):
    """The element of a host tensor with exactly one, for the method `what`."""
    check_numbers(tensor, what)
    return fdl_first_of(
        &tensor.description.managed.dl_tensor, tensor.description.managed.flags)


def any_equals(Tensor tensor not None, number):
    """Whether an element of a host tensor equals `number`."""
    check_numbers(tensor, "in")
    return bool(fdl_any_equals(
        &tensor.description.managed.dl_tensor, tensor.description.managed.flags, number))


def read_bytes(Tensor tensor not None):
    """The elements of a host tensor in row-major order, without gaps, as bytes."""
    cdef fastdl_layout layout
    layout_of(tensor, &layout)
    fdl_await_for_host(tensor.description)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>layout.nbytes)
    copy_elements(&tensor.description.managed.dl_tensor, tensor.description.managed.flags,
                  PyBytes_AS_STRING(result), layout.nbytes)
    return result


# ---- exports --------------------------------------------------------------------------------


cdef int check_flagless(Tensor tensor, str what) except -1:
    """BufferError if the tensor would be misread without its flags, which `what` cannot carry."""
    cdef DLDataType dtype = tensor.description.managed.dl_tensor.dtype
    cdef uint64_t flags = tensor.description.managed.flags
    if flags & DLPACK_FLAG_BITMASK_READ_ONLY:
        raise BufferError(
            f"{describe(tensor)} is read-only, which {what} cannot express: pass "
            f"max_version=(1, 0) or newer, or export a copy")
    if fastdl_is_packed(dtype, 0) and not fastdl_is_packed(dtype, flags):
        raise BufferError(
            f"{describe(tensor)} has padded elements, which {what} cannot express: pass "
            f"max_version=(1, 0) or newer")
    return 0


cdef object legacy_capsule(Tensor tensor):
    check_flagless(tensor, "a legacy DLPack capsule")
    return fdl_legacy_capsule(<PyObject *>tensor)


def export_capsule(Tensor tensor not None, *, bint versioned, bint copied=False):
    """A new capsule on the memory of `tensor`, without checking devices or streams."""
    if versioned:
        return fdl_versioned_capsule(
            <PyObject *>tensor, DLPACK_FLAG_BITMASK_IS_COPIED if copied else 0)
    return legacy_capsule(tensor)


def describe(Tensor tensor not None):
    """A short description for messages: "a float32 tensor of shape (2, 3) on cpu:0"."""
    article = "an" if tensor.dtype.name.startswith("int") else "a"
    return f"{article} {tensor.dtype} tensor of shape {tensor.shape} on {tensor.device}"


# ---- the exchange table of Tensor -----------------------------------------------------------


cdef int check_tensor(object candidate) except -1:
    if type(candidate) is not Tensor:
        raise TypeError(f"expected a fastdl.Tensor, got {type_name(candidate)!r}: "
                        f"this is fastdl.Tensor's exchange table")
    return 0


cdef int table_from_object(void *candidate, DLManagedTensorVersioned **out) except -1:
    check_tensor(<object>candidate)
    cdef fdl_description *source = (<Tensor>candidate).description
    fdl_lend(source)
    cdef fdl_description *copy = fdl_description_copy(source, 0)
    if copy is NULL:
        raise MemoryError()
    out[0] = &copy.managed
    return 0


cdef int table_to_object(DLManagedTensorVersioned *managed, void **out) except -1:
    cdef Tensor tensor = fdl_make_tensor(managed)
    try:
        fdl_imported_from_c(tensor.description)
    except:
        fdl_unmake_tensor(<PyObject *>tensor, managed)
        raise
    Py_INCREF(tensor)
    out[0] = <void *>tensor
    return 0


cdef int table_borrow(void *candidate, DLTensor *out) except -1:
    check_tensor(<object>candidate)
    check_flagless(<Tensor>candidate, "a borrowed DLTensor")
    fdl_lend((<Tensor>candidate).description)
    out[0] = (<Tensor>candidate).description.managed.dl_tensor
    return 0


cdef DLPackExchangeAPI tensor_api
tensor_api.header.version.major = FASTDL_DLPACK_MAJOR
tensor_api.header.version.minor = FASTDL_DLPACK_MINOR
tensor_api.header.prev_api = NULL
tensor_api.managed_tensor_allocator = fdl_allocate
tensor_api.managed_tensor_from_py_object_no_sync = (
    <DLPackManagedTensorFromPyObjectNoSync>table_from_object)
tensor_api.managed_tensor_to_py_object_no_sync = (
    <DLPackManagedTensorToPyObjectNoSync>table_to_object)
tensor_api.dltensor_from_py_object_no_sync = <DLPackDLTensorFromPyObjectNoSync>table_borrow
tensor_api.current_work_stream = fdl_current_work_stream


cdef const DLPackExchangeAPI *tensor_table() noexcept:
    return &tensor_api


# ---- checks of an imported tensor ------------------------------------------------------------


def check_values(x, Tensor tensor not None, uint32_t facts):
    """Refuses `tensor` if its memory does not hold the values of its producer `x`, whose type has
    these facts (a lazy view): see fastdl.h."""
    fastdl_check_values_(<PyObject *>x, &tensor.description.managed.dl_tensor, facts)


def keep_memory(x, Tensor tensor not None, uint32_t facts):
    """Keeps the owner of the memory of `x`, whose type has these facts, alive as long as `tensor`,
    which was just imported from it and shares the memory."""
    fdl_keep_memory(tensor.description.block, <PyObject *>x, facts)


def keep_alive(Tensor tensor not None, x):
    """Keeps `x` alive as long as the memory of `tensor` is in use."""
    fdl_keep_also(tensor.description.block, <PyObject *>x)


def delete_with(Tensor tensor not None, deleter):
    """Calls `deleter` (None: nothing) once, when the memory of `tensor`, a new result of
    driver.on_memory, is no longer used; the collector does not visit its owner."""
    fdl_delete_with(
        tensor.description.block, NULL if deleter is None else <PyObject *>deleter)


def mark_copied(Tensor tensor not None):
    """Marks `tensor`, to which no other code has a reference, as a copy, and returns it."""
    tensor.description.managed.flags |= DLPACK_FLAG_BITMASK_IS_COPIED
    return tensor


def sole_owner(dict answers not None, key):
    """The object that owns the memory of the entry `key` of `answers`, a dict of the caller: the
    end of its chain of bases. None if any other code refers to an object of the chain; otherwise
    the producer made all of them for this call."""
    cdef PyObject *value = PyDict_GetItemWithError(answers, key)
    if value is NULL or Py_REFCNT(value) != 1:
        return None
    owner = <object>value
    while True:
        base = getattr(owner, "base", None)
        if base is None:
            return owner
        owner = base
        base = None
        if Py_REFCNT(<PyObject *>owner) != 2:  # one from the view, one from here
            return None


def make_from_dlpack(bytes doc not None, complete, over_protocol):
    """The compiled entry of from_dlpack: a builtin that handles the plain call itself, and passes
    other calls to `complete`, or to `over_protocol` if a native table refused the object."""
    return fdl_make_from_dlpack(doc, complete, over_protocol)


# ---- the type -------------------------------------------------------------------------------


@cython.final
cdef class Tensor:
    """A tensor that belongs to no framework.

    Made by functions such as `fastdl.from_dlpack` and `fastdl.empty`, never by calling the type.
    It refers to memory that a library (or fastdl) owns, keeps that memory alive, and can be passed
    to any consumer of DLPack, the buffer protocol, `__array__`, the array interfaces or Arrow. Its
    shape, type and device are immutable. Host tensors can be pickled; with protocol 5,
    out-of-band buffers avoid the copy.

    int, float, complex, round, math and format accept a host tensor of exactly one element as a
    number; an integer without dimensions is also an index. `x in tensor` compares the number x with
    each element of a host tensor as Python compares numbers: no float32 tensor contains 0.1. A
    tensor is equal only to itself. Comparing it with anything else but None raises TypeError; to
    compare values, use numpy.array_equal(tensor.numpy(), x).

    >>> import numpy as np
    >>> array = np.arange(6, dtype="float32").reshape(2, 3)
    >>> tensor = fastdl.from_dlpack(array)
    >>> tensor
    fastdl.Tensor([[0., 1., 2.], [3., 4., 5.]], shape=(2, 3), dtype=float32, device=cpu:0)
    >>> column = tensor[:, 1]
    >>> column.strides, column.is_contiguous(), column.tolist()
    ((3,), False, [1.0, 4.0])
    >>> tensor.numpy()[1, 1] = 7  # no memory was copied
    >>> float(array[1, 1]), column[1].item(), 7 in column
    (7.0, 7.0, True)
    """

    __dlpack_c_exchange_api__ = PyCapsule_New(&tensor_api, "dlpack_exchange_api", NULL)
    __c_dlpack_exchange_api__ = <uintptr_t>&tensor_api

    # ---- description ----

    @property
    def shape(self):
        """Sizes of the dimensions, in elements: a tuple of ints.

        >>> fastdl.from_dlpack(np.zeros((2, 3))).shape
        (2, 3)
        """
        cdef DLTensor *tensor = &self.description.managed.dl_tensor
        with cython.critical_section(self):
            if self._shape is None:
                self._shape = fdl_int_tuple(tensor.shape, tensor.ndim)
            return self._shape

    @property
    def strides(self):
        """Steps between neighbours in each dimension, in elements, as given by the producer.

        Strides of dimensions of size 1, and of tensors without elements, may be anything.

        >>> fastdl.from_dlpack(np.zeros((2, 3))[:, ::-1]).strides
        (3, -1)
        """
        cdef DLTensor *tensor = &self.description.managed.dl_tensor
        return fdl_int_tuple(tensor.strides, tensor.ndim)

    @property
    def ndim(self):
        """Number of dimensions, 0 to 64.

        >>> fastdl.empty((2, 3)).ndim
        2
        """
        return self.description.managed.dl_tensor.ndim

    @property
    def size(self):
        """Number of elements.

        >>> fastdl.empty((2, 3)).size
        6
        """
        cdef fastdl_layout layout
        layout_of(self, &layout)
        return layout.size

    @property
    def itemsize(self):
        """Bytes of one element; 1 for packed elements of fewer than 8 bits.

        >>> fastdl.empty(6, "float32x4").itemsize
        16
        """
        return fastdl_itemsize(self.description.managed.dl_tensor.dtype)

    @property
    def nbytes(self):
        """Bytes of all elements laid out without gaps, whatever the strides.

        >>> fastdl.empty(6, "int16").nbytes, fastdl.empty(6, "int4").nbytes
        (12, 3)
        """
        cdef fastdl_layout layout
        layout_of(self, &layout)
        return layout.nbytes

    @property
    def dtype(self):
        """The element type, a fastdl.DType.

        >>> fastdl.empty(6).dtype
        DType('float32')
        """
        return fdl_dtype_object(self.description.managed.dl_tensor.dtype)

    @property
    def device(self):
        """The device of the memory, a fastdl.Device.

        >>> fastdl.empty(6).device
        Device('cpu:0')
        """
        return fdl_device_object(self.description.managed.dl_tensor.device)

    @property
    def data_ptr(self):
        """Address of the first element, as an int.

        On devices without addresses (OpenCL, Vulkan, Metal, WebGPU, unknown ones) the handle of the
        allocation, without any byte offset.

        >>> array = np.zeros(3)
        >>> fastdl.from_dlpack(array).data_ptr == array.ctypes.data
        True
        """
        cdef DLTensor *tensor = &self.description.managed.dl_tensor
        if tensor.byte_offset and fastdl_find_device(tensor.device.device_type).addresses:
            return <uintptr_t>tensor.data + tensor.byte_offset
        return <uintptr_t>tensor.data

    @property
    def readonly(self):
        """Whether the elements must not be written. Views and exports inherit this; a copy is
        writable.

        >>> fastdl.asarray(b"abc").readonly, fastdl.asarray(bytearray(b"abc")).readonly
        (True, False)
        """
        return bool(self.description.managed.flags & DLPACK_FLAG_BITMASK_READ_ONLY)

    @property
    def is_copied(self):
        """Whether the producer or fastdl copied the data for this tensor.

        >>> x = fastdl.empty(3)
        >>> x.is_copied, x.copy().is_copied
        (False, True)
        """
        return bool(self.description.managed.flags & DLPACK_FLAG_BITMASK_IS_COPIED)

    def is_contiguous(self, order="C"):
        """Whether the elements have no gaps: in row-major order ("C") or column-major order ("F").

        Strides of dimensions of size 1 do not matter. A tensor without elements is contiguous.
        ValueError for another order.

        >>> x = fastdl.empty((2, 3))
        >>> x.is_contiguous(), x.T.is_contiguous(), x.T.is_contiguous("F")
        (True, False, True)
        """
        if order not in ("C", "F"):
            raise ValueError(f"expected order 'C' or 'F', got {order!r}")
        return fastdl_is_contiguous(
            &self.description.managed.dl_tensor, c"F" if order == "F" else c"C")

    def __len__(self):
        cdef DLTensor *tensor = &self.description.managed.dl_tensor
        if tensor.ndim == 0:
            raise TypeError("len() needs at least one dimension, got a tensor without dimensions: "
                            "use item()")
        return tensor.shape[0]

    def __bool__(self):
        raise TypeError("a fastdl.Tensor has no truth value: use item() or size")

    def __eq__(self, other):
        if other is self:
            return True
        if other is None:
            return False
        raise TypeError(
            f"== and != of a fastdl.Tensor and {type_name(other)!r} are not defined: "
            f"compare values with numpy.array_equal(tensor.numpy(), other), objects with 'is'")

    def __lt__(self, other):
        return fdl_operate(self, other, "<")

    def __le__(self, other):
        return fdl_operate(self, other, "<=")

    def __gt__(self, other):
        return fdl_operate(self, other, ">")

    def __ge__(self, other):
        return fdl_operate(self, other, ">=")

    def __hash__(self):
        # By identity: live tensors have different hashes, so dictionaries and sets never compare
        # two of them.
        return (<PyTypeObject *>object).tp_hash(self)

    def __repr__(self):
        return policy.values.text(self)

    # ---- copying and pickling ----

    def __reduce_ex__(self, protocol):
        return policy.unpickle, policy.pickling.reduce(self, protocol)

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    # ---- views ----

    def __getitem__(self, key):
        """A view of a part: integers, slices, None and one Ellipsis, as in NumPy's basic indexing.

        Shares memory with this tensor and keeps it alive. Copies nothing. None adds a dimension of
        size 1. IndexError for an index that does not exist, TypeError for arrays and booleans,
        BufferError for elements that share bytes.

        >>> x = fastdl.from_dlpack(np.arange(12).reshape(3, 4))
        >>> x[1:, ::-2].tolist(), x[..., None].shape
        ([[7, 5], [11, 9]], (3, 4, 1))
        """
        return fdl_index(<PyObject *>self, key)

    def __iter__(self):
        if self.description.managed.dl_tensor.ndim == 0:
            raise TypeError(
                "iteration needs at least one dimension, got a tensor without dimensions: use "
                "item()")
        # Not a generator: those of Cython 3.3.1 never release the reference to their type.
        return PySeqIter_New(self)

    @property
    def T(self):
        """The transpose of a matrix: a view with rows and columns exchanged.

        ValueError unless there are two dimensions, as in the array API standard; `mT` accepts more,
        and `permute` any number.

        >>> fastdl.from_dlpack(np.arange(6).reshape(2, 3)).T.tolist()
        [[0, 3], [1, 4], [2, 5]]
        """
        return fdl_transpose(<PyObject *>self, False)

    @property
    def mT(self):
        """The transpose of each matrix in a stack: a view with the last two dimensions exchanged.

        ValueError if there are fewer than two dimensions, BufferError for elements that share
        bytes.

        >>> fastdl.empty((4, 2, 3)).mT.shape
        (4, 3, 2)
        """
        return fdl_transpose(<PyObject *>self, True)

    def permute(self, *axes):
        """A view with the dimensions in another order.

        axes: each dimension once, as ints or as one sequence of ints; negative ones count from the
        last. Dimension i of the view is dimension axes[i] of this tensor. ValueError for other
        axes, BufferError for elements that share bytes.

        >>> fastdl.empty((2, 3, 4)).permute(2, 0, 1).shape
        (4, 2, 3)
        """
        return fdl_permute(<PyObject *>self, axes)

    def reshape(self, *shape):
        """A view of the same elements, in row-major order, in another shape. Never copies.

        shape: sizes in elements, as ints or as one sequence of ints; one of them may be -1, and is
        computed from the others. ValueError if the shape does not hold as many elements.
        CopyRequiredError, which is a ValueError too, if no strides describe the result: call copy()
        first.

        >>> x = fastdl.from_dlpack(np.arange(6)).reshape(2, -1)
        >>> x.tolist()
        [[0, 1, 2], [3, 4, 5]]
        >>> x.T.copy().reshape(6).tolist()
        [0, 3, 1, 4, 2, 5]
        >>> x.T.reshape(6)
        Traceback (most recent call last):
        fastdl...CopyRequiredError: an int64 tensor of shape (3, 2) on cpu:0 cannot be ...
        """
        return fdl_reshape(<PyObject *>self, shape)

    def flatten(self):
        """A view of all elements in row-major order, in one dimension: reshape(-1). Never copies.

        CopyRequiredError, which is a ValueError too, if no stride describes the result: call copy()
        first, as in x.copy().flatten().

        >>> x = fastdl.from_dlpack(np.arange(6).reshape(2, 3))
        >>> x.flatten().tolist(), x.T.copy().flatten().tolist()
        ([0, 1, 2, 3, 4, 5], [0, 3, 1, 4, 2, 5])
        """
        return fdl_reshape(<PyObject *>self, (-1,))

    def squeeze(self, axis=None):
        """A view without dimensions of size 1.

        axis: the dimensions to drop, as an int or a sequence of ints, negative ones counted from
            the last; None: all of size 1. ValueError for a dimension of another size, or that does
            not exist.
        `unsqueeze` is the opposite.

        >>> x = fastdl.empty((1, 3, 1))
        >>> x.squeeze().shape, x.squeeze(-1).shape
        ((3,), (1, 3))
        """
        return fdl_squeeze(<PyObject *>self, axis)

    def unsqueeze(self, axis):
        """A view with a new dimension of size 1.

        axis: the index of the new dimension in the view, an int from 0 to ndim; negative ones count
            from the view's last dimension. ValueError for another axis, or if there are 64
            dimensions already.

        >>> x = fastdl.empty((2, 3))
        >>> x.unsqueeze(0).shape, x.unsqueeze(-1).shape
        ((1, 2, 3), (2, 3, 1))
        """
        return fdl_unsqueeze(<PyObject *>self, axis)

    def expand(self, *shape):
        """A read-only view with elements repeated, along dimensions of size 1 and new ones.

        shape: the sizes of the view, as ints or as one sequence of ints; -1 keeps a size. New
            dimensions come before the first. Repeated dimensions have stride 0 and take no memory.
            The view is read-only, like that of numpy.broadcast_to, even if nothing is repeated: a
            write to one element would change others, which consumers assume to be separate memory.

        ValueError if a dimension of another size than 1 would change, or if the bytes of all
        elements are more than a 64-bit count can hold. BufferError for elements that share bytes.

        >>> x = fastdl.from_dlpack(np.arange(3)).expand(2, 3)
        >>> x.tolist(), x.strides, x.readonly
        ([[0, 1, 2], [0, 1, 2]], (0, 1), True)
        """
        return fdl_expand(<PyObject *>self, shape)

    def view(self, dtype):
        """The same bytes as elements of another type: bits are reinterpreted, not converted.

        dtype: anything that fastdl.DType accepts. If its elements have another size, the size of
            the last dimension changes. ValueError if that size would not be an integer, or if there
            is no dimension.
        CopyRequiredError, which is a ValueError too, if the last dimension has gaps, or if a stride
        or the address does not fit the new elements. BufferError for elements that share bytes,
        before or after.

        >>> x = fastdl.from_dlpack(np.array([1.0, -2.0], np.float32))
        >>> [hex(bits) for bits in x.view("uint32").tolist()]
        ['0x3f800000', '0xc0000000']
        >>> x.view("uint8").shape
        (8,)
        """
        cdef DLDataType wanted
        if not fdl_dtype_of(dtype, &wanted):
            wanted.code, wanted.bits, wanted.lanes = DType(dtype).__dlpack_data_type__()
        return fdl_view_as(<PyObject *>self, wanted)

    def as_readonly(self):
        """A read-only view of the same elements. This tensor is unchanged.

        Views and numpy() of the view are read-only too, and exports have the flag, which torch and
        tvm-ffi ignore; copies are writable. This prevents writing by mistake only: code that has
        this tensor or its source may still write, and the view shows the change.

        >>> x = fastdl.empty(3)
        >>> x.as_readonly().numpy().flags.writeable, x.readonly
        (False, False)
        """
        return fdl_as_readonly(<PyObject *>self)

    # ---- values and copies ----

    def tolist(self):
        """The elements as nested lists of Python numbers; without dimensions, the number itself.

        Elements of a vector type are tuples. Host data only (BufferError); TypeError for types that
        Python has no numbers for. For pinned memory the host first waits for known work.

        >>> fastdl.from_dlpack(np.arange(6).reshape(2, 3)).tolist()
        [[0, 1, 2], [3, 4, 5]]
        """
        check_numbers(self, "tolist()")
        return fdl_list_of(
            &self.description.managed.dl_tensor, self.description.managed.flags)

    def item(self):
        """The only element, as a Python number.

        ValueError unless size is 1; otherwise as `tolist`.

        >>> fastdl.from_dlpack(np.array([[2.5]])).item()
        2.5
        """
        cdef fastdl_layout layout
        layout_of(self, &layout)
        if layout.size != 1:
            raise ValueError(
                f"item() needs exactly one element, got {describe(self)} with {layout.size}")
        return only_element(self, "item()")

    # If a type has a buffer but none of these methods, Python reads its memory as text: int(b"7")
    # is 7.

    def __int__(self):
        return policy.values.number(self, int)

    def __float__(self):
        return policy.values.number(self, float)

    def __complex__(self):
        return policy.values.number(self, complex)

    def __index__(self):
        return policy.values.index(self)

    def __round__(self, ndigits=None):
        return policy.values.number(self, round, ndigits)

    # Without these, the functions of math go through float, where large integers lose digits.

    def __floor__(self):
        from math import floor
        return policy.values.number(self, floor)

    def __ceil__(self):
        from math import ceil
        return policy.values.number(self, ceil)

    def __trunc__(self):
        from math import trunc
        return policy.values.number(self, trunc)

    def __format__(self, form):
        return policy.values.number(self, format, form) if form else str(self)

    def __bytes__(self):
        """The elements in row-major order, without gaps. Host data only (BufferError).

        >>> bytes(fastdl.from_dlpack(np.array([[1, 2], [3, 4]], np.uint8)).T)
        b'\\x01\\x03\\x02\\x04'
        """
        # Without this, bytes() would take an integer tensor for a number of zeros.
        check_host(self, "bytes()")
        return read_bytes(self)

    def __contains__(self, x):
        return policy.values.contains(self, x)

    def numpy(self):
        """A NumPy array on the same memory, read-only if the tensor is.

        Host data only (BufferError); for pinned memory the host first waits for known work.
        bfloat16, float8 and narrower types need the package ml_dtypes (TypeError without it).
        Packed types are unpacked into a new array, and so are padded elements whose padding
        ml_dtypes would misread; vector types gain a last dimension of lanes.

        >>> x = fastdl.empty(3)
        >>> x.numpy()[:] = 7
        >>> x.tolist()
        [7.0, 7.0, 7.0]
        """
        cdef const array_maker *maker = <const array_maker *>fdl_pointer_get(&known_array_maker)
        if maker is not NULL:
            array = maker.make(self)
            if array is not None:
                return array
        return policy.numpy.numpy(self)

    def copy(self):
        """A writable row-major copy, on the host, of a host tensor.

        BufferError on other devices, where the tensor's own library makes copies. Pinned memory is
        copied to ordinary memory. MemoryError if memory runs out.

        >>> x = fastdl.asarray(b"abc").copy()
        >>> x.readonly, x.tolist()
        (False, [97, 98, 99])
        """
        if is_plain_host(self):
            return copy_host(self)
        return policy.placement.to_device(self, self.device, copy=True)

    def contiguous(self):
        """The tensor itself if it is contiguous in row-major order, else a row-major copy.

        The copy is writable, and made as by `copy`, with the same errors.

        >>> x = fastdl.from_dlpack(np.arange(6).reshape(2, 3))
        >>> x.contiguous() is x, x.T.contiguous().strides
        (True, (2, 1))
        """
        if fastdl_is_contiguous(&self.description.managed.dl_tensor, c"C"):
            return self
        if is_plain_host(self):
            return copy_host(self)
        return policy.placement.to_device(self, self.device, copy=True)

    def to(self, device, *, stream=None):
        """The tensor on `device`: itself if it is there already, or a writable row-major copy, on
        the host, of CUDA or ROCm memory.

        Pinned memory counts as being on the CPU. stream: a stream of this tensor's device. The copy
        is made on it, after all known work on this tensor, and the host waits for the copy; a
        tensor that needs no copy is ready on that stream. None, -1: the copy is made on the
        thread's work stream.

        BufferError for every other move (use a library: `fastdl.convert(x, torch.Tensor,
        device="cuda:0")`), without the driver of the device, or if `stream` is being captured.
        TypeError for a dtype: fastdl does not convert values.

        >>> x = fastdl.empty(3)
        >>> x.to("cpu") is x
        True
        """
        if stream is None and is_plain_host(self) and fdl_means_host(device):
            return self
        return policy.placement.to_device(self, device, copy=None, stream=stream)

    def to_device(self, device, /, *, stream=None):
        """to(device, stream=stream), under its name in the array API standard.

        >>> x = fastdl.empty(3)
        >>> x.to_device("cpu") is x
        True
        """
        return self.to(device, stream=stream)

    # ---- work in flight ----

    def record(self, stream):
        """Records that other code has queued work on this memory on `stream`.

        A consumer on another stream then waits for that work. BufferError without a driver, or if
        `stream` is being captured.
        """
        policy.streams.record(self, stream)

    def release(self, stream):
        """Declares that only work already queued on `stream` still uses the tensor.

        The producer may reuse the memory as soon as the tensor is dropped, and does not know
        `stream`. If the producer's type has an exchange table, that library's current stream waits
        for `stream`; otherwise this call waits on the host. Drop the tensor and its views
        afterwards.
        """
        policy.streams.release(self, stream)

    # ---- DLPack ----

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None,
                   version=None):
        """Exports the tensor as a DLPack capsule: the producer's side of the protocol.

        stream: for CUDA and ROCm, the stream that the consumer will use; otherwise None or -1.
        max_version: the newest (major, minor) that the consumer reads; from (1, 0) on the capsule
            is versioned, else legacy (BufferError for read-only data).
        dl_device: where the consumer wants the data, as (type, id).
        copy: True forces a copy, False forbids one, None leaves it open.
        version: max_version as in the 2022 draft, 100 * major + 10 * minor; not with max_version.

        >>> np.from_dlpack(fastdl.asarray(bytearray(b"abc"))).tolist()  # which calls this
        [97, 98, 99]
        """
        # Defined in export.c.

    def __dlpack_device__(self):
        """(device type, device id) as plain ints.

        >>> fastdl.empty(3).__dlpack_device__()
        (1, 0)
        """
        cdef DLTensor *tensor = &self.description.managed.dl_tensor
        return (<int32_t>tensor.device.device_type, tensor.device.device_id)

    def __dlpack_info__(self):
        """The newest DLPack version supported here, in the numbering of the 2022 draft.

        >>> fastdl.empty(3).__dlpack_info__()
        130
        """
        return FASTDL_DLPACK_MAJOR * 100 + FASTDL_DLPACK_MINOR * 10

    # ---- the protocols before DLPack ----

    @property
    def __numpy_dtype__(self):
        """The numpy.dtype of the elements, for NumPy functions that take a dtype (from 2.4 on)."""
        return self.dtype.dtype

    def __array__(self, dtype=None, *, copy=None):
        return policy.numpy.array(self, dtype, copy)

    def __arrow_c_array__(self, requested_schema=None):
        """The capsules (schema, array) of the Arrow C data interface, for host data of one
        dimension, or of two: a table with the columns column_0, column_1, ..., which
        polars.DataFrame and pyarrow.table accept (polars.Series gets structs). The memory is shared
        if the elements, or those of each column, have no gaps and are not bools, which are bits in
        Arrow; otherwise it is copied.

        requested_schema is ignored, as the interface allows. BufferError for types that Arrow does
        not have (integers and floats of other sizes, complex numbers, vectors) and for other
        numbers of dimensions.
        """
        cdef DLTensor *tensor = &self.description.managed.dl_tensor
        check_host(self, "__arrow_c_array__")
        if tensor.ndim != 1 and tensor.ndim != 2:
            raise BufferError(
                f"Arrow has arrays of one dimension and tables of two, and this is "
                f"{describe(self)}: reshape it first")
        if not fdl_arrow_has(tensor.dtype):
            raise policy.values.not_in_arrow(self)
        columns = (self if tensor.ndim == 1 else self.T).contiguous()
        return fdl_arrow_export(<PyObject *>columns)

    @property
    def __array_interface__(self):
        """Version 3 of the interface that NumPy and Pillow read, for host data of NumPy's own types
        (AttributeError otherwise)."""
        typestr = typestr_of(self.dtype)
        if not self.device.is_host or typestr is None:
            raise AttributeError(f"{describe(self)} has no __array_interface__: use DLPack")
        fdl_await_for_host(self.description)
        strides = None  # some readers require that
        if not self.is_contiguous():
            strides = tuple([stride * self.itemsize for stride in self.strides])
        return {
            "shape": self.shape,
            "typestr": typestr,
            "data": (self.data_ptr, self.readonly),
            "strides": strides,
            "version": 3,
        }

    def tobytes(self):
        """bytes() of the tensor: the elements in row-major order, without gaps. Host data only
        (BufferError).

        >>> fastdl.from_dlpack(np.array([[1, 2], [3, 4]], "u1").T).tobytes()
        b'\\x01\\x03\\x02\\x04'
        """
        return self.__bytes__()

    def __dask_tokenize__(self):
        return policy.pickling.token(self)

    def __dir__(self):
        return [name for name in object.__dir__(self) if hasattr(Tensor, name)]

    def __sizeof__(self):
        """Bytes of the object, and of the memory if fastdl allocated it for this Tensor: not for
        views, nor for memory of other owners, such as an ndarray."""
        cdef fastdl_layout layout
        cdef int64_t size = sizeof(fdl_description) + 16 * self.description.managed.dl_tensor.ndim
        if self.root is None and fdl_is_memory(self.description.block):
            layout_of(self, &layout)
            size += layout.nbytes
        return object.__sizeof__(self) + size

    @property
    def __cuda_array_interface__(self):
        """Version 3 of the interface, for CUDA data (AttributeError elsewhere). Reading it makes
        the legacy default stream wait for all known work."""
        return policy.cuda_array.export_cuda_array(self)

    def __getbuffer__(self, Py_buffer *view, int flags):
        fill_buffer(self, view, flags)

    def __releasebuffer__(self, Py_buffer *view):
        PyMem_RawFree(view.internal)


# ---- installed by the NumPy bridge ----------------------------------------------------------

cdef fdl_pointer known_array_maker  # NULL until that bridge is loaded


cdef void install_array_maker(const array_maker *maker) noexcept:
    fdl_pointer_set(&known_array_maker, <void *>maker)


# ---------------------------------------------------------------------------------------------


cdef double nothing[2]


cdef char *first_byte(const DLTensor *tensor) noexcept:
    """The address of the elements. If that is NULL, as it may be without elements, a dummy address:
    for NULL, NumPy would allocate writable memory of its own."""
    return <char *>(tensor.data if tensor.data is not NULL else nothing) + tensor.byte_offset


cdef void layout_of(Tensor tensor, fastdl_layout *layout) noexcept:
    fastdl_check(
        &tensor.description.managed.dl_tensor, tensor.description.managed.flags, layout)


cdef int fill_buffer(Tensor self, Py_buffer *view, int flags) except -1:
    cdef DLTensor *tensor = &self.description.managed.dl_tensor
    cdef const fdl_dtype_fact *fact = fdl_dtype_find(tensor.dtype.code, tensor.dtype.bits)
    cdef bint readonly = self.readonly
    cdef Py_ssize_t *dims
    cdef fastdl_layout layout
    cdef int32_t i
    check_host(self, "the buffer protocol")
    if fact is NULL or fact.format is NULL or tensor.dtype.lanes != 1:
        raise BufferError(
            f"the buffer protocol has no format for {self.dtype}: use numpy(), which supports more "
            f"types, or DLPack")
    if flags & PyBUF_WRITABLE and readonly:
        raise BufferError(
            f"cannot export a writable buffer of {describe(self)}, which is read-only: use copy() "
            f"first")
    c_order = fastdl_is_contiguous(tensor, c"C")
    f_order = fastdl_is_contiguous(tensor, c"F")
    if ((flags & PyBUF_C_CONTIGUOUS == PyBUF_C_CONTIGUOUS and not c_order)
            or (flags & PyBUF_F_CONTIGUOUS == PyBUF_F_CONTIGUOUS and not f_order)
            or (flags & PyBUF_ANY_CONTIGUOUS == PyBUF_ANY_CONTIGUOUS and not (c_order or f_order))
            or (flags & PyBUF_STRIDES != PyBUF_STRIDES and not c_order)):
        raise BufferError(
            f"cannot export a contiguous buffer of {describe(self)}, whose strides are "
            f"{self.strides}: use copy() first")
    layout_of(self, &layout)
    # Py_ssize_t has the size of int64_t on every platform except 32-bit ones, where the size of any
    # existing tensor fits too.
    dims = <Py_ssize_t *>PyMem_RawMalloc((2 * tensor.ndim + 1) * sizeof(Py_ssize_t))
    if dims is NULL:
        raise MemoryError()
    for i in range(tensor.ndim):
        dims[i] = <Py_ssize_t>tensor.shape[i]
        dims[tensor.ndim + i] = <Py_ssize_t>(
            <uint64_t>tensor.strides[i] * <uint64_t>fastdl_itemsize(tensor.dtype))
    view.internal = dims
    view.buf = first_byte(tensor)
    view.obj = self
    view.len = <Py_ssize_t>layout.nbytes
    view.itemsize = <Py_ssize_t>fastdl_itemsize(tensor.dtype)
    view.readonly = readonly
    view.format = <char *>fact.format if flags & PyBUF_FORMAT else NULL
    view.ndim = tensor.ndim if flags & PyBUF_ND else 1
    # CPython requires NULL if there are no dimensions.
    view.shape = dims if flags & PyBUF_ND and tensor.ndim > 0 else NULL
    view.strides = (
        dims + tensor.ndim if flags & PyBUF_STRIDES == PyBUF_STRIDES and tensor.ndim > 0 else NULL)
    view.suboffsets = NULL
    return 0


cdef object export_any(object tensor, const fastdl_request_ *request, PyObject *draft):
    """Handles every call of `Tensor.__dlpack__`."""
    return policy.producer.export(
        tensor,
        request.stream if request.has_stream else None,
        (request.max_version[0], request.max_version[1]) if request.max_version[0] >= 0 else None,
        fdl_device_object(request.device) if request.device.device_type != 0 else None,
        request.copy == 1 if request.copy >= 0 else None,
        <object>draft if draft is not NULL else None)


fdl_finish_tensor_type(<PyTypeObject *>Tensor, describe)
fdl_define_dlpack(<PyTypeObject *>Tensor, export_any)
