# SPDX-License-Identifier: Apache-2.0
"""Exchange tables: finding the table of a type, supplying one if there is none, and using them.

Every tensor type has an exchange table. This module finds it (interface.h caches it), acquires
tensors through it, and defines the general bridge: the table of each type that has `__dlpack__` and
no table of its own.
"""
import sys

from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_XDECREF
from cpython.pycapsule cimport (
    PyCapsule_CheckExact, PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New,
)
from libc.stdint cimport int32_t, uint32_t, uintptr_t

from fastdl._core.native cimport (
    DLDevice, DLManagedTensorVersioned, DLPackExchangeAPI, DLPackManagedTensorFromPyObjectNoSync,
    DLTensor, FASTDL_ABI_MAJOR, FASTDL_ABI_MINOR, fastdl_borrower, fastdl_check_exporter_,
    fastdl_check_values_, fastdl_discover, FASTDL_DLPACK_MAJOR, FASTDL_DLPACK_MINOR,
    fastdl_fill_record_, fastdl_find_device, fastdl_is_as_announced_, fastdl_is_tensor_type,
    fastdl_keyword_fact, fastdl_keywords, fastdl_mro_, fastdl_of_type_, fastdl_raise_no_tensor,
    fastdl_record, fastdl_refused_keyword, fastdl_request_capsule_, fastdl_runtime, FASTDL_RUNTIME,
    FASTDL_TYPE_CHECKED, FASTDL_TYPE_HAS_DLPACK, FASTDL_TYPE_NATIVE,
    FASTDL_TYPE_PROTOCOL, FASTDL_TYPE_READ_ONLY, FASTDL_TYPE_UNORDERED, fastdl_usable_table,
    fdl_acquire, fdl_announced_device, fdl_copy_compact, fdl_keep_memory, fdl_make_home,
    fdl_means_host, fdl_order, fdl_refusal, fdl_refuse_object, fdl_special, FDL_TAG_OFFSET,
    fdl_tensor_borrow, fdl_try_fast_path, FDL_TYPE_BUFFER, FDL_TYPE_EXPORT_DOES_NOT_SYNC,
    fdl_type_find, FDL_TYPE_IMMUTABLE, FDL_TYPE_LEGACY, FDL_TYPE_REFUSES,
    FDL_TYPE_STREAM_NONE_SYNCS, FDL_TYPE_TRUSTED, fdl_types, fdl_where,
)
from fastdl._core.tensor cimport Tensor, table_from_object, take_capsule, tensor_table
from fastdl._core import errors
from fastdl._core.device import Device, normalised
from fastdl._core.errors import name_of, type_name
from fastdl._core.tensor import describe, make_from_dlpack


cdef extern from "Python.h":
    void PyType_Modified(PyTypeObject *) noexcept


# ---- the layers above -----------------------------------------------------------------------

cdef object policy = None  # the module fastdl/_policy.py: decisions of higher layers

ctypedef int (*emptier)(const DLTensor *, PyTypeObject *, DLManagedTensorVersioned **) noexcept


def install(module):
    """Called once, on import."""
    global policy
    fdl_make_home()
    policy = module
    for_c.wrap = <int (*)(DLManagedTensorVersioned *, PyTypeObject *, PyObject **) noexcept>(
        PyCapsule_GetPointer(policy.convert.WRAPPER, "fastdl_wrapper"))
    for_c.empty = <emptier>PyCapsule_GetPointer(policy.convert.ALLOCATOR, "fastdl_allocator")


# ---- special methods ------------------------------------------------------------------------


def special(instance, str name):
    """The special method `name` of an object, bound: found on the type, then on the instance. None
    if there is none, or if it is None (opted out)."""
    cdef PyObject *method = fdl_special(<PyObject *>instance, sys.intern(name))
    if method is NULL:
        return None
    found = <object>method
    Py_XDECREF(method)
    return found


# ---- tables ---------------------------------------------------------------------------------

