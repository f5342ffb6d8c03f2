"""fastdl.producer: a class of Python as a producer, by one of its attributes."""

import gc
import weakref

import numpy as np
import pytest

import fastdl
from tests.support.ctypes_dlpack import IS_COPIED, READ_ONLY, address_in, name_of, opened
from tests.support.headers import every_world


@fastdl.producer("values")
class Series:
    def __init__(self, values):
        self.values = values


@pytest.fixture
def array():
    return np.arange(6, dtype=np.float32).reshape(2, 3)


def test_every_way_to_read_it(array):
    for view in (array, array[:, ::-2], array.T, array[:0]):
        x = Series(view)
        assert fastdl.from_dlpack(x).tolist() == view.tolist()
        assert np.from_dlpack(x).tolist() == view.tolist()
        assert fastdl.from_dlpack(x.__dlpack__()).tolist() == view.tolist()
    assert np.shares_memory(np.from_dlpack(Series(array)), array)
    assert fastdl.convert(Series(array), np.ndarray).tolist() == array.tolist()
    assert fastdl.from_dlpack(Series(bytearray(b"ab"))).tolist() == [97, 98]
    assert Series(array).__dlpack_info__() == fastdl.Tensor.__dlpack_info__(fastdl.asarray(array))


@every_world
def test_by_its_table(api, array):
    assert name_of(Series.__dlpack_c_exchange_api__) == "dlpack_exchange_api"
    assert address_in(fastdl.exchange_api(Series)) == address_in(Series.__dlpack_c_exchange_api__)
    view = api.borrow(Series(array))
    assert (view["data"], view["shape"]) == (array.ctypes.data, (2, 3))


def test_keywords(array):
    array.flags.writeable = False
    x = Series(array)
    assert opened(x.__dlpack__(max_version=(1, 0))).flags == READ_ONLY
    assert opened(x.__dlpack__(version=100, copy=True)).flags == IS_COPIED
    with pytest.raises(BufferError, match="read-only"):
        x.__dlpack__()
    with pytest.raises(ValueError, match="no streams"):
        x.__dlpack__(stream=7)
    assert x.__dlpack_device__() == (1, 0)


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


def test_what_cannot_be_decorated():
    with pytest.raises(TypeError, match="expected the name of an attribute"):
        fastdl.producer(Series)
    with pytest.raises(TypeError, match="expected a class to make a producer"):
        fastdl.producer("values")(Series(1))
    with pytest.raises(TypeError, match="has __dlpack__ already"):
        fastdl.producer("values")(Series)
