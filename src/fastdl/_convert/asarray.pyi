from collections.abc import Iterable
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

def asarray(x: _ArrayLike, /) -> Tensor: ...
def empty(
    shape: SupportsIndex | Iterable[SupportsIndex],
    dtype: _DTypeLike = "float32",
    device: _DeviceLike = "cpu",
    *,
    stream: object = None,
) -> Tensor: ...
def numbers_of_format(form: str, itemsize: int) -> tuple[int, int, int]: ...
