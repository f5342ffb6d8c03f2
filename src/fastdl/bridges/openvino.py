"""OpenVINO. Its tensors have no `__dlpack__`; they are made on arrays of NumPy."""

from fastdl._convert.convert import COMPACT, COPIED, Bridge
from fastdl._core import exchange


def make(tensor, like):
    from openvino import Tensor

    return Tensor(tensor.numpy(), shared_memory=True)


def read(x):
    return exchange.from_dlpack(x.data)


BRIDGES = (
    Bridge(
        "openvino.Tensor",
        title="OpenVINO",
        classes=("openvino:Tensor",),
        make=make,
        read=read,
        strides=COMPACT,
        readonly=COPIED,
        dtypes=(
            *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float16", "float32", "float64"),
        ),
    ),
)
