# SPDX-License-Identifier: Apache-2.0
"""fastdl passes tensors from one framework to another, or to C, without copying them.

>>> import fastdl, numpy as np
>>> fastdl.from_dlpack(np.arange(3.0, dtype=np.float32))
fastdl.Tensor([0., 1., 2.], shape=(3,), dtype=float32, device=cpu:0)
"""

from fastdl import _policy
from fastdl._convert.convert import convert, convert_tree
from fastdl._core.device import Device, DeviceType
from fastdl._core.dtype import DType
from fastdl._core.errors import CopyRequiredError
from fastdl._core.exchange import (
    MAX_VERSION,
    exchange_api,
    from_dlpack,
    register_exchange_api,
)
from fastdl._core.tensor import Tensor, empty
from fastdl._policy import unpickle as _unpickle  # noqa: F401 - pickles contain the name
from fastdl._version import __version__

TYPE_CHECKING = False  # instead of typing's: `import fastdl` need not load that
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, SupportsIndex, TypeVar

    from fastdl._convert.asarray import _ArrayLike
    from fastdl._core.device import _DeviceLike
    from fastdl._core.dtype import _DTypeLike

    _Class = TypeVar("_Class", bound=type)

#: The version of DLPack that fastdl implements.
dlpack_version = MAX_VERSION

_policy.connect()


# ---- functions of modules that are loaded when they are first used --------------------------


