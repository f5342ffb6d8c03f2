# SPDX-License-Identifier: Apache-2.0
"""What the case files share: the peer under test, sources whose end can be seen, comparisons."""

import gc
import os
import time
import weakref

import numpy as np

import fastdl

from ..arrays import numpy_dtype
from ..harness import PEER_VARIABLE
from ..peers import BY_NAME, Peer


def peer_under_test() -> Peer:
    return BY_NAME[os.environ[PEER_VARIABLE]]


def aligned(values, dtype="float32") -> np.ndarray:
    """A NumPy array of its own memory, aligned to 64 bytes, that can be referred to weakly."""
    array = np.array(values, dtype=numpy_dtype(dtype))
    room = np.empty(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def nested(array: np.ndarray):
    """The values of an array as nested lists of Python numbers, for any element type."""
    return array.astype(np.float64).tolist() if array.dtype.kind == "V" else array.tolist()


def freed(reference: weakref.ref, seconds: float = 5.0) -> bool:
    """Whether an object dies soon: some libraries release on a thread of theirs."""
    limit = time.monotonic() + seconds
    while reference() is not None and time.monotonic() < limit:
        gc.collect()
        time.sleep(0.01)
    return reference() is None


def both_entries():
    """The compiled from_dlpack, and the Python function that it must not differ from."""
    from fastdl._protocol.consumer import from_dlpack

    return (fastdl.from_dlpack, from_dlpack)
