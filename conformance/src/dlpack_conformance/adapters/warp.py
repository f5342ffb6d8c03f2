# SPDX-License-Identifier: Apache-2.0
"""Warp."""

import numpy as np
import warp

from dlpack_conformance.elements import all_but

title = "Warp"
distribution = "warp-lang"
forks = False  # its threads do not survive a fork
from_dlpack = warp.from_dlpack

views = {
    "transposed": lambda x: x.transpose(),
    "strided": lambda x: x[:, ::2],
    "offset": lambda x: x[1:, 1:],
}
dtypes = all_but("bfloat16", "complex64", "complex128")
max_ndim = 4


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
