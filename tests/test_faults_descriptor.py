"""Descriptors that lie: dimensions, strides, offsets, data pointers (faults N1 to N18, X1, X2)."""

import array

import pytest

import fastdl
from tests.support.build import extension
from tests.support.producers import (
    CPU,
    CUDA,
    ONEAPI,
    OPENCL,
    WAYS,
    Given,
    assert_accepted,
    assert_refused,
    every_way,
    hostile,
    outcomes_apart,
)

consumer = extension("consumer")

MIN, MAX = -(2**63), 2**63 - 1
TOP = 2**64
BYTES = {"dtype": (1, 8, 1)}  # whose strides in bytes are those in elements

# A pointer that kills whoever follows it.
WILD = 8

# A consumer that believes these reads wild pointers, so each batch runs in its own process.
DEADLY = {
    "N1 ndim -1": {"ndim": -1},
    "N1 ndim INT32_MIN": {"ndim": -(2**31)},
    "N1 wild shape": {"ndim": -1, "shape": WILD},
    "N2 ndim 65": {"ndim": 65, "shape": WILD},
    "N2 ndim 1000": {"ndim": 1000, "shape": WILD, "strides": WILD},
    "N2 ndim INT32_MAX": {"ndim": 2**31 - 1, "shape": WILD, "strides": WILD},
    "N3 NULL shape": {"ndim": 1, "shape": None},
    "N3 NULL shape, strides": {"ndim": 2, "shape": None, "strides": (3, 1)},
    "N3 NULL shape, 64 dimensions": {"ndim": 64, "shape": None},
}


@every_way
def test_descriptor_that_cannot_be_read_is_refused_unread(way):
    """N1, N2, N3: BufferError, before anything behind a pointer is read."""
    outcomes = outcomes_apart(way, "tests.test_faults_descriptor", "DEADLY")
    assert outcomes == dict.fromkeys(DEADLY, "BufferError")


REFUSED = {
    "N5 negative": ({"shape": (2, -1)}, "negative dimension"),
    "N5 two negatives": ({"shape": (-2, -3)}, "negative dimension"),
    "N5 INT64_MIN": ({"shape": (MIN,)}, "negative dimension"),
    "N5 negative beside zero": ({"shape": (0, -1)}, "negative dimension"),
    "N6 count overflows": ({"shape": (2**32, 2**32)}, "more bytes than"),
    "N6 count wraps to 0": ({"shape": (2**32, 2**32, 16)}, "more bytes than"),
    "N6 bytes overflow": ({"shape": (2**61,)}, "more bytes than"),
    "N6 wide lanes": ({"shape": (2**40,), "dtype": (3, 255, 65535)}, "more bytes than"),
    "N6 packed bits": ({"shape": (2**62,), "dtype": (0, 4, 1)}, "more bytes than"),
    "N6 hidden by stride 0": ({"shape": (2**40, 2**40), "strides": (0, 0)}, "more bytes than"),
    "N9 INT64_MAX": ({"strides": (MAX, 1)}, "strides that reach"),
    "N9 INT64_MIN": ({"strides": (MIN, 1)}, "strides that reach"),
    "N9 in bytes only": ({"strides": (2**61, 1)}, "strides that reach"),
    "N9 sum": ({"shape": (2, 2), "strides": (2**62, 2**62)}, "strides that reach"),
    "N9 negative sum": ({"shape": (2, 2), "strides": (-(2**62), -(2**62))}, "strides that reach"),
    "N9 of bytes": ({**BYTES, "shape": (3,), "strides": (2**62,)}, "strides that reach"),
    "N9 negative, of bytes": ({**BYTES, "shape": (3,), "strides": (MIN,)}, "strides that reach"),
    "N9 sum of bytes": (
        {**BYTES, "shape": (2, 2), "strides": (2**62, 2**62)},
        "strides that reach",
    ),
    "N9 cancelling": ({"shape": (3, 3), "strides": (2**62, -(2**62))}, "strides that reach"),
    "N9 below address 0": ({"data": 4096, "strides": (-2000, 1)}, "outside the address space"),
    "N9 above the top": ({"data": TOP - 64, "strides": (100, 1)}, "outside the address space"),
    "N14 wraps": ({"byte_offset": TOP - 8}, "outside the address space"),
    "N14 most negative": ({"byte_offset": 2**63, "data": TOP - 4096}, "outside the address space"),
    "N14 last element": ({"data": 4096, "byte_offset": TOP - 4096 - 20}, "outside the address"),
    "N16 NULL": ({"data": 0}, "NULL data"),
    "N16 NULL with offset": ({"data": 0, "byte_offset": 4096}, "NULL data"),
    "N16 NULL scalar": ({"data": 0, "shape": ()}, "NULL data"),
    "N16 NULL on CUDA": ({"data": 0, "device": CUDA}, "NULL data"),
    "X1 device 0": ({"device": (0, 0)}, "device type that is not positive"),
    "X1 device -1": ({"device": (-1, 0)}, "device type that is not positive"),
    "X1 device INT32_MIN": ({"device": (-(2**31), 0)}, "device type that is not positive"),
}


