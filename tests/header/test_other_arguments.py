# SPDX-License-Identifier: Apache-2.0
"""FASTDL_ASARRAY: a function of C that takes what fastdl.asarray takes."""

import array
import ctypes
import gc
import sys

import numpy as np
import pytest

import fastdl
from tests.support.array_protocols import OnlyArray, OnlyInterface
from tests.support.build import extension
from tests.support.headers import every_world, installed
from tests.support.producers import Given, Producer
from tests.support.specs import ASARRAY, CONVERT, WRITABLE, C, dtype

IS_COPIED = 2


SOURCES = {
    "bytes": lambda: b"\1\2\3",
    "array.array": lambda: array.array("B", [1, 2, 3]),
    "memoryview": lambda: memoryview(bytearray([1, 2, 3])),
    "ctypes": lambda: (ctypes.c_uint8 * 3)(1, 2, 3),
    "__array_interface__": lambda: OnlyInterface(np.array([1, 2, 3], "u1")),
    "__array__": lambda: OnlyArray(np.array([1, 2, 3], "u1")),
}


@every_world
@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_what_asarray_takes(api, make):
    source = make()
    view = api.borrow_as(source, "x", {"rules": ASARRAY, "ndim": 1})
    assert view["shape"] == (3,) and view["owned"]
    assert view["data"] == fastdl.asarray(source).data_ptr
    owned = fastdl.from_dlpack(api.own_as(source, "x", {"rules": ASARRAY}))
    assert owned.tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match=r"^x: expected a tensor, got "):
        api.borrow_as(source, "x", {"rules": CONVERT})


@installed
@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_a_result_of_the_type_of_such_an_argument(api, make):
    kind = type(make())
    result = api.wrap(api.empty(np.ones(3), kind), kind)
    assert (type(result), result.shape) == (fastdl.Tensor, (3,))


@every_world
def test_a_tensor_is_borrowed_as_ever(api):
    x = np.arange(3.0)
    assert api.borrow_as(x, "x", {"rules": ASARRAY})["data"] == x.ctypes.data


@every_world
def test_with_the_other_rules(api):
    with pytest.raises(BufferError, match=r"^x: expected a writable tensor, got a read-only one"):
        api.borrow_as(b"abc", "x", {"rules": ASARRAY | WRITABLE})
    assert api.borrow_as(bytearray(3), "x", {"rules": ASARRAY | WRITABLE})["shape"] == (3,)
    with pytest.raises(ValueError, match=r"^x: expected 2 dimensions, got 1"):
        api.borrow_as(b"abc", "x", {"rules": ASARRAY, "ndim": 2})
    float32 = {"dtypes": [dtype(2, 32, 1)], "layout": C, "rules": ASARRAY | CONVERT}
    view = api.borrow_as(array.array("i", [1, 2, 3]), "x", float32)
    assert view["flags"] & IS_COPIED and view["dtype"] == (2, 32, 1)
    owned = fastdl.from_dlpack(api.own_as(array.array("i", [1, 2, 3]), "x", float32))
    assert (owned.dtype, owned.tolist()) == ("float32", [1, 2, 3])


class OnlyCuda:
    def __init__(self, data):
        self.__cuda_array_interface__ = {
            "shape": (3,), "typestr": "<f4", "data": data, "version": 3
        }  # fmt: skip


class OnlyArrow:
    def __arrow_c_array__(self):
        return None


def released():
    view = memoryview(bytearray(3))
    view.release()
    return view