def asarray(
    x: "_ArrayLike", /, *, device: "_DeviceLike | None" = None, copy: "bool | None" = None
) -> Tensor:
    """A fastdl.Tensor on the memory of anything that exposes an array or a buffer.

    x: see below.
    device: where the result must be, as in fastdl.from_dlpack; None: where x is.
    copy: True always copies, False never does (CopyRequiredError), None copies if it must.

    Uses the first of these interfaces that x has. DLPack comes first, then the interfaces that the
    type of x defines, then those that only the object has:

    1. DLPack, as in fastdl.from_dlpack: arrays of NumPy, torch, JAX, CuPy, MLX, PyArrow, ...; or a
       reader of fastdl's, for data that its library cannot export (MXNet, OpenVINO, tinygrad, bools
       and lists of PyArrow, narrow integers of JAX) or describes wrongly (booleans of ONNX
       Runtime).
    2. `__cuda_array_interface__`: Numba and others; the device of the memory comes from the CUDA
       driver.
    3. the buffer protocol: bytes, array.array, memoryview, mmap, shared memory, ctypes. The buffer
       stays locked as long as the result lives: its owner cannot be resized or closed.
    4. `__array_interface__`: Pillow's images.
    5. `__arrow_c_array__`, `__array__` or `__arrow_c_stream__`, whichever describes the data:
       Series, DataFrames, DataArrays, NumPy's scalars (before their buffer, which has no type for
       dates), and Arrow's arrays and tables. Lists of equal size in a column add a dimension, and
       so do the columns of a table. Arrow's memory is read-only.

    The memory is shared if x shares it and `device` allows it. Pillow, scalars, NumPy arrays in
    another byte order, tables, chunks, Arrow's bools, and Series of some types return a copy, and
    `is_copied` is True. Missing values never become numbers: masked elements, nulls of Arrow and
    polars (also in lists, structs and dictionaries) and NA of pandas raise a BufferError that
    counts them, also in data held by dask, xarray and narwhals. (NaN is a number.) Arrays with a
    unit (astropy, pint) raise one, too: see docs/hazards.md.

    The result keeps the memory alive. TypeError if x has none of these. BufferError if DLPack
    cannot describe the data (text, dates, Python objects), or `device` cannot be reached.
    MemoryError if there is no memory for a copy. Costs as for fastdl.from_dlpack, or microseconds
    for the other interfaces.

    >>> import array
    >>> fastdl.asarray(array.array("d", [1, 2, 3]))
    fastdl.Tensor([1., 2., 3.], shape=(3,), dtype=float64, device=cpu:0)
    >>> import numpy as np
    >>> fastdl.asarray(np.ma.array([1, 2, 3], mask=[0, 1, 0]))
    Traceback (most recent call last):
    BufferError: the array has masked elements (1 of 3), which a tensor cannot express: pass \
x.filled(...)
    """
    return _policy.asarray.asarray(x, device, copy)


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
) -> Tensor:
    """A fastdl.Tensor on memory at an address: of ctypes, cffi, a C library, or a driver.

    address: of the first element, as an int; on OpenCL, Vulkan, Metal and the like the handle of
        the memory. 0 is allowed only without elements.
    shape: the sizes of the dimensions in elements, an int or a sequence of ints.
    dtype, device: anything that fastdl.DType and fastdl.Device accept.
    strides: in elements, one for each dimension. None: row-major without gaps.
    owner: any object, kept alive as long as the memory is used: by the result, its views, and the
        objects of other libraries on them.
    deleter: called once, without arguments, when the memory is no longer used; then `owner` is
        released. If from_pointer raises one of the errors below or MemoryError, the deleter is not
        called: the memory is still yours. After an interrupt it may have been called.
    readonly: whether the elements must not be written.
    stream: CUDA and ROCm only: the stream on which the memory is ready, in any form that
        from_dlpack accepts. None: the thread's work stream. -1: the caller orders all work.

    The deleter runs on the thread that ends the last use, with the GIL. fastdl first waits for its
    own copies of the memory, and for no other work on a device; on a thread without Python, or
    where it may not wait, it defers the deleter of device memory: see docs/streams.md, "Memory in
    flight". Its exceptions go to sys.unraisablehook. After Python has ended the deleter is not
    called, and `owner` is leaked. A reference cycle through `owner` or `deleter` back to the result
    is never collected.

    The arguments are checked: sizes, strides, and that no element is outside the address space.
    Whether the memory exists, is on that device, is large enough, has that type, and remains valid
    cannot be checked; a wrong address crashes the process. An address that is not a multiple of the
    element size is accepted, as in every import; some libraries require more (see docs/hazards.md).
    With neither `owner` nor `deleter` you must keep the memory alive.

    TypeError: an argument has the wrong type. BufferError: the tensor is invalid, or its stream
    cannot be ordered. ValueError: the device has no such stream, or as for DType and Device.

    >>> import ctypes
    >>> memory = (ctypes.c_int32 * 6)(*range(6))
    >>> fastdl.from_pointer(ctypes.addressof(memory), (2, 3), "int32", owner=memory).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    return _policy.pointer.from_pointer(
        address, shape, dtype, device, strides, owner, deleter, readonly, stream
    )


def from_managed(address: "SupportsIndex", *, versioned: bool = True) -> Tensor:
    """Takes over the managed tensor at an address, from ctypes, cffi, C or Rust, as a
    fastdl.Tensor.

    address: of a DLManagedTensorVersioned, as an int: `ctypes.addressof(managed)`,
        `int(ffi.cast("uintptr_t", managed))`.
    versioned: False if it is a DLManagedTensor, the form before DLPack 1.0. It has no flags, so the
        result is writable.

    The managed tensor is consumed and checked as if it came in a capsule. Its deleter is called
    exactly once: when the memory is no longer used, on the thread that ends the last use, or before
    a BufferError about the tensor. The tensor is still yours after a TypeError or BufferError about
    `address` or `versioned`, and if fastdl detects that it has the other form. If it has no
    deleter, keep the memory alive yourself.

    A wrong or freed address crashes the process. Order the work that is already queued on
    device memory yourself.

    TypeError: an argument has the wrong type. BufferError: the address is 0 or not aligned, or the
    tensor is malformed or of another major version.

    >>> fastdl.from_managed(fastdl.to_managed(bytearray(b"abc"))).tolist()
    [97, 98, 99]
    """
    return _policy.pointer.from_managed(address, versioned)


def to_managed(x: "_ArrayLike", /, *, max_version: "tuple[int, int] | None" = (1, 0)) -> int:
    """Exports `x` as a new managed tensor, which the caller owns, and returns its address: for
    ctypes, cffi, C or Rust.

    x: anything that fastdl.asarray accepts.
    max_version: the newest version that the receiver of the address reads, as in `__dlpack__`. From
        (1, 0) on the result is a DLManagedTensorVersioned; for an older version or None, a
        DLManagedTensor.

    The managed tensor keeps the memory alive until its deleter is called: exactly once, on any
    thread, with or without the GIL. If nobody calls it, the memory leaks; fastdl.from_managed takes
    the tensor back. Nothing is owned after an exception. Device memory is ready on the default
    stream of its device.

    Errors as for fastdl.asarray. BufferError: the data is read-only, which a DLManagedTensor cannot
    express, or elements share bytes and `max_version` is older than (1, 1). TypeError, ValueError:
    `max_version` is not a version.

    >>> managed = fastdl.to_managed(fastdl.empty(3))
    >>> fastdl.from_managed(managed).shape
    (3,)
    """
    return _policy.pointer.to_managed(asarray(x), max_version)


def encode(x: "Any", /) -> tuple[bytes, memoryview]:
    """Returns a header and the bytes of a host tensor, for sending; `decode` makes a tensor from
    both.

    `x` is a Tensor or anything that `asarray` accepts. The header has 10 bytes plus 8 for each
    dimension, and contains element type and shape. The memoryview shares and keeps alive the memory
    of `x`, and covers only the span of `x`, not the rest of an array that `x` is a view of. If the
    elements have gaps, it shows a compact copy. Every element type of DLPack can be encoded. Costs
    a few microseconds.

    BufferError if the tensor is on another device; other errors as for `asarray`.

    >>> header, data = fastdl.encode(np.arange(6, dtype=np.int16).reshape(2, 3))
    >>> len(header), data.nbytes
    (26, 12)
    >>> fastdl.decode(header, data).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    return _policy.codec.encode(x)