cdef const DLPackExchangeAPI *table_in(object candidate) except? NULL:
    """The usable table in a capsule; NULL for any other object."""
    if not PyCapsule_IsValid(candidate, "dlpack_exchange_api"):
        return NULL
    return fastdl_usable_table(<const DLPackExchangeAPI *>PyCapsule_GetPointer(
        candidate, "dlpack_exchange_api"))


cdef bint exports(cls) except -1:
    """Whether a class defines `__dlpack__` itself."""
    return "__dlpack__" in fastdl_of_type_(<PyTypeObject *>cls, "__dict__")


cdef bint overrides(cls, provider) except -1:
    """Whether a class before `provider` in the MRO of `cls` defines `__dlpack__`."""
    for base in fastdl_mro_(<PyTypeObject *>cls):
        if base is provider:
            return False
        if exports(base):
            return True
    return True


cdef dict registered = {}  # id of a type -> (type, capsule): a metaclass may forbid hashing


cdef const DLPackExchangeAPI *registered_table(cls) except? NULL:
    for base in fastdl_mro_(<PyTypeObject *>cls):
        if id(base) in registered:
            return table_in(registered[id(base)][1])
        if exports(base):
            break
    return NULL


cdef object add_facts(cls, fastdl_record *record):
    """Adds the facts that a library's file states about a class. Returns the table of the file."""
    cdef uint32_t facts
    base, facts, file = policy.lookup.stated(cls)
    if base is not cls:  # a subclass may behave differently
        facts &= ~<uint32_t>FDL_TYPE_BUFFER
        if facts & FDL_TYPE_TRUSTED and record_of(base).api is not record.api:
            facts &= ~<uint32_t>FDL_TYPE_TRUSTED
    if facts & FDL_TYPE_TRUSTED and record.facts & FASTDL_TYPE_NATIVE:
        facts |= FASTDL_TYPE_CHECKED
    if facts & FDL_TYPE_REFUSES:
        refuse = file.refuse
        facts |= fdl_refusal(<PyObject *>refuse)
    record.facts |= facts
    return policy.lookup.table_of(file)


cdef int fill_record(PyTypeObject *type, fastdl_record *record) except -1:
    """Fills in the record of a type."""
    cdef const DLPackExchangeAPI *table = NULL
    cls = <object>type
    fastdl_fill_record_(type, record)
    bridge = None
    if record.facts & (FASTDL_TYPE_HAS_DLPACK | FASTDL_TYPE_NATIVE):
        bridge = add_facts(cls, record)
    if registered:
        table = registered_table(cls)
    if table is not NULL:
        record.api = table
        record.lend = table.dltensor_from_py_object_no_sync
        record.facts |= FASTDL_TYPE_NATIVE
        record.facts &= ~<uint32_t>(FASTDL_TYPE_CHECKED | FDL_TYPE_TRUSTED)
    if record.api is tensor_table() and cls is Tensor:
        record.lend = NULL
        record.borrow = fdl_tensor_borrow
    elif record.api is not NULL and record.api is not &general_table:
        pass
    elif bridge is not None and not overrides(cls, bridge.type):
        record.api = table_in(bridge.table)
        record.borrow = <fastdl_borrower>PyCapsule_GetPointer(bridge.borrow, "fastdl_borrower")
    else:  # no table, or the general bridge itself, from exchange_api
        record.facts |= FASTDL_TYPE_PROTOCOL
        record.facts &= ~<uint32_t>FASTDL_TYPE_NATIVE
        record.api = &general_table
        record.lend = NULL
    return 0


cdef const fastdl_record *discover(PyTypeObject *type) except NULL:
    """The record of a type, filled in and cached: the `describe` of the runtime."""
    return fastdl_discover(&fdl_types, type, fill_record)


cdef const fastdl_record *record_of(cls) except NULL:
    """The record of `cls`, made now if there is none."""
    cdef const fastdl_record *record = fdl_type_find(<PyTypeObject *>cls)
    return record if record is not NULL else discover(<PyTypeObject *>cls)


