from collections.abc import Callable, Iterable
from typing import Any, Protocol, SupportsIndex, TypeAlias

from typing_extensions import Buffer

from fastdl._core.device import _DeviceLike
from fastdl._core.dtype import _DTypeLike
from fastdl._core.exchange import _DLPackLike
from fastdl._core.tensor import Tensor

class _SupportsArray(Protocol):
    def __array__(self) -> Any: ...

class _SupportsArrayInterface(Protocol):
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

class _SupportsArrow(Protocol):
    def __arrow_c_array__(self) -> tuple[object, object]: ...

class _SupportsCudaArray(Protocol):
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...

_ArrayLike: TypeAlias = (
    _DLPackLike
    | _SupportsCudaArray
    | Buffer
    | _SupportsArrayInterface
    | _SupportsArrow
    | _SupportsArray
)

def asarray(x: _ArrayLike, /) -> Tensor:
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
    BufferError: the array has masked elements (1 of 3), which a tensor cannot express: pass x.filled(...) or x.compressed()
    """

def empty(
    shape: SupportsIndex | Iterable[SupportsIndex],
    dtype: _DTypeLike = "float32",
    device: _DeviceLike = "cpu",
) -> Tensor: ...

# What follows is only for fastdl's own Python layer.

def interface(x: object) -> tuple[str, Callable[[Any], Tensor]] | tuple[None, None]: ...
def install(*, read: Callable[[object], Tensor | None]) -> None: ...
def numbers_of_format(form: str, itemsize: int) -> tuple[int, int, int]: ...
