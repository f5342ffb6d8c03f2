"""tvm-ffi. It has no constructor from values, and borrows arrays of NumPy."""

import numpy as np
import tvm_ffi

title = "tvm-ffi"
distribution = "apache-tvm-ffi"
takes_tables = True
from_dlpack = tvm_ffi.from_dlpack
from_capsule = tvm_ffi.from_dlpack

dtypes = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


def make(values, dtype):
    return tvm_ffi.from_dlpack(np.array(values, dtype))


def values(array):
    return np.from_dlpack(array).tolist()


def address(array):
    return array.data_ptr()
