# SPDX-License-Identifier: Apache-2.0
"""The element types that are tried, values of each, and arrays of NumPy and ml_dtypes."""

import importlib

from fastdl._native import dtype_facts

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
COMPLEXES = ("complex64", "complex128")
FLOAT8 = (
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
MORE_FLOAT8 = tuple(
    name for name, *_ in dtype_facts() if name.startswith("float8") and name not in FLOAT8
)


def sample(dtype: str) -> list:
    """Three values that every library represents exactly in `dtype`."""
    if dtype == "bool":
        return [True, False, True]
    if dtype.startswith("complex"):
        return [1 + 2j, -3j, 0.5 + 0j]
    if dtype.startswith("uint"):
        return [1, 0, 3] if dtype != "uint1" else [1, 0, 1]
    if dtype.startswith("int"):
        return [1, 0, -2]
    if dtype == "float8_e8m0fnu":  # powers of two alone
        return [1.0, 0.5, 4.0]
    return [-1.5, 0.0, 2.0]


def numpy_dtype(name: str):
    """A numpy.dtype, of ml_dtypes where NumPy has none."""
    import numpy as np

    if name in ("bool", *INTEGERS, *FLOATS, *COMPLEXES):
        return np.dtype(name)
    return np.dtype(getattr(importlib.import_module("ml_dtypes"), name))


def numpy_make(values, dtype):
    import numpy as np

    return np.array(values, dtype=numpy_dtype(dtype))


def numpy_broadcast(array):
    import numpy as np

    return np.lib.stride_tricks.as_strided(array, (2, 4), (array.strides[0], 0))


def numpy_pointer(array):
    return array.__array_interface__["data"][0]


def numpy_lists(array):
    """The values of an array of NumPy or ml_dtypes as nested lists of Python's numbers."""
    return array.astype(float).tolist() if array.dtype.kind == "V" else array.tolist()


def set_first(array, value):
    array[(0,) * len(array.shape)] = value