def facts_of(cls):
    """The TYPE_* bits of a type."""
    return record_of(cls).facts


def refused_by(cls):
    """The keywords that a type's `__dlpack__` does not accept, according to its signature, as bits
    of KEYWORDS; 0 if unknown."""
    return record_of(cls).refused


def producer(x):
    """The `__dlpack__` of an object, to be called; None if it has none. BufferError if it must not
    be called. All calls go through here, except those of acquire_host_data and of
    fdl_try_fast_path, which make the same checks."""
    method = special(x, "__dlpack__")
    if method is not None:
        facts = record_of(type(x)).facts
        fdl_refuse_object(<PyObject *>x, facts)
        fastdl_check_exporter_(<PyObject *>x, facts)
    return method


# ---- acquiring ------------------------------------------------------------------------------


# For the policy in Python.
MAX_VERSION = (FASTDL_DLPACK_MAJOR, FASTDL_DLPACK_MINOR)
TYPE_NATIVE = FASTDL_TYPE_NATIVE
TYPE_PROTOCOL = FASTDL_TYPE_PROTOCOL
TYPE_UNORDERED = FASTDL_TYPE_UNORDERED

# Facts that a library's file states about a type: see interface.h.
TYPE_READ_ONLY = FASTDL_TYPE_READ_ONLY
TYPE_TRUSTED = FDL_TYPE_TRUSTED
TYPE_IMMUTABLE = FDL_TYPE_IMMUTABLE | FASTDL_TYPE_READ_ONLY
TYPE_BUFFER = FDL_TYPE_BUFFER
TYPE_EXPORT_DOES_NOT_SYNC = FDL_TYPE_EXPORT_DOES_NOT_SYNC
TYPE_LEGACY = FDL_TYPE_LEGACY
TYPE_STREAM_NONE_SYNCS = FDL_TYPE_STREAM_NONE_SYNCS
TYPE_REFUSES = FDL_TYPE_REFUSES


cdef dict read_keywords():
    cdef const fastdl_keyword_fact *row = fastdl_keywords()
    facts = {}
    while row.name is not NULL:
        facts[row.name.decode()] = row.keyword
        row += 1
    return facts


#: The keywords of `__dlpack__`, each with its bit, in the order in which they are dropped.
KEYWORDS = read_keywords()


def refusal(error, keywords, int frames):
    """The bit of the keyword to drop after a call with `keywords` raised `error`, a TypeError; 0 if
    the error is not about keywords. The first `frames` frames of its traceback belong to the
    callers."""
    cdef uint32_t bits = 0
    for name in keywords:
        bits |= <uint32_t>KEYWORDS[name]
    traceback = error.__traceback__
    while traceback is not None and frames > 0:
        traceback = traceback.tb_next
        frames -= 1
    try:
        message = str(error).encode()
    except Exception:  # its __str__ fails
        return 0
    return fastdl_refused_keyword(message, traceback is not None, bits)


cdef Tensor try_fast_path(object x, const fastdl_record *record):
    """The tensor of host data by the fast path of its type; None if that does not apply."""
    cdef Tensor tensor
    cdef PyObject *found = fdl_try_fast_path(<PyObject *>x, record.facts)
    if found is NULL:
        return None
    tensor = <Tensor>found
    Py_XDECREF(found)
    return tensor


def explained(x, error):
    """The exception to raise in place of `error`, the failure of `__dlpack__` of `x`: a more
    specific one from the library's file, if there is one."""
    try:
        found = policy.lookup.stated(type(x))[2].explain(x)
    except Exception:  # no such function, or it does not expect such an object
        return error
    if found is None:
        return error
    found.__cause__ = error
    return found


cdef Tensor acquire_host_data(object x, const fastdl_record *record, int32_t *device):
    """`host_data`, with the exceptions of the file on the library of `x`."""
    try:
        return host_data(x, record, device)
    except Exception as error:
        raise explained(x, error)


