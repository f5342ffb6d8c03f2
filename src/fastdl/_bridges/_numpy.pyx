# SPDX-License-Identifier: Apache-2.0
"""The exchange table of numpy.ndarray, over NumPy's C API.

Loaded when the first NumPy array is seen. NumPy's strides are in bytes and DLPack's in elements, so
an array does not store strides that a borrowed DLTensor could point to: the borrowing entry of the
table is NULL.
"""
import numpy as np

from cpython.object cimport PyObject, PyTypeObject
from cpython.pycapsule cimport PyCapsule_New
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy

from fastdl._core.native cimport (
    DLDataType, DLManagedTensorVersioned, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED,
    DLPACK_FLAG_BITMASK_READ_ONLY, DLPackExchangeAPI, DLPackManagedTensorFromPyObjectNoSync,
    DLPackManagedTensorToPyObjectNoSync, DLTensor, FASTDL_MAX_NDIM, fastdl_check_exporter_,
    fastdl_is_contiguous, fastdl_view, fdl_await_for_host, fdl_description, fdl_description_of,
    fdl_is_still_memory, fdl_make_tensor, fdl_never_changes, fdl_tensor_new, fdl_unmake_tensor,
    kDLBool, kDLComplex, kDLCPU, kDLFloat, kDLInt, kDLUInt,
)
from fastdl._core.exchange cimport record_of
from fastdl._core.tensor cimport (
    Tensor, array_maker, describe_object, first_byte, install_array_maker, tensor_table,
)
from fastdl._native import dtype_facts
from fastdl._core.dtype import DType
from fastdl._core.errors import refusal, type_name
from fastdl._core.foreign import values_of
from fastdl._bridges.maker cimport fastdl_maker

# The small part of NumPy's C API that is needed, declared here so that the generated code is the
# same for every release of NumPy.
cdef extern from "numpy/arrayobject.h":
    ctypedef Py_ssize_t npy_intp
    ctypedef class numpy.ndarray [object PyArrayObject, check_size ignore]:
        pass
    ctypedef struct ndarray_struct "PyArrayObject":  # an array, without a reference
        pass
    ctypedef class numpy.dtype [object PyArray_Descr, check_size ignore]:
        pass
    PyTypeObject PyArray_Type
    enum:
        NPY_BOOL, NPY_BYTE, NPY_UBYTE, NPY_SHORT, NPY_USHORT, NPY_INT, NPY_UINT, NPY_LONG
        NPY_ULONG, NPY_LONGLONG, NPY_ULONGLONG, NPY_HALF, NPY_FLOAT, NPY_DOUBLE, NPY_LONGDOUBLE
        NPY_CFLOAT, NPY_CDOUBLE, NPY_CLONGDOUBLE, NPY_VOID
    int NPY_ARRAY_WRITEABLE
    int _import_array() except -1
    bint PyArray_Check(object) noexcept
    void *PyArray_DESCR(ndarray_struct *) noexcept  # a borrowed dtype
    int PyArray_TYPE(ndarray_struct *) noexcept
    int PyArray_NDIM(ndarray_struct *) noexcept
    npy_intp *PyArray_DIMS(ndarray_struct *) noexcept
    npy_intp *PyArray_STRIDES(ndarray_struct *) noexcept
    npy_intp PyArray_ITEMSIZE(ndarray_struct *) noexcept
    void *PyArray_DATA(ndarray_struct *) noexcept
    bint PyArray_ISWRITEABLE(ndarray_struct *) noexcept
    PyObject *PyArray_BASE(ndarray_struct *) noexcept
    bint PyArray_ISNOTSWAPPED(ndarray_struct *) noexcept
    dtype PyArray_DescrFromType(int)
    # These steal: the type, also on failure; the base, also on failure.
    object PyArray_NewFromDescr(
        PyTypeObject *, dtype, int, npy_intp *, npy_intp *, void *, int, PyObject *)
    int PyArray_SetBaseObject(ndarray, object) except -1

_import_array()


# ---- element types --------------------------------------------------------------------------

cdef struct number_type:
    DLDataType dtype  # bits 0 where DLPack has none
    int32_t shift     # log2 of the size in bytes

