# SPDX-License-Identifier: Apache-2.0
"""convert: the part that every call runs.

targets.py finds the bridge of a call, complete.py reads other objects, and refusals.py has the
error messages.
"""
import cython

from cpython.dict cimport PyDict_Copy, PyDict_Next, PyDict_SetItem
from cpython.exc cimport PyErr_CheckSignals, PyErr_Occurred
from cpython.module cimport PyModule_Check
from cpython.object cimport PyObject, PyObject_GetAttr, PyTypeObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from cpython.type cimport PyType_Check
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset

from fastdl._bridges.maker cimport fastdl_maker
from fastdl._core.exchange cimport record_of
from fastdl._core.native cimport (
    DLDataType, DLDevice, DLManagedTensorVersioned, DLPACK_FLAG_BITMASK_IS_COPIED,
    DLPACK_FLAG_BITMASK_READ_ONLY, DLPackExchangeAPI, DLTensor, fastdl_atomic_load_,
    fastdl_atomic_store_, fastdl_clear_if_, fastdl_compact_strides, fastdl_complete_view_,
    fastdl_device_fact, fastdl_discard_, FASTDL_DLPACK_MAJOR, fastdl_find_device,
    fastdl_has_succeeded_, fastdl_is_contiguous, fastdl_is_empty_, fastdl_is_tensor_type,
    fastdl_keeper_, fastdl_mul_, fastdl_record, FASTDL_TYPE_ASK_BITS, FASTDL_TYPE_NATIVE,
    FASTDL_TYPE_PROTOCOL, fastdl_view, FDL_TYPE_TRUSTED, fdl_try_fast_path, fdl_default_stream,
    fdl_description, fdl_description_copy, fdl_description_of, fdl_description_release,
    fdl_imported_by_table, fdl_imported_from_c, fdl_is_ordered, fdl_means_host, fdl_order_for,
    FDL_ORDER_NOW, fdl_take_versioned, fdl_type_find, fdl_values_differ, kDLCPU,
)
from fastdl._core.tensor cimport Tensor, table_from_object
from fastdl._core import exchange
from fastdl._core import tensor as core
from fastdl._core.device import Device
from fastdl._core.dtype import DType

cdef extern from "Python.h":
    ctypedef struct PyMethodDef:
        const char *ml_name
        void *ml_meth "ml_meth"
        int ml_flags
        const char *ml_doc
    int METH_FASTCALL, METH_KEYWORDS
    object PyCFunction_NewEx(PyMethodDef *, PyObject *, object)
    object PyObject_Vectorcall(object, PyObject *const *, size_t, PyObject *)
    PyObject *PyDict_GetItemWithError(PyObject *, object) except? NULL
    PyObject *PyModule_GetDict(object) noexcept
    int Py_EnterRecursiveCall(const char *) noexcept  # not 0 with an exception
    void Py_LeaveRecursiveCall()

cdef enum:
    READ_ONLY = 1, LAYOUT, ALIGNMENT  # why a library needs a copy

# ---- the layers above -----------------------------------------------------------------------

cdef object policy = None  # the module fastdl/_policy.py: decisions of higher layers


def install(module):
    """Called once, on import."""
    global policy
    policy = module


# ---- libraries ------------------------------------------------------------------------------


cdef inline bint is_plain(int bits, int lanes) noexcept:
    """Whether limits.sizes can hold an element type."""
    return lanes == 1 and bits & (bits - 1) == 0


cdef enum:  # Bridge.strides, in the order of bridge.py
    ANY_, POSITIVE_, DENSE_, COMPACT_

cdef enum:  # Bridge.readonly, likewise
    KEPT_, IMMUTABLE_, COPIED_

ctypedef struct limits:  # the limits in the Bridge of a library on tensors that it accepts
    int strides, readonly
    int64_t alignment
    int32_t least_ndim, most_ndim
    bint host, device, every_dtype
    uint8_t sizes[256]  # `dtypes` of one lane by their codes: bits, or-ed


cdef limits limits_of(bridge) except *:
    from fastdl._bridges.bridge import DEVICE, HOST  # not needed by `import fastdl`
    cdef limits takes
    memset(&takes, 0, sizeof(takes))
    takes.strides, takes.readonly = bridge.strides, bridge.readonly
    takes.alignment = bridge.alignment
    takes.least_ndim, takes.most_ndim = bridge.ndims
    takes.host, takes.device = bridge.devices != DEVICE, bridge.devices != HOST
    takes.every_dtype = bridge.dtypes is None
    for dtype in map(DType, bridge.dtypes or ()):
        if is_plain(dtype.bits, dtype.lanes):
            takes.sizes[dtype.code] |= <uint8_t>dtype.bits
    return takes


