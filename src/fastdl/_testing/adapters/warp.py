"""Warp."""

import numpy as np
import warp

title = "Warp"
distribution = "warp-lang"
forks = False  # its threads do not survive one
from_dlpack = warp.from_dlpack

views = {
    "transposed": lambda x: x.transpose(),
    "strided": lambda x: x[:, ::2],
    "offset": lambda x: x[1:, 1:],
}
dtypes = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)


def prepare():
    warp.config.quiet = True
    warp.init()


def make(values, dtype):
    return warp.array(np.array(values, dtype), device="cpu")


def values(array):
    return array.numpy().tolist()


def address(array):
    return array.ptr


def write(array, value):
    memory = array.numpy()  # shares it
    memory[(0,) * memory.ndim] = value
