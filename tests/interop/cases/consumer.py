"""A library consumes from fastdl: values, sharing, the read-only flag, and who frees what."""

import gc
import sys
import weakref

import numpy as np
import pytest

import fastdl

from ..peers import ABORTS, COPIED, KEPT, LOST, REFUSED, SHARED
from .common import aligned, freed, nested, peer_under_test

peer = peer_under_test()


def source_of(layout: str) -> np.ndarray:
    """A NumPy array of that layout, with its memory aligned to 64 bytes."""
    base = aligned([[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]])
    match layout:
        case "compact":
            return base
        case "transposed":
            return base.T
        case "gaps":
            return base[:, ::2]
        case "reversed":
            return base[::-1]
        case "broadcast":
            return np.lib.stride_tricks.as_strided(base, (2, 4), (16, 0))
        case "scalar":
            return base[:1, :1].reshape(())
        case "bool":
            return aligned([[True, False], [False, True]], "bool")
        case "bfloat16":
            return aligned([[1.0, 2.0], [-3.0, 0.5]], "bfloat16")
    raise AssertionError(layout)


def read(array, source):
    """The values as the library sees them, or through fastdl where it cannot show them."""
    if source.dtype.name == "bfloat16":
        return fastdl.from_dlpack(array).tolist()
    return peer.values(array)


TRIED = [layout for layout, result in peer.layouts.items() if result != ABORTS]


@pytest.mark.parametrize("layout", TRIED)
def test_layouts(layout):
    source = source_of(layout)
    tensor = fastdl.from_dlpack(source)
    expected = peer.layouts[layout]
    if expected == REFUSED:
        with pytest.raises(Exception) as caught:
            peer.take(tensor)
        assert not isinstance(caught.value, SystemError)
        assert tensor.tolist() == nested(source)
        return
    array = peer.take(tensor)
    assert read(array, source) == nested(source)
    if peer.pointer is not None and layout != "bfloat16":
        assert (peer.pointer(array) == source.ctypes.data) is (expected == SHARED)


@pytest.mark.parametrize("layout", [k for k in TRIED if peer.layouts[k] != REFUSED])
def test_writes_are_seen_if_memory_is_shared(layout):
    source = source_of(layout)
    before = nested(source)
    array = peer.take(fastdl.from_dlpack(source))
    source[(0,) * source.ndim] = not source[(0,) * source.ndim]
    after = nested(source)
    assert before != after
    assert read(array, source) == (after if peer.layouts[layout] == SHARED else before)


@pytest.mark.skipif(peer.takes_2d, reason=f"{peer} takes more than one dimension")
def test_one_dimension():
    source = aligned([1.0, 2.0, 3.0])
    array = peer.take(fastdl.from_dlpack(source))
    assert peer.values(array) == [1.0, 2.0, 3.0]
    assert peer.pointer(array) == source.ctypes.data


def test_no_elements():
    tensor = fastdl.from_dlpack(np.zeros((0, 3) if peer.takes_2d else 0, np.float32))
    if peer.takes_empty:
        assert peer.values(peer.take(tensor)) == []
    else:
        with pytest.raises(ValueError):
            peer.take(tensor)


@pytest.mark.parametrize("max_version", peer.capsules)
def test_capsules(max_version):
    source = aligned([1.0, 2.0])
    alive = weakref.ref(source)
    capsule = fastdl.from_dlpack(source).__dlpack__(max_version=max_version)
    array = peer.take(capsule)
    assert peer.values(array) == [1.0, 2.0]
    assert "used_dltensor" in repr(capsule)
    del source, array, capsule
    assert freed(alive)


@pytest.mark.skipif(peer.alignment == 1, reason=f"{peer} takes any alignment")
def test_misaligned_data_is_copied():
    source = aligned([0.0, 1.0, 2.0, 3.0])[1:]
    array = peer.take(fastdl.from_dlpack(source))
    assert peer.values(array) == [1.0, 2.0, 3.0]
    assert peer.pointer(array) != source.ctypes.data


