# SPDX-License-Identifier: Apache-2.0
"""DrJit: tensors of its LLVM backend, with a class for each element type."""

import drjit
import drjit.llvm
import numpy as np

title = "DrJit"
forks = False  # its threads do not survive a fork
from_dlpack = drjit.detail.import_tensor  # finds the class

views = {"transposed": lambda x: x.T, "strided": lambda x: x[:, ::2], "offset": lambda x: x[1:, 1:]}
SUFFIXES = {"bool": "b", "float16": "f16", "float32": "f", "float64": "f64", "int8": "i8"}
SUFFIXES |= {"int32": "i", "int64": "i64", "uint8": "u8", "uint32": "u", "uint64": "u64"}
dtypes = tuple(SUFFIXES)


def make(values, dtype):
    array = np.array(values, dtype)
    cls = getattr(drjit.llvm, f"TensorX{SUFFIXES[dtype]}")
    return cls(array.ravel().tolist(), shape=array.shape)


def values(array):
    return array.numpy().tolist()


def address(array):
    return np.from_dlpack(array).ctypes.data


def write(array, value):
    array[(0,) * array.ndim] = value
    drjit.eval(array)
