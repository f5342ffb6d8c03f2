# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterable
from types import ModuleType
from typing import Any, Protocol, TypeAlias

from typing_extensions import CapsuleType

from fastdl._core.device import Device, _DeviceLike
from fastdl._core.tensor import Tensor

# The generations of the protocol differ in their keywords; any of them is accepted.
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
TYPE_PROTOCOL: int
TYPE_UNORDERED: int
TYPE_READ_ONLY: int
TYPE_TRUSTED: int
TYPE_IMMUTABLE: int
TYPE_BUFFER: int
TYPE_EXPORT_DOES_NOT_SYNC: int
TYPE_LEGACY: int
TYPE_STREAM_NONE_SYNCS: int
TYPE_REFUSES: int
KEYWORDS: dict[str, int]

def install(module: ModuleType) -> None: ...

runtime: CapsuleType  # for fastdl_import

def facts_of(cls: type) -> int: ...
def special(instance: object, name: str) -> Any: ...
def refused_by(cls: type) -> int: ...
def producer(x: object) -> Any: ...
def refusal(error: TypeError, keywords: Iterable[str], frames: int) -> int: ...
def acquire(x: object, *, order: int = 1) -> Tensor | None: ...
def explained(x: object, error: Exception) -> Exception: ...
def where(x: object) -> Device | None: ...
def announced_device(x: object) -> Device: ...
def check_delivery(x: object, type: int, id: int, tensor: Tensor) -> None: ...
def is_producer(x: object) -> bool: ...
def import_over_protocol(x: object) -> Tensor: ...
