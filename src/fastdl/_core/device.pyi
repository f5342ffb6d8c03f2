from enum import IntEnum
from typing import Final, Protocol, SupportsIndex, TypeAlias, final, overload

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

class _SupportsDevice(Protocol):
    def __dlpack_device__(self) -> tuple[int, int]: ...

# A torch.device, a jax.Device.
class _TorchDevice(Protocol):
    @property
    def type(self) -> str: ...
    @property
    def index(self) -> int: ...

class _JaxDevice(Protocol):
    @property
    def platform(self) -> str: ...
    @property
    def local_hardware_id(self) -> int | None: ...

# What every `device` argument accepts.
_DeviceLike: TypeAlias = (
    str
    | tuple[SupportsIndex, SupportsIndex]
    | Device
    | DeviceType
    | _SupportsDevice
    | _TorchDevice
    | _JaxDevice
)

@final
class Device:
    @overload
    def __new__(cls, type: _DeviceLike, id: None = None) -> Self: ...
    @overload
    def __new__(cls, type: SupportsIndex, id: SupportsIndex) -> Self: ...
    @property
    def type(self) -> DeviceType | int: ...
    @property
    def id(self) -> int: ...
    @property
    def is_host(self) -> bool: ...
    @property
    def stream_kind(self) -> int: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

# What follows is only for fastdl's own Python layer.

CPU: Final[Device]

def make_device(number: int, ordinal: int) -> Device: ...
def normalised(number: SupportsIndex, ordinal: SupportsIndex) -> Device: ...
