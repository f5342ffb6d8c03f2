"""asarray and empty: tensors from buffers and from nothing."""

import sys

from fastdl._convert import missing
from fastdl._core import exchange
from fastdl._core import tensor as core
from fastdl._core.device import CPU, Device
from fastdl._core.dtype import BY_FORMAT, DType
from fastdl._core.errors import type_name
from fastdl._devices import driver
from fastdl._protocol.array_interface import import_array
from fastdl._protocol.consumer import Capsule
from fastdl._protocol.cuda_array import import_cuda_array
from fastdl._protocol.streams import DEFAULT

_read_known = None  # the tensor of an object of a library that fastdl knows, else None


def install(*, read):
    """Tells this layer what the layer above it knows of libraries. Called once."""
    global _read_known
    _read_known = read


def asarray(x, /):
    """A fastdl.Tensor on the memory of anything that exposes an array or a buffer.

    The first of these that x has decides:

    1. DLPack, as in fastdl.from_dlpack: arrays of NumPy, torch, JAX, CuPy, MLX, PyArrow, ...; or
       what fastdl knows of a library without it (MXNet, OpenVINO, tinygrad), or whose description
       is wrong (booleans of ONNX Runtime).
    2. `__cuda_array_interface__`: of Numba and others; a CUDA driver is asked where the memory is.
    3. the buffer protocol: bytes, array.array, memoryview, mmap, shared memory, ctypes. The buffer
       stays locked as long as the result lives: its owner cannot be resized or closed.
    4. `__array_interface__`: images of Pillow.
    5. `__arrow_c_array__`: Arrow arrays of one dimension, such as nanoarrow's. Read-only.
    6. `__array__`: Series of pandas and polars, DataArrays of xarray, NumPy's scalars (before
       their buffer, which does not say what a date is).

    The memory is shared if x shares it. Pillow, scalars, and Series of some types give a copy, and
    `is_copied` says so.
    Missing values are never shown as numbers: masked elements of numpy.ma, nulls of Arrow and
    polars, NA of pandas are a BufferError that counts them. (NaN is a number.)

    TypeError if x has none of these. BufferError if DLPack cannot describe the data: text, dates,
    Python objects, another byte order.

    >>> import array
    >>> fastdl.asarray(array.array("d", [1, 2, 3]))
    fastdl.Tensor([1, 2, 3], shape=(3,), dtype=float64, device=cpu:0)
    >>> import numpy as np
    >>> fastdl.asarray(np.ma.array([1, 2, 3], mask=[0, 1, 0]))
    Traceback (most recent call last):
    BufferError: the array has masked elements (1 of 3), which a tensor cannot express: pass \
x.filled(...) or x.compressed()
    """
    tensor = None if isinstance(x, Capsule) else _read_known(x)
    if tensor is not None:
        return tensor
    _, read = interface(x)
    if read is not None:
        return read(x)
    raise TypeError(
        f"expected a tensor, an array or a buffer, got {type_name(x)!r}, which has neither "
        f"__dlpack__ nor __cuda_array_interface__, a buffer, __array_interface__, "
        f"__arrow_c_array__ or __array__{_remedy(x)}"
    )


def _remedy(x) -> str:
    """The end of a message about an object that exposes no array: what to do."""
    if isinstance(x, type):
        return ": pass an object of this type, not the type itself"
    if isinstance(x, list | tuple | int | float | complex):
        return ": make an array of its numbers first, for example with numpy.asarray(x)"
    if type(x).__module__ == "builtins":
        return ""
    return ": make an array of it first, with what its own library has for that"


def interface(x):
    """The interface by which asarray reads `x`, and the function that does; (None, None) if it has
    none of them."""
    if isinstance(x, Capsule) or exchange.is_producer(x):
        return "__dlpack__", exchange.from_dlpack
    if isinstance(x, type):  # which has the attributes of its instances
        return None, None
    if hasattr(x, "__cuda_array_interface__"):
        return "__cuda_array_interface__", import_cuda_array
    if _is_scalar(x):
        return "__array__", _from_array_method
    if _has_buffer(x):
        return "buffer", _from_buffer
    if hasattr(x, "__array_interface__"):
        return "__array_interface__", import_array
    if hasattr(x, "__arrow_c_array__"):
        return "__arrow_c_array__", _from_arrow
    if hasattr(x, "__array__"):
        return "__array__", _from_array_method
    return None, None


def _from_buffer(x):
    return core.from_buffer(x, numbers_of_format)


def _has_buffer(x) -> bool:
    try:
        memoryview(x).release()
    except TypeError:
        return False
    return True


def _is_scalar(x) -> bool:
    """Whether x is a scalar of NumPy, whose `__array__` alone names every type: the buffer of a
    date is one of bytes."""
    np = sys.modules.get("numpy")
    return np is not None and isinstance(x, np.generic)


def _from_arrow(x):
    """The tensor of an Arrow array."""
    answer = x.__arrow_c_array__()
    try:
        schema, array = answer
    except (TypeError, ValueError):
        schema = array = None
    if not isinstance(schema, Capsule) or not isinstance(array, Capsule):
        raise TypeError(
            f"expected two capsules from __arrow_c_array__ of {type_name(x)!r}, got {answer!r}"
        )
    return core.from_arrow(schema, array)


def _from_array_method(x):
    """The tensor of what `__array__` returns, an array of NumPy."""
    count = missing.count(x)
    if count:
        raise BufferError(
            f"{type_name(x)!r} has missing values ({count} in all), which a tensor cannot express: "
            f"fill or drop them first"
        )
    answer = {"array": x.__array__()}
    copied = core.holds_alone(answer, "array")
    array = answer.pop("array")
    if not exchange.is_producer(array):
        raise TypeError(f"expected an array from __array__ of {type_name(x)!r}, got {array!r}")
    tensor = exchange.from_dlpack(array)
    owns = getattr(getattr(array, "flags", None), "owndata", False)  # or is a view of others'
    return core.mark_copied(tensor) if copied and owns else tensor


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
            f"expected a buffer of native numbers or bools, got format {form!r} with itemsize "
            f"{itemsize}, which DLPack cannot describe: convert the values first"
        )
    return dtype.__dlpack_data_type__()


def empty(shape, dtype="float32", device="cpu"):
    """fastdl.empty, complete by itself: the compiled function serves ordinary shapes, names of
    types and the host."""
    target = Device(device)
    numbers = DType(dtype).__dlpack_data_type__()
    shape = _sizes(shape)
    if target == CPU:
        return core.host_empty(shape, numbers)
    if target.stream_kind not in DEFAULT:
        raise BufferError(
            f"expected a device on which fastdl allocates (the host, CUDA, ROCm), got {target}: "
            f"allocate with its own library, and import the result"
        )
    return driver.empty(shape, numbers, *target.__dlpack_device__())


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
