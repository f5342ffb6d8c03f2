# SPDX-License-Identifier: Apache-2.0
"""A library consumes from fastdl: capsules, slices, and what is left behind.

Values of every type and layout, sharing, writes, read-only data and lifetimes are measured by
matrix/measure.py.
"""

import gc
import sys
import weakref

import pytest

import fastdl

from .common import aligned, freed, peer_under_test

peer = peer_under_test()


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