@cython.final
cdef class Library:
    """The parts of a Bridge that calls read, and the library's own fast path."""

    cdef object bridge, make, read, reads, outdated, gradient
    cdef object importer  # importer(tensor) is make(tensor, like), if there is one function for it
    cdef limits takes
    cdef const void *started  # not NULL once `quick` was called
    cdef const fastdl_maker *maker       # a fast `make` for host memory, or NULL
    cdef const DLPackExchangeAPI *table  # a table for all memory that fastdl orders, or NULL

    def __init__(self, bridge):
        self.bridge, self.make, self.takes = bridge, bridge.make, limits_of(bridge)
        self.read, self.reads, self.gradient = bridge.read, bridge.reads, bridge.gradient

    cdef int start(self) except -1:
        """Determines the loaded version of a library, and its fast paths. The first of several
        threads to do so wins."""
        cdef limits takes
        if fastdl_atomic_load_(&self.started) is not NULL:
            return 0
        path = self.bridge.start()
        make, outdated, takes = self.bridge.make, self.bridge.outdated, limits_of(self.bridge)
        with cython.critical_section(self):  # another thread's path may be in use already
            if fastdl_atomic_load_(&self.started) is NULL:
                self.make, self.outdated, self.takes = make, outdated, takes
                self.use(path)
                fastdl_atomic_store_(&self.started, <const void *>self)
        return 0

    cdef int use(self, path) except -1:
        """Makes objects by `path`, the result of `quick`, where possible."""
        if PyCapsule_IsValid(path, "fastdl_maker"):
            self.maker = <const fastdl_maker *>PyCapsule_GetPointer(path, "fastdl_maker")
        elif PyCapsule_IsValid(path, "dlpack_exchange_api"):
            self.table = <const DLPackExchangeAPI *>PyCapsule_GetPointer(
                path, "dlpack_exchange_api")
        else:
            self.importer = path


cdef Library library_of(bridge):
    """The Library of a Bridge, stored in the Bridge unless that was made for one call (a library
    unknown to fastdl)."""
    if bridge.library is None and bridge.classes:
        vars(bridge).setdefault("library", Library(bridge))
    return bridge.library or Library(bridge)


# ---- what fits ------------------------------------------------------------------------------


cdef inline bint has_dtype(Library library, DLDataType dtype) noexcept:
    """Whether a library has an element type. False also for rare ones, which are then looked up by
    name."""
    return library.takes.every_dtype or (
        is_plain(dtype.bits, dtype.lanes)
        and library.takes.sizes[dtype.code] & dtype.bits != 0)


cdef inline bint has_place(Library library, const DLTensor *memory) noexcept:
    """Whether a library has tensors of that many dimensions on that device."""
    cdef bint host = memory.device.device_type == kDLCPU
    if not host:
        host = fastdl_find_device(<int32_t>memory.device.device_type).host
    return ((library.takes.host if host else library.takes.device)
            and library.takes.least_ndim <= memory.ndim <= library.takes.most_ndim)


cdef bint is_dense(const DLTensor *tensor) noexcept:
    """Whether a non-empty tensor is a permutation of a row-major one without gaps."""
    cdef uint64_t used = 0
    cdef int64_t step = 1
    cdef int32_t i = 0
    while i < tensor.ndim:
        if tensor.shape[i] > 1 and tensor.strides[i] == step and not used >> i & 1:
            used |= <uint64_t>1 << i
            step *= tensor.shape[i]
            i = 0
        else:
            i += 1
    for i in range(tensor.ndim):
        if tensor.shape[i] > 1 and not used >> i & 1:
            return False
    return True


cdef bint takes_strides(int strides, const DLTensor *tensor) noexcept:
    cdef int32_t i
    if strides == ANY_:
        return True
    if strides == POSITIVE_:
        for i in range(tensor.ndim):
            if tensor.strides[i] < 0 and tensor.shape[i] > 1:
                return fastdl_is_contiguous(tensor, c"C")  # only without elements
        return True
    return fastdl_is_contiguous(tensor, c"C") or (strides == DENSE_ and is_dense(tensor))


@cython.cdivision(True)  # nothing may raise
cdef int obstacle(
        Library library, const DLManagedTensorVersioned *managed, bint immutable) noexcept:
    """Why the library needs a copy of a tensor; 0: it does not. `immutable`: its elements never
    change."""
    cdef const DLTensor *memory = &managed.dl_tensor
    if (managed.flags & DLPACK_FLAG_BITMASK_READ_ONLY
            and library.takes.readonly != KEPT_
            and not (immutable and library.takes.readonly == IMMUTABLE_)
            and not fastdl_is_empty_(memory)):
        return READ_ONLY
    if not takes_strides(library.takes.strides, memory):
        return LAYOUT
    if (library.takes.alignment > 1
            and (<uintptr_t>memory.data + memory.byte_offset)
            % <uintptr_t>library.takes.alignment != 0):
        return ALIGNMENT
    return 0


