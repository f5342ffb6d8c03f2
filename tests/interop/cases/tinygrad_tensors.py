# SPDX-License-Identifier: Apache-2.0
"""What is particular to tinygrad: elements that memoryview has not, and copies."""

import numpy as np
import pytest
from tinygrad import Tensor, dtypes

import fastdl

# One and two, as bits.
BITS = {
    "half": ("float16", np.array([0x3C00, 0x4000], np.uint16)),
    "bfloat16": ("bfloat16", np.array([0x3F80, 0x4000], np.uint16)),
    "fp8e4m3": ("float8_e4m3fn", np.array([0x38, 0x40], np.uint8)),
    "fp8e5m2": ("float8_e5m2", np.array([0x3C, 0x40], np.uint8)),
}


@pytest.mark.parametrize("name", BITS)
def test_values_keep_their_type(name):
    dtype, bits = BITS[name]
    tensor = fastdl.asarray(Tensor(bits).realize().bitcast(getattr(dtypes, name)))
    assert (tensor.dtype, tensor.tolist()) == (dtype, [1, 2])


def test_memory_without_elements():
    assert fastdl.asarray(Tensor.zeros(0, 3)).shape == (0, 3)


def test_copies_are_marked():
    """Whichever of both tinygrad does: its releases differ."""
    source = Tensor([1.0, 2.0]).realize()
    first, second = fastdl.asarray(source), fastdl.asarray(source)
    assert first.is_copied is (first.data_ptr != second.data_ptr)
    if first.is_copied:
        with pytest.raises(fastdl.CopyRequiredError):
            fastdl.convert(source, np.ndarray, copy=False)
