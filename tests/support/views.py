# SPDX-License-Identifier: Apache-2.0
"""Arrays of any strides, and whether a tensor is a view of one."""

import numpy as np
from hypothesis import strategies as st

DTYPES = [np.uint8, np.int16, np.float32, np.int64, np.float64, np.complex128]


@st.composite
def arrays(draw):
    """Arrays of any stride: cut, reversed, transposed and broadcast."""
    shape = draw(st.lists(st.integers(0, 5), max_size=5))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    steps = [draw(st.sampled_from([1, 1, 2, 3, -1, -2])) for _ in shape]
    base = np.arange(np.prod([n * abs(s) for n, s in zip(shape, steps, strict=True)], dtype=int))
    base = (base % 251).astype(dtype)
    base = base.reshape([n * abs(s) for n, s in zip(shape, steps, strict=True)])
    array = base[(*(slice(None, None, step) for step in steps), ...)]
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    if draw(st.booleans()) and array.ndim < 6:
        axis = draw(st.integers(0, array.ndim))
        array = np.expand_dims(array, axis)
        target = list(array.shape)
        target[axis] = draw(st.integers(0, 4))
        array = np.broadcast_to(array, target)
    return array


def assert_same(tensor, array):
    """That a tensor is a view of the elements of an array, wherever it has any."""
    assert tensor.shape == array.shape
    assert tensor.dtype.name == array.dtype.name
    assert tensor.readonly is not array.flags.writeable
    assert tensor.tolist() == array.tolist()
    if array.size:
        assert tensor.data_ptr == array.__array_interface__["data"][0]
        for n, ours, theirs in zip(array.shape, tensor.strides, array.strides, strict=True):
            assert n == 1 or ours * array.itemsize == theirs
