# SPDX-License-Identifier: Apache-2.0
"""Counts the missing values of data frames, which `__array__` shows as NaN, without importing
libraries.

pandas counts those of its own types; other libraries are counted over Arrow's interfaces. For
libraries whose objects hold those of others, the held data is counted.
"""

import sys
from functools import partial

from fastdl._core import tensor as core
from fastdl._core.errors import values_missing
from fastdl._core.foreign import module_of, package_of

#: By package: the attribute or method that returns what the object holds or describes.
_HELD = {"dask": "compute", "narwhals": "to_native", "xarray": "data"}


def holder(x):
    """A function that returns the data in `x`, if it belongs to another library; otherwise None."""
    cls = type(x)
    for package, name in _HELD.items():
        if hasattr(cls, name) and package in _packages(cls):
            own = getattr(cls, name)
            return partial(own, x) if callable(own) else partial(getattr, x, name)
    return None


def dtypes_of(x) -> list:
    """The types of the columns of a DataFrame of pandas; none for anything else."""
    is_frame = hasattr(type(x), "columns") and hasattr(x, "items")
    return list(getattr(x, "dtypes", ())) if is_frame else []


def numbers(x, dtypes: list):
    """A function that returns the array of a pandas DataFrame with nullable numbers, which
    `__array__` would turn into Python objects; None for anything else."""
    if all(map(_is_numpy, dtypes)):
        return None
    plain = [getattr(dtype, "numpy_dtype", dtype) for dtype in dtypes]
    kinds = {getattr(dtype, "kind", "O") for dtype in plain}
    if not all(map(_is_numpy, plain)) or (kinds != {"b"} and not kinds <= {*"iuf"}):
        return None
    return partial(x.to_numpy, dtype=sys.modules["numpy"].result_type(*plain))


def in_arrow(x):
    """An object with `__arrow_c_stream__` on the memory of `x`; None if there is none: pandas
    converts Python objects for it, and adds the index of a DataFrame."""
    if hasattr(getattr(x, "dtype", None), "pyarrow_dtype"):
        return getattr(x, "array", x).__arrow_array__()
    return None if "pandas" in _packages(type(x)) or holder(x) is not None else x


def check(x, dtypes: list) -> bool:
    """BufferError if values of `x` are missing; False if that is unknown."""
    found = count(x, dtypes)
    if found:
        raise values_missing(x, found)
    return found == 0


def reason(error: Exception, x) -> Exception:
    """The reason why an object with Arrow's interface could not be read: `error`, or missing values
    with their number. Failures here are ignored."""
    if not hasattr(type(x), "__arrow_c_array__"):
        return error
    try:
        found = count(x)
    except Exception:
        return error
    if found:
        return values_missing(x, found)
    return error


def count(x, dtypes: "list | None" = None) -> "int | None":
    """How many values of `x` are missing; None if that cannot be known. `dtypes`: the result of
    dtypes_of."""
    dtypes = dtypes_of(x) if dtypes is None else dtypes
    if dtypes:
        if all(map(_is_numpy, dtypes)):
            return 0
        counts = [count(column) for _, column in x.items()]
        known = [found for found in counts if found is not None]
        return sum(known) if len(known) == len(counts) else None
    dtype = getattr(x, "dtype", None)
    if _is_numpy(dtype):  # where NaN is a number
        return 0
    if hasattr(dtype, "pyarrow_dtype"):  # pandas counts only the outermost values
        x = getattr(x, "array", x).__arrow_array__()
    elif "pandas" in _packages(type(dtype)):
        return int(x.isna().sum())
    if hasattr(x, "__arrow_c_stream__"):
        return core.arrow_stream_nulls(x.__arrow_c_stream__())
    if hasattr(x, "__arrow_c_array__"):
        return core.arrow_nulls(*x.__arrow_c_array__())
    return 0


def _is_numpy(dtype: object) -> bool:
    np = sys.modules.get("numpy")
    return np is not None and isinstance(dtype, np.dtype)


def _packages(cls: type) -> list[str]:
    """The packages of a class and its bases."""
    return [package_of(module_of(base)) for base in type.__dict__["__mro__"].__get__(cls)]


# ---- data frames whose missing values need no counting --------------------------------------


def _of_series(x):
    return x.to_numpy() if _is_numpy(getattr(x, "dtype", None)) else None  # where NaN is a number


def _of_index(x):
    return x.__array__() if _is_numpy(getattr(x, "dtype", None)) else None  # to_numpy: read-only


def _of_polars(x):
    try:
        array = x.to_numpy(allow_copy=False)  # nulls would need a copy
    except Exception:
        return None
    kind = getattr(getattr(array, "dtype", None), "kind", None)
    return array if kind in {"i", "u", "f"} else None


def _of_xarray(x):
    array = getattr(x, "data", None)
    np = sys.modules.get("numpy")
    return array if np is not None and type(array) is np.ndarray else None


_WITHOUT_NULLS = {
    ("pandas", "Series"): _of_series,
    ("pandas", "Index"): _of_index,
    ("polars", "Series"): _of_polars,
    ("xarray", "DataArray"): _of_xarray,
}

#: The id of a class (some are not hashable) -> a function that returns the NumPy array below an
#: object; None if it may have missing values, or no such array. Filled on first use of a class.
array_of: dict = {}
_remembered: list[type] = []  # so that the ids are not reused


def remember(cls: type) -> None:
    """Adds a class to `array_of`, if it is of one of those libraries."""
    found = _WITHOUT_NULLS.get((package_of(module_of(cls)), cls.__name__))
    if found is not None:
        _remembered.append(cls)
        array_of[id(cls)] = found
