# SPDX-License-Identifier: Apache-2.0
"""A plain consumer, written from the specification alone: it holds what it takes and gives it back
in every way a consumer may, and calls the five functions of any exchange table.

`take` is the suite's: what it returns has an address, and `release(how)`.
"""

import ctypes

import fastdl
from dlpack_conformance.structs import managed_at
from tests.support.build import extension
from tests.support.ctypes_dlpack import Table, Tensor, address_in, capsule, shape_in, strides_in
from tests.support.producers import hostile

_native = extension("consumer")
take, work_stream = hostile.take, _native.work_stream


def hold(address):
    """What a table, or nobody, has handed over."""
    return take(capsule(address, b"dltensor_versioned"))


def fields(held):
    """What is in its tensor."""
    managed = managed_at(held.address, held.versioned)
    found = fields_of(managed.tensor) | {"has_context": bool(managed.manager_ctx)}
    if held.versioned:
        found |= {"version": (managed.version.major, managed.version.minor), "flags": managed.flags}
    return found


def fields_of(tensor):
    return {
        "data": tensor.data or 0,
        "device": (tensor.device_type, tensor.device_id),
        "ndim": tensor.ndim,
        "dtype": (tensor.code, tensor.bits, tensor.lanes),
        "shape": shape_in(tensor),
        "strides": strides_in(tensor) if tensor.strides or not tensor.ndim else None,
        "byte_offset": tensor.byte_offset,
    }


def _given_away(held):
    found = [(one.address, one.versioned) for one in held]
    for one in held:
        one.forget()
    return found


def delete_on_threads(held, threads, keep_gil=False):
    """On native threads that Python has never seen, all at once; returns when all have ended. With
    `keep_gil` this thread waits with the GIL: a deleter that needs it waits for ever."""
    _native.delete_on_threads(_given_away(held), threads, keep_gil)


def delete_at_exit(held):
    """When the interpreter is gone."""
    _native.delete_at_exit(_given_away(held))


def delete_during_exit(held):
    """On a native thread, as soon as the interpreter says that it is not initialised any more,
    while finalisation goes on."""
    _native.delete_during_exit(_given_away(held))


def deleter_of(held):
    """(deleter, argument), for somebody else to call."""
    address, versioned = held.address, held.versioned
    held.forget()
    return managed_at(address, versioned).deleter, address


# ---- exchange tables ------------------------------------------------------------------------


def judged(outcome):
    """Holds a table function to its word: 0 and no exception, or -1 and an exception."""
    result, made, error = outcome
    assert (result, error is None) in ((0, True), (-1, False)), outcome
    if error is not None:
        try:
            raise error
        finally:
            del error, outcome  # or the error would be in a cycle
    return made


def from_object(table, x):
    return judged(hostile.call_from_object(address_in(table), x))


def taken(tensor):
    """What fastdl's own table gives, ordered for its work stream."""
    return from_object(fastdl.exchange_api(fastdl.Tensor), tensor)


def to_object(table, held):
    """The tensor stays with `held` on failure."""
    return judged(hostile.call_to_object(address_in(table), held))


def borrow(table, x):
    """What it lends, or None where the table has no such function."""
    if not Table.from_address(address_in(table)).dltensor_from_py_object_no_sync:
        return None
    room = Tensor()
    judged(hostile.call_borrow(address_in(table), x, ctypes.addressof(room)))
    return fields_of(room)


_SET_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3, _SET_ERROR)


def allocate(table, ndim, shape, dtype, device, report=True):
    """(what it made or None, calls of SetError, kind, message). The GIL is not held during the
    call, and the fields of the prototype that do not count hold rubbish."""
    said = [0, "", ""]

    def note(context, kind, message):
        said[:] = said[0] + 1, kind.decode(), message.decode()

    prototype = Tensor.from_buffer_copy(b"Z" * ctypes.sizeof(Tensor))
    prototype.ndim = ndim
    prototype.shape = None if shape is None else (ctypes.c_int64 * 64)(*shape)
    prototype.code, prototype.bits, prototype.lanes = dtype
    prototype.device_type, prototype.device_id = device
    out = ctypes.c_void_p(16)
    call = _ALLOCATE(Table.from_address(address_in(table)).managed_tensor_allocator)
    words = _SET_ERROR(note) if report else _SET_ERROR()
    result = call(ctypes.addressof(prototype), ctypes.addressof(out), None, words)
    if result == 0:
        return hold(out.value), *said
    assert (result, out.value) == (-1, 16), "it changed *out"
    return None, *said