# By NumPy's number of a built-in type. The sizes of C's integers differ by platform, so they are
# read from NumPy.
cdef number_type types[64]


cdef int define(int number, int code) except -1:
    cdef int itemsize = PyArray_DescrFromType(number).itemsize
    types[number].dtype.code = <unsigned char>code
    types[number].dtype.bits = <unsigned char>(8 * itemsize)
    types[number].dtype.lanes = 1
    types[number].shift = shift_of(itemsize)
    return 0


cdef int32_t shift_of(Py_ssize_t itemsize) noexcept:
    """log2 of a size: every type that fastdl imports from NumPy has 1, 2, 4, 8 or 16 bytes."""
    cdef int32_t shift = 0
    while itemsize > 1:
        itemsize >>= 1
        shift += 1
    return shift


define(NPY_BOOL, kDLBool)
for _number in (NPY_BYTE, NPY_SHORT, NPY_INT, NPY_LONG, NPY_LONGLONG):
    define(_number, kDLInt)
for _number in (NPY_UBYTE, NPY_USHORT, NPY_UINT, NPY_ULONG, NPY_ULONGLONG):
    define(_number, kDLUInt)
for _number in (NPY_HALF, NPY_FLOAT, NPY_DOUBLE):
    define(_number, kDLFloat)
for _number in (NPY_CFLOAT, NPY_CDOUBLE):
    define(_number, kDLComplex)
if PyArray_DescrFromType(NPY_LONGDOUBLE).itemsize == 8:  # a double, as on Windows
    define(NPY_LONGDOUBLE, kDLFloat)
    define(NPY_CLONGDOUBLE, kDLComplex)


cdef int find_type(ndarray_struct *array, DLDataType *dtype, uint64_t *flags) except -1:
    """The element type of an array whose dtype is not built in; BufferError if DLPack has none, or
    if the array's dtype was replaced meanwhile: this runs Python."""
    cdef object descriptor = <object>PyArray_DESCR(array)
    cdef object scalar = descriptor.type, found = None
    if scalar.__module__ == "ml_dtypes":
        try:
            found = DType(scalar.__name__)
        except (TypeError, ValueError):
            pass
    # Any type may have a name of ml_dtypes, so check that the elements fit.
    if (found is None or found.itemsize != PyArray_ITEMSIZE(array)
            or not PyArray_ISNOTSWAPPED(array)):
        raise refusal(
            BufferError,
            f"expected an array of native numbers or bools, got one of {descriptor}, which DLPack "
            f"cannot describe: {values_of(<object>array)}")
    dtype.code, dtype.bits, dtype.lanes = found.code, found.bits, found.lanes
    if found.bits < 8:  # ml_dtypes gives each element a byte
        flags[0] |= DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED
    if PyArray_DESCR(array) is not <void *>descriptor:  # the last check
        raise refusal(
            BufferError, "the type of the array changed while it was read: import it again")
    return 0


# ---- borrowing ------------------------------------------------------------------------------

# The rule: everything about an array is read from its struct, since a subclass's attributes may be
# properties that return anything; and its pointers (data, shape, strides) are read together, after
# the last call that can run Python, since Python code can replace them.