@every_way
@pytest.mark.parametrize(("fields", "match"), REFUSED.values(), ids=REFUSED)
def test_malformed_descriptor_is_refused(way, fields, match):
    """N5, N6, N9, N14, N16, X1: BufferError in words, the deleter once, nothing kept."""
    if fields.get("device", CPU)[0] > 1:
        on_device = {"capsule", "capsule, python"}  # what the others announce is the host
        way = way if way.name in on_device else WAYS[0]
    assert_refused(way, BufferError, match, **fields)


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
    "N4 scalar, NULL": (
        {"shape": None, "ndim": 0, "strides": None},
        has(shape=(), strides=(), ndim=0, size=1, nbytes=4),
    ),
    "N4 scalar, wild": (
        {"shape": WILD, "ndim": 0, "strides": WILD},
        has(shape=(), strides=(), size=1),
    ),
    "N7 count overflows but is 0": (
        {"shape": (0, 2**62, 2**62)},
        has(shape=(0, 2**62, 2**62), size=0, nbytes=0),
    ),
    "N7 zero last": ({"shape": (2**62, 2**62, 0)}, has(size=0, nbytes=0)),
    "N7 zero with wild strides": (
        {"shape": (2**62, 0, 2**62), "strides": (MAX, MIN, MAX)},
        has(size=0, nbytes=0, strides=(MAX, MIN, MAX)),
    ),
    "N8 NULL strides": ({"shape": (2, 1, 3)}, has(strides=(3, 3, 1), size=6)),
    "N10 negative stride": (
        {"shape": (3,), "strides": (-1,), "byte_offset": 8},
        lambda t: (has(strides=(-1,), nbytes=12)(t), values(t, [2.0, 1.0, 0.0])),
    ),
    "N11 broadcast": (
        {"shape": (4, 3), "strides": (0, 1)},
        lambda t: (
            has(strides=(0, 1), nbytes=48, size=12)(t),
            values(t, [[0.0, 1.0, 2.0]] * 4),
            contiguous(t, False),
        ),
    ),
    "N11 overlap": (
        {"shape": (3, 3), "strides": (1, 1)},
        lambda t: (values(t, [[0, 1, 2], [1, 2, 3], [2, 3, 4]]), contiguous(t, False)),
    ),
    "N12 size-1 dimension": (
        {"shape": (1, 6, 1), "strides": (MAX, 1, -5)},
        lambda t: (values(t, [[[float(i)] for i in range(6)]]), contiguous(t, True)),
    ),
    "N12 empty": (
        {"shape": (3, 0), "strides": (77, -77)},
        lambda t: (values(t, [[], [], []]), contiguous(t, True)),
    ),
    "N13 byte_offset": (
        {"shape": (2,), "byte_offset": 12},
        lambda t: values(t, [3.0, 4.0]),
    ),
    "N14 offset beyond PTRDIFF_MAX that comes back": (
        {"shape": (1,), "data": 16, "byte_offset": 2**63},
        has(data_ptr=2**63 + 16),
    ),
    "N17 NULL without elements": (
        {"shape": (3, 0), "data": 0},
        has(size=0, data_ptr=0, nbytes=0),
    ),
    "N17 NULL without elements, offset": (
        {"shape": (0,), "data": 0, "byte_offset": TOP - 8},
        has(size=0, nbytes=0),
    ),
    "N18 without elements": ({"shape": (0,)}, has(size=0, shape=(0,))),
    "N2 64 dimensions": ({"shape": (1,) * 64}, has(ndim=64, shape=(1,) * 64, size=1)),
    "X2 CPU 7": ({"device": (1, 7)}, on_the_host),
    "X2 CPU -5": ({"device": (1, -5)}, on_the_host),
}


def values(tensor, expected):
    assert tensor.tolist() == expected
    assert tensor.numpy().tolist() == expected
    assert memoryview(tensor).tolist() == expected


def contiguous(tensor, expected):
    assert (tensor.is_contiguous(), memoryview(tensor).c_contiguous) == (expected, expected)


@every_way
@pytest.mark.parametrize(("fields", "check"), ACCEPTED.values(), ids=ACCEPTED)
def test_odd_but_legal_descriptor_is_accepted(way, fields, check):
    """N4, N7, N8, N10 to N14, N17, N18, X2: right values, the deleter once."""
    assert_accepted(way, check, **fields)


@every_way
def test_misaligned_data_is_read_right(way):
    """N15: an address that is no multiple of the element size."""
    memory = array.array("B", b"\xff" + b"".join(i.to_bytes(4, "little") for i in range(3)))
    fields = {"memory": memory, "dtype": (0, 32, 1)}

    def check(tensor):
        values(tensor, [0, 1, 2])
        assert not tensor.numpy().flags.aligned
        assert tensor.copy().tolist() == [0, 1, 2]

    assert_accepted(way, check, shape=(3,), byte_offset=1, **fields)


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
        fields = held.fields()
        place = (4096 + 64, 0) if folded else (4096, 64)
        assert (fields["data"], fields["byte_offset"]) == place
        held.delete()
        del tensor
        given.assert_released()


def test_opaque_devices_are_carried_and_never_read():
    """X1, X3: a device type from the future is a name; host access is refused."""
    for device in ((999, 3), CUDA, OPENCL, (2**31 - 1, -7)):
        given = Given(device=device, data=WILD)
        tensor = fastdl.from_dlpack(given.capsule())
        assert tensor.__dlpack_device__() == device
        assert "shape=(2, 3)" in repr(tensor)
        for access in (tensor.tolist, tensor.numpy, tensor.copy, lambda t=tensor: memoryview(t)):
            with pytest.raises(BufferError):
                access()
        del tensor, access
        given.assert_released()


def test_poison_reaches_the_descriptor_after_deletion():
    """The producer of these tests does invalidate shape and strides when it is told to delete."""
    given = Given()
    held = consumer.take(given.capsule())
    second = consumer.hold(given.address, True)
    held.delete()
    assert second.fields()["shape"] == (hostile.POISON,) * 2
