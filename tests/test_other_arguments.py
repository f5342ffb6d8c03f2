"""FASTDL_ASARRAY: a function of C that takes what fastdl.asarray takes."""

import array
import ctypes
import gc
import weakref

import numpy as np
import pytest

import fastdl
from tests.support.headers import every_world
from tests.support.producers import Given, Producer
from tests.test_expect import WRITABLE, C, dtype

ASARRAY, CONVERT = 64, 32
IS_COPIED = 2


class Interface:
    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


class OnlyArray:
    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


SOURCES = {
    "bytes": lambda: b"\1\2\3",
    "array.array": lambda: array.array("B", [1, 2, 3]),
    "memoryview": lambda: memoryview(bytearray([1, 2, 3])),
    "ctypes": lambda: (ctypes.c_uint8 * 3)(1, 2, 3),
    "__array_interface__": lambda: Interface(np.array([1, 2, 3], "u1")),
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


@every_world
def test_what_asarray_refuses_too(api):
    """Its own message, or that of the data's library; a note has the name of the argument."""
    with pytest.raises(TypeError, match="make an array of its numbers first"):
        api.borrow_as([1, 2, 3], "x", {"rules": ASARRAY})
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


@every_world
def test_the_source_is_released(api):
    class Bytes(bytearray):
        pass

    source = Bytes(3)
    alive = weakref.ref(source)
    api.borrow_as(source, "x", {"rules": ASARRAY})
    source.extend(b"more")  # not locked any more
    managed = api.own_as(source, "x", {"rules": ASARRAY})
    with pytest.raises(BufferError):
        source.extend(b"more")
    del source
    gc.collect()
    assert alive() is not None
    del managed
    gc.collect()
    assert alive() is None


@every_world
def test_without_the_package(api, monkeypatch):
    """As without the rule: what to do."""
    monkeypatch.setitem(__import__("sys").modules, "fastdl", None)
    with pytest.raises(TypeError, match=r"^x: expected a tensor, got 'bytes', which has a buffer"):
        api.borrow_as(b"abc", "x", {"rules": ASARRAY})
