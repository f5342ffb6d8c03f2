from collections.abc import Callable, Iterable, Mapping
from typing import Any, final

from typing_extensions import CapsuleType

from fastdl._core.device import Device
from fastdl._core.dtype import DType
from fastdl._core.tensor import Tensor

ANY: int
POSITIVE: int
DENSE: int
COMPACT: int
KEPT: int
IMMUTABLE: int
COPIED: int
BY_VERSION: tuple[str, ...]
HOST: str
DEVICE: str
ANYWHERE: str

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
    def of(self, version: str, built: Mapping[str, Any] | None = None) -> Bridge: ...
    def start(self) -> None: ...
