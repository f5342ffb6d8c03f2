# SPDX-License-Identifier: Apache-2.0
"""A library of one function, which takes any array, and returns one of its type if it can."""

from typing import Any, TypeVar

import numpy as np

import fastdl

Array = TypeVar("Array")


def kind_of(x: object) -> type:  # [1]
    """The type to give back for `x`: its own, or NumPy's where convert cannot make that."""
    try:
        fastdl.convert_tree((), type(x))
    except TypeError:
        return np.ndarray
    return type(x)


def unit(x: Array) -> Array | Any:
    """`x`, divided by its length."""
    kind = kind_of(x)
    values = fastdl.convert(np.asarray(x) if isinstance(x, list | tuple) else x, np.ndarray)  # [2]
    length = np.linalg.norm(values)  # [3]
    return fastdl.convert(values / length, kind)  # [4]
