# SPDX-License-Identifier: Apache-2.0
"""fastdl.producer: a class of Python as a producer, by one of its attributes."""

import gc
import weakref

import numpy as np
import pytest

import fastdl


@fastdl.producer("values")
class Series:
    def __init__(self, values):
        self.values = values


@pytest.fixture
def array():
    return np.arange(6, dtype=np.float32).reshape(2, 3)


def test_conversions_and_buffers(array):
    assert fastdl.convert(Series(array), np.ndarray).tolist() == array.tolist()
    assert fastdl.from_dlpack(Series(bytearray(b"ab"))).tolist() == [97, 98]


def test_what_is_kept():
    array = np.arange(6)  # which no fixture keeps
    x = Series(array)
    alive, memory = weakref.ref(x), weakref.ref(array)
    tensor = fastdl.from_dlpack(x)
    del x, array
    gc.collect()
    assert alive() is None
    assert memory() is not None
    del tensor
    gc.collect()
    assert memory() is None


def test_subclasses_and_properties(array):
    @fastdl.producer("half")
    class Derived(Series):
        @property
        def half(self):
            if self.values is None:
                raise LookupError("gone")
            return self.values[:1]

    assert fastdl.from_dlpack(Derived(array)).tolist() == [[0, 1, 2]]
    for export in (fastdl.from_dlpack, np.from_dlpack, Derived.__dlpack__):
        with pytest.raises(LookupError, match="gone"):
            export(Derived(None))

    class Inherits(Series):
        pass

    assert fastdl.from_dlpack(Inherits(array)).tolist() == array.tolist()


def test_what_is_no_tensor():
    for export in (fastdl.from_dlpack, np.from_dlpack, Series.__dlpack__):
        with pytest.raises(TypeError, match="expected"):
            export(Series(object()))
