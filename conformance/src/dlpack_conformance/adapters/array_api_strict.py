# SPDX-License-Identifier: Apache-2.0
"""array-api-strict."""

import array_api_strict as xp

from dlpack_conformance.adapters.numpy import write as write
from dlpack_conformance.elements import all_but

title = "array-api-strict"
distribution = "array-api-strict"
from_dlpack = xp.from_dlpack

views = {
    "transposed": lambda x: x.T,
    "strided": lambda x: x[:, ::2],
    "reversed": lambda x: x[::-1, :],
    "offset": lambda x: x[1:, 1:],
    "column": lambda x: x[:, 1],
    "broadcast": lambda x: xp.broadcast_to(x[:2, :1], (2, 4)),
}
dtypes = all_but("float16", "bfloat16")


def make(values, dtype):
    return xp.asarray(values, dtype=getattr(xp, dtype))


def values(array):
    return array._array.tolist()


def address(array):
    return array._array.__array_interface__["data"][0]


def read_only(array):
    array._array.flags.writeable = False
    return array


def is_read_only(array):
    return not array._array.flags.writeable
