from enum import IntEnum
from typing import Final, NamedTuple, SupportsIndex, TypeAlias, overload

from typing_extensions import Self

class DeviceType(IntEnum):
    CPU = 1
    CUDA = 2
    CUDA_HOST = 3
    OPENCL = 4
    VULKAN = 7
    METAL = 8
    VPI = 9
    ROCM = 10
    ROCM_HOST = 11
    EXT_DEV = 12
    CUDA_MANAGED = 13
    ONEAPI = 14
    WEBGPU = 15
    HEXAGON = 16
    MAIA = 17
    TRN = 18

class _Fields(NamedTuple):
    type: DeviceType | int  # an int where DLPack 1.3 does not know the number
    id: int

class Device(_Fields):
    @overload
    def __new__(cls, type: _DeviceLike, id: None = None) -> Self: ...
    @overload
    def __new__(cls, type: SupportsIndex, id: SupportsIndex) -> Self: ...
    @property
    def is_host(self) -> bool: ...
    @property
    def stream_kind(self) -> int: ...

# What every `device` argument accepts.
_DeviceLike: TypeAlias = str | tuple[SupportsIndex, SupportsIndex] | Device | DeviceType

CPU: Final[Device]

def make_device(number: int, ordinal: int) -> Device: ...
def normalised(number: SupportsIndex, ordinal: SupportsIndex) -> Device: ...
