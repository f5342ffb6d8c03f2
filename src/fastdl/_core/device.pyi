from enum import IntEnum
from typing import Final, Protocol, SupportsIndex, TypeAlias, final, overload

from typing_extensions import Self

class DeviceType(IntEnum):
    """The device types of DLPack 1.3, numbered as DLDeviceType.

    >>> fastdl.empty(3).device.type is fastdl.DeviceType.CPU
    True
    """

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
    """A device: its type and its number among those of that type.

    Made from what people have:

    - a name: "cpu", "cuda:1"; without a number the first of its type, as a DeviceType is;
    - a device of torch, JAX, CuPy, cuda.core or tvm-ffi, which is not imported for that (CUDA's and
      ROCm's without a number are the first); or any object with `__dlpack_device__` that is no
      tensor;
    - the two numbers of a DLDevice: `Device(2, 1)`, `Device((2, 1))`. Types that DLPack 1.3 does
      not know are carried along.

    There is one CPU: ValueError for a number other than 0, and for a name that is none or a device
    that DLPack does not have. TypeError for other objects.

    A Device never changes. It equals everything that it could be made from. Its hash is that of its
    full name, such as "cuda:0"; other forms are equal and have other hashes.

    >>> device = fastdl.empty(3).device
    >>> device
    Device('cpu:0')
    >>> device == "cpu" and device == (1, 0) and device == fastdl.DeviceType.CPU
    True
    >>> fastdl.Device("gpu:1")
    Traceback (most recent call last):
    ValueError: expected a device such as 'cpu' or 'cuda:0', got 'gpu:1': did you mean 'cuda' or 'rocm'?
    """

    @overload
    def __new__(cls, type: _DeviceLike, id: None = None) -> Self: ...
    @overload
    def __new__(cls, type: SupportsIndex, id: SupportsIndex) -> Self: ...
    @property
    def type(self) -> DeviceType | int:
        """A DeviceType, or an int that DLPack 1.3 does not know."""
    @property
    def id(self) -> int:
        """Which of the devices of its type, from 0."""
    @property
    def is_host(self) -> bool:
        """Whether the CPU may read and write the memory with no device involved."""
    @property
    def stream_kind(self) -> int:
        """Which row of the stream tables applies: a key of _protocol.streams."""
    def __dlpack_device__(self) -> tuple[int, int]:
        """(device type, device id) as plain ints: how libraries exchange devices.

        >>> fastdl.Device("cuda:1").__dlpack_device__()
        (2, 1)
        """
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

# What follows is only for fastdl's own Python layer.

CPU: Final[Device]

def make_device(number: int, ordinal: int) -> Device: ...
def normalised(number: SupportsIndex, ordinal: SupportsIndex) -> Device: ...
