"""Copies between the host and devices, on and between devices, on simulated drivers.

The bytes are compared with NumPy's, once everything queued has run in a random legal order; the
checker reports whatever had no order.
"""

import gc
import itertools
import math
import random

import numpy as np
import pytest

import fastdl
from fastdl._devices import driver
from fastdl._protocol import placement
from tests.support.build import extension
from tests.support.ctypes_dlpack import IS_COPIED, FakeProducer, Managed, capsule_of, opened
from tests.support.frameworks import (
    Plain,
    Protocol,
    Table,
    capturing,
    given_back,
    in_thread,
    stream_on,
    synchronize,
)
from tests.support.memory import FAILING_TO_THE_HOST, bytes_of, expect_race, machine, values
from tests.support.own_memory import FAILING
from tests.support.producers import Given, hostile
from tests.support.simulation import write

PLACES = {
    "cuda": ["cpu", "cuda:0", "cuda:1", "cuda_host", "cuda_managed:0", "cuda_managed:1"],
    "hip": ["cpu", "rocm:0", "rocm:1", "rocm_host"],
}
PAIRS = [
    (kind, *pair) for kind, places in PLACES.items() for pair in itertools.product(places, repeat=2)
]


def on(device, array):
    """A tensor with the elements of an array on a device; the array stays as it is meanwhile."""
    tensor = fastdl.from_dlpack(array).to(device)
    return fastdl.from_dlpack(array).copy() if tensor.device == (1, 0) else tensor


def copied(tensor, device, stream=None):
    return placement.make_copy(tensor, fastdl.Device(device), stream)


def elements(here, tensor):
    """The elements of a tensor without negative strides, wherever it is, once all work has run."""
    here.sim.run()
    strides = [n * tensor.itemsize for n in tensor.strides]
    reach = sum((n - 1) * step for n, step in zip(tensor.shape, strides, strict=True))
    span = here.sim.peek(tensor.data_ptr, reach + tensor.itemsize if tensor.size else 0)
    dtype = f"V{tensor.itemsize}"
    if not tensor.size:
        return np.empty(tensor.shape, dtype)
    return np.ndarray(tensor.shape, dtype, span, strides=strides)


def check(here, tensor, expected):
    """The tensor has these elements, each in its own place; on the host it is compact."""
    assert tensor.shape == expected.shape
    assert min(tensor.strides, default=0) >= 0
    assert tensor.is_contiguous() or not tensor.device.is_host
    assert elements(here, tensor).tobytes() == np.ascontiguousarray(expected).tobytes()


def kernel(here, tensor, stream, payload=5, device=0):
    with here.sim.device(device):
        here.sim.kernel(stream, write(tensor.data_ptr, tensor.nbytes, payload))


# ---- all ways, all shapes -------------------------------------------------------------------

LAYOUTS = {
    "compact": lambda a: a,
    "rows": lambda a: a[1:],
    "every other row": lambda a: a[::2],
    "columns": lambda a: a[:, 1:3],
    "every other column": lambda a: a[:, ::2],
    "last axis": lambda a: a[..., 1],
    "backwards": lambda a: a[::-1],
    "inside out": lambda a: a[:, ::-1, ::-1],
    "one element": lambda a: a[1, 2, 3],
    "nothing": lambda a: a[:0],
    "box": lambda a: a[1:3, 1:4, 1:3],
    "steps": lambda a: a[::2, ::3, ::2],
}


@pytest.mark.parametrize(("kind", "source", "target"), PAIRS)
def test_every_way_and_layout(kind, source, target):
    with machine(kind) as here:
        check_layouts(here, source, target)


def check_layouts(here, source, target):
    array = values(4, 5, 6, dtype="int32")
    tensor = on(source, array) if source == "cpu" else here.holding(array, source)
    for view in LAYOUTS.values():
        result = copied(view(tensor), target)
        assert result.device == fastdl.Device(target)
        assert result.is_copied and not result.readonly
        assert result.data_ptr != tensor.data_ptr
        check(here, result, view(array))


STRIDED = [
    ((5, 4, 3), (1, 5, 20)),
    ((4, 3, 5), (5, 20, 1)),
    ((3, 5, 4), (20, 1, 5)),
    ((5, 3, 4), (1, 20, 5)),
    ((2, 3, 5), (0, 20, 1)),
    ((3, 2, 5), (20, 0, 1)),
    ((3, 4, 2), (20, 5, 0)),
    ((7, 5), (5, 1)),
    ((7, 6), (5, 1)),  # rows that overlap
    ((3, 3, 3), (3, 5, 7)),
]


def strided(array, address, device):
    """(view, its elements) for each of STRIDED, of the elements of an array that are there."""
    for shape, strides in STRIDED:
        managed = Managed(shape, (0, 16, 1), strides=strides, data=address, device=device)
        view = fastdl.from_dlpack(managed.capsule())
        expected = np.lib.stride_tricks.as_strided(
            array.ravel(), shape, tuple(2 * stride for stride in strides)
        )
        yield view, expected


@pytest.mark.parametrize("source", ["device", "host"])
def test_transposed_and_broadcast(here, source):
    array = values(3, 4, 5, dtype="int16")
    data = bytearray(array.tobytes())
    tensor = on(here.device, array)
    if source == "host":
        data = memoryview(data)
    device = (1, 0) if source == "host" else tensor.__dlpack_device__()
    address = data if source == "host" else tensor.data_ptr
    for view, expected in strided(array, address, device):
        check(here, copied(view, tensor.device), expected)
        check(here, copied(view, here.pinned), expected)


def test_transposed_and_broadcast_to_the_host(here):
    array = values(3, 4, 5, dtype="int16")
    tensor = here.holding(array)
    for view, expected in strided(array, tensor.data_ptr, tensor.__dlpack_device__()):
        check(here, copied(view, "cpu"), expected)


def random_views(seed):
    """(an array, keys of views of it)"""
    rng = random.Random(seed)
    array = values(*(rng.randint(1, 5) for _ in range(rng.randint(1, 6))), dtype="int16")
    keys = [
        tuple(
            rng.choice(
                [rng.randrange(n), slice(None), slice(None, None, rng.choice([-2, -1, 1, 2, 3]))]
            )
            for n in array.shape
        )
        for _ in range(6)
    ]
    return array, keys


@pytest.mark.parametrize("seed", range(20))
def test_random_views(here, seed):
    array, keys = random_views(seed)
    tensor = on(f"{here.device}:{seed % 2}", array)
    for key in keys:
        check(here, tensor[key].to("cpu"), array[key])
        check(here, tensor[key].copy(), array[key])


@pytest.mark.parametrize("seed", range(20))
def test_random_views_to_the_host(here, seed):
    array, keys = random_views(seed)
    tensor = here.holding(array, f"{here.device}:{seed % 2}")
    for key in keys:
        check(here, tensor[key].to("cpu"), array[key])


def element_of(bits):
    return (5, 128, 1) if bits == 128 else (1, bits, 1)


SIZES = [8, 16, 32, 64, 128]