cdef Tensor host_data(object x, const fastdl_record *record, int32_t *device):
    """The tensor of `x` through `__dlpack__`; None if its data is not in host memory, or if it has
    no such method. `device` receives the result of `__dlpack_device__`; type 0: not called."""
    cdef uint32_t facts = record.facts
    cdef Tensor tensor
    cdef PyObject *found
    fdl_refuse_object(<PyObject *>x, facts)
    if fastdl_request_capsule_(<PyObject *>x, record, True, device, &found) == 0:
        return None
    capsule = <object>found
    Py_XDECREF(found)
    try:
        tensor = take_capsule(capsule, facts, x, False)
    finally:
        capsule = None  # while no exception is pending, which its destructor may clear
    check_delivery(x, device[0], device[1], tensor)
    fastdl_check_values_(<PyObject *>x, &tensor.description.managed.dl_tensor, facts)
    fdl_keep_memory(tensor.description.block, <PyObject *>x, facts)
    return tensor


def acquire(x, *, int order=1):
    """The tensor of `x` through the exchange table of its type, on its own device, without a copy.

    None if the table refused. `order`: device memory is ordered for the work stream (1), by
    device.ready_for, which must follow (0), or by the caller (-1).
    """
    return fdl_acquire(<PyObject *>x, record_of(type(x)), order)


def where(x):
    """The Device of `x`, whose type has an exchange table, without importing anything; None if
    neither its table nor `__dlpack_device__` reports it."""
    cdef DLDevice device
    if fdl_where(<PyObject *>x, record_of(type(x)), &device) == 0:
        return None
    return normalised(<int32_t>device.device_type, device.device_id)


def announced_device(x):
    """The result of `x.__dlpack_device__()`, as a Device: ids may be None, types may be enums."""
    cdef DLDevice device
    fdl_announced_device(<PyObject *>x, &device)
    return normalised(<int32_t>device.device_type, device.device_id)


cpdef int check_delivery(x, int32_t type, int32_t id, Tensor tensor) except -1:
    """Checks that the stream chosen for a device, (type, id), fits the delivered tensor, whose
    device counts: torch announces pinned memory as such, and delivers it as plain host memory."""
    cdef int32_t[2] announced = [type, id]
    if fastdl_is_as_announced_(announced, tensor.description.managed.dl_tensor.device):
        return 0
    raise errors.refusal(
        BufferError,
        f"{type_name(x)!r} announced data on {normalised(type, id)} and delivered "
        f"{describe(tensor)}, where work is ordered differently. Its producer is at fault")


cdef object import_object(object x):
    """from_dlpack(x), except for capsules."""
    cdef const fastdl_record *record = record_of(type(x))
    cdef Tensor tensor
    if record.facts & FASTDL_TYPE_PROTOCOL:
        tensor = try_fast_path(x, record)
    else:
        tensor = fdl_acquire(<PyObject *>x, record, 1)
    return tensor if tensor is not None else import_over_protocol(x)


cdef Tensor try_on_host(object x):
    """from_dlpack(x, device="cpu") of host data that has only `__dlpack__`; None for any other."""
    cdef const fastdl_record *record = record_of(type(x))
    cdef Tensor tensor
    cdef int32_t device[2]
    if not (record.facts & FASTDL_TYPE_PROTOCOL and record.facts & FASTDL_TYPE_HAS_DLPACK):
        return None
    tensor = try_fast_path(x, record)
    if tensor is None:
        tensor = acquire_host_data(x, record, device)
    if tensor is None or fastdl_find_device(
            tensor.description.managed.dl_tensor.device.device_type).host:
        return tensor
    return policy.consumer.place(tensor, Device("cpu"), None, None)  # managed memory


