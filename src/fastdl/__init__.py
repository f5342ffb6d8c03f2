"""fastdl passes tensors from one framework to another, or to C, without copying them.

>>> import fastdl, numpy as np
>>> fastdl.from_dlpack(np.arange(3.0, dtype=np.float32))
fastdl.Tensor([0, 1, 2], shape=(3,), dtype=float32, device=cpu:0)
"""

from fastdl import _policy
from fastdl._build import get_include, get_sources
from fastdl._convert.asarray import asarray
from fastdl._convert.codec import decode, encode
from fastdl._convert.convert import convert
from fastdl._convert.pickling import unpickle as _unpickle  # noqa: F401 - pickles contain the name
from fastdl._convert.producing import producer
from fastdl._core.device import Device, DeviceType
from fastdl._core.dtype import DType
from fastdl._core.errors import CopyRequiredError
from fastdl._core.exchange import (
    MAX_VERSION,
    exchange_api,
    from_dlpack,
    register_exchange_api,
)
from fastdl._core.tensor import Tensor, empty
from fastdl._protocol.pointer import from_pointer
from fastdl._protocol.streams import use_stream
from fastdl._version import __version__

#: The version of DLPack that fastdl implements.
dlpack_version = MAX_VERSION

_policy.connect()


def __dir__() -> list[str]:
    """Only the public names."""
    return sorted(__all__)


__all__ = [
    "CopyRequiredError",
    "DType",
    "Device",
    "DeviceType",
    "Tensor",
    "__version__",
    "asarray",
    "convert",
    "decode",
    "dlpack_version",
    "empty",
    "encode",
    "exchange_api",
    "from_dlpack",
    "from_pointer",
    "get_include",
    "get_sources",
    "producer",
    "register_exchange_api",
    "use_stream",
]
