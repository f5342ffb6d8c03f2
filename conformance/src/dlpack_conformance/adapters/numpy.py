# SPDX-License-Identifier: Apache-2.0
"""NumPy."""

import numpy as np

title = "NumPy"
from_dlpack = np.from_dlpack
values = np.ndarray.tolist

views = {
    "transposed": lambda x: x.T,
    "strided": lambda x: x[..., ::2],
    "reversed": lambda x: x[::-1],
    "offset": lambda x: x[1:, 1:],
    "column": lambda x: x[:, 1],
    "broadcast": lambda x: np.lib.stride_tricks.as_strided(x, (2, 4), (x.strides[0], 0)),
}


def make(values, dtype):
    return np.array(values, dtype)


def address(array):
    return array.__array_interface__["data"][0]


def read_only(array):
    array.flags.writeable = False
    return array


def is_read_only(array):
    return not array.flags.writeable


def write(array, value):
    array[(0,) * array.ndim] = value
