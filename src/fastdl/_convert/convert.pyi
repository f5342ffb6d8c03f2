# SPDX-License-Identifier: Apache-2.0
from types import ModuleType
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, overload

import jax
import numpy.typing as npt
import torch
from typing_extensions import CapsuleType

from fastdl._bridges.bridge import Bridge
from fastdl._core.device import _DeviceLike
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
_PyTorch: TypeAlias = Literal["torch", "torch.Tensor"]
_JAX: TypeAlias = Literal["jax", "jax.Array"]
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
    x: object, like: _NumPy, /, *, device: _Device = None, copy: _Copy = None, stream: Any = None
) -> npt.NDArray[Any]: ...
@overload
def convert(
    x: object, like: _PyTorch, /, *, device: _Device = None, copy: _Copy = None, stream: Any = None
) -> torch.Tensor: ...
@overload
def convert(
    x: object, like: _JAX, /, *, device: _Device = None, copy: _Copy = None, stream: Any = None
) -> jax.Array: ...
@overload
def convert(
    x: object, like: _Fastdl, /, *, device: _Device = None, copy: _Copy = None, stream: Any = None
) -> Tensor: ...
@overload
def convert(
    x: object,
    like: ModuleType | str,
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
    x: object, like: _T, /, *, device: _Device = None, copy: _Copy = None, stream: Any = None
) -> _T: ...
def convert_tree(tree: Any, like: object, *, device: _Device = None, copy: _Copy = None) -> Any: ...

# What follows is only for fastdl's own Python layer.

REASONS: tuple[str | None, ...]
WRAPPER: CapsuleType
ALLOCATOR: CapsuleType

def install(module: ModuleType) -> None: ...
def read(x: object, own: Bridge) -> Tensor | None: ...
def remember(key: type | ModuleType, bridge: Bridge) -> None: ...
def cached(key: type | ModuleType) -> Bridge | None: ...
def fit(tensor: Tensor, bridge: Bridge, x: object, copy: bool | None) -> Tensor: ...
def make(
    tensor: Tensor, bridge: Bridge, x: object, like: object, copy: bool | None, stream: object
) -> Any: ...
