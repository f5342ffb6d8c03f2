# SPDX-License-Identifier: Apache-2.0
"""Streams: the two tables of the DLPack handshake, as numbers, and the stream objects that users
may pass.

CUDA (and managed memory): 1 is the legacy default stream, 2 the per-thread one, larger numbers
are handles; 0 is refused because it could mean either default. ROCm: 0 is the default stream, 1
and 2 do not exist. -1 means that the caller orders all work. Host memory has no stream.

The functions of fastdl also accept stream objects, whose handle 0 is a default stream by
definition. `__dlpack__` accepts only numbers, as in the standard.
"""

from fastdl._core import tensor as core
from fastdl._core.device import Device
from fastdl._devices import driver

NONE, CUDA, ROCM = range(3)  # fastdl_stream_kind in fastdl.h

DEFAULT = {CUDA: 1, ROCM: 0}


def as_number(stream):
    """`stream` as None or an int that may be a stream; TypeError or ValueError otherwise."""
    if stream is None:
        return None
    if isinstance(stream, bool) or not hasattr(stream, "__index__"):
        raise TypeError(f"expected a stream as an int or None, got {stream!r}")
    number = stream.__index__()
    if not -1 <= number < 2**63:
        raise ValueError(f"expected a stream handle from 0 to 2**63 - 1, or -1, got {number}")
    return number


# The documented attributes for the handle of stream objects: torch, CuPy, Numba.
_HANDLES = ("cuda_stream", "ptr", "handle")
_ORDINALS = ("device_index", "device_id")  # attributes for the number of its device: torch, CuPy


def stream_number(stream, device: Device):
    """`stream` as None or an int: an int unchanged, or the handle of a stream object, from
    `__cuda_stream__` or from the attribute that its library documents."""
    if stream is None or hasattr(stream, "__index__"):
        return as_number(stream)
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        answer = protocol() if callable(protocol) else protocol
        if not isinstance(answer, tuple) or len(answer) != 2 or as_number(answer[0]) != 0:
            raise TypeError(
                f"expected (0, handle) from __cuda_stream__ of {stream!r}, got {answer!r}"
            )
        handle = answer[1]
    else:
        for name in _HANDLES:
            handle = getattr(stream, name, None)
            if handle is not None:
                break
        else:
            raise TypeError(
                f"expected a stream as an int, None, an object with __cuda_stream__, or a stream "
                f"of torch, CuPy or Numba, got {stream!r}"
            )
    handle = as_number(getattr(handle, "value", handle)) or 0  # ctypes has None for NULL
    if handle <= 2:
        refuse_other_device(stream, device)
    return handle or DEFAULT.get(device.stream_kind, 0)


def refuse_other_device(stream, device: Device) -> None:
    """Refuses the default stream of another device: its number cannot be distinguished from this
    device's."""
    for name in _ORDINALS:
        ordinal = getattr(stream, name, None)
        if isinstance(ordinal, int) and ordinal not in (-1, device.id):  # -1: CuPy's "any"
            raise ValueError(
                f"expected a stream of {device}, got the default stream of device {ordinal}: "
                f"{stream!r}"
            )


def validate_stream(stream, device: Device):
    """`stream`, None or an int, if `device` has it; ValueError or BufferError otherwise."""
    if stream is not None:
        driver.check_number(device.type, device.id, stream)
    return stream


def ordering(device: Device) -> int:
    """How work on the memory of `device` is ordered: its `stream_kind`, except that pinned memory
    is host memory, which a consumer need not order."""
    return NONE if device.is_host else device.stream_kind


# ---- the consumer's table -------------------------------------------------------------------


def consumer_stream(stream, device: Device):
    """The stream, as a number, on which the result of an import from `device` will be used.

    The caller's None becomes the number of the calling thread's work stream (see use_stream):
    passing None on would mean "no ordering" to torch. None if the device has no streams. CUDA
    accepts the caller's 0 as 1.
    """
    kind = ordering(device)
    stream = stream_number(stream, device)
    if kind == NONE and stream not in (None, -1):
        raise ValueError(
            f"data on {device} has no streams: expected stream=None or -1, got {stream}"
        )
    if kind == CUDA and stream == 0:
        stream = 1
    stream = validate_stream(stream, device)
    if kind not in DEFAULT:
        return None
    return driver.work_stream(*device.__dlpack_device__()) if stream is None else stream


# ---- the producer's table -------------------------------------------------------------------


def order_export(tensor: core.Tensor, stream) -> None:
    """Orders the work in flight on `tensor` for a consumer that passed `stream`, None or an int, to
    `__dlpack__`."""
    device = tensor.device
    stream = validate_stream(stream, device)
    if stream == -1:
        return
    if device.is_host and stream is None:
        driver.wait(tensor)
    elif device.stream_kind in DEFAULT:
        driver.order(tensor, DEFAULT[device.stream_kind] if stream is None else stream)


# ---- for users ------------------------------------------------------------------------------


def require_stream(stream, device: Device):
    """The number of a stream that must exist, for Tensor.record and the like."""
    if device.stream_kind not in DEFAULT:
        raise ValueError(
            f"expected a CUDA or ROCm device, got {device}, on which fastdl supports no streams"
        )
    number = validate_stream(stream_number(stream, device), device)
    if number is None or number == -1:
        raise ValueError(
            f"expected a stream, got {stream!r}: pass the handle of one, or a stream object"
        )
    return number


def record(tensor: core.Tensor, stream) -> None:
    """See Tensor.record."""
    driver.record(tensor, require_stream(stream, tensor.device))


def release(tensor: core.Tensor, stream) -> None:
    """See Tensor.release."""
    driver.release(tensor, require_stream(stream, tensor.device))


def scope(device, stream) -> driver.StreamScope:
    """The scope that fastdl.use_stream enters and exits."""
    target = Device(device)
    number = require_stream(stream, target)
    return driver.StreamScope(*target.__dlpack_device__(), number, stream)