cdef int borrow(PyObject *candidate, fastdl_view *view) except -1:
    """fastdl_borrow of an array: without an allocation, since the view has room for strides. NumPy
    guarantees the geometry."""
    cdef ndarray_struct *array = <ndarray_struct *>candidate
    cdef int32_t i, ndim, shift, number
    cdef npy_intp *strides
    cdef npy_intp mask
    if candidate.ob_type is not &PyArray_Type and PyArray_TYPE(array) != NPY_VOID:
        # Structured types are refused below.
        fastdl_check_exporter_(candidate, record_of(<object>candidate.ob_type).facts)
    number = PyArray_TYPE(array)
    if 0 <= number < 64 and types[number].dtype.bits != 0 and PyArray_ISNOTSWAPPED(array):
        # In one store: a wider load, as in fastdl_expect, would stall on two halves.
        memcpy(&view.dl.dtype, &types[number].dtype, sizeof(DLDataType))
        shift = types[number].shift
    else:
        find_type(array, &view.dl.dtype, &view.flags)
        shift = shift_of(PyArray_ITEMSIZE(array))
    # From here on no Python code runs.
    strides = PyArray_STRIDES(array)
    if not PyArray_ISWRITEABLE(array):
        view.flags |= DLPACK_FLAG_BITMASK_READ_ONLY
    ndim = PyArray_NDIM(array)
    view.dl.data = PyArray_DATA(array)
    view.dl.device.device_type = kDLCPU
    view.dl.device.device_id = 0
    view.dl.byte_offset = 0
    view.dl.ndim = ndim
    view.dl.shape = <int64_t *>PyArray_DIMS(array)
    view.dl.strides = view.room_
    mask = (1 << shift) - 1
    if sizeof(npy_intp) != sizeof(int64_t):  # 32 bits: the view has room for sizes as well
        view.dl.shape = view.room_ + FASTDL_MAX_NDIM
        for i in range(ndim):
            view.dl.shape[i] = PyArray_DIMS(array)[i]
    for i in range(ndim):
        view.room_[i] = strides[i] >> shift
        if strides[i] & mask and view.dl.shape[i] > 1:
            check_stride(array, i)
    return 0


cdef int check_stride(ndarray_struct *array, int32_t i) except -1:
    """BufferError for a stride of partial elements, unless there are no elements to find."""
    cdef int32_t k
    for k in range(PyArray_NDIM(array)):
        if PyArray_DIMS(array)[k] == 0:
            return 0
    itemsize, stride = PyArray_ITEMSIZE(array), PyArray_STRIDES(array)[i]
    raise refusal(
        BufferError,
        f"expected strides in multiples of {itemsize} bytes, one element, got {stride} in "
        f"dimension {i} of an array of {<object>PyArray_DESCR(array)}: copy the array first")


# ---- the table ------------------------------------------------------------------------------


cdef int from_array(void *candidate, DLManagedTensorVersioned **out) except -1:
    cdef fastdl_view view
    if not PyArray_Check(<object>candidate):
        raise TypeError(f"expected a numpy.ndarray, got {type_name(<object>candidate)!r}: "
                        f"this is NumPy's exchange table")
    view.flags = 0
    borrow(<PyObject *>candidate, &view)
    out[0] = describe_object(&view.dl, view.flags, <object>candidate)
    if view.flags & DLPACK_FLAG_BITMASK_READ_ONLY:
        (<fdl_description *>out[0]).block.immutable = never_changes(<ndarray_struct *>candidate)
    return 0


cdef bint never_changes(ndarray_struct *array) noexcept:
    """Whether the memory of a read-only array is immutable."""
    cdef PyObject *base = PyArray_BASE(array)
    while base is not NULL and PyArray_Check(<object>base):
        base = PyArray_BASE(<ndarray_struct *>base)
    return fdl_never_changes(base)


cdef int to_array(DLManagedTensorVersioned *managed, void **out) except -1:
    cdef fdl_description *description = fdl_description_of(managed)
    cdef PyObject *descriptor = NULL
    cdef Tensor tensor
    if description is not NULL and fdl_is_still_memory(description):
        descriptor = descriptor_of(&managed.dl_tensor)
    if descriptor is not NULL:
        array = array_on(&managed.dl_tensor, False, <dtype>descriptor, 0, 1, None, description)
    else:
        # The Tensor comes first; if NumPy then fails, the caller owns `managed` again.
        tensor = fdl_make_tensor(managed)
        try:
            array = make_array(tensor)
        except:
            fdl_unmake_tensor(<PyObject *>tensor, managed)
            raise
    Py_INCREF(array)
    out[0] = <void *>array
    return 0


cdef DLPackExchangeAPI table
table = tensor_table()[0]
table.managed_tensor_from_py_object_no_sync = <DLPackManagedTensorFromPyObjectNoSync>from_array
table.managed_tensor_to_py_object_no_sync = <DLPackManagedTensorToPyObjectNoSync>to_array
table.dltensor_from_py_object_no_sync = NULL

cdef object table_capsule = PyCapsule_New(&table, "dlpack_exchange_api", NULL)


#: The table, the type it is for (types that only look like NumPy's do not get it), and `borrow`.
BRIDGE = table_capsule, np.ndarray, PyCapsule_New(<void *>borrow, "fastdl_borrower", NULL)


