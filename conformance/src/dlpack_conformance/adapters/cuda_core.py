# SPDX-License-Identifier: Apache-2.0
"""cuda.core: StridedMemoryView, on memory of the host."""

import numpy as np
from cuda.core.utils import StridedMemoryView

from dlpack_conformance.elements import all_but

title = "cuda.core"
distribution = "cuda-core"

dtypes = all_but("bfloat16")


def make(values, dtype):
    return from_dlpack(np.array(values, dtype))


def from_dlpack(producer):
    return StridedMemoryView.from_dlpack(producer, stream_ptr=-1)


def values(array):
    return np.from_dlpack(array).tolist()


def address(array):
    return array.ptr


def is_read_only(array):
    return array.readonly
