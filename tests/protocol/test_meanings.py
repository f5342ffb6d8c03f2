# SPDX-License-Identifier: Apache-2.0
"""Objects whose elements are more than numbers: masks, units, an arithmetic of their own."""

import weakref
from unittest.mock import Mock

import numpy as np
import pytest

import fastdl
from tests.support.headers import every_entry
from tests.support.producers import Given, Producer


class Masked(np.ndarray):
    """As astropy's: an ndarray with a mask."""

    mask = property(lambda self: self._mask)
    unmasked = property(lambda self: self.view(np.ndarray))

    def __array_ufunc__(self, function, method, *inputs, **keywords):
        return NotImplemented


class Column(np.ndarray):
    """As astropy's: an ndarray that may have a unit."""

    unit = property(lambda self: getattr(self, "_unit", None))
    value = property(lambda self: self.view(np.ndarray))


class Field(np.ndarray):
    """As galois': an ndarray in which 1 + 1 may be 0."""

    def __array_ufunc__(self, function, method, *inputs, **keywords):
        return NotImplemented


class Units(Field):
    """As unyt's: the unit is an attribute of the object."""


class Quantity:
    """As pint's: not an ndarray, but it passes on the attributes of one."""

    def __init__(self, magnitude, units):
        self.magnitude, self._units = magnitude, units

    units = property(lambda self: self._units)

    def __getattr__(self, name):
        return getattr(self.magnitude, name)


class Proxy:
    """As wrapt's."""

    def __init__(self, wrapped):
        self._wrapped = wrapped

    __class__ = property(lambda self: type(self._wrapped))

    def __getattr__(self, name):
        return getattr(self._wrapped, name)


def made(cls, **attributes):
    result = np.arange(3.0).view(cls)
    for name, value in attributes.items():
        setattr(result, name, value)
    return result


def masked(mask):
    return np.ma.array([0.0, 1.0, 2.0], mask=mask)


class Count:
    def sum(self):
        return 2


MASK = np.array([False, True, False])

MEANING = {
    "a mask": (made(Masked, _mask=MASK), r"masked elements \(1 of 3\).*x\.unmasked"),
    "a mask of numpy.ma": (masked(MASK), r"masked elements \(1 of 3\).*x\.filled\("),
    "a mask behind a proxy": (Proxy(masked(MASK)), r"masked elements \(1 of 3\).*x\.filled\("),
    "a mask that cannot be counted": (made(Masked, _mask=[0, 1, 0]), "has a mask.*x.unmasked"),
    "a mask without a size": (made(Masked, _mask=Count()), r"masked elements \(2\)"),
    "a unit": (made(Column, _unit="m"), r"unit \(m\).*x\.value"),
    "a unit of the object": (made(Units, units="m"), r"unit \(m\).*x\.view\(numpy\.ndarray\)"),
    "a unit of no ndarray": (Quantity(np.arange(3.0), "m"), r"unit \(m\).*x\.magnitude"),
    "a unit behind a proxy": (Proxy(made(Column, _unit="m")), r"unit \(m\).*x\.value"),
    "an arithmetic": (made(Field), r"__array_ufunc__.*x\.view\(numpy\.ndarray\)"),
}


@every_entry
@pytest.mark.parametrize(("x", "words"), MEANING.values(), ids=MEANING)
def test_elements_that_mean_more_are_not_shown_as_numbers(enter, x, words):
    with pytest.raises(BufferError, match=words):
        enter(x)


@pytest.mark.parametrize(("x", "words"), MEANING.values(), ids=MEANING)
def test_nor_by_asarray_and_convert(x, words):
    for read in (fastdl.asarray, lambda x: fastdl.convert(x, fastdl.Tensor)):
        with pytest.raises(BufferError, match=words):
            read(x)
    with pytest.raises(BufferError, match="which a tensor cannot express"):
        fastdl.convert(x, np.ndarray, copy=True)


class Named(np.ndarray):
    """A subclass with methods and attributes of its own."""

    name = "x"

    def mask(self, other):
        return self[other]


class Exporting(Column):
    """A class that exports itself may know what its elements mean."""

    def __dlpack__(self, **keywords):
        return self.view(np.ndarray).__dlpack__(**keywords)


class Inheriting(Exporting):
    """It overrides what the class that it inherits knows."""

    unit = "m"


class Nested(np.ndarray):
    class units:
        pass


NUMBERS = {
    "a method with that name": made(Named, unit="m"),
    "no unit": made(Column),
    "no masked element": made(Masked, _mask=np.zeros(3, bool)),
    "no mask": masked(np.ma.nomask),
    "a matrix": made(np.matrix),
    "a proxy": Proxy(np.arange(3.0)),
    "an export of its own": made(Exporting, _unit="m"),
    "an export that it inherits": made(Inheriting),
    "a mask of False": made(Masked, _mask=False),
    "a class with that name": made(Nested),
}


@every_entry
@pytest.mark.parametrize("x", NUMBERS.values(), ids=NUMBERS)
def test_other_objects_are_numbers(enter, x):
    assert np.ravel(enter(x).numpy()).tolist() == [0, 1, 2]


def test_a_file_in_memory(tmp_path):
    x = np.memmap(tmp_path / "values", "f8", "w+", shape=3)
    assert fastdl.from_dlpack(x).data_ptr == x.ctypes.data


def test_convert_to_the_library_of_an_array_returns_it():
    x = masked(MASK)
    assert fastdl.convert(x, np.ndarray) is x


def test_a_property_that_fails():
    class Failing(np.ndarray):
        @property
        def unit(self):
            raise OSError("the file is closed")

    with pytest.raises(OSError, match="the file is closed"):
        fastdl.from_dlpack(made(Failing))


# ---- proxies are not what they stand for ----------------------------------------------------


@pytest.mark.parametrize("proxy", [Proxy, weakref.proxy])
def test_convert_sees_through_a_proxy(proxy):
    x = np.arange(3.0)
    result = fastdl.convert(proxy(x), np.ndarray)
    assert type(result) is np.ndarray and np.shares_memory(result, x)


def test_a_mock_is_no_array():
    with pytest.raises(TypeError, match="'unittest.mock.Mock'"):
        fastdl.convert(Mock(spec=np.ndarray), np.ndarray)


def test_a_proxy_of_an_unknown_type_is_read():
    class Other(Producer):
        from_dlpack = staticmethod(fastdl.from_dlpack)

    assert type(fastdl.convert(Proxy(Other(Given())), Other)) is fastdl.Tensor


def test_a_proxy_of_a_class_is_no_target():
    with pytest.raises(TypeError, match="an object of type .*Proxy"):
        fastdl.convert(np.arange(3.0), Proxy(int))


@pytest.mark.parametrize("keywords", [{}, {"copy": True}, {"device": "cpu"}, {"stream": -1}])
def test_a_proxy_of_a_tensor_is_read(keywords):
    tensor = fastdl.asarray(bytes(3))
    assert fastdl.from_dlpack(Proxy(tensor), **keywords).tolist() == [0, 0, 0]


@pytest.mark.parametrize("x", [fastdl.Device("cpu"), fastdl.DType("int8")], ids=type)
def test_a_proxy_of_a_device_or_dtype_is_none(x):
    with pytest.raises(TypeError, match="expected a d.*Proxy"):
        type(x)(Proxy(x))
