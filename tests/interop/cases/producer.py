"""fastdl consumes from a library: what peers.py says of it, arguments, flags and lifetime.

Values of every type and layout, sharing, writes and lifetimes are measured by matrix/measure.py.
"""

import weakref

import numpy as np
import pytest

import fastdl
from fastdl._core.exchange import has_native_table
from tests.support.ctypes_dlpack import address_in

from ..arrays import sample
from ..peers import BRIDGE, SHARED, TABLE
from .common import aligned, both_entries, freed, peer_under_test

peer = peer_under_test()
ENTRIES = pytest.mark.parametrize("from_dlpack", both_entries(), ids=("compiled", "python"))

one_d_only = pytest.mark.skipif(peer.max_ndim < 2, reason=f"{peer} has one dimension")


@ENTRIES
@pytest.mark.parametrize("dtype", peer.dtypes)
def test_element_types(from_dlpack, dtype):
    array = peer.make(sample(dtype), dtype)
    tensor = from_dlpack(array)
    assert tensor.dtype == fastdl.DType(dtype)
    assert tensor.shape == (3,)
    assert tensor.tolist() == sample(dtype)
    assert tensor.device == fastdl.Device("cpu")
    assert not tensor.is_copied
    assert tensor.readonly is peer.readonly


class Plain:
    """A type that has `__dlpack__` and nothing better."""

    def __dlpack__(self):
        raise NotImplementedError


def table_of(x):
    return address_in(fastdl.exchange_api(x))


def test_what_it_is_imported_through():
    array = peer.make([1.0], "float32")
    assert has_native_table(array) is (peer.through == TABLE)
    assert (table_of(array) == table_of(Plain)) is (peer.through not in (TABLE, BRIDGE))


@ENTRIES
@one_d_only
@pytest.mark.parametrize("ndim", range(2, 9))
def test_ranks(from_dlpack, ndim):
    shape = (2, 1, 3, 1, 1, 2, 1, 1)[:ndim]
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    tensor = from_dlpack(peer.make(values.tolist(), "float32"))
    assert tensor.shape == shape
    assert tensor.tolist() == values.tolist()


@ENTRIES
def test_readonly_is_kept_on_every_way_out(from_dlpack):
    tensor = from_dlpack(peer.make([1.0, 2.0], "float32"))
    assert tensor.numpy().flags.writeable is not peer.readonly
    assert memoryview(tensor).readonly is peer.readonly
    again = from_dlpack(tensor.__dlpack__(max_version=(1, 0)))
    assert again.readonly is peer.readonly
    assert tensor[1:].readonly is peer.readonly
    assert not tensor.copy().readonly
    if peer.readonly:
        with pytest.raises(BufferError, match="read-only"):
            tensor.__dlpack__()


@ENTRIES
@pytest.mark.filterwarnings("ignore:Exporting an unversioned DLPack")  # pyarrow's opinion
def test_raw_capsules(from_dlpack):
    """A capsule does not tell who made it, so a legacy one is writable whatever its maker is."""
    array = peer.make([1.0, 2.0], "float32")
    capsule = array.__dlpack__()
    tensor = from_dlpack(capsule)
    assert not tensor.readonly
    assert tensor.data_ptr == from_dlpack(array).data_ptr
    with pytest.raises(ValueError, match="consumed already"):
        from_dlpack(capsule)
    with pytest.raises(TypeError, match="no stream"):
        from_dlpack(array.__dlpack__(), stream=-1)
    assert from_dlpack(array.__dlpack__(), copy=True).tolist() == [1.0, 2.0]


@ENTRIES
def test_a_forced_copy_is_one(from_dlpack):
    array = peer.make([1.0, 2.0, 3.0], "float32")
    tensor = from_dlpack(array, copy=True)
    assert tensor.is_copied
    assert not tensor.readonly
    assert tensor.data_ptr != from_dlpack(array).data_ptr
    tensor.numpy()[0] = 9.0
    assert peer.values(array) == [1.0, 2.0, 3.0]


@ENTRIES
def test_a_forbidden_copy_is_none(from_dlpack):
    array = peer.make([1.0, 2.0, 3.0], "float32")
    tensor = from_dlpack(array, copy=False)
    assert tensor.data_ptr == from_dlpack(array).data_ptr
    assert tensor.readonly is peer.readonly


@ENTRIES
def test_device_arguments(from_dlpack):
    array = peer.make([1.0, 2.0], "float32")
    assert from_dlpack(array, device="cpu").data_ptr == from_dlpack(array).data_ptr
    with pytest.raises(Exception) as caught:
        from_dlpack(array, device="cuda:0")
    # The producer's own exception, or fastdl's that neither can make the copy, for that reason.
    assert isinstance(caught.value.__cause__ or caught.value, peer.elsewhere)
    with pytest.raises(fastdl.CopyRequiredError):
        from_dlpack(array, device="cuda:0", copy=False)


@ENTRIES
def test_memory_outlives_the_array(from_dlpack):
    tensor = from_dlpack(peer.make(list(range(100)), "float32"))
    # Memory that was given back would be taken by one of these.
    others = [peer.make([-1.0] * 100, "float32") for _ in range(20)]
    assert tensor.tolist() == list(map(float, range(100)))
    assert len(others) == 20


@ENTRIES
@pytest.mark.skipif(
    peer.layouts["compact"] != SHARED or not peer.takes_2d, reason=f"{peer} takes copies"
)
def test_everything_is_freed_after_a_round_trip(from_dlpack):
    """numpy -> fastdl -> library -> fastdl: the end of the last Tensor is the end of all."""
    source = aligned([[1.0, 2.0], [3.0, 4.0]])
    alive = weakref.ref(source)
    array = peer.take(fastdl.from_dlpack(source))
    tensor = from_dlpack(array)
    pointer = source.ctypes.data
    del source, array
    assert not freed(alive, seconds=0.05)
    assert tensor.data_ptr == pointer
    assert tensor.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    view = tensor[1:]
    del tensor
    assert not freed(alive, seconds=0.05)
    assert view.tolist() == [[3.0, 4.0]]
    del view
    assert freed(alive)


def test_the_exchange_table_of_the_type_serves_repeated_imports():
    """The second import goes the way that was learned at the first: nothing may differ."""
    array = peer.make(sample("int32"), "int32")
    seen = {
        (t.data_ptr, t.shape, t.strides, t.dtype, t.readonly)
        for t in (fastdl.from_dlpack(array) for _ in range(5))
    }
    assert len(seen) == 1
    assert "dlpack_exchange_api" in repr(fastdl.exchange_api(type(array)))
