"""from_pointer: tensors on memory that only the caller describes."""

from fastdl._core import tensor as core
from fastdl._core.device import Device
from fastdl._core.dtype import DType
from fastdl._devices import driver
from fastdl._protocol.array_interface import as_int, compact_strides
from fastdl._protocol.streams import consumer_stream

TYPE_CHECKING = False  # instead of typing's: `import fastdl` need not load that
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, SupportsIndex

    from fastdl._core.device import _DeviceLike
    from fastdl._core.dtype import _DTypeLike


def from_pointer(
    address: "SupportsIndex",
    shape: "SupportsIndex | Sequence[SupportsIndex]",
    dtype: "_DTypeLike",
    *,
    device: "_DeviceLike" = "cpu",
    strides: "SupportsIndex | Sequence[SupportsIndex] | None" = None,
    owner: object = None,
    deleter: "Callable[[], object] | None" = None,
    readonly: bool = False,
    stream: object = None,
) -> core.Tensor:
    """A fastdl.Tensor on memory at an address: of ctypes, cffi, a C library, or a driver.

    address: where the first element is, as an int; on OpenCL, Vulkan, Metal and the like the handle
        of the memory. 0 only without elements.
    shape: the sizes of the dimensions in elements, an int or a sequence of ints.
    dtype, device: all that fastdl.DType and fastdl.Device take.
    strides: in elements, one for each dimension. None: row-major without gaps.
    owner: any object, kept alive as long as the memory is used: by the result, its views, and the
        objects of other libraries on them.
    deleter: called once, without arguments, when the memory is no longer used; then `owner` is
        released. If from_pointer raises one of the errors below or MemoryError, it is not called:
        the memory is still yours. After an interrupt it may have been called.
    readonly: whether the elements must not be written.
    stream: CUDA and ROCm only: the stream on which the memory is ready, in any form that
        from_dlpack takes. None: the thread's work stream. -1: the caller orders all work.

    The deleter runs on the thread that ends the last use, with the GIL. fastdl first waits for its
    own copies of the memory, and for no other work on a device; on a thread without Python, or
    where it may not wait, it defers the deleter of device memory: see docs/streams.md, "Memory in
    flight". What it raises goes to sys.unraisablehook. Once Python has ended it is not called, and
    `owner` is leaked. A reference cycle through `owner` or `deleter` back to the result is never
    collected.

    The arguments are checked: sizes, strides, and that no element is outside the address space. It
    cannot be checked that the memory exists, is on that device, is large enough, has that type, and
    remains valid; a wrong address crashes the process. An address that is not a multiple of the
    element size is accepted, as in every import; some libraries require more (see docs/hazards.md).
    With neither `owner` nor `deleter` you must keep the memory alive.

    TypeError: an argument has the wrong type. BufferError: there is no such tensor, or its stream
    cannot be ordered. ValueError: a stream that the device does not have, and as of DType and
    Device.

    >>> import ctypes
    >>> memory = (ctypes.c_int32 * 6)(*range(6))
    >>> fastdl.from_pointer(ctypes.addressof(memory), (2, 3), "int32", owner=memory).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    number = as_int(address)
    if number is None:
        raise TypeError(
            f"expected an address as an int, got {address!r}: of an array of ctypes pass "
            f"ctypes.addressof(x), of a pointer ctypes.cast(x, ctypes.c_void_p).value"
        )
    if not 0 <= number < 2**64:
        raise BufferError(f"expected an address of 64 bits, got {number}")
    if deleter is not None and not callable(deleter):
        raise TypeError(f"expected deleter=None or a function without arguments, got {deleter!r}")
    where, kind = Device(device), DType(dtype)
    sizes = _ints(shape, "shape")
    steps = compact_strides(sizes) if strides is None else _ints(strides, "strides")
    if len(steps) != len(sizes):
        raise BufferError(
            f"expected as many strides as dimensions ({len(sizes)}), got {len(steps)}: {steps}"
        )
    ready_on = consumer_stream(stream, where)
    tensor = driver.on_memory(
        number,
        sizes,
        steps,
        kind.__dlpack_data_type__(),
        where.__dlpack_device__(),
        readonly,
        owner,
        (sizes, steps, kind, where, number),
    )
    if ready_on is not None:
        driver.ready_on(tensor, ready_on, ready_on)
    if owner is not None or deleter is not None:
        core.delete_with(tensor, deleter)  # last: a failure before this must not take the memory
    return tensor


_NO_SEQUENCES = (str, bytes, bytearray, dict)  # of ints, though they can be indexed


def _ints(values: "Any", what: str) -> tuple[int, ...]:
    """An int, or a sequence of them, as a tuple of ints of 64 bits."""
    one = as_int(values)
    sequence = hasattr(values, "__getitem__") and not isinstance(values, _NO_SEQUENCES)
    items = (one,) if one is not None else tuple(values) if sequence else (None,)
    ints = tuple(number for number in map(as_int, items) if number is not None)
    if len(ints) != len(items):
        raise TypeError(f"expected ints as {what}, got {values!r}")
    if any(not -(2**63) <= n < 2**63 for n in ints):
        raise BufferError(f"expected ints of 64 bits as {what}, got {values!r}")
    return ints
