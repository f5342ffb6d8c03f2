"""fastdl: any framework's tensor, used from any other, or from C, without a copy.

>>> import fastdl, numpy as np
>>> fastdl.from_dlpack(np.arange(3.0, dtype=np.float32))
fastdl.Tensor([0, 1, 2], shape=(3,), dtype=float32, device=cpu:0)
"""

from fastdl import _consumer, _cuda_array, _numpy, _producer, _streams, _transfer, _values
from fastdl._asarray import asarray, empty
from fastdl._build import get_include
from fastdl._core import exchange as _exchange
from fastdl._core import tensor as _tensor
from fastdl._core.exchange import exchange_api, from_dlpack, register_exchange_api
from fastdl._core.tensor import Tensor
from fastdl._device import Device, DeviceType, make_device
from fastdl._dtype import DType, make_dtype
from fastdl._errors import CopyRequiredError
from fastdl._streams import use_stream
from fastdl._version import __version__
from fastdl.bridges import lookup as _bridges

#: The version of DLPack that fastdl speaks.
dlpack_version = _exchange.MAX_VERSION

_tensor.install(
    Device=make_device,
    DType=make_dtype,
    dlpack=_producer.export,
    cuda_array_interface=_cuda_array.export_cuda_array,
    numpy=_numpy.numpy,
    array=_numpy.array,
    tolist=_values.tolist,
    item=_values.item,
    text=_values.text,
    to=_transfer.move,
    record=_streams.record,
    release=_streams.release,
)
_exchange.install(
    from_dlpack=_consumer.from_dlpack,
    ask=_consumer.request,
    settled=_consumer.settle,
    is_refusal=_consumer.is_refusal,
    delivery=_consumer.check_delivery,
    bridge=_bridges.find,
)

__all__ = [
    "CopyRequiredError",
    "DType",
    "Device",
    "DeviceType",
    "Tensor",
    "__version__",
    "asarray",
    "dlpack_version",
    "empty",
    "exchange_api",
    "from_dlpack",
    "get_include",
    "register_exchange_api",
    "use_stream",
]