@every_world
def test_what_asarray_refuses_too(api):
    """In its own words, with the name of the argument; a note has that in those of a library."""
    for source, error, words in [
        ([1, 2, 3], TypeError, ".* pass numpy.asarray"),
        (OnlyInterface(np.zeros(3), version=9), BufferError, "expected version 3 in __array_inter"),
        (OnlyInterface(np.zeros(3), mask=[1]), BufferError, ".* has a mask, which a tensor cannot"),
        (OnlyCuda((1, False)), BufferError, ".* exports __cuda_array_interface__, which does not"),
        (OnlyArray(5), TypeError, "expected an array from __array__"),
        (released(), BufferError, "cannot get the buffer of 'memoryview'"),
        (OnlyArrow(), TypeError, "expected two capsules from __arrow_c_array__"),
    ]:
        with pytest.raises(error, match=f"^x: {words}") as caught:
            api.borrow_as(source, "x", {"rules": ASARRAY})
        assert not hasattr(caught.value, "__notes__")
    masked = OnlyArray(np.array(["text"]))
    with pytest.raises(BufferError) as caught:
        api.borrow_as(masked, "x", {"rules": ASARRAY})
    if hasattr(caught.value, "__notes__"):
        assert caught.value.__notes__ == ["raised by argument x"]


@every_world
def test_an_error_of_the_tensor_itself_is_not_replaced(api):
    """A producer whose `__dlpack__` raises a TypeError, though it has a buffer as well."""

    class Refusing(bytearray):
        def __dlpack__(self, **keywords):
            raise TypeError("not today")

        def __dlpack_device__(self):
            return 1, 0

    with pytest.raises(TypeError, match="not today"):
        api.borrow_as(Refusing(3), "x", {"rules": ASARRAY})
    with pytest.raises(BufferError, match="negative dimension"):
        api.borrow_as(Producer(Given(shape=(-3,))), "x", {"rules": ASARRAY})


@every_world
def test_an_interrupt_passes(api):
    class Interrupting:
        def __getattr__(self, name):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        api.borrow_as(Interrupting(), "x", {"rules": ASARRAY})


# ---- buffers -------------------------------------------------------------------------------------


@every_world
def test_the_buffer_is_locked_as_long_as_its_tensor_lives(api):
    source = bytearray(b"123")
    before = sys.getrefcount(source)
    api.borrow_as(source, "x", {"rules": ASARRAY})
    source.extend(b"4")  # not locked any more
    managed = api.own_as(source, "x", {"rules": ASARRAY})
    with pytest.raises(BufferError):
        source.extend(b"5")
    managed = fastdl.from_dlpack(managed)
    gc.collect()
    assert managed.tolist() == list(b"1234")
    del managed
    source.extend(b"5")
    assert sys.getrefcount(source) == before


@every_world
def test_the_buffer_is_released_after_a_failure(api):
    source = bytearray(3)
    for rules in ({"ndim": 2}, {"dtypes": [dtype(2, 32, 1)]}):
        with pytest.raises((ValueError, TypeError), match="^x: expected "):
            api.borrow_as(source, "x", {"rules": ASARRAY, **rules})
        source.append(1)


def exporter(form, itemsize, **more):
    return extension("exporter").exporter(bytes(32), form, itemsize, (2,), (itemsize,), **more)


@every_world
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: (ctypes.c_int32.__ctype_be__ * 2)(), "got format '>"),
        (lambda: memoryview(np.zeros(2, "f4,i1")), "with itemsize 5"),
        (lambda: exporter("B", 1, suboffsets=(0,)), "got one of pointers to them"),
        (lambda: exporter("Ze", 4), "format 'Ze' with itemsize 4"),
    ],
)  # fmt: skip
def test_what_a_buffer_may_not_be(api, make, words):
    source = make()
    with pytest.raises(BufferError, match="^x: expected .*" + words):
        api.borrow_as(source, "x", {"rules": ASARRAY})
    with pytest.raises(BufferError, match="^expected .*" + words):
        fastdl.asarray(source)


@every_world
@pytest.mark.parametrize(
    "source", [b"abc", np.datetime64("2026-01-01"), np.float32(1), [1, 2, 3], object()]
)
def test_without_the_package_they_are_refused(api, monkeypatch, source):
    """As without the rule."""
    monkeypatch.setitem(sys.modules, "fastdl", None)
    with pytest.raises(TypeError, match=r"^x: expected a tensor, got "):
        api.borrow_as(source, "x", {"rules": ASARRAY})
