"""Copies of host memory in any layout, compared with NumPy's."""

import numpy as np
from hypothesis import given

import fastdl
from tests.support.views import arrays


@given(arrays())
def test_a_copy_has_the_values_in_row_major_order(array):
    tensor = fastdl.from_dlpack(array)
    for order, expected in (("C", array.flags.c_contiguous), ("F", array.flags.f_contiguous)):
        assert tensor.is_contiguous(order) is expected
    assert tensor.is_contiguous() is array.flags.c_contiguous
    copy = tensor.copy()
    assert copy.is_contiguous() and copy.is_copied and not copy.readonly
    assert copy.dtype == tensor.dtype
    assert not np.may_share_memory(copy.numpy(), array)
    assert copy.shape == array.shape
    assert copy.numpy().tobytes() == np.ascontiguousarray(array).tobytes()


def test_dimensions_between_which_the_memory_turns_back():
    """Four dimensions of which no two can be walked as one."""
    array = np.arange(2 * 6 * 4 * 10, dtype=np.int32).reshape(2, 6, 4, 10)[:, ::2, ::-1, ::3]
    copy = fastdl.from_dlpack(array).copy()
    assert copy.numpy().tolist() == array.tolist()


def test_the_stride_of_a_dimension_of_size_1_says_nothing():
    """NumPy leaves such strides as they come; one of the largest would overflow."""
    array = np.lib.stride_tricks.as_strided(
        np.arange(12.0).reshape(3, 4).T, (4, 1, 3), (8, 2**40, 32)
    )
    tensor = fastdl.from_dlpack(array)
    assert tensor.copy().tolist() == array.tolist()
