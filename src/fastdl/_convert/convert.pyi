from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, TypeVar, final, overload

from typing_extensions import CapsuleType

from fastdl._core.tensor import Tensor

_T = TypeVar("_T")

@overload
def convert(x: object, like: type[_T], /, *, copy: bool | None = None) -> _T: ...
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

@final
class Bridge:
    name: str
    title: str
    classes: tuple[str, ...]
    make: Callable[[Tensor, Any], Any]
    read: Callable[[Any], Tensor] | None
    copies: bool | Callable[[Tensor], bool]
    quick: Callable[[], CapsuleType | None] | None
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
        make: Callable[[Tensor, Any], Any],
        read: Callable[[Any], Tensor] | None = None,
        strides: int = 0,
        readonly: int = 0,
        alignment: int = 1,
        ndims: tuple[int, int] = (0, 64),
        dtypes: Iterable[str] | None = None,
        copies: bool | Callable[[Tensor], bool] = False,
        devices: str = "host",
        quick: Callable[[], CapsuleType | None] | None = None,
    ) -> None: ...
    def speed_up(self, capsule: CapsuleType | None) -> None: ...

def install(
    *,
    convert: Callable[..., Any],
    explain: Callable[..., Any],
    refuse: Callable[..., Any],
    forbid: Callable[..., Any],
    copy: Callable[..., Any],
) -> None: ...
def remember(key: type | ModuleType, bridge: Bridge) -> None: ...
def why_copied(bridge: Bridge, tensor: Tensor, immutable: bool) -> str | None: ...
def make(
    tensor: Tensor, bridge: Bridge, x: object, like: object, immutable: bool, copy: bool | None
) -> Any: ...
