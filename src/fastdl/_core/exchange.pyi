from collections.abc import Callable
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

# What follows is for the Python floor of fastdl alone.

MAX_VERSION: tuple[int, int]
TYPE_IMMUTABLE: int
TYPE_ASK_BITS: int
TYPE_KEEP: int
TYPE_NONE_WAITS: int
KEYWORD_STREAM: int
KEYWORD_MAX_VERSION: int
KEYWORD_DL_DEVICE: int
KEYWORD_COPY: int

def install(
    *,
    from_dlpack: Callable[..., Any],
    ask: Callable[..., Any],
    settled: Callable[..., Any],
    is_refusal: Callable[..., Any],
    delivery: Callable[..., Any],
    bridge: Callable[..., Any],
) -> None: ...

runtime: CapsuleType  # what fastdl_import finds

def facts_of(cls: type) -> int: ...
def special(instance: object, name: str) -> Any: ...
def remember(cls: type, refused: int, version: int) -> None: ...
def recall(cls: type) -> tuple[int, int] | None: ...
def acquire(x: object, *, tables_only: bool = False, order: int = 1) -> Tensor | None: ...
def is_producer(x: object) -> bool: ...
def has_native_table(x: object) -> bool: ...
def ask(x: object) -> Tensor: ...
def order_on(x: object, tensor: Tensor, stream: object) -> Tensor: ...