#: In the order of the values above.
REASONS = None, "read-only", "layout", "alignment"


cdef inline bint fits(
        Library library, const DLManagedTensorVersioned *managed, bint immutable) noexcept:
    """Whether the library accepts a tensor without a copy. False also if a slower check must
    decide."""
    return (has_place(library, &managed.dl_tensor) and has_dtype(library, managed.dl_tensor.dtype)
            and obstacle(library, managed, immutable) == 0)


cdef void normalise_strides(fdl_description *description) noexcept:
    """Sets meaningless strides (of dimensions of size 1, and of tensors without elements) to those
    of a compact tensor: libraries check them all the same. Only for a description that is not
    shared yet."""
    cdef DLTensor *memory = &description.managed.dl_tensor
    cdef int64_t step = 1
    cdef int32_t i
    cdef bint needed = False
    for i in range(memory.ndim):
        needed |= memory.shape[i] < 2
    if not needed:
        return
    if fastdl_is_contiguous(memory, c"C"):
        fastdl_compact_strides(memory.ndim, memory.shape, memory.strides)
        return
    for i in reversed(range(memory.ndim)):
        if memory.shape[i] == 1:
            memory.strides[i] = step
        step = memory.strides[i] if memory.strides[i] >= 0 else -memory.strides[i]
        if fastdl_mul_(step, memory.shape[i], &step):
            step = 1


cdef void adapt(fdl_description *description, Library library) noexcept:
    """Rewrites the description of memory that fits into the form that the library expects. Only for
    a description that is not shared yet."""
    if library.takes.strides != ANY_:
        normalise_strides(description)
    if library.takes.readonly != KEPT_:
        # Read-only memory shared with the library is immutable, or has no elements, and the library
        # may request a legacy capsule, which has no flags.
        description.managed.flags &= ~<uint64_t>DLPACK_FLAG_BITMASK_READ_ONLY


# ---- reading --------------------------------------------------------------------------------


cdef Tensor import_quickly(object x, const fastdl_record *record):
    """from_dlpack(x); `record` is that of its type."""
    cdef PyObject *found
    cdef Tensor tensor
    if not record.facts & FASTDL_TYPE_PROTOCOL:
        return from_dlpack(x)
    found = fdl_try_fast_path(<PyObject *>x, record.facts)
    if found is NULL:
        return import_over_protocol(x)
    tensor = <Tensor>found
    Py_XDECREF(found)
    return tensor


cdef Tensor read_as(object x, Library own, const fastdl_record *record):
    """The tensor of an object of the library `own`, whose type has `record`; None if it has
    neither a reader nor DLPack, so that only the other interfaces of asarray remain."""
    cdef Tensor tensor
    if own.read is not None and own.reads is None:
        return own.read(x)
    if not fastdl_is_tensor_type(record):
        return None
    tensor = import_quickly(x, record)
    if own.reads is not None and tensor.dtype.name in own.reads:
        return own.read(x, tensor)
    return tensor


def read(x, own):
    """A Tensor on the memory of an object of the library of `own`, by its reader or DLPack; None if
    it has neither."""
    return read_as(x, library_of(own), record_of(type(x)))


# ---- converting -----------------------------------------------------------------------------


cdef Tensor fitted(Tensor tensor, Library library, x, copy, stream):
    """`tensor`, which was made from `x` and is not shared yet, or a copy, in a form that `library`
    accepts. Tensor and copy are ready on `stream`."""
    cdef DLTensor *memory = &tensor.description.managed.dl_tensor
    cdef int reason
    if library.outdated is not None or not has_place(library, memory) or not (
            has_dtype(library, memory.dtype) or tensor.dtype.name in (library.bridge.dtypes or ())):
        raise policy.refusals.refuse(x, tensor, library.bridge)
    reason = obstacle(library, &tensor.description.managed, tensor.description.block.immutable)
    if copy is not None:
        copies = library.bridge.copies
        if not isinstance(copies, bool):
            copies = copies(tensor)
        if copy is False:
            if reason != 0 or copies is not False:
                raise policy.refusals.forbid(x, tensor, library.bridge, REASONS[reason], copies)
        elif reason == 0 and copies is not True and tensor.description.managed.flags & (
                DLPACK_FLAG_BITMASK_IS_COPIED | DLPACK_FLAG_BITMASK_READ_ONLY
        ) != DLPACK_FLAG_BITMASK_IS_COPIED:
            reason = LAYOUT  # unless it is a copy already, and writable like any copy
    if reason != 0:
        if memory.device.device_type == kDLCPU:
            return copy_host(tensor)
        tensor = policy.complete.copy(tensor, x, stream)
        reason = obstacle(library, &tensor.description.managed, False)
        if reason != 0:
            raise policy.refusals.unfit(x, tensor, library.bridge, REASONS[reason])
    adapt(tensor.description, library)
    return tensor


