# SPDX-License-Identifier: Apache-2.0
"""The drivers, and the order of work queued on device memory.

The functions here take streams as DLPack's numbers (see ordering.h); the Python layer above chooses
the stream. Each raises BufferError, with the driver's message, if the driver is missing or fails.
"""
import atexit

import cython

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint64_t, uintptr_t

from fastdl._core.native cimport (
    DLDevice, DLDeviceType, DLPACK_FLAG_BITMASK_READ_ONLY, DLTensor, fastdl_check_stream_,
    fastdl_find_device, FASTDL_MAX_NDIM, FASTDL_STREAM_CUDA, FASTDL_STREAM_ROCM, fdl_description,
    fdl_failure, fdl_has_driver, fdl_order_for, fdl_raise, fdl_raise_about, fdl_ready_for,
    fdl_tensor_wrap, fdl_work, kDLCPU,
)
from fastdl._core.tensor cimport Tensor, describe_object
from fastdl._devices.native cimport (
    fdl_capture, fdl_capture_of, fdl_driver, fdl_driver_find, fdl_driver_is_loaded,
    fdl_driver_replace, fdl_end_put_off, fdl_enter, fdl_event_forget, fdl_exchanges_at_import,
    fdl_leave, fdl_pointer_find, fdl_put_off_at_exit, fdl_put_off_at_import, fdl_put_off_count,
    fdl_scope, fdl_stream_scope, fdl_stream_scope_begin, fdl_stream_scope_end, fdl_to_host,
    fdl_work_edges, fdl_work_forget, fdl_work_is_callers, fdl_work_of, fdl_work_ready_on,
    fdl_work_record, fdl_work_record_on, fdl_work_release, fdl_work_stream, fdl_work_wait,
)


cdef int check(int failed, const fdl_failure *failure, Tensor tensor=None, const char *what=NULL,
               int64_t stream=-1) except -1:
    """Raises the failure of a C function, about `tensor` if given: see object.h."""
    if not failed:
        return 0
    if tensor is None:
        return fdl_raise(failure)
    return fdl_raise_about(<PyObject *>tensor, failure, what, stream)


cdef DLDevice device_of(int32_t type, int32_t ordinal) noexcept:
    cdef DLDevice device
    device.device_type = <DLDeviceType>type
    device.device_id = ordinal
    return device


# ---- work in flight -------------------------------------------------------------------------


cdef fdl_work *work_of(Tensor tensor) except NULL:
    cdef fdl_work *work = fdl_work_of(
        &tensor.description.block.work, tensor.description.managed.dl_tensor.device)
    if work is NULL:
        raise MemoryError()
    return work


def ready_on(Tensor tensor not None, int64_t source, int64_t stream):
    """Records that just imported device memory is ready on `source`; `stream` waits for that.

    Memory re-imported from a library that holds a Tensor also keeps its other work in flight.
    """
    cdef fdl_failure failure
    if tensor.description.block.work is not NULL:
        if source != -1 and has_driver(tensor.description.managed.dl_tensor.device.device_type):
            record(tensor, source)
            order(tensor, stream)
    else:
        check(fdl_work_ready_on(work_of(tensor), source, stream, &failure), &failure,
              tensor, b"ordered after its producer, on stream", source)


def ready_on_other_device(Tensor tensor not None, int32_t ordinal, int64_t stream):
    """ready_on for memory that is ready on a stream of device `ordinal` other than its own, as is
    valid for managed memory: `stream` of its own device waits."""
    cdef fdl_failure failure
    check(fdl_work_record_on(work_of(tensor), ordinal, stream, &failure), &failure,
          tensor, b"ordered after its producer, on stream", stream)
    order(tensor, stream)


def ready_for(Tensor tensor not None, int64_t stream):
    """ready_on for memory from an exchange table, whose library reports the source."""
    fdl_ready_for(tensor, stream)


def order(Tensor tensor not None, int64_t stream):
    """Makes `stream` wait for all work on the memory of `tensor`."""
    fdl_order_for(tensor, stream)