def from_dlpack(x, /, *, device=None, copy=None, stream=None):
    """Handles the calls that the compiled entry does not: unknown types, arguments, capsules."""
    if copy is None and stream is None:
        if device is None:
            if PyCapsule_CheckExact(x):
                return take_capsule(x, 0, None, True)
            return import_object(x)
        if fdl_means_host(device) and not PyCapsule_CheckExact(x):
            tensor = try_on_host(x)
            if tensor is not None:
                return tensor
    return policy.consumer.from_dlpack(x, device=device, copy=copy, stream=stream)


def import_over_protocol(x):
    """from_dlpack of an object that its native table, or the fast path of its type, refused."""
    cdef const fastdl_record *record = record_of(type(x))
    cdef Tensor tensor
    cdef int32_t device[2]
    if not (record.facts & FASTDL_TYPE_PROTOCOL and record.facts & FASTDL_TYPE_HAS_DLPACK):
        return policy.consumer.acquire_over_protocol(x)
    tensor = acquire_host_data(x, record, device)
    if tensor is not None:
        return tensor
    source = normalised(device[0], device[1]) if device[0] != 0 else None
    return policy.consumer.acquire_over_protocol(x, source)


cdef object complete = from_dlpack
from_dlpack = make_from_dlpack(b"""from_dlpack(x, /, *, device=None, copy=None, stream=None)
--

A fastdl.Tensor on the memory of any DLPack producer or capsule.

x: an object with `__dlpack__` (any of its three generations) or with an exchange table, or a raw
    capsule "dltensor" or "dltensor_versioned", which is consumed.
device: where the result must be, in any form that fastdl.Device accepts: "cpu", "cuda:0", a
    torch.device, ...; None: where x is. The library of x moves the data; if it does not, fastdl
    copies from CUDA and ROCm to the host, and raises BufferError for any other move.
copy: True always copies, False never does (CopyRequiredError), None copies if it must. On a device
    the library of x must make the copy (BufferError if it does not).
stream: CUDA and ROCm only: the stream of the result's device on which it will be used, as an
    integer, an object with `__cuda_stream__`, or a stream of torch, CuPy or Numba. None: the
    thread's work stream, which is the default stream unless `use_stream` changed it. -1: the caller
    orders all work. Not allowed with a capsule.

The result keeps the memory alive. It is read-only if the producer marks it so, or if x is of a type
that does not write to its values (jax.Array, mlx.core.array, TensorFlow's EagerTensor,
pyarrow.Array). A torch tensor that requires grad is imported as if detached: fastdl sees its
memory, not its gradient. docs/hazards.md lists what to watch for.

TypeError: x is not a producer or an argument has the wrong type. ValueError: a consumed capsule, or
a stream that the device does not have. BufferError: the data cannot be described, reached or
ordered. MemoryError: no memory for a copy. Exceptions of the producer pass unchanged.

Costs well below a microsecond for a type with an exchange table and for NumPy's arrays; for other
types, one call of `__dlpack__`.

>>> import numpy as np
>>> array = np.arange(3)
>>> tensor = fastdl.from_dlpack(array)
>>> array[0] = 7
>>> tensor.tolist()
[7, 1, 2]
>>> fastdl.from_dlpack(array, copy=True).data_ptr == tensor.data_ptr
False
""", complete, import_over_protocol)


# ---- the general bridge ---------------------------------------------------------------------


cdef int bridge_from_object(void *candidate, DLManagedTensorVersioned **out) except -1:
    x = <object>candidate
    if not is_producer(x):
        fastdl_raise_no_tensor(x)
    cdef Tensor tensor = complete(x)
    return table_from_object(<void *>tensor, out)


# The table of types that have only `__dlpack__`. Objects made through it are fastdl.Tensors, since
# a table's functions do not receive the type. It cannot lend, since there is nowhere to store the
# capsule. Everything else is as in Tensor's own table.
cdef DLPackExchangeAPI general_table
general_table = tensor_table()[0]
general_table.managed_tensor_from_py_object_no_sync = (
    <DLPackManagedTensorFromPyObjectNoSync>bridge_from_object)
general_table.dltensor_from_py_object_no_sync = NULL


# ---- for C: see fastdl.h ----