cdef int raise_pending() except -1:
    """Raises the exception that a table set when it failed."""
    if PyErr_Occurred() is NULL:
        raise BufferError("the exchange table failed without setting an exception")
    return -1


cdef bint order(const DLPackExchangeAPI *table, Tensor tensor) except -1:
    """Makes the current stream of a table's library wait for the work on a tensor. False if fastdl
    does not order work on its device."""
    cdef DLDevice device = tensor.description.managed.dl_tensor.device
    cdef const fastdl_device_fact *fact
    cdef void *stream = NULL
    if device.device_type == kDLCPU:
        return True
    fact = fastdl_find_device(<int32_t>device.device_type)
    if not fdl_is_ordered(fact):
        return False
    if table.current_work_stream(device.device_type, device.device_id, &stream):
        raise_pending()
    fdl_order_for(tensor, <int64_t><uintptr_t>stream if stream is not NULL
                  else fdl_default_stream(fact.stream))
    return True


cdef object over_table(const DLPackExchangeAPI *table, DLManagedTensorVersioned *managed):
    """An object that `table` makes of a tensor, which is consumed."""
    cdef void *made = NULL
    # After a failure it is unknown whether the tensor was consumed, so it is leaked.
    if table.managed_tensor_to_py_object_no_sync(managed, &made) or made is NULL:
        raise_pending()
    result = <object>made
    Py_XDECREF(<PyObject *>made)
    if not fastdl_has_succeeded_():
        raise_pending()
    return result


def make(Tensor tensor not None, bridge, x, like, copy, stream):
    """An object of `bridge` on the memory of `tensor`, which is not shared yet and was made from
    `x`. Copies are made on `stream`, on which `tensor` is ready."""
    return deliver(tensor, library_of(bridge), x, like, copy, stream)


def fit(Tensor tensor not None, bridge, x, copy):
    """The first half of `make`: the tensor to pass to the library of `bridge`, on the memory of
    `tensor` or a copy. Raises as `make` does; the library need not be installed."""
    return fitted(tensor, library_of(bridge), x, copy, None)


cdef object deliver(Tensor tensor, Library library, x, like, copy, stream):
    cdef fdl_description *description
    if fastdl_atomic_load_(&library.started) is NULL:
        try:
            library.start()
        except Exception as error:
            raise policy.refusals.explain(error, x, tensor, library.bridge)
    tensor = fitted(tensor, library, x, copy, stream)
    try:
        if (library.maker is not NULL
                and tensor.description.managed.dl_tensor.device.device_type == kDLCPU):
            return library.maker.make(tensor)
        if library.table is not NULL and order(library.table, tensor):
            description = fdl_description_copy(tensor.description, 0)
            if description is NULL:
                raise MemoryError()
            return over_table(library.table, &description.managed)
        if library.importer is not None:
            return library.importer(tensor)
        return library.make(tensor, like)
    except Exception as error:
        raise policy.refusals.explain(error, x, tensor, library.bridge)


# ---- without a Tensor in between ------------------------------------------------------------

# These functions return None to fall back to `deliver`, which starts over.


cdef object start_over():
    """Drops the pending exception, if it is an Exception, and returns None."""
    if not fastdl_clear_if_(Exception):
        raise_pending()


cdef object from_table_to_table(object x, const fastdl_record *record, Library library):
    """An object on host data that the library accepts, if a table of fastdl's makes the
    description, so that it is valid."""
    cdef DLManagedTensorVersioned *managed = NULL
    cdef fdl_description *description
    if record.facts & (FASTDL_TYPE_NATIVE | FASTDL_TYPE_PROTOCOL) and type(x) is not Tensor:
        return None
    if record.api.managed_tensor_from_py_object_no_sync(<PyObject *>x, &managed):
        return start_over()
    description = <fdl_description *>managed
    if (managed.dl_tensor.device.device_type != kDLCPU
            or not fits(library, managed, description.block.immutable)):
        fdl_description_release(description, 1)
        return None
    adapt(description, library)
    try:
        return over_table(library.table, managed)
    except Exception as error:
        raise policy.refusals.explain(error, x, from_dlpack(x), library.bridge)