def wait(Tensor tensor not None):
    """Waits on the host for all work on the memory of `tensor`."""
    cdef fdl_failure failure
    cdef fdl_work *work = tensor.description.block.work
    if work is not NULL:
        check(fdl_work_wait(work, &failure), &failure, tensor, b"waited for on the host")


def record(Tensor tensor not None, int64_t stream):
    """Records that work on the memory of `tensor` has been queued on `stream`."""
    cdef fdl_failure failure
    check(fdl_work_record(work_of(tensor), stream, &failure), &failure,
          tensor, b"recorded on stream", stream)


def release(Tensor tensor not None, int64_t stream):
    """Orders the next user of the memory of `tensor` after the work queued on `stream`."""
    cdef fdl_failure failure
    check(fdl_work_release(work_of(tensor), stream, &failure), &failure,
          tensor, b"released after stream", stream)


def is_callers(Tensor tensor not None):
    """Whether the caller that imported `tensor` orders all work on it."""
    cdef fdl_work *work = tensor.description.block.work
    return work is not NULL and bool(fdl_work_is_callers(work))


# ---- memory ---------------------------------------------------------------------------------


def to_host(Tensor tensor not None, int64_t stream=-1):
    """A copy of `tensor`, on a device, in ordinary host memory, made on `stream` of its device; -1:
    on the thread's work stream. See transfer.h."""
    cdef fdl_failure failure
    cdef fdl_description *copy
    check(fdl_to_host(tensor.description, stream, &copy, &failure), &failure, tensor,
          b"copied to cpu:0")
    return fdl_tensor_wrap(copy)


def find_pointer(int32_t type, address):
    """(device type, number) of the memory at an address, from the driver for a device type; None if
    the memory is unknown to the driver."""
    cdef fdl_failure failure
    cdef DLDevice found
    check(fdl_pointer_find(find_driver(type), <const void *><uintptr_t>address, &found, &failure),
          &failure)
    if found.device_type == kDLCPU:
        return None
    return <int32_t>found.device_type, found.device_id


def on_memory(address, tuple shape, tuple strides, tuple dtype, tuple device, bint readonly, owner,
              tuple given=None):
    """A Tensor on foreign memory, which `owner` keeps alive. `strides` in elements; `given` as for
    describe_object."""
    cdef int64_t dims[128]
    cdef DLTensor tensor
    cdef Py_ssize_t i
    cdef uint64_t flags = DLPACK_FLAG_BITMASK_READ_ONLY if readonly else 0
    if len(shape) > FASTDL_MAX_NDIM:
        raise BufferError(f"expected at most {FASTDL_MAX_NDIM} dimensions, got {len(shape)}")
    tensor.data = <void *><uintptr_t>address
    tensor.byte_offset = 0
    tensor.device = device_of(device[0], device[1])
    tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = dtype
    tensor.ndim = <int32_t>len(shape)
    tensor.shape = dims
    tensor.strides = dims + 64
    for i in range(tensor.ndim):
        tensor.shape[i] = shape[i]
        tensor.strides[i] = strides[i]
    return fdl_tensor_wrap(<fdl_description *>describe_object(&tensor, flags, owner, given))


# ---- work streams ---------------------------------------------------------------------------


def work_stream(int32_t type, int32_t ordinal):
    """The calling thread's work stream for a device; -1 where streams have no numbers."""
    return fdl_work_stream(device_of(type, ordinal))


@cython.final
cdef class StreamScope:
    """Makes a stream the work stream of a thread for a device, between `begin` and `end`."""

    cdef fdl_stream_scope scope
    cdef bint entered
    cdef object stream  # kept alive

    def __init__(self, int32_t type, int32_t ordinal, int64_t number, stream):
        self.scope.device = device_of(type, ordinal)
        self.scope.stream = number
        self.stream = stream

    def begin(self):
        with cython.critical_section(self):
            if self.entered:
                raise RuntimeError("this use_stream has been entered already: create another")
            self.entered = True
        Py_INCREF(self)  # without `end` the scope stays open
        fdl_stream_scope_begin(&self.scope)

    def end(self):
        cdef fdl_failure failure
        cdef int failed = fdl_stream_scope_end(&self.scope, &failure)
        if failed > 0:
            raise RuntimeError("a use_stream must exit on the thread that entered it")
        self.entered = False
        Py_DECREF(self)
        check(failed, &failure)


