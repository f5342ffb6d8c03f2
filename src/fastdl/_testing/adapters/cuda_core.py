"""cuda.core: StridedMemoryView, on memory of the host."""

import numpy as np
from cuda.core.utils import StridedMemoryView

title = "cuda.core"
distribution = "cuda-core"

dtypes = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


def make(values, dtype):
    return from_dlpack(np.array(values, dtype))


def from_dlpack(producer):
    return StridedMemoryView.from_dlpack(producer, stream_ptr=-1)


def values(array):
    return np.from_dlpack(array).tolist()


def address(array):
    return array.ptr


def is_read_only(array):
    return array.readonly
