"""ONNX Runtime."""

from fastdl._convert.convert import ANYWHERE, COMPACT, COPIED, Bridge
from fastdl._core import exchange


def make(tensor, like):
    from onnxruntime import OrtValue
    from onnxruntime.capi.onnxruntime_pybind11_state import OrtValue as Value

    is_bool = tensor.dtype.name == "bool"  # which it knows as bytes, with a flag of its own
    source = tensor.view("uint8") if is_bool else tensor
    return OrtValue(Value.from_dlpack(source.__dlpack__(), is_bool))


def read(x):
    tensor = exchange.from_dlpack(x)
    return tensor.view("bool") if x.data_type() == "tensor(bool)" else tensor


BRIDGES = (
    Bridge(
        "onnxruntime.OrtValue",
        title="ONNX Runtime",
        classes=("onnxruntime:OrtValue",),
        make=make,
        read=read,
        reads=("uint8",),  # which may be bool
        strides=COMPACT,
        readonly=COPIED,
        dtypes=(
            *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float16", "float32", "float64", "bfloat16"),
        ),
        devices=ANYWHERE,
    ),
)