# ---- the driver -----------------------------------------------------------------------------


cdef int kind_of(int32_t type) noexcept:
    return fastdl_find_device(type).stream


cdef fdl_driver *find_driver(int32_t type) except NULL:
    cdef fdl_failure failure
    cdef fdl_driver *driver
    if kind_of(type) not in (FASTDL_STREAM_CUDA, FASTDL_STREAM_ROCM):
        raise BufferError(f"only CUDA and ROCm drivers are supported, got device type {type}")
    driver = fdl_driver_find(kind_of(type), &failure)
    if driver is NULL:
        check(-1, &failure)
    return driver


def driver_facts(int32_t type):
    """(name, version, number of devices) of the driver for a device type."""
    cdef fdl_driver *driver = find_driver(type)
    return driver.name.decode(), driver.version, driver.devices


def has_driver(int32_t type):
    """Whether `driver_facts` would succeed."""
    return kind_of(type) in (FASTDL_STREAM_CUDA, FASTDL_STREAM_ROCM) and (
        fdl_has_driver(kind_of(type)))


def check_number(int32_t type, int32_t id, int64_t stream):
    """ValueError or BufferError if a device has no stream of that number."""
    fastdl_check_stream_(device_of(type, id), stream)


def check_stream(int32_t type, int32_t ordinal, int64_t stream):
    """BufferError if using `stream`, of a device with a driver, would break a graph capture."""
    cdef fdl_scope scope
    cdef fdl_capture capture
    cdef fdl_failure failure
    if not has_driver(type):
        return
    cdef fdl_driver *driver = find_driver(type)
    cdef int failed
    with nogil:
        failed = fdl_enter(driver, ordinal, &scope, &failure)
        if failed == 0:
            failed = fdl_capture_of(driver, stream, &capture, &failure)
            fdl_leave(&scope)
    check(failed, &failure)


def call_on(tuple device, bint required, function, dict keywords):
    """Calls `function(**keywords)` with `device`, (type, number), as the current device, if it has
    a driver. The previous device is restored afterwards, even if the function changed it.

    BufferError if this is `required` and the device cannot be made current.
    """
    cdef fdl_scope scope
    cdef fdl_failure failure
    cdef int32_t type = device[0], ordinal = device[1]
    if fastdl_find_device(type).host or not has_driver(type):
        return function(**keywords)
    cdef fdl_driver *driver = find_driver(type)
    cdef int failed
    with nogil:
        failed = fdl_enter(driver, ordinal, &scope, &failure)
    if failed and not required:
        return function(**keywords)
    check(failed, &failure)
    try:
        return function(**keywords)
    finally:
        with nogil:
            fdl_leave(&scope)


def is_loaded():
    """Whether a driver has been loaded."""
    return bool(fdl_driver_is_loaded())


# ---- deferred releases ----------------------------------------------------------------------


def deferred():
    """(releases deferred so far, releases that are waiting now): see put_off.h."""
    cdef int64_t so_far, waiting
    fdl_put_off_count(&so_far, &waiting)
    return so_far, waiting


def at_exit():
    """Runs the deferred releases, while Python still works."""
    fdl_put_off_at_exit()


fdl_put_off_at_import()
fdl_exchanges_at_import()
atexit.register(at_exit)


# ---- for tests ------------------------------------------------------------------------------


def replace_driver(int32_t type, path):
    """Uses the library at `path` as the driver of a device; None: no driver; "": the system's
    own."""
    forget_events(type)
    fdl_driver_replace(kind_of(type), (path if path is not None else "none").encode())


def forget_events(int32_t type):
    """Destroys the events that are kept for reuse."""
    cdef fdl_failure failure
    cdef fdl_driver *driver = fdl_driver_find(kind_of(type), &failure)
    if driver is not NULL:
        fdl_end_put_off()
        fdl_work_forget(kind_of(type))
        fdl_event_forget(driver)


def edges(Tensor tensor not None):
    """How many events mark work in flight on `tensor`."""
    cdef fdl_work *work = tensor.description.block.work
    return 0 if work is NULL else fdl_work_edges(work)