@pytest.mark.parametrize("bits", SIZES)
def test_element_sizes(here, bits):
    data = bytearray(random.Random(bits).randbytes(6 * bits // 8))
    host = fastdl.from_dlpack(capsule_of((2, 3), element_of(bits), data=data))
    tensor = host.to(here.device)
    assert bytes_of(here.sim, tensor) == bytes(data)
    column = tensor[:, 1].to("cpu")
    size = bits // 8
    assert bytes_of(here.sim, column) == data[size : 2 * size] + data[4 * size : 5 * size]


@pytest.mark.parametrize("bits", SIZES)
def test_element_sizes_to_the_host(here, bits):
    data, size = random.Random(bits).randbytes(6 * bits // 8), bits // 8
    tensor = here.tensor((2, 3), element_of(bits))
    here.sim.poke(tensor.data_ptr, data)
    column = tensor[:, 1].to("cpu")
    assert bytes_of(here.sim, column) == data[size : 2 * size] + data[4 * size : 5 * size]


PACKED = [(0, 4, 1), (1, 2, 1), (17, 4, 1), (1, 1, 1), (2, 32, 4)]


@pytest.mark.parametrize("dtype", PACKED)
def test_packed_and_vector_types(here, dtype):
    data = bytearray(range(128))
    host = fastdl.from_dlpack(capsule_of((5,), dtype, data=data))
    for place in [here.device, here.pinned]:
        there = host.to(place)
        assert there.dtype == dtype
        assert bytes_of(here.sim, there) == bytes(data[: host.nbytes])
        back = there.to("cpu")
        assert bytes_of(here.sim, back) == bytes(data[: host.nbytes])


@pytest.mark.parametrize("dtype", PACKED)
def test_packed_and_vector_types_to_the_host(here, dtype):
    for place in [here.device, here.pinned]:
        there = here.tensor(5, dtype, place)
        data = bytes(range(there.nbytes))
        here.sim.poke(there.data_ptr, data)
        back = there.to("cpu")
        assert back.dtype == dtype
        assert bytes_of(here.sim, back) == data


def test_padded_elements_stay_padded(here):
    data = bytearray(range(8))
    host = fastdl.from_dlpack(capsule_of((5,), (0, 4, 1), data=data, flags=4 | 1))
    there = host.to(here.device)
    assert there.nbytes == 5 and not there.readonly
    assert opened(there.__dlpack__(stream=-1, max_version=(1, 3))).flags & 7 == 4
    assert bytes_of(here.sim, there[::2].to("cpu")) == bytes([0, 2, 4])


def test_padded_elements_stay_padded_on_the_host(here):
    array = here.array(shape=8, dtype="int8")
    here.sim.poke(array.pointer, bytes(range(8)))
    fields = {"data": array.pointer, "device": tuple_of(here)}
    there = fastdl.from_dlpack(capsule_of((5,), (0, 4, 1), flags=4 | 1, **fields))
    back = there[::2].to("cpu")
    assert back.nbytes == 3 and not back.readonly
    assert opened(back.__dlpack__(max_version=(1, 3))).flags & 7 == 4
    assert bytes_of(here.sim, back) == bytes([0, 2, 4])


# ---- which copy -----------------------------------------------------------------------------

ONE_LINE = (1, 0)
ROWS = (0, 1)
BY_THE_HOST = (2, 0)  # there and back
ROWS_BY_THE_HOST = (1, 1)
WIDE = (4, 5, 60)


def transposed(a):
    if isinstance(a, np.ndarray):
        return a.T
    fields = {"strides": a.strides[::-1], "data": a.data_ptr, "device": a.__dlpack_device__()}
    return fastdl.from_dlpack(Managed(a.shape[::-1], (0, 32, 1), **fields).capsule())


# view: what the copy to the same device takes, whether it has the strides of the view, and what the
# copy to the host takes
WAYS = {
    "all": (lambda t: t, ONE_LINE, True, ONE_LINE),
    "some slices": (lambda t: t[1:3], ONE_LINE, True, ONE_LINE),
    "transposed": (transposed, ONE_LINE, True, ONE_LINE),
    "rows of one slice": (lambda t: t[1, ::2], ONE_LINE, True, ONE_LINE),
    "half of each row": (lambda t: t[:, :, :30], ONE_LINE, True, ONE_LINE),
    "a tenth of each row": (lambda t: t[:, :, :6], ROWS_BY_THE_HOST, False, ROWS),
    "one column": (lambda t: t[..., 0], ROWS_BY_THE_HOST, False, ROWS),
    "every other element": (lambda t: t[:, :, ::2], ONE_LINE, True, ONE_LINE),
    "some columns": (lambda t: t[:, 1:4, :30], ONE_LINE, True, ONE_LINE),
    "a small window": (lambda t: t[:, 1:3, :3], BY_THE_HOST, False, ONE_LINE),
    "backwards": (lambda t: t[::-1], BY_THE_HOST, False, ONE_LINE),
    "few, backwards": (lambda t: t[..., ::-20], BY_THE_HOST, False, ONE_LINE),
}


@pytest.mark.parametrize("way", WAYS)
def test_driver_calls(here, way):
    """A device keeps its layout where that will do. The host gathers what comes with up to four
    times as much around it; of more, rows come alone."""
    view, here_takes, keeps, host_takes = WAYS[way]
    array = values(*WIDE)
    whole = on(here.device, array)
    tensor = view(whole)

    def calls(target):
        before = here.calls("line"), here.calls("rows")
        result = copied(tensor, target)
        check(here, result, view(array))
        return (here.calls("line") - before[0], here.calls("rows") - before[1]), result

    took, result = calls(tensor.device)
    assert took == here_takes
    strides = tensor.strides if keeps else fastdl.empty(tensor.shape, tensor.dtype).strides
    assert result.strides == strides
    assert calls("cpu")[0] == host_takes
    again = 0 if tensor.is_contiguous() or host_takes == ROWS else 1  # what was gathered is pinned
    assert calls(here.pinned)[0] == (host_takes[0] + again, host_takes[1])


@pytest.mark.parametrize("way", WAYS)
def test_driver_calls_to_the_host(here, way):
    view, _, _, host_takes = WAYS[way]
    array = values(*WIDE)
    whole = here.holding(array)
    before = here.calls("line"), here.calls("rows")
    result = copied(view(whole), "cpu")
    assert (here.calls("line") - before[0], here.calls("rows") - before[1]) == host_takes
    check(here, result, view(array))


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_that_must_be_compact(here, way):
    """As for a library that takes no strides."""
    array = values(*WIDE)
    whole = on(here.device, array)
    view = WAYS[way][0](whole)
    for copy in (placement.make_copy(view, whole.device, compact=True), view.contiguous()):
        assert copy.is_contiguous() and copy.device == whole.device
        check(here, copy, WAYS[way][0](array))
    assert (view.contiguous() is view) == view.is_contiguous()


def test_a_copy_that_must_be_compact_is_the_only_one_on_the_device(here, monkeypatch):
    """One with gaps, which no driver makes compact, would take memory for nothing."""
    targets, transfer = [], placement.driver.transfer

    def record(tensor, *how):
        targets.append(how[:2])
        return transfer(tensor, *how)

    view = on(here.device, values(2, 3)).T
    monkeypatch.setattr(placement.driver, "transfer", record)
    assert view.contiguous().is_contiguous()
    assert targets == [(1, 0), fastdl.Device(here.device).__dlpack_device__()]


def test_elements_that_share_memory_do_not_in_a_copy(here):
    tensor = on(here.device, values(6))
    for shape, strides in [((4, 6), (0, 1)), ((5, 2), (1, 1)), ((2, 2, 2), (2, 1, 2))]:
        managed = Managed(shape, (0, 32, 1), strides=strides, data=tensor.data_ptr)
        managed.struct.tensor.device_type = tuple_of(here)[0]
        view = fastdl.from_dlpack(managed.capsule())
        copy = copied(view, tensor.device)
        expected = np.lib.stride_tricks.as_strided(values(6), shape, [4 * n for n in strides])
        assert copy.is_contiguous()
        check(here, copy, expected)


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("stream", ["none", "done", "one"])
def test_between_devices(here, refused, stream):
    """By the call for that, since one device need not reach the memory of another; where the driver
    refuses that too, by way of the host."""
    array = here.array(stream=stream_on(here.sim, blocking=False))
    expected = array.write()
    synchronize(here.sim, array.stream)
    tensor = fastdl.from_dlpack(array.given.capsule())  # for which nothing is made current
    number = {"none": None, "done": -1, "one": stream_on(here.sim, 1, blocking=False)}[stream]
    if refused:
        here.fail_next("peer", 217)
    result = tensor.to(f"{here.device}:1", stream=number)
    assert here.calls("peer") == 1
    assert here.calls("line") == (2 if refused else 0)
    if stream != "done":
        user = here.default if stream == "none" else number
        kernel(here, result, user, 5, device=1)
        result.record(user)
        expected = bytes([5]) * len(expected)
    assert bytes_of(here.sim, result) == expected


def test_pitches_that_the_driver_does_not_take(here):
    # Rows 2 GiB apart are no rows to it. They need not exist to be counted.
    step = 2**31
    with here.sim.device(0):
        pointer = here.sim.allocate(64)
    tensor = fastdl.from_dlpack(
        capsule_of((2, 3), (1, 8, 1), strides=(step, 1), data=pointer, device=tuple_of(here))
    )
    here.ignore("line")
    here.ignore("rows")
    driver.transfer(tensor, 1, 0)
    assert (here.calls("line"), here.calls("rows")) == (1, 0)
    with here.sim.device(0):
        here.sim.free(pointer)


def tuple_of(here, ordinal=0):
    return int(fastdl.Device(here.device).type), ordinal


# ---- order ----------------------------------------------------------------------------------


TARGETS = {
    "cpu": lambda here: "cpu",
    "pinned": lambda here: here.pinned,
    "same": lambda here: f"{here.device}:0",
    "other": lambda here: f"{here.device}:1",
}
every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


@every_target
@pytest.mark.parametrize("recorded", [True, False])
def test_the_source_is_ready(here, target, recorded):
    tensor = here.tensor(100, "int32")
    stream = stream_on(here.sim, blocking=False)
    kernel(here, tensor, stream)
    if recorded:
        tensor.record(stream)
    result = copied(tensor, target(here))
    if recorded:
        assert bytes_of(here.sim, result) == bytes([5]) * 400
    else:
        synchronize(here.sim, stream)
        expect_race(here.sim)


@pytest.mark.parametrize("source", [Protocol, Table])
@every_target
def test_foreign_sources_are_ready(here, source, target):
    stream = stream_on(here.sim, blocking=False)
    array = here.array(stream=stream if source is Protocol else here.default)
    tensor = fastdl.from_dlpack(source(array))
    payload = array.write()
    if source is Protocol:  # the table tells the stream after the import, too
        tensor = fastdl.from_dlpack(source(array))
    assert bytes_of(here.sim, copied(tensor, target(here))) == payload


def test_without_a_wait_the_race_is_seen(here):
    tensor = on(here.device, values(100))
    stream = stream_on(here.sim, blocking=False)
    kernel(here, tensor, stream)
    tensor.record(stream)
    here.ignore("order")
    result = tensor.to(f"{here.device}:1")
    del result, tensor
    expect_race(here.sim)


def test_the_result_is_ready_on_the_stream(here):
    tensor = on(here.device, values(100))
    stream = stream_on(here.sim, blocking=False)
    result = tensor.copy()
    assert driver.edges(result) == 1
    result.__dlpack__(stream=stream)
    kernel(here, result, stream)
    result.record(stream)
    moved = tensor.to(f"{here.device}:1", stream=(other := stream_on(here.sim, 1)))
    kernel(here, moved, other, device=1)  # nothing is waited for there
    moved.record(other)


def test_the_result_is_not_ready_elsewhere(here):
    tensor = on(here.device, values(100))
    result = tensor.copy()
    stream = stream_on(here.sim, blocking=False)
    kernel(here, result, stream)
    result.record(stream)
    expect_race(here.sim)


def test_the_work_stream_is_used(here):
    tensor = on(here.device, values(100))
    stream = stream_on(here.sim, blocking=False)
    with fastdl.use_stream(here.device, stream):
        result = fastdl.from_dlpack(tensor, copy=True)
    kernel(here, result, stream)
    result.record(stream)


def written(here, tensor):
    """The stream of a kernel on device 1 that nobody records: only a copy there comes after it."""
    stream = stream_on(here.sim, 1, blocking=False)
    kernel(here, tensor, stream, device=1)
    return stream


def test_the_stream_of_the_source_serves_copies_to_the_host(here):
    tensor = here.tensor(100, "int32", f"{here.device}:1")
    stream = written(here, tensor)
    assert bytes_of(here.sim, tensor.to("cpu", stream=stream)) == bytes([5]) * 400


def test_the_work_stream_serves_copies_to_the_host(here):
    tensor = here.tensor(100, "int32", f"{here.device}:1")
    with fastdl.use_stream(tensor.device, written(here, tensor)):
        result = tensor.to("cpu")
    assert bytes_of(here.sim, result) == bytes([5]) * 400


def test_the_stream_of_the_source_serves_copies_to_pinned_memory(here):
    tensor = on(f"{here.device}:1", values(100))
    pinned = tensor.to(here.pinned, stream=written(here, tensor))
    assert pinned.tolist() == [0x05050505] * 100


def test_the_source_is_not_rewritten_before_it_was_read(here):
    tensor = on(here.device, values(100))
    result = tensor.to(f"{here.device}:1")
    stream = stream_on(here.sim, blocking=False)
    tensor.__dlpack__(stream=stream)
    kernel(here, tensor, stream)
    tensor.record(stream)
    assert bytes_of(here.sim, result) == values(100).tobytes()


def test_the_source_may_be_dropped(here):
    for target in [f"{here.device}:0", f"{here.device}:1", here.pinned]:
        tensor = on(here.device, values(100))
        result = copied(tensor, target)
        del tensor
        assert bytes_of(here.sim, result) == values(100).tobytes()


class Freeing(Managed):
    """Uses its memory for something else as soon as it is released."""

    def __init__(self, sim, pointer, device):
        super().__init__((6,), (0, 32, 1), data=pointer, device=device)
        self.sim, self.pointer = sim, pointer

    def _delete(self, address):
        super()._delete(address)
        with self.sim.device(0):
            stream = self.sim.stream(False)
            self.sim.kernel(stream, write(self.pointer, 24, 9))
            if not self.sim.races():
                self.sim.synchronize(stream)


@pytest.mark.parametrize("broken", [False, True])
def test_a_foreign_owner_is_kept_until_the_copy_has_ended(here, broken):
    source = on(here.device, values(6))
    here.sim.run()
    managed = Freeing(here.sim, source.data_ptr, tuple_of(here))
    tensor = fastdl.from_dlpack(managed.capsule())
    result = tensor.to(here.pinned)
    assert driver.edges(result) == 1
    if broken:
        here.ignore("await event")
    del tensor
    assert managed.deleted == 1
    if broken:
        expect_race(here.sim)
    else:
        assert bytes_of(here.sim, result) == values(6).tobytes()


def test_copies_made_on_another_thread(here):
    tensor = on(here.device, values(100))
    made = []
    in_thread(here.sim, lambda: made.append(tensor.to(f"{here.device}:1")))
    check(here, made[0], values(100))


def test_a_copy_to_the_host_made_on_another_thread(here):
    tensor, made = here.holding(values(100)), []
    in_thread(here.sim, lambda: made.append(tensor.to("cpu")))
    check(here, made[0], values(100))


# ---- whose memory ---------------------------------------------------------------------------


class Allocator:
    """The allocator of all tables of tests: it gives this memory, once. It is used on `stream`, the
    current one of its library, before it is given and as soon as it is taken back."""

    def __init__(self, here, device=0, dtype=(1, 8, 1), shape=(24,), type_=None, mode="give"):
        self.sim = here.sim
        self.array = here.array(device=device)
        self.stream = stream_on(here.sim, device, blocking=False)
        self.array.write(self.stream)
        self.given = Given(
            data=self.array.pointer,
            device=(type_ or self.array.type, device),
            dtype=dtype,
            shape=shape,
            on_delete=lambda: self.array.write(self.stream),
        )
        self.mode = mode

    def __enter__(self):
        hostile.set_maker(self.mode, self.given)
        hostile.set_stream(0, self.stream, False)
        return self

    def __exit__(self, *error):
        hostile.set_maker("raise")
        hostile.set_stream(0, 0, False)


def tabled(here):
    """A tensor of a library with a table, and its bytes."""
    array = here.array()
    expected = array.write()
    return fastdl.from_dlpack(Table(array)), expected


@pytest.mark.parametrize("view", ["all", "part"])
@pytest.mark.parametrize("other", [0, 1])
@pytest.mark.parametrize("stream", [None, -1, "another"])
def test_a_copy_is_in_memory_of_its_library(here, view, other, stream):
    tensor, expected = tabled(here)
    shape = (24,)
    if view == "part":
        tensor, expected, shape = tensor[:, 1:], expected[:16], (20,)
    if stream == "another":
        stream = stream_on(here.sim, other, blocking=False)
    with Allocator(here, other, shape=shape) as allocator:
        before = here.allocations
        copy = copied(tensor, f"{here.device}:{other}", stream)
        assert here.allocations == before  # but for what its library has
        assert copy.data_ptr == allocator.array.pointer
        assert copy.is_copied and not copy.readonly
        assert elements(here, copy).tobytes() == expected
        consumer = stream_on(here.sim, other, blocking=False)
        copy.__dlpack__(stream=consumer)
        kernel(here, copy, consumer, device=other)
        copy.record(consumer)
        del copy  # its library uses the memory at once
        assert (allocator.given.handed, allocator.given.deleted) == (1, 1)


def test_memory_of_a_library_for_a_source_that_its_caller_orders(here):
    """Nothing is asked of the library for the source, and its memory is waited for all the same."""
    array = here.array()
    expected = array.write()
    synchronize(here.sim, here.default)
    tensor = fastdl.from_dlpack(Table(array), stream=-1)
    with Allocator(here) as allocator:
        copy = copied(tensor, here.device)
        assert copy.data_ptr == allocator.array.pointer
        assert bytes_of(here.sim, copy) == expected
        del copy


@pytest.mark.parametrize("call", ["order", "await event"])
def test_memory_of_a_library_that_is_used_too_early(here, call):
    """Before its stream has done with it, and by its library before the copy is over."""
    tensor, _ = tabled(here)
    with Allocator(here):
        here.ignore(call)
        copy = copied(tensor, here.device)
        del copy
    expect_race(here.sim)


def test_a_copy_of_such_a_copy(here):
    tensor, _ = tabled(here)
    with Allocator(here):
        first = copied(tensor, here.device)
    with Allocator(here) as allocator:
        assert copied(first, here.device).data_ptr == allocator.array.pointer


REFUSED = {
    "another kind of device": {"type_": 1},
    "fewer bytes": {"shape": (23,)},
    "smaller elements": {"dtype": (1, 4, 1)},
    "two dimensions": {"shape": (6, 4)},
    "what is no tensor": {"shape": (-1,)},
    "nothing": {"mode": "nothing"},
    "an error": {"mode": "fail"},
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_an_allocator_may_give_instead(here, case):
    """It is given back, and the memory is the driver's."""
    tensor, expected = tabled(here)
    with Allocator(here, **REFUSED[case]) as allocator:
        before = here.calls("alloc")
        copy = copied(tensor, here.device)
        assert here.calls("alloc") == before + 1
        assert allocator.given.deleted == allocator.given.handed
        assert allocator.given.handed == (allocator.mode == "give")
    assert bytes_of(here.sim, copy) == expected


@pytest.mark.parametrize("target", ["cpu", "pinned", "managed"])
def test_other_memory_is_fastdls(cuda_machine, target):
    tensor, expected = tabled(cuda_machine)
    with Allocator(cuda_machine) as allocator:
        place = {"pinned": cuda_machine.pinned, "managed": "cuda_managed"}.get(target, target)
        assert bytes_of(cuda_machine.sim, copied(tensor, place)) == expected
        assert allocator.given.handed == 0


def test_memory_is_not_taken_from_a_graph(here):
    """A library that captures would give memory of the graph."""
    tensor, _ = tabled(here)
    here.sim.run()
    with Allocator(here) as allocator:
        other = stream_on(here.sim, blocking=False)
        tensor = fastdl.from_dlpack(tensor, stream=-1)
        with (
            capturing(here.sim, allocator.stream),
            pytest.raises(BufferError, match="a graph is being captured"),
        ):
            copied(tensor, here.device, other)
        assert allocator.given.handed == 0


# ---- what is waited for ---------------------------------------------------------------------


def test_ordinary_host_memory_is_waited_for(here):
    array = values(100)
    tensor = fastdl.from_dlpack(array).to(here.device)
    array[:] = 0  # its owner may: the copy is over
    assert bytes_of(here.sim, tensor) == values(100).tobytes()
    result = tensor.to("cpu")
    assert here.sim.peek(result.data_ptr, 400) == values(100).tobytes()  # before anything else ran
    assert driver.edges(result) == 0


def test_a_copy_to_the_host_is_waited_for(here):
    result = here.holding(values(100)).to("cpu")
    assert here.sim.peek(result.data_ptr, 400) == values(100).tobytes()  # before anything else ran
    assert driver.edges(result) == 0


def test_a_copy_to_the_host_that_is_not_waited_for_is_seen(here):
    tensor = here.holding(values(100))
    here.ignore("await stream")
    result = tensor.to("cpu")
    here.sim.host_read(result.data_ptr, 400)
    expect_race(here.sim)


def test_pinned_memory_is_not_waited_for(here):
    tensor = on(here.device, values(100))
    waits = here.calls("await event"), here.calls("await stream")
    result = tensor.to(here.pinned)
    back = result.to(here.device)
    assert (here.calls("await event"), here.calls("await stream")) == waits
    assert driver.edges(result) >= 1
    assert bytes_of(here.sim, back) == values(100).tobytes()


consumer = extension("consumer")
TABLE = fastdl.exchange_api(fastdl.Tensor)
READERS = {
    "tolist": lambda t: t.tolist(),
    "item": lambda t: t[3].item(),
    "repr": repr,
    "numpy": lambda t: t.numpy(),
    "asarray": np.asarray,
    "memoryview": memoryview,
    "view": lambda t: t[1:].numpy(),
    "capsule": lambda t: t.__dlpack__(max_version=(1, 3)),
    "legacy capsule": lambda t: t.__dlpack__(),
    "capsule for the cpu": lambda t: t.__dlpack__(dl_device=(1, 0), max_version=(1, 3)),
    "copied capsule": lambda t: t.__dlpack__(dl_device=(1, 0), copy=True, max_version=(1, 3)),
    "copied pinned capsule": lambda t: t.__dlpack__(copy=True, max_version=(1, 3)),
    "copy": lambda t: t.copy().numpy(),
    "to cpu": lambda t: t.to("cpu").numpy(),
    "from_dlpack copy": lambda t: fastdl.from_dlpack(t, copy=True).numpy(),
    "numpy from_dlpack": np.from_dlpack,
    "borrowed through the table": lambda t: consumer.borrow(TABLE, t),
    "given through the table": lambda t: consumer.from_object(TABLE, t).delete(),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("broken", [False, True])
def test_the_host_waits_before_it_reads_pinned_memory(here, reader, broken):
    tensor, stream = here.tensor(100, "int32", here.pinned), stream_on(here.sim, blocking=False)
    kernel(here, tensor, stream)
    tensor.record(stream)
    assert driver.edges(tensor) == 1
    if broken:
        here.ignore("await event")
        here.ignore("await stream")
    READERS[reader](tensor)
    here.sim.host_read(tensor.data_ptr, 400)
    if broken:
        expect_race(here.sim)
    else:
        assert here.sim.peek(tensor.data_ptr, 400) == bytes([5]) * 400


def test_strided_pinned_sources_are_waited_for(here):
    pinned = on(here.device, values(10, 10)).to(here.pinned)
    result = pinned[:, ::2].to(here.device)
    check(here, result, values(10, 10)[:, ::2])


def test_the_gil_is_free_while_the_host_waits(here):
    tensor = here.tensor(100)
    tensor.to("cpu")
    assert here.sim.gil_violations() == []
    assert here.calls("await stream") > 0


# ---- captures -------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["host", "from the host", "pinned", "same", "other"])
def test_no_copy_enters_a_graph(here, way):
    stream = stream_on(here.sim, blocking=False)
    tensor = here.tensor(10)
    here.sim.run()
    synchronize(here.sim, here.default)
    host = fastdl.from_dlpack(values(10))
    other = here.tensor(4, device=f"{here.device}:1")
    functions = {
        "host": lambda: tensor.to("cpu", stream=stream),
        "from the host": lambda: host.to(here.device, stream=stream),
        "pinned": lambda: tensor.to(here.pinned, stream=stream),
        "same": lambda: copied(tensor, here.device, stream),
        "other": lambda: other.to(here.device, stream=stream),
    }
    allocations = here.allocations
    with capturing(here.sim, stream), pytest.raises(BufferError, match="a graph is being captured"):
        functions[way]()
    gc.collect()
    assert here.allocations == allocations


def test_a_copy_on_another_stream_during_a_capture(here):
    stream, other = stream_on(here.sim, blocking=False), stream_on(here.sim, blocking=False)
    tensor = on(here.device, values(10))
    here.sim.run()
    # HIP must not be asked for events during a capture, which fastdl knows of once it has seen one.
    with capturing(here.sim, stream), pytest.raises(BufferError, match="a graph is being captured"):
        copied(tensor, tensor.device, stream)
    with capturing(here.sim, stream):
        results = [tensor.to(f"{here.device}:1"), copied(tensor, tensor.device, other)]
        if here.kind == "cuda":  # on HIP every wait of the host breaks the capture
            results.append(tensor.to("cpu", stream=other))
    for result in results:
        check(here, result, values(10))


def test_a_copy_to_the_host_on_another_stream_during_a_capture(cuda_machine):
    """On HIP every wait of the host breaks the capture."""
    sim, tensor = cuda_machine.sim, cuda_machine.holding(values(10))
    stream, other = stream_on(sim, blocking=False), stream_on(sim, blocking=False)
    sim.run()
    with capturing(sim, stream):
        result = tensor.to("cpu", stream=other)
    check(cuda_machine, result, values(10))


# ---- devices that are not what they say -----------------------------------------------------


def claim(here, pointer, device, **more):
    return fastdl.from_dlpack(capsule_of((4,), (1, 8, 1), data=pointer, device=device, **more))


OF_DEVICES = [
    ("device", ("device", 0), True),
    ("device", ("device", 1), False),
    ("device", ("managed", 0), False),
    ("pinned", ("device", 0), False),
    ("pinned", ("managed", 0), False),
    ("managed", ("device", 0), True),
    ("managed", ("device", 1), True),
    ("managed", ("managed", 1), True),
    ("managed pool", ("managed", 0), True),
    ("managed pool", ("managed", 1), True),
]
OF_THE_HOST = [
    ("device", ("pinned", 0), False),
    ("pinned", ("pinned", 0), True),
    ("pinned", ("pinned", 5), True),
    ("managed", ("pinned", 0), False),
    ("device", ("cpu", 0), False),
    ("pinned", ("cpu", 0), True),
    ("managed", ("cpu", 0), True),
]


@pytest.mark.parametrize(("memory", "said", "works"), OF_DEVICES)
@pytest.mark.parametrize("managed_type", [1, 2])
def test_what_a_tensor_says_of_its_memory(memory, said, works, managed_type):
    with machine("cuda", managed_type=managed_type) as cuda:
        check_claim(cuda, memory, said, works, "cpu")


@pytest.mark.parametrize(("memory", "said", "works"), [*OF_DEVICES, *OF_THE_HOST])
@pytest.mark.parametrize("managed_type", [1, 2])
def test_what_a_tensor_that_is_moved_says_of_its_memory(memory, said, works, managed_type):
    with machine("cuda", managed_type=managed_type) as cuda:
        check_claim(cuda, memory, said, works, "cuda:1")


def check_claim(cuda, memory, said, works, target):
    numbers = {"cpu": 1, "device": 2, "pinned": 3, "managed": 13}
    with cuda.sim.device(0):
        pointer = cuda.sim.allocate(4, memory)
        cuda.sim.kernel(1, write(pointer, 4, 7))
        cuda.sim.synchronize(1)
    tensor = claim(cuda, pointer, (numbers[said[0]], said[1]))
    if works:
        result = copied(tensor, target)
        assert bytes_of(cuda.sim, result) == b"\x07" * 4
        del result
    else:
        with pytest.raises(BufferError, match=r"CUDA driver says that its data, at 0x\w+, is on"):
            copied(tensor, target)
    del tensor
    gc.collect()
    with cuda.sim.device(0):
        cuda.sim.free(pointer, memory)


@pytest.mark.parametrize("version", [60241133, 50700000])
def test_kinds_of_memory_on_both_sides_of_rocm_6(version):
    with machine("hip", version=version) as here:
        with here.sim.device(1):
            kinds = {kind: here.sim.allocate(4, kind) for kind in ("device", "pinned", "managed")}
        assert driver.find_pointer(10, kinds["device"]) == (10, 1)
        assert driver.find_pointer(10, kinds["pinned"])[0] == 11
        assert driver.find_pointer(10, kinds["managed"]) == (10, 1)
        assert driver.find_pointer(10, id(here)) is None
        with here.sim.device(1):
            for kind, pointer in kinds.items():
                here.sim.free(pointer, kind)


@pytest.mark.parametrize("managed_type", [1, 2])
def test_kinds_of_memory_on_cuda(managed_type):
    with machine("cuda", managed_type=managed_type) as here:
        for device in here.devices:
            tensor = here.tensor(3, device=device)
            assert driver.find_pointer(2, tensor.data_ptr) == tensor.device
            assert driver.find_pointer(2, tensor.data_ptr + 11) == tensor.device
            del tensor


@pytest.mark.parametrize(
    ("said", "target"), [("device", "host"), ("device", "device"), ("pinned", "device")]
)
def test_an_address_that_the_driver_does_not_know(here, said, target):
    data = bytearray(4)
    type_ = fastdl.Device(here.device if said == "device" else here.pinned).type
    tensor = claim(here, data, (type_, 0))
    with pytest.raises(BufferError, match="driver does not know the address 0x"):
        copied(tensor, "cpu" if target == "host" else here.device)


def test_a_device_of_another_driver():
    with machine("cuda") as here, pytest.raises(BufferError, match="on CUDA or ROCm, not"):
        here.tensor().to("rocm")
    assert here


def test_a_device_without_a_driver_of_fastdls(here):
    with pytest.raises(BufferError, match="on CUDA or ROCm, not"):
        here.tensor().to("metal")
    with pytest.raises(BufferError, match="on CUDA or ROCm, not"):
        fastdl.from_dlpack(values(3)).to("oneapi")


# ---- the policy: to, copy, from_dlpack, __dlpack__ ------------------------------------------


def test_to(here):
    tensor, pinned = here.tensor(), here.holding(values(3), here.pinned)
    assert tensor.to(here.device) is tensor
    assert tensor.to(here.device, stream=stream_on(here.sim)) is tensor
    assert pinned.to("cpu") is pinned
    assert pinned.to(here.pinned) is pinned
    assert pinned.tolist() == values(3).tolist()


def test_to_pinned_memory(here):
    assert on(here.device, values(3)).to(here.pinned).tolist() == values(3).tolist()


@pytest.mark.parametrize("stream", [True, "x", 1.5, -2, 2**64])
def test_streams_that_are_none(here, stream):
    tensor = here.tensor()
    for target in ["cpu", here.pinned, f"{here.device}:1"]:
        with pytest.raises((TypeError, ValueError), match="stream"):
            tensor.to(target, stream=stream)


def test_stream_minus_one(here):
    tensor = on(here.device, values(3))
    check(here, tensor.to(f"{here.device}:1", stream=-1), values(3))


def test_copy(here):
    for device in here.devices:
        tensor = on(device, values(3, 4))
        copy = tensor[:, 1:].copy()
        assert copy.device == tensor.device
        assert copy.is_copied
        check(here, copy, values(3, 4)[:, 1:])


def test_read_only_data_can_be_copied(here):
    array = values(3)
    array.flags.writeable = False
    tensor = fastdl.from_dlpack(array).to(here.device)
    assert not tensor.readonly
    check(here, tensor, array)


def test_from_dlpack_to_a_device(here):
    # NumPy exports to the CPU alone.
    stream = stream_on(here.sim, blocking=False)
    tensor = fastdl.from_dlpack(values(3), device=here.device, stream=stream)
    assert tensor.device == tuple_of(here)
    kernel(here, tensor, stream)
    tensor.record(stream)
    with pytest.raises(fastdl.CopyRequiredError):
        fastdl.from_dlpack(values(3), device=here.device, copy=False)


def test_from_dlpack_to_the_host(here):
    source = here.holding(values(6))
    producer = FakeProducer(tuple_of(here), dtype=(0, 32, 1), data=source.data_ptr)
    assert fastdl.from_dlpack(producer, device="cpu").tolist() == values(2, 3).tolist()
    with pytest.raises(fastdl.CopyRequiredError):
        fastdl.from_dlpack(producer, device="cpu", copy=False)
    with pytest.raises(ValueError, match="no streams"):
        fastdl.from_dlpack(producer, device="cpu", stream=stream_on(here.sim))


def test_from_dlpack_to_pinned_memory(here):
    source = here.holding(values(6))
    producer = FakeProducer(tuple_of(here), dtype=(0, 32, 1), data=source.data_ptr)
    pinned = fastdl.from_dlpack(producer, device=here.pinned)
    assert pinned.device.type == fastdl.Device(here.pinned).type
    assert pinned.tolist() == values(2, 3).tolist()


class Working(FakeProducer):
    """Works on the default stream of the current device, and exports to the host."""

    def __dlpack__(self, **keywords):
        self.sim.kernel(self.sim.kind == "cuda", write(self.pointer, 24, 1))
        return capsule_of((2,), data=bytearray(8), flags=IS_COPIED)


def test_the_device_of_the_data_is_current_when_its_producer_copies(here):
    array = here.array(device=1)
    producer = Working(tuple_of(here, 1))
    producer.sim, producer.pointer = here.sim, array.pointer
    fastdl.from_dlpack(producer, device="cpu")
    array.read(here.default)  # of device 1, so that a kernel elsewhere would be a race


class Refusing(FakeProducer):
    """Exports where it is, and raises BufferError for anything else."""

    def __dlpack__(self, **keywords):
        if keywords.get("dl_device") is not None or keywords.get("copy"):
            self.calls.append(keywords)
            raise BufferError("not in my house")
        return super().__dlpack__(**keywords)


class Narrow(FakeProducer):
    """Knows neither dl_device nor copy."""

    def __dlpack__(self, *, stream=None, max_version=None):
        return super().__dlpack__(stream=stream, max_version=max_version)


@pytest.mark.parametrize("target", [*TARGETS, None])
@pytest.mark.parametrize("producer_type", [Refusing, Narrow])
def test_what_the_producer_cannot_do_fastdl_does(here, producer_type, target):
    source, place = here.holding(values(6)), target and TARGETS[target](here)
    producer = producer_type(tuple_of(here), dtype=(0, 32, 1), data=source.data_ptr)
    result = fastdl.from_dlpack(producer, device=place, copy=True)
    assert result.device == fastdl.Device(place or here.device)
    check(here, result, values(2, 3))


def test_the_producer_is_asked_first(here):
    class Copying(FakeProducer):
        def __dlpack__(self, **keywords):
            self.calls.append(keywords)
            return capsule_of((2,), data=bytearray(8), flags=IS_COPIED)

    producer = Copying(tuple_of(here))
    fastdl.from_dlpack(producer, device="cpu")
    assert producer.calls == [{"max_version": (1, 3), "dl_device": (1, 0)}]
    assert here.sim.calls(here.name("line")) == 0


def test_errors_of_the_producer_pass():
    class Broken(FakeProducer):
        def __dlpack__(self, **keywords):
            raise BufferError("not in my house")

    with machine("cuda") as here, pytest.raises(BufferError, match="not in my house"):
        fastdl.from_dlpack(Broken(tuple_of(here)), device="cpu")


def exported(tensor, **keywords):
    """The tensor of a versioned export, as Python sees it."""
    capsule = tensor.__dlpack__(max_version=(1, 3), **keywords)
    flags = opened(capsule).flags
    return fastdl.from_dlpack(capsule), bool(flags & IS_COPIED)


@pytest.mark.parametrize("target", ["cpu", "pinned", "other"])
def test_dlpack_to_other_devices(here, target):
    tensor = here.holding(values(3, 4))[:, 1:]
    expected = values(3, 4)[:, 1:]
    device = fastdl.Device(TARGETS[target](here)).__dlpack_device__()
    result, copied = exported(tensor, dl_device=device)
    assert result.device == device and copied
    check(here, result, expected)
    with pytest.raises(fastdl.CopyRequiredError):
        tensor.__dlpack__(dl_device=device, copy=False)


def test_dlpack_copies_where_it_is(here):
    tensor = here.holding(values(3, 4))[:, 1:]
    result, copied = exported(tensor, copy=True)
    assert result.device == tensor.device and copied
    check(here, result, values(3, 4)[:, 1:])


def test_dlpack_to_where_it_is(here):
    tensor = here.tensor()
    result, copied = exported(tensor, dl_device=tensor.__dlpack_device__())
    assert result.data_ptr == tensor.data_ptr and not copied


def test_dlpack_copies_on_the_stream_of_the_consumer(here):
    tensor = on(here.device, values(100))
    stream = stream_on(here.sim, blocking=False)
    result, _ = exported(tensor, copy=True, stream=stream)
    kernel(here, result, stream)  # as the consumer does, who waits for nothing
    result.record(stream)
    other = stream_on(here.sim, 1, blocking=False)
    device = fastdl.Device(f"{here.device}:1").__dlpack_device__()
    moved, _ = exported(tensor, dl_device=device, stream=other)
    kernel(here, moved, other, device=1)
    moved.record(other)


def test_dlpack_copies_without_a_stream_are_ready(here):
    tensor = on(here.device, values(100))
    stream = stream_on(here.sim, blocking=False)
    result, _ = exported(tensor, copy=True, stream=-1)
    kernel(here, result, stream)
    synchronize(here.sim, stream)


def test_dlpack_to_the_host_ignores_the_stream(here):
    tensor = here.holding(values(10))
    for stream in [None, -1, 4096]:
        result, _ = exported(tensor, dl_device=(1, 0), stream=stream)
        assert result.tolist() == values(10).tolist()


def test_managed_memory_for_the_cpu_is_not_copied(cuda_machine):
    tensor = cuda_machine.tensor(100, "int32", "cuda_managed:1")
    stream = stream_on(cuda_machine.sim, 1, blocking=False)
    kernel(cuda_machine, tensor, stream, device=1)
    tensor.record(stream)
    for copy in [None, False]:
        struct = opened(tensor.__dlpack__(dl_device=(1, 0), copy=copy, max_version=(1, 3)))
        assert (struct.tensor.device_type, struct.tensor.data) == (13, tensor.data_ptr)
        assert cuda_machine.sim.host_read(tensor.data_ptr, 400) == bytes([5]) * 400
    result, copied = exported(tensor, dl_device=(1, 0), copy=True)
    assert result.device == (1, 0) and copied
    assert fastdl.from_dlpack(tensor, device="cpu").device == (1, 0)
    assert tensor.to("cpu").tolist() == [0x05050505] * 100


def test_managed_memory_for_the_cpu_is_waited_for(cuda_machine):
    tensor = cuda_machine.tensor(100, "int32", "cuda_managed:1")
    stream = stream_on(cuda_machine.sim, 1, blocking=False)
    kernel(cuda_machine, tensor, stream, device=1)
    tensor.record(stream)
    cuda_machine.ignore("await event")
    tensor.__dlpack__(dl_device=(1, 0), max_version=(1, 3))
    cuda_machine.sim.host_read(tensor.data_ptr, 400)
    expect_race(cuda_machine.sim)


def test_a_producer_of_managed_memory_that_answers_the_cpu_with_it(cuda_machine):
    source = cuda_machine.holding(values(6), "cuda_managed")
    cuda_machine.sim.run()
    producer = FakeProducer((13, 0), dtype=(0, 32, 1), data=source.data_ptr)
    result = fastdl.from_dlpack(producer, device="cpu")
    assert producer.calls == [{"max_version": (1, 3), "dl_device": (1, 0)}]
    assert result.device == (1, 0) and result.tolist() == values(2, 3).tolist()


# ---- __cuda_array_interface__ ---------------------------------------------------------------


class Interface:
    def __init__(self, tensor, **changes):
        self.tensor = tensor
        self.__cuda_array_interface__ = {
            "shape": tensor.shape,
            "typestr": "<i4",
            "data": (tensor.data_ptr, False),
            "strides": None,
            "version": 3,
            **changes,
        }


@pytest.mark.parametrize("device", ["cuda:0", "cuda:1", "cuda_managed:1", "cuda_host"])
@pytest.mark.parametrize("version", [2, 3])
def test_asarray_asks_the_driver_for_the_device(cuda_machine, device, version):
    source = cuda_machine.holding(values(2, 3), device)
    tensor = fastdl.asarray(Interface(source, version=version))
    assert tensor.device == source.device
    assert (tensor.shape, tensor.strides, tensor.dtype) == (
        (2, 3),
        (3, 1),
        "int32 0 1" and (0, 32, 1),
    )
    assert tensor.data_ptr == source.data_ptr
    assert not tensor.readonly
    del source
    check(cuda_machine, tensor.to("cpu"), values(2, 3))


def test_asarray_keeps_the_object_alive(cuda_machine):
    array = cuda_machine.array()
    tensor = fastdl.asarray(Interface(fastdl.from_dlpack(Protocol(array))))
    gc.collect()
    array.given.assert_alive()
    del tensor
    given_back(array)


def test_asarray_of_strides_and_read_only_data(cuda_machine):
    source = cuda_machine.holding(values(4, 3))
    address = source.data_ptr + 4
    tensor = fastdl.asarray(
        Interface(source, shape=(2, 3), strides=(24, -4), data=(address + 4, True))
    )
    assert (tensor.strides, tensor.readonly) == ((6, -1), True)
    check(cuda_machine, tensor.to("cpu"), values(4, 3)[::2, ::-1])


@pytest.mark.parametrize("stream", ["legacy", "per thread", "handle"])
def test_asarray_comes_after_the_stream(cuda_machine, stream):
    source, sim = cuda_machine.tensor(100, "int32"), cuda_machine.sim
    number = {"legacy": 1, "per thread": 2}.get(stream) or stream_on(sim, blocking=False)
    kernel(cuda_machine, source, number)
    tensor = fastdl.asarray(Interface(source, stream=number))
    assert driver.edges(tensor) == 1
    consumer = stream_on(sim, blocking=False)
    tensor.__dlpack__(stream=consumer)
    kernel(cuda_machine, source, consumer)


@pytest.mark.parametrize("changes", [{"stream": None}, {}, {"version": 2, "stream": 7}])
def test_asarray_without_a_stream(cuda_machine, changes):
    tensor = fastdl.asarray(Interface(cuda_machine.tensor(3), **changes))
    assert driver.edges(tensor) == 0
    assert driver.is_callers(tensor)


def test_asarray_of_no_elements(cuda_machine):
    source, other = cuda_machine.tensor(3), cuda_machine.tensor(3, device="cuda:1")
    tensor = fastdl.asarray(Interface(source, shape=(0, 3), data=(0, False)))
    assert tensor.shape == (0, 3)
    tensor = fastdl.asarray(Interface(other, shape=(0, 3), stream=1))
    assert tensor.device == (2, 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 1}, "version 2 or 3"),
        ({"version": None}, "version 2 or 3"),
        ({"mask": object()}, "mask"),
        ({"shape": (-1,)}, None),
        ({"data": None}, "address"),
        ({"data": (64, False)}, "knows"),
        ({"stream": 0}, "stream"),
        ({"stream": -1}, "stream"),
        ({"stream": True}, "stream"),
        ({"stream": "x"}, "stream"),
    ],
)
def test_interfaces_that_are_refused(cuda_machine, changes, words):
    """What __array_interface__ has as well is in test_array_interface.py."""
    source = cuda_machine.tensor(3)
    with pytest.raises((BufferError, ValueError), match=words) as error:
        fastdl.asarray(Interface(source, **changes))
    assert isinstance(error.value, BufferError)


def test_an_interface_that_is_no_dict(cuda_machine):
    interface = Interface(cuda_machine.tensor(3))
    interface.__cuda_array_interface__ = 5
    with pytest.raises(BufferError, match="a dict"):
        fastdl.asarray(interface)


# ---- faults ---------------------------------------------------------------------------------


def outcome(function):
    """(exception, result), one of which is None."""
    try:
        return None, function()
    except (BufferError, MemoryError) as error:
        return error.with_traceback(None), None


@pytest.mark.parametrize(("way", "call"), [(way, c) for way in FAILING for c in FAILING[way]])
@pytest.mark.parametrize("after", [0, 1])
def test_failing_copies(here, way, call, after):
    code = 2 if len(way) % 2 else 999  # out of memory is a MemoryError, whoever says so
    array = values(3, 4)
    host = fastdl.from_dlpack(array)
    tensor = on(here.device, array)
    stream = stream_on(here.sim, 1, blocking=False)
    busy = stream_on(here.sim, blocking=False)
    kernel(here, tensor, busy)
    tensor.record(busy)
    other = f"{here.device}:1"
    foreign = fastdl.from_dlpack(Protocol(here.array(stream=busy)), stream=busy)
    functions = {
        "to a device": lambda: host.to(other),
        "to pinned": lambda: tensor.to(here.pinned),
        "by the host": lambda: tensor[::-1].copy(),
        "between devices": lambda: tensor.to(other),
        "foreign": lambda: foreign.to(other),
        "on a stream": lambda: tensor.to(other, stream=stream),
    }
    check_failing(here, functions[way], 0 if way.endswith("device") else 1, call, code, after)


@pytest.mark.parametrize(
    ("way", "call"), [(way, c) for way in FAILING_TO_THE_HOST for c in FAILING_TO_THE_HOST[way]]
)
@pytest.mark.parametrize("after", [0, 1])
def test_failing_copies_to_the_host(here, way, call, after):
    tensor, busy = here.tensor((3, 40), "int32"), stream_on(here.sim, blocking=False)
    kernel(here, tensor, busy)
    tensor.record(busy)
    functions = {"to the host": lambda: tensor.to("cpu"), "rows": lambda: tensor[:, 3].to("cpu")}
    code = 2 if len(way) % 2 else 999  # out of memory is a MemoryError, whoever says so
    check_failing(here, functions[way], 1, call, code, after)


def check_failing(here, function, other, call, code, after):
    """`other`: a device that is current, and not needed."""
    allocations = here.allocations
    driver.forget_events(tuple_of(here)[0])
    with here.sim.device(other):
        here.fail_next(call, code, after)
        error, result = outcome(function)
        races = here.sim.races() + here.sim.violations() + here.sim.gil_violations()
        here.sim.forget()  # a failure that has not come
        assert not races
    if result is None:
        assert isinstance(error, MemoryError) == (code == 2)
        assert here.name(call) in str(error)
        assert f"({code})" in str(error)
    else:  # it was not called as often as that
        assert after, "nothing failed"
    del error, result
    gc.collect()
    driver.forget_events(tuple_of(here)[0])  # frees what was put off
    assert here.allocations == allocations
    here.sim.run()
    here.sim.check()
    # And it works the next time.
    again = function()
    here.sim.run()
    assert again.size == math.prod(again.shape)


@pytest.mark.parametrize("settled", [True, False])
def test_a_copy_that_is_not_known_to_have_ended(here, settled):
    """The stream is waited for, so that no copy works on memory that is freed. Where that fails as
    well, neither side is freed: rather a leak."""
    tensor = on(here.device, values(6))
    here.sim.run()
    managed = Managed((6,), (0, 32, 1), data=tensor.data_ptr, device=tuple_of(here))
    source = fastdl.from_dlpack(managed.capsule())
    here.fail_next("record", 999)
    if not settled:
        here.fail_next("await stream", 999)
    waits, allocations = here.calls("await stream"), here.allocations
    with pytest.raises(BufferError, match=rf"{here.name('record')} answered .*\(999\)"):
        source.copy()
    assert here.calls("await stream") == waits + 1
    del source
    gc.collect()
    assert managed.deleted == settled
    assert here.allocations == allocations + (0 if settled else 1)
    synchronize(here.sim, here.default)
    del tensor
    driver.forget_events(tuple_of(here)[0])
    here.sim.check()
    if not settled:
        here.sim.reset()


@pytest.mark.parametrize("settled", [True, False])
def test_a_copy_to_the_host_that_is_not_known_to_have_ended(here, settled):
    """Likewise."""
    array = here.array()
    tensor = fastdl.from_dlpack(Plain(array), stream=-1)
    here.fail_next("line", 999)
    if not settled:
        here.fail_next("await stream", 999)
    waits = here.calls("await stream")
    with pytest.raises(BufferError, match=rf"{here.name('line')} answered .*\(999\)"):
        tensor.to("cpu")
    assert here.calls("await stream") == waits + 1
    del tensor
    gc.collect()
    assert array.given.deleted == settled