cdef object on_borrowed(object x, const fastdl_record *record, const fastdl_maker *maker):
    """An object on memory borrowed from a torch tensor. The object keeps the storage alive."""
    cdef fastdl_view view
    if record.lend is NULL or maker.make_on is NULL or not record.facts & FDL_TYPE_TRUSTED:
        return None
    keeper = fastdl_keeper_(<PyObject *>x, record.facts)  # may run Python code, so first
    view.flags, view.own_, view.dl.ndim = 0, NULL, -1
    # The lazy bits are checked last: on failure, borrowing for C would fall back to `__dlpack__`.
    if (record.lend(<PyObject *>x, &view.dl)
            or fastdl_complete_view_(
                <PyObject *>x, &view, record.facts & ~<uint32_t>FASTDL_TYPE_ASK_BITS)
            or fdl_values_differ(<PyObject *>x, &view.dl, record.facts)):
        return start_over()
    return maker.make_on(&view.dl, keeper)


# ---- the entry ------------------------------------------------------------------------------

cdef object from_dlpack = exchange.from_dlpack
cdef object import_over_protocol = exchange.import_over_protocol
cdef object copy_host = core.copy_host

# The libraries of classes, modules and exchange tables, by address: open addressing, filled once.
# References to them are in `kept`. The fields of a slot are written from last to first, since other
# threads may read without the GIL.
cdef enum:
    SLOTS = 1024, PROBES = 16

ctypedef struct slot:
    const void *key
    const void *library

cdef slot slots[SLOTS]
cdef list kept = []


@cython.cdivision(True)
cdef inline slot *slot_of(const void *key) noexcept:
    """The slot of `key`, or a free one for it; NULL if there is none."""
    # Multiply by the golden ratio, so that all bits affect the top ten, which select one of 1024
    # slots.
    cdef size_t place = <size_t>(<uint64_t><uintptr_t>key * <uint64_t>0x9E3779B97F4A7C15 >> 54)
    cdef const void *found
    cdef int i
    for i in range(PROBES):
        found = fastdl_atomic_load_(&slots[(place + i) % SLOTS].key)
        if found is key or found is NULL:
            return &slots[(place + i) % SLOTS]
    return NULL


cdef inline Library cached_library(const void *key):
    cdef slot *found = slot_of(key)
    if found is NULL or fastdl_atomic_load_(&found.key) is NULL:
        return None
    return <Library>found.library


cdef int remember_for(const void *key, owner, Library library) except -1:
    """Maps `key`, an address that stays valid as long as `owner` lives, to `library`."""
    cdef slot *found
    with cython.critical_section(kept):
        found = slot_of(key)
        if found is not NULL and found.key is NULL:
            kept.append((owner, library))
            found.library = <PyObject *>library
            fastdl_atomic_store_(&found.key, key)
    return 0


def remember(key, bridge):
    """Caches `bridge` for a class or a module of its library, or for a function `from_dlpack`.
    Keeps `key` alive."""
    remember_for(<PyObject *>key, key, library_of(bridge))


def cached(key):
    """The bridge that is cached for a class or a module, or None."""
    cdef Library found = cached_library(<PyObject *>key)
    return None if found is None else found.bridge


cdef inline Library cached_for_module(module):
    """The Library that is cached for a module, or for its current `from_dlpack`, which may be
    another library's."""
    cdef Library found = cached_library(<PyObject *>module)
    cdef PyObject *importer
    if found is None:
        importer = PyDict_GetItemWithError(PyModule_GetDict(module), "from_dlpack")
        found = None if importer is NULL else cached_library(importer)
    return found


cdef inline Library cached_target(like):
    """The Library that is cached for a class, a module or an example; None if there is none."""
    if PyType_Check(like):
        return cached_library(<PyObject *>like)
    if PyModule_Check(like):
        return cached_for_module(like)
    return cached_library((<PyObject *>like).ob_type)


cdef object converted(x, like, device):
    """convert(x, like, device=device), where the device is the host or None."""
    cdef Library library = cached_target(like)
    cdef Library own
    cdef const fastdl_record *record
    cdef object result = None
    cdef Tensor tensor
    example = like
    if not PyType_Check(like) and not PyModule_Check(like):
        like = type(like)
    own = cached_library((<PyObject *>x).ob_type)
    if library is None or own is None or (
            device is not None and (library.takes.device if own is library
                                    else not library.takes.host)):
        return policy.complete.complete(x, example, device, None, None)
    if own is library:
        return x
    if own.gradient is not None and PyObject_GetAttr(x, own.gradient):
        return policy.complete.complete(x, example, device, None, None)  # refuses it
    record = fdl_type_find((<PyObject *>x).ob_type)
    if record is NULL:
        record = record_of(type(x))
    elif own.read is None:
        if fastdl_atomic_load_(&library.started) is NULL:
            pass  # another thread may be writing the two
        elif library.table is not NULL:
            result = from_table_to_table(x, record, library)
        elif library.maker is not NULL and library.takes.every_dtype:
            result = on_borrowed(x, record, library.maker)
        if result is not None:
            return result
    try:
        tensor = read_as(x, own, record)
    except Exception as error:
        if own.bridge.read_otherwise is None:
            raise policy.refusals.explain(error, x, None, library.bridge)
        tensor = None
    if tensor is None or (
            device is not None
            and tensor.description.managed.dl_tensor.device.device_type != kDLCPU):
        return policy.complete.complete(x, example, device, None, None)
    return deliver(tensor, library, x, like, None, None)


