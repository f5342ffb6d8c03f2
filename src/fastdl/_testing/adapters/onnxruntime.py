"""ONNX Runtime: OrtValue."""

import numpy as np
import onnxruntime as ort

title = "ONNX Runtime"

dtypes = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)


def make(values, dtype):
    """With memory of its own: ortvalue_from_numpy borrows."""
    array = np.array(values, dtype)
    value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), array.dtype.type)
    value.update_inplace(array)
    return value


def from_dlpack(producer):
    return ort.OrtValue.from_dlpack(producer)


def values(value):
    return value.numpy().tolist()


def address(value):
    return value.data_ptr()
