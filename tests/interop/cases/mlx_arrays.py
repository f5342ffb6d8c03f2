# SPDX-License-Identifier: Apache-2.0
"""What is particular to MLX: offsets, arrays that are values, and when memory is given back."""

import mlx.core as mx
import pytest

import fastdl

from .common import both_entries

ENTRIES = pytest.mark.parametrize("from_dlpack", both_entries(), ids=("compiled", "python"))


@ENTRIES
def test_offsets_are_folded(from_dlpack):
    base = mx.arange(12.0).reshape(3, 4)
    mx.eval(base)
    start = from_dlpack(base).data_ptr
    for view, offset in ((base[1:, 2:], 24), (base[::-1, ::-1], 44), (base[2, 3], 44)):
        tensor = from_dlpack(view)
        assert tensor.data_ptr == start + offset
        assert tensor.tolist() == view.tolist()


@ENTRIES
def test_arrays_are_values(from_dlpack):
    """MLX shares memory among arrays and says nothing of it: its capsules carry no flags."""
    base = mx.arange(6.0)
    mx.eval(base)
    same = base.reshape(2, 3)
    mx.eval(same)
    assert from_dlpack(same).data_ptr == from_dlpack(base).data_ptr
    for array in (base, same, base[1:]):
        for _ in range(2):
            tensor = from_dlpack(array)
            assert tensor.readonly
            with pytest.raises(BufferError, match="read-only"):
                tensor.__dlpack__()
    copy = from_dlpack(base, copy=True)
    assert not copy.readonly


def test_memory_is_given_back():
    """MLX counts its memory, so the end of a Tensor can be seen in it."""
    size = 1 << 20
    array = mx.zeros(size, dtype=mx.uint8)
    mx.eval(array)
    before = mx.get_active_memory()
    tensor = fastdl.from_dlpack(array)
    del array
    assert mx.get_active_memory() == before
    assert tensor.size == size
    del tensor
    assert mx.get_active_memory() <= before - size