def convert(x, like, /, *, device=None, copy=None, stream=None):
    """Handles the calls that the compiled entry does not: keywords, and wrong arguments."""
    if copy is None and stream is None and (device is None or fdl_means_host(device)):
        return converted(x, like, device)
    return policy.complete.complete(x, like, device, copy, stream)


cdef object complete = convert


cdef object entry(
        PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *names):
    """fastdl.convert, as CPython calls it."""
    if count == 2 and names is NULL:
        return converted(<object>arguments[0], <object>arguments[1], None)
    if count != 2:
        raise policy.refusals.arguments(count, <object>names if names is not NULL else ())
    return PyObject_Vectorcall(complete, arguments, count, names)


cdef bytes doc = b"""convert(x, like, /, *, device=None, copy=None, stream=None)
--

An object of another library on the memory of `x`, or on a copy where that library needs one.

x: anything that fastdl.asarray accepts.
like: the target: a type (numpy.ndarray, torch.Tensor, jax.Array, ...), the module of a library, the
    name of one or the other ("torch", "jax.Array"), whose library is imported, or an example. It
    selects the library; the element type is that of `x`.
device: where the result must be; None: where `x` is. Data that is elsewhere is copied there: by the
    library of `x`, else by the library of the result, else, to the host, by fastdl.
copy: None copies if it must, or if the library could not use the memory safely. False raises
    CopyRequiredError then. True always copies.
stream: CUDA and ROCm only: the stream of the result's device on which it will be used. `device` and
    `stream` have the meaning and the forms of fastdl.from_dlpack.

`x` itself is returned if it already is such an object, is on `device`, and `copy` is not True. The
result keeps the memory alive. fastdl knows what each library accepts (see the table in
docs/interop.md), and copies where it must: read-only data for a library whose arrays are always
writable, negative strides for one that would abort. So the result is right for every layout, and
read-only memory cannot be written through it.

TypeError: `x` is not a tensor, or `like` not a library. ValueError: the name is unknown to fastdl,
or the device has no such stream. BufferError: the library has no such element type, number of
dimensions or device, the device cannot be reached, the library refused (its exception is the
cause), or `x` requires grad, which would be lost. CopyRequiredError: see `copy`. MemoryError: no
memory for a copy. ImportError: the named library is not installed.

>>> import fastdl, numpy as np
>>> fastdl.convert(bytearray(b"abc"), np.ndarray)
array([97, 98, 99], dtype=uint8)
"""
cdef PyMethodDef definition
definition.ml_name, definition.ml_doc = "convert", doc
definition.ml_meth, definition.ml_flags = <void *>entry, METH_FASTCALL | METH_KEYWORDS
convert = PyCFunction_NewEx(&definition, NULL, "fastdl")


# ---- trees ----------------------------------------------------------------------------------

cdef enum:
    FEW = 8

cdef struct step:  # from a container to what it has at `key` or, if that is NULL, at `index`
    const step *above
    PyObject *container
    PyObject *key
    Py_ssize_t index

cdef enum:
    MOST_NESTED = 1000  # with Python's own limit, the stack can overflow in CPython 3.13

cdef struct walk:  # a call of convert_tree
    PyObject *like
    PyObject *device
    PyObject *copy
    bint is_simple  # whether `converted` accepts the keywords
    uint32_t visited
    int count      # of the first tensors that were converted, and the results: references
    PyObject *tensors[FEW]
    PyObject *results[FEW]
    PyObject *others  # the other ones: a dict of results by id, or NULL; a reference
    PyObject *kept    # a list of these tensors, so that the ids are not reused; likewise


cdef object already_converted(object x, const walk *w):
    """The result for a tensor that has occurred before; otherwise None."""
    cdef int i
    for i in range(w.count):
        if w.tensors[i] is <PyObject *>x:
            return <object>w.results[i]
    return None if w.others is NULL else (<dict>w.others).get(id(x))


cdef int note_result(object x, object result, walk *w) except -1:
    if w.count < FEW:
        Py_INCREF(x)
        Py_INCREF(result)
        w.tensors[w.count], w.results[w.count] = <PyObject *>x, <PyObject *>result
        w.count += 1
        return 0
    if w.others is NULL:
        others, kept = {}, []
        Py_INCREF(others)
        Py_INCREF(kept)
        w.others, w.kept = <PyObject *>others, <PyObject *>kept
    (<list>w.kept).append(x)
    (<dict>w.others)[id(x)] = result
    return 0


