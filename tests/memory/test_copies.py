# SPDX-License-Identifier: Apache-2.0
"""Copies of host memory in any layout, compared with NumPy's."""

import sys
import weakref

import numpy as np
import pytest
from hypothesis import given

import fastdl
from tests.support import c_producers
from tests.support.headers import ALONE, INSTALLED
from tests.support.specs import CONVERT, COPY, FLOAT32, C
from tests.support.threads import runs_during
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


LARGE = 1 << 16  # bytes, of a copy that still keeps the GIL


def exporting(api):
    return lambda x: c_producers.given(api.Exporting, x).__dlpack__(max_version=(1, 3), copy=True)


COPIES = {
    "copy": lambda x: fastdl.from_dlpack(x).copy(),
    "from_dlpack": lambda x: fastdl.from_dlpack(x, copy=True),
    "convert": lambda x: fastdl.convert(x, np.ndarray, copy=True),
    "tobytes": lambda x: fastdl.from_dlpack(x).tobytes(),
}
for world, api in {**ALONE, **INSTALLED}.items():
    COPIES[f"{world}: copied"] = lambda x, api=api: api.own_as(x, "x", {"layout": C, "rules": COPY})
    COPIES[f"{world}: converted"] = lambda x, api=api: api.borrow_as(
        x, "x", {"dtypes": [FLOAT32], "rules": CONVERT}
    )
for world, api in c_producers.WORLDS.items():
    COPIES[f"{world}: a producer"] = exporting(api)


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_a_large_copy_releases_the_gil(copy):
    array = np.ones((1024, 1024)).T
    assert runs_during(lambda: copy(array))
    if getattr(sys, "_is_gil_enabled", lambda: True)():
        small = np.ones((LARGE // 64, 8)).T
        assert not runs_during(lambda: copy(small))


@pytest.mark.skipif("not getattr(sys, '_is_gil_enabled', lambda: True)()", reason="needs a GIL")
@pytest.mark.parametrize("api", {**ALONE, **INSTALLED}.values(), ids={**ALONE, **INSTALLED})
def test_a_large_copy_of_lent_memory(api):
    """Another thread gives the object other memory. The copy keeps the GIL, or else its source."""
    array, other, kept = np.ones((256, 256)), np.ones((256, 256)), []
    memory = weakref.ref(array)
    x = c_producers.given(c_producers.INSTALLED.Lending, array.T, owner=array)
    del array

    def copy():
        return api.borrow_as(x, "x", {"layout": C, "rules": COPY})

    def replace():
        x.__init__(**c_producers.describe(other.T, owner=other))
        kept.append(memory() is not None)

    copy()  # compiles the module
    assert not runs_during(copy, replace, attempts=5) or kept == [True]
