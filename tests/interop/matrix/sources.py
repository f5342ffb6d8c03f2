# SPDX-License-Identifier: Apache-2.0
"""The tensors that are tried: every dtype in one dimension, and float32 in every layout."""

from collections.abc import Callable

import numpy as np

from ..arrays import COMPLEXES, FLOAT8, FLOATS, INTEGERS, MORE_FLOAT8, numpy_broadcast, sample
from ..cases.common import aligned

DTYPES = (
    *("bool", *INTEGERS, *FLOATS, *COMPLEXES),
    *("complex32", "bfloat16", *FLOAT8, *MORE_FLOAT8, "float4_e2m1fn", "int4", "uint4"),
)

# The names of layouts and what they are, for people.
LAYOUTS = {
    "compact": "compact",
    "one": "one element in two dimensions",
    "scalar": "no dimensions",
    "empty": "no elements",
    "transposed": "transposed",
    "gaps": "every other column",
    "reversed": "negative stride",
    "inner": "an inner part, at an offset",
    "broadcast": "broadcast, stride 0",
    "unaligned": "aligned to its elements alone",
    "readonly": "read-only",
}


def layouts(max_ndim: int = 2) -> dict[str, Callable[[], np.ndarray]]:
    """What builds a NumPy array of each layout, for a library of that many dimensions."""
    return LINES if max_ndim == 1 else PLANES


def element_types() -> dict[str, Callable[[], np.ndarray]]:
    return {name: lambda name=name: aligned(sample(name), name) for name in DTYPES}


def line() -> np.ndarray:
    return aligned(np.arange(8.0))


def plane() -> np.ndarray:
    return aligned(np.arange(8.0).reshape(2, 4))


def locked(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def repeated() -> np.ndarray:
    return np.lib.stride_tricks.as_strided(line(), (4,), (0,))


PLANES = {
    "compact": plane,
    "one": lambda: plane()[:1, :1],
    "scalar": lambda: plane()[:1, :1].reshape(()),
    "empty": lambda: plane()[:0],
    "transposed": lambda: plane().T,
    "gaps": lambda: plane()[:, ::2],
    "reversed": lambda: plane()[::-1],
    "inner": lambda: plane()[1:, 1:],
    "broadcast": lambda: numpy_broadcast(plane()[:, :1]),
    "unaligned": lambda: aligned(np.arange(9.0))[1:].reshape(2, 4),
    "readonly": lambda: locked(plane()),
}
LINES = {
    "compact": line,
    "one": lambda: line()[7:],
    "empty": lambda: line()[:0],
    "gaps": lambda: line()[::2],
    "reversed": lambda: line()[::-1],
    "inner": lambda: line()[2:6],
    "broadcast": repeated,
    "unaligned": lambda: aligned(np.arange(9.0))[1:],
    "readonly": lambda: locked(line()),
}
