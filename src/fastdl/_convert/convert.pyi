from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, final, overload

import numpy.typing as npt
from typing_extensions import CapsuleType

from fastdl._core.device import Device, _DeviceLike
from fastdl._core.dtype import DType
from fastdl._core.tensor import Tensor

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

# The modules of libraries, by the name of the type that convert makes: numpy, jax, torch. They come
# first below, since pyright also accepts a module as a type.
class _HasNdarray(Protocol[_T_co]):
    @property
    def ndarray(self) -> type[_T_co]: ...

class _HasArray(Protocol[_T_co]):
    @property
    def Array(self) -> type[_T_co]: ...

class _HasTensor(Protocol[_T_co]):
    @property
    def Tensor(self) -> type[_T_co]: ...

_Module: TypeAlias = _HasNdarray[_T] | _HasArray[_T] | _HasTensor[_T]
_NumPy: TypeAlias = Literal["numpy", "numpy.ndarray"]
_Fastdl: TypeAlias = Literal["fastdl", "fastdl.Tensor"]
_Device: TypeAlias = _DeviceLike | None
_Copy: TypeAlias = bool | None

@overload
def convert(
    x: object,
    like: _Module[_T],
    /,
    *,
    device: _Device = None,
    copy: _Copy = None,
    stream: Any = None,
) -> _T: ...
@overload
def convert(
    x: object,
    like: ModuleType,
    /,
    *,
    device: _Device = None,
    copy: _Copy = None,
    stream: Any = None,
) -> Any: ...
@overload
def convert(
    x: object, like: type[_T], /, *, device: _Device = None, copy: _Copy = None, stream: Any = None
) -> _T: ...
@overload
def convert(
    x: object, like: _NumPy, /, *, device: _Device = None, copy: _Copy = None, stream: Any = None
) -> npt.NDArray[Any]: ...
@overload
def convert(
    x: object, like: _Fastdl, /, *, device: _Device = None, copy: _Copy = None, stream: Any = None
) -> Tensor: ...
@overload
def convert(
    x: object, like: str, /, *, device: _Device = None, copy: _Copy = None, stream: Any = None
) -> Any: ...
@overload
def convert(
    x: object, like: _T, /, *, device: _Device = None, copy: _Copy = None, stream: Any = None
) -> _T: ...

# What follows is only for fastdl's own Python layer.

ANY: int
POSITIVE: int
DENSE: int
COMPACT: int
KEPT: int
IMMUTABLE: int
COPIED: int
HOST: str
DEVICE: str
ANYWHERE: str
REASONS: tuple[str | None, ...]
WRAPPER: CapsuleType
ALLOCATOR: CapsuleType

@final
class Bridge:
    name: str
    title: str
    classes: tuple[str, ...]
    make: Callable[[Tensor, Any], Any] | None
    read: Callable[..., Tensor] | None
    reads: frozenset[str] | None
    read_copy: Callable[[Any], Tensor] | None
    move: Callable[[Any, Device], Any] | None
    empty: Callable[[tuple[int, ...], DType, Device], Any] | None
    copies: bool | Callable[[Tensor], bool | None]
    quick: Callable[[], CapsuleType | Callable[[Tensor], Any] | None] | None
    strides: int
    readonly: int
    alignment: int
    ndims: tuple[int, int]
    dtypes: frozenset[str] | None
    devices: str
    since: str
    before: dict[str, Mapping[str, Any]]
    built: Callable[[], Mapping[str, Any]] | None
    outdated: str | None
    def __init__(
        self,
        name: str,
        *,
        title: str,
        classes: Iterable[str],
        make: Callable[[Tensor, Any], Any] | None = None,
        read: Callable[..., Tensor] | None = None,
        reads: Iterable[str] | None = None,
        read_copy: Callable[[Any], Tensor] | None = None,
        move: Callable[[Any, Device], Any] | None = None,
        empty: Callable[[tuple[int, ...], DType, Device], Any] | None = None,
        strides: int = 0,
        readonly: int = 0,
        alignment: int = 1,
        ndims: tuple[int, int] = (0, 64),
        dtypes: Iterable[str] | None = None,
        copies: bool | Callable[[Tensor], bool | None] = False,
        devices: str = "host",
        quick: Callable[[], CapsuleType | Callable[[Tensor], Any] | None] | None = None,
        since: str = "",
        before: Mapping[str, Mapping[str, Any]] | None = None,
        built: Callable[[], Mapping[str, Any]] | None = None,
    ) -> None: ...
    def state(
        self,
        *,
        make: Callable[[Tensor, Any], Any] | None = None,
        strides: int = 0,
        readonly: int = 0,
        alignment: int = 1,
        ndims: tuple[int, int] = (0, 64),
        dtypes: Iterable[str] | None = None,
        copies: bool | Callable[[Tensor], bool | None] = False,
        devices: str = "host",
    ) -> None: ...
    def of(self, version: str, built: Mapping[str, Any] | None = None) -> Bridge: ...
    def start(self) -> None: ...
    def speed_up(self, path: CapsuleType | Callable[[Tensor], Any] | None) -> None: ...

def install(module: ModuleType) -> None: ...
def read(x: object, own: Bridge) -> Tensor | None: ...
def remember(key: type | ModuleType, bridge: Bridge) -> None: ...
def cached(key: type | ModuleType) -> Bridge | None: ...
def fit(tensor: Tensor, bridge: Bridge, x: object, copy: bool | None) -> Tensor: ...
def make(
    tensor: Tensor, bridge: Bridge, x: object, like: object, copy: bool | None, stream: object
) -> Any: ...
