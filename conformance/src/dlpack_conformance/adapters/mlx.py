# SPDX-License-Identifier: Apache-2.0
"""MLX, on the CPU."""

import mlx.core as mx
import numpy as np

from dlpack_conformance.elements import all_but

title = "MLX"
distribution = "mlx"
forks = False  # its threads do not survive a fork
from_dlpack = mx.from_dlpack
from_capsule = mx.from_dlpack
values = mx.array.tolist

views = {
    "transposed": lambda x: x.T,
    "strided": lambda x: x[:, ::2],
    "reversed": lambda x: x[::-1],
    "offset": lambda x: x[1:, 1:],
    "column": lambda x: x[:, 1],
    "broadcast": lambda x: mx.broadcast_to(x[:2, :1], (2, 4)),
}
dtypes = all_but("float64", "complex128")


def make(values, dtype):
    array = mx.array(values, dtype=getattr(mx, "bool_" if dtype == "bool" else dtype))
    mx.eval(array)
    return array


def address(array):
    return np.asarray(memoryview(array)).__array_interface__["data"][0]


def read_only(array):
    return array  # all arrays are read-only
