"""A library consumes from fastdl: what peers.py says of it, capsules, and what is left behind.

Values of every type and layout, sharing, writes and lifetimes are measured by matrix/measure.py.
"""

import gc
import sys
import weakref

import numpy as np
import pytest

import fastdl

from ..peers import ABORTS, REFUSED, SHARED
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
