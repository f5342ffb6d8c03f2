# SPDX-License-Identifier: Apache-2.0
"""fastdl itself, by its public interface."""

import ctypes

import fastdl
from dlpack_conformance.elements import flat, packed, shape_of

title = "fastdl"
__version__ = fastdl.__version__
distribution = "fastdlpack"
takes_tables = True
from_dlpack = fastdl.from_dlpack
from_capsule = fastdl.from_dlpack
values = fastdl.Tensor.tolist
read_only = fastdl.Tensor.as_readonly

views = {
    "transposed": lambda x: x.T,
    "strided": lambda x: x[:, ::2],
    "reversed": lambda x: x[::-1],
    "offset": lambda x: x[1:, 1:],
    "column": lambda x: x[:, 1],
    "broadcast": lambda x: x[:2, :1].expand(2, 4),
}


def make(values, dtype):
    array = fastdl.empty(shape_of(values), dtype)
    content = packed(flat(values), dtype)
    ctypes.memmove(array.data_ptr, content, len(content))
    return array


def address(array):
    return array.data_ptr


def write(array, value):
    if array.readonly:
        raise BufferError("the tensor is read-only")
    memory = memoryview(array)
    memory[(0,) * memory.ndim] = value


def is_read_only(array):
    return array.readonly