cdef list steps_to(const step *last):
    """The steps from the root, for messages."""
    steps = []
    while last is not NULL:
        steps.append((<object>last.container,
                      <object>last.key if last.key is not NULL else last.index))
        last = last.above
    return steps[::-1]


cdef object leaf(object x, walk *w, const step *last):
    """The result for a tensor."""
    cdef object result = already_converted(x, w)
    if result is not None:
        return result
    try:
        if w.is_simple:
            result = converted(x, <object>w.like, <object>w.device)
        else:
            result = policy.complete.complete(
                x, <object>w.like, <object>w.device, <object>w.copy, None)
    except Exception as error:
        raise policy.trees.placed(error, steps_to(last))
    if result is not x:
        note_result(x, result, w)
    return result


cdef object branch(object x, walk *w, const step *last):
    """The result for a container. Its values are copied first, since converting may run any
    code."""
    cdef step here
    cdef const step *outer = last
    cdef dict pairs
    cdef list values
    cdef bint changed = False
    cdef PyObject *key
    cdef PyObject *found
    cdef Py_ssize_t i, position = 0, depth = 0
    here.above, here.container, here.key, here.index = last, <PyObject *>x, NULL, 0
    while outer is not NULL:
        if outer.container is here.container:
            raise policy.trees.cycle(x, steps_to(last))
        outer = outer.above
        depth += 1
    if depth >= MOST_NESTED:
        raise RecursionError(f"expected at most {MOST_NESTED:,} nested containers, got more")
    if Py_EnterRecursiveCall(b" in fastdl.convert_tree"):
        raise_pending()
    try:
        if type(x) is dict or isinstance(x, dict):
            pairs = PyDict_Copy(x) if type(x) is dict else dict(x.items())
            while PyDict_Next(pairs, &position, &key, &found):
                here.key = key
                value = <object>found
                result = node(value, w, &here)
                if result is not value:
                    PyDict_SetItem(pairs, <object>key, result)
                    changed = True
            if type(x) is dict:
                return pairs
            return policy.trees.rebuilt(x, pairs, steps_to(last)) if changed else x
        values = list(x)
        for i in range(len(values)):
            here.index = i
            value = values[i]
            result = node(value, w, &here)
            if result is not value:
                values[i] = result
                changed = True
        if type(x) is list:
            return values
        if type(x) is tuple:
            return tuple(values)
        return policy.trees.rebuilt(x, values, steps_to(last)) if changed else x
    finally:
        Py_LeaveRecursiveCall()


cdef object node(object x, walk *w, const step *last):
    """The result for any object."""
    w.visited += 1
    if w.visited % 1024 == 0:
        PyErr_CheckSignals()
    if cached_library((<PyObject *>x).ob_type) is not None:
        return leaf(x, w, last)
    if type(x) is dict or type(x) is list or type(x) is tuple:
        return branch(x, w, last)
    if x is None or type(x) is str or type(x) is int or type(x) is float or type(x) is bool:
        return x
    if policy.trees.is_tensor(x):
        return leaf(x, w, last)
    return branch(x, w, last) if policy.trees.is_container(x) else x


def convert_tree(tree, like, *, device=None, copy=None):
    """A tree of containers with each tensor in it converted, as by fastdl.convert.

    tree: nested dicts, lists, tuples, named tuples (also those made in C, such as torch.max's),
        and subclasses of dict that can be made of a list of pairs (further attributes are lost). A
        tensor is an object whose type has `__dlpack__`, an exchange table or
        `__cuda_array_interface__`, or is one that fastdl.convert makes, such as pandas.Series.
        Everything else stays unchanged: None, strings, bytes, numbers, NumPy's scalars, data
        frames, UserDict and other containers.
    like, device, copy: as in fastdl.convert, for each tensor.

    The result has new containers, of the same classes; named tuples and subclasses of dict without
    tensors stay unchanged. A tensor that occurs more than once is converted once, and the result
    occurs as often; a container is converted as often as it occurs. `tree` is not changed. For
    other containers, apply fastdl.convert to each leaf with jax.tree.map or
    torch.utils._pytree.tree_map.

    The errors are those of fastdl.convert, with the place of the tensor: `tree["image"][0]: ...`.
    ValueError: a container contains itself. TypeError: a subclass of dict cannot be made of pairs.
    RecursionError: containers are nested more than 1,000 deep, or deeper than Python's limit.
    After an error, all results are dropped. Costs little more than a call of fastdl.convert for
    each tensor.

    >>> import fastdl, numpy as np
    >>> fastdl.convert_tree({"image": fastdl.empty(0), "label": ["cat", None]}, np.ndarray)
    {'image': array([], dtype=float32), 'label': ['cat', None]}
    """
    cdef walk w
    cdef int i
    like = policy.trees.target(like) if cached_target(like) is None else like
    w.like, w.device, w.copy = <PyObject *>like, <PyObject *>device, <PyObject *>copy
    w.is_simple = copy is None and (device is None or fdl_means_host(device))
    w.visited, w.count, w.others, w.kept = 0, 0, NULL, NULL
    if not w.is_simple:
        policy.trees.check(device, copy)
    try:
        return node(tree, &w, NULL)
    finally:
        for i in range(w.count):
            Py_DECREF(<object>w.tensors[i])
            Py_DECREF(<object>w.results[i])
        Py_XDECREF(w.others)
        Py_XDECREF(w.kept)


