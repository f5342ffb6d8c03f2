from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias

from typing_extensions import CapsuleType

from fastdl._core.device import _DeviceLike
from fastdl._core.tensor import Tensor

# The generations of the protocol differ in their keywords, and all of them will do.
class _SupportsDLPack(Protocol):
    def __dlpack__(self, *args: Any, **kwargs: Any) -> CapsuleType: ...

_DLPackLike: TypeAlias = _SupportsDLPack | CapsuleType

def from_dlpack(
    x: _DLPackLike,
    /,
    *,
    device: _DeviceLike | None = None,
    copy: bool | None = None,
    stream: object = None,
) -> Tensor: ...
def exchange_api(producer: type | _SupportsDLPack, /) -> CapsuleType: ...
def register_exchange_api(cls: type, table: CapsuleType | int, /) -> None: ...

# What follows is only for fastdl's own Python layer.

MAX_VERSION: tuple[int, int]
TYPE_NATIVE: int
TYPE_IMMUTABLE: int
TYPE_ASK_BITS: int
TYPE_KEEP: int
TYPE_NONE_WAITS: int
TYPE_UNORDERED: int
KEYWORDS: dict[str, int]

def install(
    *,
    from_dlpack: Callable[..., Any],
    over_protocol: Callable[..., Any],
    after_table: Callable[..., Any],
    delivery: Callable[..., Any],
    bridge: Callable[..., Any],
) -> None: ...

runtime: CapsuleType  # what fastdl_import finds

def facts_of(cls: type) -> int: ...
def special(instance: object, name: str) -> Any: ...
def refused_by(cls: type) -> int: ...
def refusal(error: TypeError, asked: Iterable[str], frames: int) -> int: ...
def acquire(x: object, *, order: int = 1) -> Tensor | None: ...
def is_producer(x: object) -> bool: ...
def has_native_table(x: object) -> bool: ...
def ask(x: object) -> Tensor: ...
def finish(x: object, tensor: Tensor | None, device: object, stream: object) -> Tensor: ...