# ---- arrays from tensors --------------------------------------------------------------------


cdef inline object array_on(
        const DLTensor *memory, bint readonly, dtype descriptor, Py_ssize_t size, int lanes,
        object base, fdl_description *row_major=NULL):
    """A NumPy array on host memory, kept alive by `base` or by a new Tensor on the description
    `row_major`; making that Tensor is the last step that can fail. `size`: of one lane, in
    bytes."""
    cdef npy_intp dims[130]
    cdef npy_intp *strides = NULL
    cdef int ndim = memory.ndim
    cdef int32_t i
    for i in range(ndim):
        dims[i] = <npy_intp>memory.shape[i]
    if row_major is NULL and (lanes > 1 or not fastdl_is_contiguous(memory, c"C")):
        strides = dims + 65  # otherwise NumPy finds them, which is faster
        for i in range(ndim):
            strides[i] = <npy_intp>(<uint64_t>memory.strides[i] * <uint64_t>(size * lanes))
    if lanes > 1:
        dims[ndim] = lanes
        strides[ndim] = size
        ndim += 1
    Py_INCREF(descriptor)  # stolen by the next call
    result = PyArray_NewFromDescr(
        &PyArray_Type, descriptor, ndim, dims, strides,
        first_byte(memory), 0 if readonly else NPY_ARRAY_WRITEABLE, NULL)
    if row_major is not NULL:
        base = fdl_tensor_new(row_major)
    Py_INCREF(base)  # stolen, too
    PyArray_SetBaseObject(result, base)
    return result


cdef object array_of(Tensor tensor, dtype descriptor, Py_ssize_t size, int lanes):
    fdl_await_for_host(tensor.description)
    return array_on(
        &tensor.description.managed.dl_tensor,
        tensor.description.managed.flags & DLPACK_FLAG_BITMASK_READ_ONLY, descriptor, size, lanes,
        tensor)


def array(Tensor tensor not None, dtype descriptor not None, int lanes):
    """A NumPy array on the memory of a host tensor; several lanes become a last dimension.
    `descriptor` has the size of one lane. The array keeps `tensor` alive."""
    return array_of(tensor, descriptor, descriptor.itemsize, lanes)


# The types that NumPy itself has: by DLPack's code and the size in bytes. NULL: none.
cdef PyObject *descriptors[kDLBool + 1][32]

for _name, _code, _bits, _format in dtype_facts():
    if _format is not None:
        _descriptor = np.dtype(_name)
        Py_INCREF(_descriptor)
        descriptors[_code][_bits // 8] = <PyObject *>_descriptor


cdef PyObject *descriptor_of(const DLTensor *memory) noexcept:
    """The dtype for ordinary host memory, if NumPy itself has one; else NULL."""
    cdef DLDataType element = memory.dtype
    if (memory.device.device_type != kDLCPU or element.lanes != 1
            or element.code > kDLBool):
        return NULL
    return descriptors[element.code][element.bits >> 3]


cdef object plain_array(Tensor tensor):
    """Tensor.numpy() for ordinary host memory whose dtype NumPy itself has; else None."""
    cdef const DLTensor *memory = &tensor.description.managed.dl_tensor
    cdef PyObject *descriptor = descriptor_of(memory)
    if descriptor is NULL:
        return None
    return array_of(tensor, <dtype>descriptor, memory.dtype.bits >> 3, 1)


cdef array_maker plain_arrays
plain_arrays.make = plain_array
install_array_maker(&plain_arrays)


# ---- for convert ----------------------------------------------------------------------------


cdef object make_array(Tensor tensor):
    result = plain_array(tensor)
    return tensor.numpy() if result is None else result


cdef object make_array_on(const DLTensor *memory, object owner):
    cdef PyObject *descriptor = descriptor_of(memory)
    if descriptor is NULL:
        return None
    return array_on(memory, False, <dtype>descriptor, memory.dtype.bits >> 3, 1, owner)


cdef fastdl_maker maker
maker.make = make_array
maker.make_on = make_array_on

MAKER = PyCapsule_New(&maker, "fastdl_maker", NULL)
