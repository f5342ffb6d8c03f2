from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, TypeVar, final, overload

from typing_extensions import CapsuleType

from fastdl._core.tensor import Tensor

_T = TypeVar("_T")

@overload
def convert(x: object, like: type[_T], /, *, copy: bool | None = None) -> _T:
    """An object of another library on the memory of `x`; a copy where that library needs one.

    x: whatever fastdl.asarray takes.
    like: what to make: a type (numpy.ndarray, torch.Tensor, jax.Array, ...), the module of a
        library, or an example. It chooses the library; the element type is that of `x`.
    copy: None copies if the library could not use the memory safely. False raises
        CopyRequiredError then. True always copies.

    `x` itself is returned if it already is such an object and `copy` is not True. The result keeps
    the memory alive. fastdl knows what each library takes (docs/hazards.md has the table), and
    copies where it has to: read-only data for a library whose arrays are always writable, negative
    strides for one that would abort. So the result is right whatever the layout, and nobody can
    write through it to memory that was read-only.

    TypeError: `x` is no tensor, or `like` names no library. BufferError: the library has no such
    element type, number of dimensions or device, or refused (its exception is the cause).
    CopyRequiredError: see `copy`. MemoryError: there is not enough for a copy.

    >>> import fastdl, numpy as np
    >>> fastdl.convert(bytearray(b"abc"), np.ndarray)
    array([97, 98, 99], dtype=uint8)
    """

@overload
def convert(x: object, like: ModuleType, /, *, copy: bool | None = None) -> Any: ...
@overload
def convert(x: object, like: _T, /, *, copy: bool | None = None) -> _T: ...

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
    read: Callable[[Any], Tensor] | None
    reads: frozenset[str] | None
    copies: bool | Callable[[Tensor], bool]
    quick: Callable[[], CapsuleType | Callable[[Tensor], Any] | None] | None
    strides: int
    readonly: int
    alignment: int
    ndims: tuple[int, int]
    dtypes: frozenset[str] | None
    devices: str
    def __init__(
        self,
        name: str,
        *,
        title: str,
        classes: Iterable[str],
        make: Callable[[Tensor, Any], Any] | None = None,
        read: Callable[[Any], Tensor] | None = None,
        reads: Iterable[str] | None = None,
        strides: int = 0,
        readonly: int = 0,
        alignment: int = 1,
        ndims: tuple[int, int] = (0, 64),
        dtypes: Iterable[str] | None = None,
        copies: bool | Callable[[Tensor], bool] = False,
        devices: str = "host",
        quick: Callable[[], CapsuleType | Callable[[Tensor], Any] | None] | None = None,
    ) -> None: ...
    def start(self) -> None: ...
    def speed_up(self, way: CapsuleType | Callable[[Tensor], Any] | None) -> None: ...

def install(
    *,
    convert: Callable[..., Any],
    explain: Callable[..., Any],
    refuse: Callable[..., Any],
    forbid: Callable[..., Any],
    copy: Callable[..., Any],
    find: Callable[[type], Bridge | None],
    unknown: Callable[[type], Bridge],
) -> None: ...
def read(x: object, own: Bridge) -> Tensor: ...
def remember(key: type | ModuleType, bridge: Bridge) -> None: ...
def known(key: type | ModuleType) -> Bridge | None: ...
def fit(
    tensor: Tensor, bridge: Bridge, x: object, immutable: bool, copy: bool | None
) -> Tensor: ...
def make(
    tensor: Tensor, bridge: Bridge, x: object, like: object, immutable: bool, copy: bool | None
) -> Any: ...