# ---- for C: fastdl_wrap ---------------------------------------------------------------------


cdef Library library_of_results(PyTypeObject *like, const fastdl_record *record):
    """The library that makes objects of a type for C code; None: a fastdl.Tensor. A table that the
    type publishes takes precedence over the library of its bases."""
    cdef bint native = record.facts & FASTDL_TYPE_NATIVE != 0
    cdef Library library = cached_library(record.api if native else <const void *>like)
    if library is None:
        bridge = policy.targets.bridge_for(<object>like)
        if bridge is not None:
            library = library_of(bridge)
            if native:
                library.start()
        if native:
            if library is None or library.table is not record.api:
                library = library_of(policy.targets.unknown_library(<object>like))
                library.start()
            remember_for(record.api, None, library)
    return library


cdef bint fits_its_table(Library library, const DLManagedTensorVersioned *managed) noexcept:
    """Whether a table accepts a tensor that is unchecked and must not be rewritten."""
    cdef const DLTensor *memory = &managed.dl_tensor
    cdef int32_t i
    if (fastdl_atomic_load_(&library.started) is NULL  # another thread may be writing the table
            or library.table is NULL or library.takes.strides > POSITIVE_
            or library.takes.readonly == IMMUTABLE_
            or managed.version.major != FASTDL_DLPACK_MAJOR
            or (memory.ndim > 0 and memory.strides is NULL) or not fits(library, managed, False)):
        return False
    for i in range(memory.ndim if library.takes.strides == POSITIVE_ else 0):
        if memory.strides[i] < 0:  # meaningless for size 1, but the library rejects it
            return False
    return True


cdef int wrap(DLManagedTensorVersioned *managed, PyTypeObject *like, PyObject **out) except -1:
    """fastdl_wrap for a type whose table is not fastdl's own; its objects are made as by
    convert."""
    cdef const fastdl_record *record
    cdef Library library
    cdef bint own = fdl_description_of(managed) is not NULL  # fastdl's memory, or known to it
    cdef bint ordered = own and managed.dl_tensor.device.device_type != kDLCPU
    cdef Tensor tensor
    try:
        record = record_of(<object>like)
        library = library_of_results(like, record)
    except:
        fastdl_discard_(managed, NULL)
        raise
    if library is not None and not ordered and fits_its_table(library, managed):
        result = over_table(library.table, managed)
    else:
        tensor = fdl_take_versioned(managed, NULL)
        if own or not record.facts & FASTDL_TYPE_NATIVE:
            fdl_imported_from_c(tensor.description)
        else:
            fdl_imported_by_table(tensor.description, record.api, False, FDL_ORDER_NOW)
        result = tensor if library is None else deliver(
            tensor, library, tensor, <object>like, None, None)
    Py_INCREF(result)
    out[0] = <PyObject *>result
    return 0


WRAPPER = PyCapsule_New(<void *>wrap, "fastdl_wrapper", NULL)


cdef int allocate(const DLTensor *prototype, PyTypeObject *like,
                  DLManagedTensorVersioned **out) except -1:
    """fastdl_empty on a device, for a type without an exchange table: by its library, ready on the
    thread's work stream."""
    cdef Library library = library_of_results(like, record_of(<object>like))
    cdef DLDataType dtype = prototype.dtype
    shape = tuple([prototype.shape[i] for i in range(prototype.ndim)])
    device = Device((<int>prototype.device.device_type, prototype.device.device_id))
    wanted = DType((dtype.code, dtype.bits, dtype.lanes))
    tensor = None
    if library is not None and library.bridge.empty is not None:
        tensor = from_dlpack(library.bridge.empty(shape, wanted, device))
    if tensor is None or (tensor.device, tensor.dtype, tensor.shape) != (device, wanted, shape):
        raise policy.refusals.no_memory(<object>like, device)
    return table_from_object(<void *>tensor, out)


ALLOCATOR = PyCapsule_New(<void *>allocate, "fastdl_allocator", NULL)
