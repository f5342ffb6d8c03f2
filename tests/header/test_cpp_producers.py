# SPDX-License-Identifier: Apache-2.0
"""fastdl::publish: a class bound by nanobind or pybind11 as a producer."""

import gc
import weakref

import numpy as np
import pytest

import fastdl
from tests.support.ctypes_dlpack import READ_ONLY, opened, strides_in
from tests.support.every_producer import bound


@pytest.fixture(
    scope="module", params=["pybind11", pytest.param("nanobind", marks=pytest.mark.slow)]
)
def api(request):
    return bound(request.param)


def test_it_is_read(api):
    x = api.Matrix()
    view = np.from_dlpack(x)
    view[:] = [[1, 2, 3], [4, 5, 6]]
    assert fastdl.from_dlpack(x).tolist() == view.tolist()
    x.what = 1
    assert np.from_dlpack(x).tolist() == [[1, 4], [2, 5], [3, 6]]
    assert strides_in(opened(x.__dlpack__(max_version=(1, 0))).tensor) == (1, 3)
    x.what = 8
    assert x.__dlpack_device__() == (2, 1)


def test_const_memory_is_read_only(api):
    x = api.Constant()
    assert opened(x.__dlpack__(max_version=(1, 0))).flags == READ_ONLY
    assert fastdl.from_dlpack(x).tolist() == [1, 2]
    assert fastdl.from_dlpack(x).readonly


def test_the_object_lives_as_long_as_its_tensors(api):
    class Derived(api.Matrix):
        pass

    x = Derived()
    alive = weakref.ref(x)
    view, tensor = np.from_dlpack(x), fastdl.from_dlpack(x)
    del x
    gc.collect()
    assert alive() is not None
    view[1, 2] = 5
    assert tensor[1, 2].item() == 5
    del view, tensor
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    ("what", "error", "words"),
    [
        (2, RuntimeError, "a reason"),
        (3, MemoryError, None),
        (4, (RuntimeError, SystemError), "unknown exception|could not be translated"),
        (5, LookupError, "gone"),
        (6, BufferError, "dimensions outside 0 to 64"),
        (7, BufferError, "dimensions outside 0 to 64"),
        # As the binding library translates it in functions.
        (9, ValueError, "^a value$"),
        (10, IndexError, "^an index$"),
        (11, TypeError, "^a type$"),
        (12, ValueError, "^an argument$"),
        (13, IndexError, "^a range$"),
        (14, OverflowError, "^too much$"),
        (15, ValueError, "^a length$"),
        (16, ArithmeticError, "^of the author$"),
        (17, KeyError, "pending"),
    ],
)
def test_what_fails(api, what, error, words):
    x = api.Matrix()
    x.what = what
    for export in (x.__dlpack__, x.__dlpack_device__, lambda: fastdl.from_dlpack(x)):
        with pytest.raises(error, match=words):
            export()
    x.what = 0
    assert np.from_dlpack(x).shape == (2, 3)


def test_two_producers_in_one_class(api):
    api.publish(False)
    api.publish(False)
    with pytest.raises(TypeError, match="Twice' already has __dlpack_c_exchange_api__"):
        api.publish(True)


def test_an_object_without_init(api):
    for kind in (api.Matrix, type("Derived", (api.Matrix,), {})):
        raw = kind.__new__(kind)
        for call in (raw.__dlpack__, raw.__dlpack_device__, lambda x=raw: fastdl.from_dlpack(x)):
            with pytest.raises(TypeError, match="expected an initialised object"):
                call()


def test_several_bases():
    api = bound("pybind11")

    class Apart(api.Label, api.Matrix):
        def __init__(self):
            api.Label.__init__(self)
            api.Matrix.__init__(self)

    # The second base of these is part of the first; pybind11 never initialises it again.
    class Redundant(api.Same, api.Constant):
        pass

    class Unusable(api.Labelled, api.Matrix):
        """pybind11 looks for the matrix in the second base."""

    half = Apart.__new__(Apart)
    api.Label.__init__(half)
    for x in (api.Labelled(), Apart(), Redundant()):
        assert set(fastdl.from_dlpack(x).reshape(-1).tolist()) in ({0.0}, {1.0, 2.0})
    for x in (*(k.__new__(k) for k in (api.Labelled, Apart, Redundant)), half, Unusable()):
        with pytest.raises(TypeError, match="expected an initialised object"):
            fastdl.from_dlpack(x)
