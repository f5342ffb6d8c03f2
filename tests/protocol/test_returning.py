# SPDX-License-Identifier: Apache-2.0
"""Descriptions of fastdl's own that come back after a consumer had them in its hands. Those
that are refused are in test_faults_capsule.py."""

import ctypes

import pytest

import fastdl
from tests.support.ctypes_dlpack import opened


@pytest.fixture
def tensor():
    tensor = fastdl.empty((2, 3), "float32")
    tensor.numpy()[...] = [[0, 1, 2], [3, 4, 5]]
    return tensor


def changed(tensor, change):
    """A capsule of `tensor` whose managed tensor was changed by its consumer."""
    capsule = tensor.__dlpack__(max_version=(1, 3))
    change(opened(capsule).tensor)
    return capsule


def test_a_byte_offset_is_folded(tensor):
    def change(dl_tensor):
        dl_tensor.byte_offset = 4
        dl_tensor.shape[0] = 1

    back = fastdl.from_dlpack(changed(tensor, change))
    assert back.data_ptr == tensor.data_ptr + 4
    assert back.tolist() == [[1.0, 2.0, 3.0]]


def test_another_shape_pointer_makes_it_foreign(tensor):
    shape = (ctypes.c_int64 * 1)(6)
    strides = (ctypes.c_int64 * 1)(1)

    def change(dl_tensor):
        dl_tensor.ndim = 1
        dl_tensor.shape = ctypes.cast(shape, type(dl_tensor.shape))
        dl_tensor.strides = ctypes.cast(strides, type(dl_tensor.strides))

    back = fastdl.from_dlpack(changed(tensor, change))
    shape[0] = strides[0] = -1
    assert (back.shape, back.strides) == ((6,), (1,))
    assert back.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
