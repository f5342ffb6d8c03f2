# SPDX-License-Identifier: Apache-2.0
"""fastdl_wrap makes what fastdl.convert makes: what a library cannot have never reaches it."""

import threading

import numpy as np
import pytest

import fastdl
from fastdl._bridges.bridge import COPIED, POSITIVE
from tests.support.headers import alone, installed
from tests.support.library import libraries, showing_table
from tests.support.producers import CUDA, Given
from tests.support.specs import ASARRAY

READ_ONLY = 1
BASE = np.arange(24, dtype=np.float32).reshape(4, 6)
LAYOUTS = {
    "compact": BASE,
    "scalar": BASE[1, 1:2].reshape(()),
    "empty": BASE[:, :0],
    "transposed": BASE.T,
    "gaps": BASE[::2, 1::2],
    "broadcast": np.lib.stride_tricks.as_strided(BASE, (3, 6), (0, 4)),
    "reversed": BASE[::-1],
    "reversed inside": BASE[:, ::-1],
    "size 1, reversed": BASE[::-1, ::-1][:1, :1],
    "empty, reversed": BASE[::-1][:, :0],
}
layouts = pytest.mark.parametrize("source", LAYOUTS.values(), ids=LAYOUTS)


@pytest.fixture
def library(monkeypatch):
    """A type with a table that shows what it got, of a library with given facts."""
    make = libraries(monkeypatch)

    def make_library(**facts):
        table = showing_table()
        members = {"__dlpack_c_exchange_api__": table}
        facts = {"strides": POSITIVE, "readonly": COPIED, **facts}
        return make(members=members, **{"quick": lambda: table, **facts})

    return make_library


def steps(tensor):
    """The strides that mean something."""
    return [step for size, step in zip(tensor.shape, tensor.strides, strict=True) if size > 1]


def unknown_library():
    """A type with such a table, of a library that fastdl does not know."""
    return type("Unknown", (), {"__dlpack_c_exchange_api__": showing_table()})


@installed
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@layouts
def test_layouts(api, library, known, source):
    cls = library() if known else unknown_library()
    expected = fastdl.convert(fastdl.from_dlpack(source), cls)
    for _ in range(2):  # the first of the type, and one of those that follow
        result = api.wrap(api.own(source), cls)
        assert result.shape == expected.shape
        assert min(result.strides, default=0) >= 0
        assert np.array_equal(result.numpy(), source)
        if source.size:
            assert steps(result) == steps(expected)
            address = source.ctypes.data
            assert (result.data_ptr == address) is (expected.data_ptr == address)


@installed
def test_a_library_that_another_thread_has_just_found(api, library):
    """Until that thread knows its table, this one finds it as well; what the library takes is known
    to both."""
    first, second = threading.Event(), threading.Event()

    def quick():
        if not first.is_set():
            first.set()
            assert second.wait(60)
        return cls.__dlpack_c_exchange_api__

    cls = library(quick=quick)
    thread = threading.Thread(target=lambda: fastdl.convert(BASE, cls))
    thread.start()
    try:
        assert first.wait(60)
        frozen = np.frombuffer(bytes(8), np.float32)
        for _ in range(2):
            assert api.wrap(api.own(frozen), cls).data_ptr != frozen.ctypes.data
    finally:
        second.set()
        thread.join()


@installed
def test_a_library_whose_arrays_only_asarray_reads(api, monkeypatch):
    """They have no `__dlpack__`: FASTDL_ASARRAY accepts them, and the result is one of them."""

    def make(tensor, like):
        made = like()
        made.tensor = tensor
        return made

    cls = libraries(monkeypatch)(make, base=object, read=lambda x: x.tensor)
    result = api.wrap(api.zeros(BASE, cls), cls)
    assert type(result) is cls
    assert api.borrow_as(result, "x", {"rules": ASARRAY})["shape"] == (4, 6)


@installed
@pytest.mark.parametrize("strides", [(3, 1), None])
def test_what_fits_is_handed_on_as_it_is(api, library, strides):
    given = Given(strides=strides)
    result = api.wrap(given.capsule(), library())
    assert result.tolist() == [[0, 1, 2], [3, 4, 5]]
    given.assert_alive()
    del result
    given.assert_released()


@installed
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_read_only_memory_does_not_reach_a_library_that_writes(api, library, known):
    cls = library() if known else unknown_library()
    source = BASE.copy()
    source.flags.writeable = False
    result = api.wrap(api.own(source), cls)
    assert result.readonly is (not known)  # it may know the flag
    assert (result.data_ptr == source.ctypes.data) is (not known)
    assert np.array_equal(result.numpy(), source)


@installed
def test_what_is_copied_is_released_at_once(api, library):
    given = Given(flags=READ_ONLY)
    result = api.wrap(given.capsule(), library())
    given.assert_released()
    assert result.tolist() == [[0, 1, 2], [3, 4, 5]]


REFUSED = {
    "dtype": ({"dtypes": ("float64", "int8")}, {"strides": (3, 1)}, "Array has no float32"),
    "rare dtype": ({"dtypes": ("float32",)}, {"dtype": (2, 32, 2), "shape": (3,)}, "no float32x2"),
    "dimensions": ({"ndims": (3, 4)}, {"strides": (3, 1)}, " has 3 to 4 dimensions"),
    "device": ({}, {"device": CUDA, "strides": (3, 1)}, "holds host memory only"),
    "major version": ({}, {"version": (9, 0), "strides": (3, 1)}, "version 9.0"),
    "nonsense": ({}, {"shape": (2, -3)}, "a negative dimension"),
}


@installed
@pytest.mark.parametrize(("facts", "fields", "words"), REFUSED.values(), ids=REFUSED)
def test_what_a_library_does_not_have_never_reaches_its_table(api, library, facts, fields, words):
    cls = library(**facts)
    for _ in range(2):
        given = Given(**fields)
        with pytest.raises(BufferError, match=words) as caught:
            api.wrap(given.capsule(), cls)
        del caught
        given.assert_released()


@installed
def test_the_table_of_a_derived_class(api, library):
    """One that it publishes itself is used, though the library of its base has another."""
    cls = library(dtypes=("int8",))
    derived = type("Derived", (cls,), {"__dlpack_c_exchange_api__": showing_table()})
    assert type(api.wrap(Given().capsule(), derived)) is fastdl.Tensor
    inherits = type("Inherits", (cls,), {})
    with pytest.raises(BufferError, match="Array has no float32"):
        api.wrap(Given().capsule(), inherits)


@alone
@layouts
def test_without_the_package_no_negative_stride_reaches_a_table(api, source):
    given = Given(
        data=source.ctypes.data, shape=source.shape, strides=tuple(s // 4 for s in source.strides)
    )
    cls = unknown_library()
    if min(source.strides, default=0) < 0:
        with pytest.raises(BufferError, match=r"negative strides.*Unknown'.*fastdl_import\(\)"):
            api.wrap(given.capsule(), cls)
    else:
        result = api.wrap(given.capsule(), cls)
        assert result.shape == source.shape
        del result
    given.assert_released()
