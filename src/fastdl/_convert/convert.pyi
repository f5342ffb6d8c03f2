from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, Literal, Protocol, TypeVar, final, overload

import numpy.typing as npt
from typing_extensions import CapsuleType

from fastdl._core.device import _DeviceLike
from fastdl._core.tensor import Tensor

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

# The modules of libraries, by the name of the type that convert makes: numpy, jax, torch. They come
# first below, since pyright takes a module for a type, too.
class _HasNdarray(Protocol[_T_co]):
    @property
    def ndarray(self) -> type[_T_co]: ...

class _HasArray(Protocol[_T_co]):
    @property
    def Array(self) -> type[_T_co]: ...

class _HasTensor(Protocol[_T_co]):
    @property
    def Tensor(self) -> type[_T_co]: ...

@overload
def convert(
    x: object,
    like: _HasNdarray[_T],
    /,
    *,
    device: _DeviceLike | None = None,
    copy: bool | None = None,
    stream: object = None,
) -> _T:
    """An object of another library on the memory of `x`; a copy where that library needs one.

    x: whatever fastdl.asarray takes.
    like: what to make: a type (numpy.ndarray, torch.Tensor, jax.Array, ...), the module of a
        library, the name of one or the other ("torch", "jax.Array"), whose library is imported, or an
        example. It chooses the library; the element type is that of `x`.
    device: where the result must be; None: where `x` is. Data that is elsewhere is copied there.
    copy: None copies if it must, or if the library could not use the memory safely. False raises
        CopyRequiredError then. True always copies.
    stream: CUDA and ROCm only: the stream of the result's device on which it will be used. `device`
        and `stream` mean what they mean in fastdl.from_dlpack, and take the same forms.

    `x` itself is returned if it already is such an object, is on `device`, and `copy` is not True.
    The result keeps the memory alive. fastdl knows what each library takes (docs/hazards.md has the
    table), and copies where it has to: read-only data for a library whose arrays are always
    writable, negative strides for one that would abort. So the result is right whatever the layout,
    and nobody can write through it to memory that was read-only.

    TypeError: `x` is not a tensor, or `like` not a library. ValueError: a name that fastdl does not
    know, or a stream that the device does not have. BufferError: the library has no such element type,
    number of dimensions or device, the device cannot be reached, or the library refused (its exception
    is the cause). CopyRequiredError: see `copy`. MemoryError: there is not enough for a copy.
    ImportError: the library that is named is not installed.

    >>> import fastdl, numpy as np
    >>> fastdl.convert(bytearray(b"abc"), np.ndarray)
    array([97, 98, 99], dtype=uint8)
    """

@overload
def convert(
    x: object,
    like: _HasArray[_T],
    /,
    *,
    device: _DeviceLike | None = None,
    copy: bool | None = None,
    stream: object = None,
) -> _T: ...
@overload
def convert(
    x: object,
    like: _HasTensor[_T],
    /,
    *,
    device: _DeviceLike | None = None,
    copy: bool | None = None,
    stream: object = None,
) -> _T: ...
@overload
def convert(
    x: object,
    like: ModuleType,
    /,
    *,
    device: _DeviceLike | None = None,
    copy: bool | None = None,
    stream: object = None,
) -> Any: ...
@overload
def convert(
    x: object,
    like: type[_T],
    /,
    *,
    device: _DeviceLike | None = None,
    copy: bool | None = None,
    stream: object = None,
) -> _T: ...
@overload
def convert(
    x: object,
    like: Literal["numpy", "numpy.ndarray"],
    /,
    *,
    device: _DeviceLike | None = None,
    copy: bool | None = None,
    stream: object = None,
) -> npt.NDArray[Any]: ...
@overload
def convert(
    x: object,
    like: Literal["fastdl", "fastdl.Tensor"],
    /,
    *,
    device: _DeviceLike | None = None,
    copy: bool | None = None,
    stream: object = None,
) -> Tensor: ...
@overload
def convert(
    x: object,
    like: str,
    /,
    *,
    device: _DeviceLike | None = None,
    copy: bool | None = None,
    stream: object = None,
) -> Any: ...
@overload
def convert(
    x: object,
    like: _T,
    /,
    *,
    device: _DeviceLike | None = None,
    copy: bool | None = None,
    stream: object = None,
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

@final
class Bridge:
    name: str
    title: str
    classes: tuple[str, ...]
    make: Callable[[Tensor, Any], Any] | None
    read: Callable[..., Tensor] | None
    reads: frozenset[str] | None
    read_copy: Callable[[Any], Tensor] | None
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
    def of(self, version: str) -> Bridge: ...
    def start(self) -> None: ...
    def speed_up(self, way: CapsuleType | Callable[[Tensor], Any] | None) -> None: ...

def install(module: ModuleType) -> None: ...
def read(x: object, own: Bridge) -> Tensor | None: ...
def remember(key: type | ModuleType, bridge: Bridge) -> None: ...
def known(key: type | ModuleType) -> Bridge | None: ...
def fit(tensor: Tensor, bridge: Bridge, x: object, copy: bool | None) -> Tensor: ...
def make(
    tensor: Tensor, bridge: Bridge, x: object, like: object, copy: bool | None, stream: object
) -> Any: ...