def decode(header: "Any", buffer: "Any", /) -> Tensor:
    """A Tensor on `buffer`, as described by a `header` of `encode`, without a copy.

    Both are bytes or other objects with a buffer, from any source: they are validated. The Tensor
    keeps `buffer` alive. It is read-only if `buffer` is. A buffer may be longer than the tensor,
    such as one that is reused for each message. Costs a few microseconds.

    ValueError if the header was not made by `encode`, if a newer release made it in a form unknown
    to this one, or if the buffer is too short for the tensor. BufferError if `buffer` is not
    contiguous or has Python objects, or if one of the two was released. TypeError if one of the two
    has no buffer.

    >>> header, data = fastdl.encode(np.float32([1.5, 2.5]))
    >>> fastdl.decode(header, bytes(data))
    fastdl.Tensor([1.5, 2.5], shape=(2,), dtype=float32, device=cpu:0, readonly)
    """
    return _policy.codec.decode(header, buffer)


def producer(attribute: str) -> "Callable[[_Class], _Class]":
    """A class decorator: every library can use instances as tensors, on the memory of an attribute.

    attribute: the name of an attribute or a property, which may be anything that fastdl.asarray
        accepts: an array of any library, a buffer, a fastdl.Tensor. It is read at each export, and
        may be a different object each time.

    The class gets `__dlpack__` with all keywords of the three generations of the protocol,
    `__dlpack_device__`, `__dlpack_info__`, and an exchange table. An export keeps the memory of the
    attribute alive, not the instance. Subclasses inherit all that.

    TypeError: `attribute` is not a name, the decorated object is not a class, or the class has one
    of these methods itself. An export raises what reading the attribute and fastdl.asarray raise.

    >>> @fastdl.producer("pixels")
    ... class Image:
    ...     def __init__(self, height, width):
    ...         self.pixels = bytearray(height * width)
    >>> fastdl.from_dlpack(Image(1, 3)).tolist()
    [0, 0, 0]
    """
    return _policy.producing.producer(attribute)


class use_stream:
    """Makes `stream` the calling thread's work stream for `device` within a `with` block.

    Imports without a `stream` are ready on the work stream, and C code gets it from
    `fastdl_work_stream` and the exchange tables of fastdl. Outside of such blocks it is the
    device's default stream. Blocks nest; other threads are not affected.

    device: a CUDA or ROCm device, in any form that fastdl.Device accepts. Managed and pinned memory
        of the same number use the same stream.
    stream: as for `Tensor.record`. A stream object is kept alive; if you pass a number, keep the
        stream alive until the block ends.

    Consumers of a tensor that C code got within the block wait for the work of that code on
    `stream`. To pass such a tensor to another thread before the block ends, call `Tensor.record`
    first.

    ValueError and TypeError as in `Tensor.record`. RuntimeError if a block is entered again
    within itself, or exited on another thread.

    >>> stream = 94_000_000_000_016  # torch.cuda.Stream(), a cuda.core.Stream, a handle, ...
    >>> with fastdl.use_stream("cuda:0", stream):
    ...     pass  # imports are ready on it, and C code gets it
    """

    def __init__(self, device: "_DeviceLike", stream: object) -> None:
        self._scope = _policy.streams.scope(device, stream)

    def __enter__(self) -> "use_stream":
        self._scope.begin()
        return self

    def __exit__(self, *error: object) -> None:
        self._scope.end()


def get_include() -> str:
    """The folder to pass to a compiler as `-I`, so that `#include <fastdl/fastdl.h>` is found.

    >>> import pathlib
    >>> pathlib.Path(fastdl.get_include(), "fastdl", "fastdl.h").exists()
    True
    """
    from fastdl import _build

    return _build.get_include()


def get_sources() -> list[str]:
    """The path of fastdl.c, to be added to the sources of an extension module in C, unless one of
    its files defines FASTDL_IMPLEMENTATION. The path is absolute, which setuptools refuses: there,
    add a file of your own with the line `#include <fastdl/fastdl.c>`.

    >>> fastdl.get_sources()[0].endswith("fastdl.c")
    True
    """
    from fastdl import _build

    return _build.get_sources()


def __dir__() -> list[str]:
    """Only the public names."""
    DeviceType(1)  # loads the class: help() documents what has these names
    return sorted(__all__)


__all__ = [
    "CopyRequiredError",
    "DType",
    "Device",
    "DeviceType",
    "Tensor",
    "__version__",
    "asarray",
    "convert",
    "convert_tree",
    "decode",
    "dlpack_version",
    "empty",
    "encode",
    "exchange_api",
    "from_dlpack",
    "from_managed",
    "from_pointer",
    "get_include",
    "get_sources",
    "producer",
    "register_exchange_api",
    "to_managed",
    "use_stream",
]
