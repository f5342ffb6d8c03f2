# SPDX-License-Identifier: Apache-2.0
"""nanoarrow: views of buffers, of one dimension."""

import nanoarrow as na
from nanoarrow._buffer import CBuffer

from dlpack_conformance.elements import all_but

title = "nanoarrow"
max_ndim = 1

dtypes = all_but("bfloat16", "complex64", "complex128", "bool")


def make(values, dtype):
    return na.c_buffer(values, getattr(na, dtype)()).view()


def from_dlpack(producer):
    """c_buffer prefers the buffer protocol."""
    return CBuffer.from_dlpack(producer).view()


def values(array):
    return list(array)


def address(array):
    return array._addr()


def read_only(array):
    return array  # all views are read-only
