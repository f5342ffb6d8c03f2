# SPDX-License-Identifier: Apache-2.0
"""Descriptors that lie: dimensions, strides, offsets, data pointers (faults N1 to N18, X2).

What any library has to withstand is asked of every path by test_paths_conform.py.
"""

import pytest

import fastdl
from dlpack_conformance.structs import managed_at
from tests.support import consumer
from tests.support.ctypes_dlpack import shape_in
from tests.support.isolate import run_isolated
from tests.support.producers import (
    CPU,
    ONEAPI,
    OPENCL,
    Given,
    assert_accepted,
    every_way,
    hostile,
)

# A pointer that kills whoever follows it.
WILD = 8

# What must not be read. Of another major version only the deleter may be touched.
DEADLY = {
    "N1 wild shape": {"ndim": -1, "shape": WILD},
    "N2 ndim 65": {"ndim": 65, "shape": WILD},
    "N2 ndim 1000": {"ndim": 1000, "shape": WILD, "strides": WILD},
    "N2 ndim INT32_MAX": {"ndim": 2**31 - 1, "shape": WILD, "strides": WILD},
    "N3 NULL shape, 64 dimensions": {"ndim": 64, "shape": None},
    **{
        f"V1, V3 major {major}": {
            "version": (major, 0),
            "ndim": 3,
            "shape": WILD,
            "strides": WILD,
            "data": WILD,
        }
        for major in (0, 2, 3, 99, 2**31, 2**32 - 1)
    },
}


def test_descriptor_that_cannot_be_read_is_refused_unread():
    """N1, N2, N3, V1, V3: BufferError, before anything behind a pointer is read. In a process of
    its own, which a consumer that believes these would end."""
    run_isolated("""
        from tests.support.producers import WAYS, assert_refused
        from tests.memory.test_faults_descriptor import DEADLY
        words = "dimensions outside|NULL shape|expected DLPack 1"
        for way in WAYS:
            for fields in DEADLY.values():
                if way.versioned or "version" not in fields:
                    assert_refused(way, BufferError, words, **fields)
    """)


def has(**expected):
    def check(tensor):
        found = {name: getattr(tensor, name) for name in expected}
        assert found == expected

    return check


def on_the_host(tensor):
    """What others are told: a Device names the host in one way whatever its number is."""
    assert tensor.__dlpack_device__() == (1, 0)
    assert tensor.device == CPU


ACCEPTED = {
    "N4 scalar, wild": (
        {"shape": WILD, "ndim": 0, "strides": WILD},
        has(shape=(), strides=(), ndim=0, size=1, nbytes=4),
    ),
    "N8 NULL strides": ({"shape": (2, 1, 3)}, has(strides=(3, 3, 1), size=6)),
    "N2 64 dimensions": ({"shape": (1,) * 64}, has(ndim=64, shape=(1,) * 64, size=1)),
    "X2 CPU 7": ({"device": (1, 7)}, on_the_host),
    "X2 CPU -5": ({"device": (1, -5)}, on_the_host),
}


@every_way
@pytest.mark.parametrize(("fields", "check"), ACCEPTED.values(), ids=ACCEPTED)
def test_odd_but_legal_descriptor_is_accepted(way, fields, check):
    """N2, N4, N8, X2: what it says of itself, the deleter once."""
    assert_accepted(way, check, **fields)


@every_way
def test_producer_that_changes_shape_under_the_tensor(way):
    """P11: shape and strides are copied at import."""
    given = way.given(shape=(2, 3), strides=(3, 1))
    tensor = way.bring(given)
    given.mutate((1000, -1), (2**40, 0))
    assert (tensor.shape, tensor.strides) == ((2, 3), (3, 1))
    assert tensor.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    export = tensor.__dlpack__(max_version=(1, 3))
    del tensor
    given.assert_alive()
    del export
    given.assert_released()


@pytest.mark.parametrize("versioned", [True, False])
def test_byte_offset_survives_reexport(versioned):
    """N13: folded into the pointer where there are addresses, left alone where there are none, and
    for oneAPI, whose libraries measure the allocation from the pointer."""
    for device, folded in ((CPU, True), (OPENCL, False), (ONEAPI, False)):
        given = Given(shape=(2,), data=4096, byte_offset=64, device=device)
        tensor = fastdl.from_dlpack(given.capsule())
        version = (1, 0) if versioned else None
        held = consumer.take(tensor.__dlpack__(max_version=version))
        fields = consumer.fields(held)
        place = (4096 + 64, 0) if folded else (4096, 64)
        assert (fields["data"], fields["byte_offset"]) == place
        held.release()
        del tensor
        given.assert_released()


def test_poison_reaches_the_descriptor_after_deletion():
    """The producer of these tests does invalidate shape and strides when it is told to delete."""
    given = Given()
    consumer.take(given.capsule()).release()
    tensor = managed_at(given.address, True).tensor
    assert shape_in(tensor) == (hostile.POISON,) * 2
