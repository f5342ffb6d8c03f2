"""asarray and empty: tensors from buffers and from nothing."""

from fastdl._core import exchange
from fastdl._core import tensor as core
from fastdl._core.device import CPU, Device
from fastdl._core.dtype import BY_FORMAT, DType
from fastdl._devices import driver
from fastdl._protocol.consumer import Capsule
from fastdl._protocol.cuda_array import import_cuda_array
from fastdl._protocol.streams import DEFAULT, stream_number, validate_stream


def asarray(x, /):
    """A fastdl.Tensor on the memory of anything that exposes some, without a copy.

    Tried in this order: DLPack (as fastdl.from_dlpack), `__cuda_array_interface__`, and the
    buffer protocol (bytes, bytearray, array.array, memoryview, mmap, ...). A buffer stays locked
    as long as the result lives: its owner cannot be resized or closed. The second needs a CUDA
    driver, which is asked where the memory is. TypeError if x has none of the three; BufferError if
    DLPack cannot describe the data.
    """
    if isinstance(x, Capsule) or exchange.is_producer(x):
        return exchange.from_dlpack(x)
    if hasattr(x, "__cuda_array_interface__"):
        return import_cuda_array(x)
    try:
        memoryview(x).release()
    except TypeError as error:
        raise TypeError(
            f"expected an object with __dlpack__, __cuda_array_interface__ or the buffer "
            f"protocol, got {type(x).__qualname__!r}"
        ) from error
    return core.from_buffer(x, numbers_of_format)


# Integers that have four bytes on one platform and eight on another, by what those are everywhere.
_NATIVE = {"l": "iq", "L": "IQ", "n": "iq", "N": "IQ"}


def numbers_of_format(form: str, itemsize: int) -> tuple[int, int, int]:
    """The element type of a PEP 3118 format string, as (code, bits, lanes)."""
    letters = form[1:] if form[:1] in ("@", "=", "<") else form
    if letters in _NATIVE:
        letters = _NATIVE[letters][itemsize == 8]
    dtype = BY_FORMAT.get(letters)
    if dtype is None or dtype.itemsize != itemsize:
        raise BufferError(
            f"DLPack has no type for buffer format {form!r} with {itemsize} bytes an element: "
            f"expected a native number or bool"
        )
    return dtype.__dlpack_data_type__()


def empty(shape, dtype="float32", device="cpu", *, stream=None):
    """fastdl.empty, complete by itself: the compiled function serves ordinary shapes, names of
    types and the host."""
    target = Device(device)
    number = validate_stream(stream_number(stream, target), target)
    numbers = DType(dtype).__dlpack_data_type__()
    shape = _sizes(shape)
    if target == CPU:
        return core.host_empty(shape, numbers)
    if target.stream_kind not in DEFAULT:
        raise BufferError(f"fastdl allocates on the host, and on CUDA and ROCm, not on {target}")
    where = target.__dlpack_device__()
    return driver.empty(shape, numbers, *where, -1 if number is None else number)


def _sizes(shape) -> tuple[int, ...]:
    try:
        return (_size(shape),)  # an int, or what stands for one: an array without dimensions, too
    except TypeError as error:
        try:
            sizes = tuple(shape)
        except TypeError:
            raise error from None
    return tuple(_size(n) for n in sizes)


def _size(n) -> int:
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"expected ints as shape, got {n!r}")
    n = n.__index__()
    if not 0 <= n < 2**63:
        raise ValueError(f"expected sizes from 0 to 2**63 - 1 as shape, got {n}")
    return n