def test_memory_of_fastdl_is_aligned_enough_for_everyone():
    tensor = fastdl.empty((4,))
    tensor.numpy()[:] = [1, 2, 3, 4]
    array = peer.take(tensor)
    assert peer.values(array) == [1.0, 2.0, 3.0, 4.0]
    if peer.pointer is not None:
        shared = peer.layouts["compact"] == SHARED or not peer.takes_2d
        assert (peer.pointer(array) == tensor.data_ptr) is shared


def test_a_view_points_at_its_first_element():
    """The byte offset is folded into the pointer: four libraries ignore the field."""
    tensor = fastdl.from_dlpack(aligned(np.arange(32.0)))[16:]
    array = peer.take(tensor)
    assert peer.values(array) == list(map(float, range(16, 32)))


def test_readonly_data():
    source = aligned([1.0, 2.0])
    source.flags.writeable = False
    alive = weakref.ref(source)
    tensor = fastdl.from_dlpack(source)
    assert tensor.readonly
    if peer.readonly_data == REFUSED:
        with pytest.raises(BufferError, match="read-only"):
            peer.take(tensor)
    else:
        array = peer.take(tensor)
        assert peer.values(array) == [1.0, 2.0]
        back = fastdl.from_dlpack(array)
        match peer.readonly_data:
            case "kept":
                assert back.readonly
                assert peer.is_readonly is None or peer.is_readonly(array)
            case "lost":
                assert not back.readonly
            case "copied":
                assert back.data_ptr != tensor.data_ptr
        del array, back
    del tensor, source
    assert freed(alive)


def test_writable_data_stays_writable():
    if peer.is_readonly is None:
        pytest.skip(f"{peer} does not tell")
    array = peer.take(fastdl.from_dlpack(aligned([1.0, 2.0])))
    assert not peer.is_readonly(array)


@pytest.mark.parametrize("shape", [(2,), (2, 2)])
def test_the_library_keeps_the_memory_alive_and_frees_it(shape):
    if len(shape) == 2 and not peer.takes_2d:
        pytest.skip(f"{peer} takes one dimension")
    source = aligned(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))
    values = source.tolist()
    alive = weakref.ref(source)
    tensor = fastdl.from_dlpack(source)
    array = peer.take(tensor)
    del source, tensor
    shared = peer.layouts["compact"] == SHARED or not peer.takes_2d
    assert freed(alive, seconds=0.05) is not shared
    assert peer.values(array) == values
    del array
    assert freed(alive)


def test_a_refused_tensor_is_freed():
    refused = [layout for layout in TRIED if peer.layouts[layout] == REFUSED]
    if not refused:
        pytest.skip(f"{peer} refuses nothing that is tried here")
    for layout in refused:
        source = source_of(layout)
        alive = weakref.ref(source)
        with pytest.raises(Exception):  # noqa: B017 - every library has its own
            peer.take(fastdl.from_dlpack(source))
        del source
        assert freed(alive), layout


def test_many_exchanges_keep_one_reference():
    source = aligned([1.0, 2.0])
    tensor = fastdl.from_dlpack(source)
    arrays = [peer.take(tensor) for _ in range(50)]
    alive = weakref.ref(source)
    del source, tensor
    while arrays:
        assert peer.values(arrays.pop()) == [1.0, 2.0]
    assert freed(alive)


def test_exchanges_leave_nothing_behind():
    """Python's own count of memory blocks, after the library has filled its caches."""
    array = peer.make([1.0, 2.0, 3.0], "float32")
    tensor = fastdl.from_dlpack(aligned([1.0, 2.0, 3.0]))

    def exchange(times):
        for _ in range(times):
            fastdl.from_dlpack(array)
            fastdl.from_dlpack(array, copy=True)
            peer.take(tensor)
        gc.collect()

    exchange(300)
    before = sys.getallocatedblocks()
    exchange(2000)
    assert sys.getallocatedblocks() - before < 200


def test_the_facts_of_the_table_are_known_words():
    assert set(peer.layouts.values()) <= {SHARED, COPIED, REFUSED, ABORTS}
    assert peer.readonly_data in (KEPT, LOST, COPIED, REFUSED)
