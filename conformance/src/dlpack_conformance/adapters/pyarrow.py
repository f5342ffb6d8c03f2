# SPDX-License-Identifier: Apache-2.0
"""PyArrow: pyarrow.Array, of one dimension."""

import numpy as np
import pyarrow as pa

from dlpack_conformance.elements import all_but

title = "PyArrow"
max_ndim = 1
from_dlpack = pa.Array.from_dlpack
values = pa.Array.to_pylist

views = {"offset": lambda x: x[3:]}
dtypes = all_but("bfloat16", "complex64", "complex128", "bool")


def make(values, dtype):
    return pa.array(np.array(values, dtype))


def address(array):
    return array.buffers()[1].address + array.offset * array.type.bit_width // 8


def read_only(array):
    return array  # all arrays are read-only