cdef fastdl_runtime for_c
for_c.major = FASTDL_ABI_MAJOR
for_c.minor = FASTDL_ABI_MINOR
for_c.size = sizeof(fastdl_runtime)
for_c.types = &fdl_types
for_c.tensor = tensor_table()
for_c.protocol = &general_table
for_c.describe = discover
for_c.tag_offset = FDL_TAG_OFFSET
for_c.copy = fdl_copy_compact
for_c.order = fdl_order

runtime = PyCapsule_New(&for_c, FASTDL_RUNTIME, NULL)


# ---- the public functions -------------------------------------------------------------------


def is_producer(x):
    """Whether `x` is a producer: by an exchange table of its type, or by `__dlpack__`."""
    return fastdl_is_tensor_type(record_of(type(x))) or special(x, "__dlpack__") is not None


def exchange_api(producer, /):
    """The exchange table of a type, or of an object's type, as a capsule "dlpack_exchange_api".

    The library's own table if there is one, otherwise a bridge of fastdl's. Any C consumer can call
    its functions; the borrowing one may be NULL. TypeError if the type has no `__dlpack__` either.
    The table stays valid until the process ends, also without the capsule.

    >>> import numpy as np
    >>> fastdl.exchange_api(np.ndarray)
    <capsule object "dlpack_exchange_api" at 0x...>
    """
    cls = producer if isinstance(producer, type) else type(producer)
    cdef const fastdl_record *record = record_of(cls)
    if not fastdl_is_tensor_type(record):
        raise TypeError(
            f"expected a tensor type or a tensor, got {name_of(cls)!r}, which has neither an "
            f"exchange table nor __dlpack__")
    return PyCapsule_New(<void *>record.api, "dlpack_exchange_api", NULL)


def register_exchange_api(cls, table, /):
    """Makes `table` the exchange table of the type `cls`, and of its subclasses that do not
    define `__dlpack__` themselves.

    cls: a type, even one that publishes a table itself.
    table: a capsule "dlpack_exchange_api", or the address of a DLPackExchangeAPI as an int. The
        address cannot be verified: an int that is not one crashes the process. The table must
        stay valid until the process ends.

    Registering again replaces the table. TypeError if `cls` is not a type or `table` neither of
    these. ValueError for an int that is larger than an address or not positive, and if no table
    of its `prev_api` chain has major version 1 and all its mandatory functions. The next use of
    the type costs a few microseconds more.

    >>> class My:  # its library would supply the table
    ...     pass
    >>> fastdl.register_exchange_api(My, fastdl.exchange_api(fastdl.Tensor))
    >>> fastdl.from_dlpack(My())
    Traceback (most recent call last):
    TypeError: expected a fastdl.Tensor, got '__main__.My': this is fastdl.Tensor's \
exchange table
    """
    cdef const DLPackExchangeAPI *api
    if not isinstance(cls, type):
        raise TypeError(f"expected a type, got an object of type {type_name(cls)!r}")
    if PyCapsule_IsValid(table, "dlpack_exchange_api"):
        api = table_in(table)
    elif isinstance(table, int) and not isinstance(table, bool):
        if table <= 0 or table.bit_length() > 8 * <int>sizeof(void *):
            raise ValueError(f"expected the address of an exchange table, got {table}")
        api = fastdl_usable_table(<const DLPackExchangeAPI *><uintptr_t>table)
    else:
        raise TypeError(
            f"expected a capsule 'dlpack_exchange_api' or an address, got "
            f"{type_name(table)!r}")
    if api is NULL:
        raise ValueError(
            f"expected an exchange table of DLPack {FASTDL_DLPACK_MAJOR}.x whose mandatory "
            f"functions are all set; neither this table nor an older one in its chain is one")
    registered[id(cls)] = cls, PyCapsule_New(<void *>api, "dlpack_exchange_api", NULL)
    PyType_Modified(<PyTypeObject *>cls)  # the records of it and its subclasses are stale
