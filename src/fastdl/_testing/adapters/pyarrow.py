"""PyArrow: pyarrow.Array, of one dimension."""

import numpy as np
import pyarrow as pa

title = "PyArrow"
max_ndim = 1
from_dlpack = pa.Array.from_dlpack

views = {"offset": lambda x: x[3:]}
dtypes = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)


def make(values, dtype):
    return pa.array(np.array(values, dtype))


def values(array):
    return array.to_pylist()


def address(array):
    return array.buffers()[1].address + array.offset * array.type.bit_width // 8


def read_only(array):
    return array  # they all are
