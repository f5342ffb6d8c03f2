"""Streams: the two tables of the DLPack handshake, as numbers.

CUDA (and managed memory): 1 is the legacy default stream, 2 the per-thread one, larger numbers
are handles; 0 is refused because it could mean either default. ROCm: 0 is the default stream, 1
and 2 do not exist. -1 means that the caller orders all work. Host memory has no stream.
"""

from fastdl._core import tensor as core
from fastdl._device import Device

NONE, CUDA, ROCM, OPAQUE = range(4)  # fdl_stream_kind in facts.h

_DEFAULT = {CUDA: 1, ROCM: 0}


def as_number(stream):
    """`stream` as None or an int; TypeError otherwise."""
    if stream is None:
        return None
    if isinstance(stream, bool) or not hasattr(stream, "__index__"):
        raise TypeError(f"expected a stream as an int or None, got {stream!r}")
    return stream.__index__()


def checked(stream, device: Device):
    """`stream` as None or an int that `device` has; TypeError or ValueError otherwise."""
    stream = as_number(stream)
    kind = device.stream_kind
    if stream is None or stream == -1:
        return stream
    if not 0 <= stream < 2**64:
        raise ValueError(f"expected a stream handle of 64 bits, or -1, got {stream}")
    if kind == NONE:
        raise ValueError(f"{device} has no streams: expected stream=None or -1, got {stream}")
    if kind == OPAQUE:
        raise BufferError(f"DLPack has no stream numbers for {device}: pass stream=None")
    if kind == CUDA and stream == 0:
        raise ValueError(
            "stream 0 is ambiguous on CUDA: pass 1 for the legacy default stream or 2 for the "
            "per-thread default stream"
        )
    if kind == ROCM and stream in (1, 2):
        raise ValueError(f"ROCm has no stream {stream}: pass 0 for the default stream")
    return stream


def ordering(device: Device) -> int:
    """How work on the memory of `device` is ordered: as `stream_kind`, but pinned memory is host
    memory, which a consumer need not order."""
    return NONE if device.is_host else device.stream_kind


def for_producer(stream, device: Device, *, unordered_is_none: bool = False):
    """What a consumer passes to `__dlpack__` for data on `device`, given its caller's `stream`.

    The caller's None is the default stream, by number: leaving it to the producer would mean "no
    ordering" to torch. Returns None where there is nothing to pass. CUDA accepts the caller's 0
    as 1. `unordered_is_none`: the producer would hand -1 to the driver (JAX), and blocks the
    host on None instead.
    """
    kind = ordering(device)
    stream = as_number(stream)
    if kind == NONE and stream not in (None, -1):
        raise ValueError(
            f"data on {device} has no streams: expected stream=None or -1, got {stream}"
        )
    if kind == CUDA and stream == 0:
        stream = 1
    stream = checked(stream, device)
    if kind not in _DEFAULT:
        return None
    if stream is None:
        return _DEFAULT[kind]
    return None if stream == -1 and unordered_is_none else stream


def order_after_import(passed, device: Device) -> int:
    """How memory is ordered after an import that passed that stream: a core.ORDER_* value."""
    kind = ordering(device)
    if kind not in _DEFAULT:
        return core.ORDER_IDLE
    if passed is None or passed == _DEFAULT[kind]:
        return core.ORDER_DEFAULT
    return core.ORDER_CALLER if passed == -1 else core.ORDER_UNNAMED


def check_export(tensor: core.Tensor, stream) -> None:
    """Whether `tensor` may be handed to a consumer that will work on `stream`.

    Without a driver to record and wait for events, fastdl can export device memory to the stream
    it is ready on, or leave the order to the caller; it refuses to guess in between.
    """
    device = tensor.device
    stream = checked(stream, device)
    order = core.get_order(tensor)
    if stream == -1 or order in (core.ORDER_IDLE, core.ORDER_CALLER):
        return
    default = _DEFAULT[device.stream_kind]
    if order == core.ORDER_DEFAULT and stream in (None, default):
        return
    raise BufferError(
        f"{core.describe(tensor)} cannot be ordered for stream {stream}: this version of fastdl "
        f"does not speak to the device driver. Synchronise the producer's stream and pass "
        f"stream=-1, or import and export on the default stream ({default})"
    )
