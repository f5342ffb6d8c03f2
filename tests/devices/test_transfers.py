# SPDX-License-Identifier: Apache-2.0
"""Copies from devices to the host, on simulated drivers.

The bytes are compared with NumPy's, once everything queued has run; the checker reports whatever
had no order.
"""

import gc
import math
import mmap
import os
import random
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import fastdl
from fastdl._devices import driver
from fastdl._protocol import placement
from tests.support import consumer
from tests.support.ctypes_dlpack import IS_COPIED, FakeProducer, Managed, capsule_of, opened
from tests.support.frameworks import Interface, Plain, Protocol, given_back
from tests.support.memory import FAILING_TO_THE_HOST, bytes_of, expect_race, machine, values
from tests.support.simulation import write

PLACES = {
    "cuda": ["cpu", "cuda:0", "cuda:1", "cuda_host", "cuda_managed:0", "cuda_managed:1"],
    "hip": ["cpu", "rocm:0", "rocm:1", "rocm_host"],
}
SOURCES = [(kind, place) for kind, places in PLACES.items() for place in places]


def copied(tensor):
    return placement.make_copy(tensor, fastdl.Device("cpu"))


def check(here, tensor, expected):
    """The tensor has these elements, and is compact."""
    assert tensor.shape == expected.shape
    assert min(tensor.strides, default=0) >= 0
    assert tensor.is_contiguous()
    assert bytes_of(here.sim, tensor) == np.ascontiguousarray(expected).tobytes()


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


@pytest.mark.parametrize(("kind", "source"), SOURCES)
def test_every_way_and_layout(kind, source):
    with machine(kind) as here:
        array = values(4, 5, 6, dtype="int32")
        tensor = fastdl.from_dlpack(array) if source == "cpu" else here.holding(array, source)
        for view in LAYOUTS.values():
            result = copied(view(tensor))
            assert result.device == (1, 0)
            assert result.is_copied and not result.readonly
            assert result.data_ptr != tensor.data_ptr
            check(here, result, view(array))
        del tensor, result


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


def test_transposed_and_broadcast_to_the_host(here):
    array = values(3, 4, 5, dtype="int16")
    tensor = here.holding(array)
    for shape, strides in STRIDED:
        fields = {"data": tensor.data_ptr, "device": tensor.__dlpack_device__()}
        view = fastdl.from_dlpack(Managed(shape, (0, 16, 1), strides=strides, **fields).capsule())
        in_bytes = tuple(2 * stride for stride in strides)
        expected = np.lib.stride_tricks.as_strided(array.ravel(), shape, in_bytes)
        check(here, copied(view), expected)


@pytest.mark.parametrize("seed", range(20))
def test_random_views_to_the_host(here, seed):
    rng = random.Random(seed)
    array = values(*(rng.randint(1, 5) for _ in range(rng.randint(1, 6))), dtype="int16")
    tensor = here.holding(array, f"{here.device}:{seed % 2}")
    for _ in range(6):
        steps = [slice(None), slice(None, None, rng.choice([-2, -1, 1, 2, 3]))]
        key = tuple(rng.choice([rng.randrange(n), *steps]) for n in array.shape)
        check(here, tensor[key].to("cpu"), array[key])


@pytest.mark.parametrize("bits", [8, 16, 32, 64, 128])
def test_element_sizes_to_the_host(here, bits):
    data, size = random.Random(bits).randbytes(6 * bits // 8), bits // 8
    tensor = here.tensor((2, 3), (5, 128, 1) if bits == 128 else (1, bits, 1))
    here.sim.poke(tensor.data_ptr, data)
    column = tensor[:, 1].to("cpu")
    assert bytes_of(here.sim, column) == data[size : 2 * size] + data[4 * size : 5 * size]


PACKED = [(0, 4, 1), (1, 2, 1), (17, 4, 1), (1, 1, 1), (2, 32, 4)]


@pytest.mark.parametrize("dtype", PACKED)
def test_packed_and_vector_types_to_the_host(here, dtype):
    for place in [here.device, here.pinned]:
        there = here.tensor(5, dtype, place)
        data = bytes(range(there.nbytes))
        here.sim.poke(there.data_ptr, data)
        back = there.to("cpu")
        assert back.dtype == dtype
        assert bytes_of(here.sim, back) == data


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
WIDE = (4, 5, 60)


def transposed(a):
    if isinstance(a, np.ndarray):
        return a.T
    fields = {"strides": a.strides[::-1], "data": a.data_ptr, "device": a.__dlpack_device__()}
    return fastdl.from_dlpack(Managed(a.shape[::-1], (0, 32, 1), **fields).capsule())


WAYS = {
    "all": (lambda t: t, ONE_LINE),
    "some slices": (lambda t: t[1:3], ONE_LINE),
    "transposed": (transposed, ONE_LINE),
    "rows of one slice": (lambda t: t[1, ::2], ONE_LINE),
    "half of each row": (lambda t: t[:, :, :30], ONE_LINE),
    "a tenth of each row": (lambda t: t[:, :, :6], ROWS),
    "one column": (lambda t: t[..., 0], ROWS),
    "every other element": (lambda t: t[:, :, ::2], ONE_LINE),
    "some columns": (lambda t: t[:, 1:4, :30], ONE_LINE),
    "a small window": (lambda t: t[:, 1:3, :3], ONE_LINE),
    "backwards": (lambda t: t[::-1], ONE_LINE),
    "few, backwards": (lambda t: t[..., ::-20], ONE_LINE),
}


@pytest.mark.parametrize("way", WAYS)
def test_driver_calls_to_the_host(here, way):
    """The host gathers what comes with up to four times as much around it; of more, rows come
    alone."""
    view, takes = WAYS[way]
    array = values(*WIDE)
    whole = here.holding(array)
    before = here.calls("line"), here.calls("rows")
    result = copied(view(whole))
    assert (here.calls("line") - before[0], here.calls("rows") - before[1]) == takes
    check(here, result, view(array))


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
    driver.to_host(tensor)
    assert (here.calls("line"), here.calls("rows")) == (1, 0)
    with here.sim.device(0):
        here.sim.free(pointer)


def tuple_of(here, ordinal=0):
    return int(fastdl.Device(here.device).type), ordinal


# ---- order ----------------------------------------------------------------------------------


@pytest.mark.parametrize("recorded", [True, False])
def test_the_source_is_ready(here, recorded):
    tensor = here.tensor(100, "int32")
    stream = here.sim.side()
    kernel(here, tensor, stream)
    if recorded:
        tensor.record(stream)
    result = copied(tensor)
    if recorded:
        assert bytes_of(here.sim, result) == bytes([5]) * 400
    else:
        here.sim.finish(stream)
        expect_race(here.sim)


@pytest.mark.parametrize("named", [True, False])
def test_a_stream_of_the_source_serves_copies_to_the_host(here, named):
    """By its name, or as the work stream: nobody records the kernel there."""
    tensor, stream = here.tensor(100, "int32", f"{here.device}:1"), here.sim.side(1)
    kernel(here, tensor, stream, device=1)
    with nullcontext() if named else fastdl.use_stream(tensor.device, stream):
        result = tensor.to("cpu", **({"stream": stream} if named else {}))
    assert bytes_of(here.sim, result) == bytes([5]) * 400


def test_a_copy_to_the_host_made_on_another_thread(here):
    tensor, made = here.holding(values(100)), []
    here.sim.in_thread(lambda: made.append(tensor.to("cpu")))
    check(here, made[0], values(100))


# ---- what is waited for ---------------------------------------------------------------------


def test_a_copy_to_the_host_is_waited_for(here):
    result = here.holding(values(100)).to("cpu")
    assert here.sim.peek(result.data_ptr, 400) == values(100).tobytes()  # before anything else ran
    assert driver.edges(result) == 0


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
    "given through the table": lambda t: consumer.from_object(TABLE, t).release(),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("broken", [False, True])
def test_the_host_waits_before_it_reads_pinned_memory(here, reader, broken):
    tensor, stream = here.tensor(100, "int32", here.pinned), here.sim.side()
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


# ---- captures -------------------------------------------------------------------------------


def test_no_copy_enters_a_graph(here):
    stream = here.sim.side()
    tensor = here.tensor(10)
    here.sim.run()
    here.sim.finish(here.default)
    with here.sim.capturing(stream), pytest.raises(BufferError, match="a graph is being captured"):
        tensor.to("cpu", stream=stream)


def test_a_copy_to_the_host_on_another_stream_during_a_capture(cuda_machine):
    """On HIP every wait of the host breaks the capture."""
    sim, tensor = cuda_machine.sim, cuda_machine.holding(values(10))
    stream, other = sim.side(), sim.side()
    sim.run()
    with sim.capturing(stream):
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


@pytest.mark.parametrize(("memory", "said", "works"), OF_DEVICES)
@pytest.mark.parametrize("managed_type", [1, 2])
def test_what_a_tensor_says_of_its_memory(memory, said, works, managed_type):
    pooled, memory = memory == "managed pool", memory.removesuffix(" pool")
    numbers = {"device": 2, "managed": 13}
    with machine("cuda", managed_type=managed_type, managed_pool=pooled) as cuda:
        with cuda.sim.device(0):
            pointer = cuda.sim.allocate(4, memory)
            cuda.sim.kernel(1, write(pointer, 4, 7))
            cuda.sim.synchronize(1)
        tensor = claim(cuda, pointer, (numbers[said[0]], said[1]))
        if works:
            assert bytes_of(cuda.sim, copied(tensor)) == b"\x07" * 4
        else:
            with pytest.raises(
                BufferError, match=r"CUDA driver reports that the data, at 0x\w+, is on"
            ):
                copied(tensor)
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


# ---- the policy: to, copy, from_dlpack, __dlpack__ ------------------------------------------


def test_to(here):
    tensor, pinned = here.tensor(), here.holding(values(3), here.pinned)
    assert tensor.to(here.device) is tensor
    assert tensor.to(here.device, stream=here.sim.side(blocking=True)) is tensor
    assert pinned.to("cpu") is pinned
    assert pinned.to(here.pinned) is pinned
    assert pinned.tolist() == values(3).tolist()


@pytest.mark.parametrize("stream", [True, "x", 1.5, -2, 2**64])
def test_streams_that_are_none(here, stream):
    tensor = here.tensor()
    for target in ["cpu", here.pinned, f"{here.device}:1"]:
        with pytest.raises((TypeError, ValueError), match="stream"):
            tensor.to(target, stream=stream)


def test_from_dlpack_to_the_host(here):
    source = here.holding(values(6))
    producer = FakeProducer(tuple_of(here), dtype=(0, 32, 1), data=source.data_ptr)
    assert fastdl.from_dlpack(producer, device="cpu").tolist() == values(2, 3).tolist()
    with pytest.raises(fastdl.CopyRequiredError):
        fastdl.from_dlpack(producer, device="cpu", copy=False)
    with pytest.raises(ValueError, match="no streams"):
        fastdl.from_dlpack(producer, device="cpu", stream=here.sim.side(blocking=True))


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


@pytest.mark.parametrize("producer_type", [Refusing, Narrow])
def test_what_the_producer_cannot_do_fastdl_does(here, producer_type):
    source = here.holding(values(6))
    producer = producer_type(tuple_of(here), dtype=(0, 32, 1), data=source.data_ptr)
    result = fastdl.from_dlpack(producer, device="cpu", copy=True)
    assert result.device == (1, 0)
    check(here, result, values(2, 3))


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


def test_dlpack_to_the_host(here):
    tensor = here.holding(values(3, 4))[:, 1:]
    result, copied = exported(tensor, dl_device=(1, 0))
    assert result.device == (1, 0) and copied
    check(here, result, values(3, 4)[:, 1:])
    for stream in (-1, 4096):  # which nobody uses
        assert exported(tensor, dl_device=(1, 0), stream=stream)[0].tolist() == result.tolist()
    with pytest.raises(fastdl.CopyRequiredError):
        tensor.__dlpack__(dl_device=(1, 0), copy=False)
    result, copied = exported(tensor, dl_device=tensor.__dlpack_device__())
    assert result.data_ptr == tensor.data_ptr and not copied


def test_managed_memory_for_the_cpu_is_not_copied(cuda_machine):
    tensor = cuda_machine.tensor(100, "int32", "cuda_managed:1")
    stream = cuda_machine.sim.side(1)
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


def test_a_producer_of_managed_memory_that_answers_the_cpu_with_it(cuda_machine):
    source = cuda_machine.holding(values(6), "cuda_managed")
    cuda_machine.sim.run()
    producer = FakeProducer((13, 0), dtype=(0, 32, 1), data=source.data_ptr)
    result = fastdl.from_dlpack(producer, device="cpu")
    assert producer.calls == [{"max_version": (1, 3), "dl_device": (1, 0)}]
    assert result.device == (1, 0) and result.tolist() == values(2, 3).tolist()


# ---- __cuda_array_interface__ ---------------------------------------------------------------


@pytest.mark.parametrize("device", ["cuda:0", "cuda:1", "cuda_managed:1", "cuda_host"])
@pytest.mark.parametrize("version", [2, 3])
def test_asarray_asks_the_driver_for_the_device(cuda_machine, device, version):
    source = cuda_machine.holding(values(4, 3), device)
    tensor = fastdl.asarray(Interface(source, version=version))
    assert (tensor.device, tensor.data_ptr) == (source.device, source.data_ptr)
    assert (tensor.shape, tensor.strides, tensor.dtype) == ((4, 3), (3, 1), "int32")
    check(cuda_machine, copied(tensor), values(4, 3))
    fields = {"strides": (24, -4), "data": (source.data_ptr + 8, True)}
    part = fastdl.asarray(Interface(source, shape=(2, 3), version=version, **fields))
    assert (part.strides, part.readonly, tensor.readonly) == ((6, -1), True, False)
    del source
    check(cuda_machine, copied(part), values(4, 3)[::2, ::-1])


def test_asarray_keeps_the_object_alive(cuda_machine):
    array = cuda_machine.array()
    tensor = fastdl.asarray(Interface(fastdl.from_dlpack(Protocol(array))))
    gc.collect()
    array.given.assert_alive()
    del tensor
    given_back(array)


@pytest.mark.parametrize("stream", ["legacy", "per thread", "handle"])
def test_asarray_comes_after_the_stream(cuda_machine, stream):
    source, sim = cuda_machine.tensor(100, "int32"), cuda_machine.sim
    number = {"legacy": 1, "per thread": 2}.get(stream) or sim.side()
    kernel(cuda_machine, source, number)
    tensor = fastdl.asarray(Interface(source, stream=number))
    assert driver.edges(tensor) == 1
    consumer = sim.side()
    tensor.__dlpack__(stream=consumer)
    kernel(cuda_machine, source, consumer)


@pytest.mark.parametrize("changes", [{"stream": None}, {}, {"version": 2, "stream": 7}])
def test_asarray_without_a_stream(cuda_machine, changes):
    tensor = fastdl.asarray(Interface(cuda_machine.tensor(3), **changes))
    assert driver.edges(tensor) == 0
    assert driver.is_callers(tensor)


def test_asarray_of_no_elements(cuda_machine):
    source, other = cuda_machine.tensor(3), cuda_machine.tensor(3, device="cuda:1")
    for address in (0, 0x1234):  # which may be anywhere
        tensor = fastdl.asarray(Interface(source, shape=(0, 3), data=(address, False)))
        assert (tensor.shape, tensor.device) == ((0, 3), (2, 0))
    tensor = fastdl.asarray(Interface(other, shape=(0, 3), stream=1))
    assert tensor.device == (2, 1)


NO_STREAM = "a stream as None, 1, 2 or a handle"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 1}, "version 2 or 3"),
        ({"data": None}, "address"),
        *(({"stream": stream}, NO_STREAM) for stream in (0, -1, 2**63, 2**70, True, "1")),
    ],
)
def test_interfaces_that_are_refused(cuda_machine, changes, words):
    """What __array_interface__ has as well is in test_array_interface.py."""
    source = cuda_machine.tensor(3)
    with pytest.raises((BufferError, ValueError), match=words) as error:
        fastdl.asarray(Interface(source, **changes))
    assert isinstance(error.value, BufferError)


# ---- faults ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "call"), [(way, c) for way in FAILING_TO_THE_HOST for c in FAILING_TO_THE_HOST[way]]
)
@pytest.mark.parametrize("after", [0, 1])
def test_failing_copies_to_the_host(here, way, call, after):
    tensor, busy = here.tensor((3, 40), "int32"), here.sim.side()
    kernel(here, tensor, busy)
    tensor.record(busy)
    source = {"to the host": tensor, "rows": tensor[:, 3]}[way]
    code = 2 if len(way) % 2 else 999  # out of memory is a MemoryError, whoever says so
    driver.forget_events(tuple_of(here)[0])
    error = result = None
    with here.sim.device(1):  # which is not needed
        here.fail_next(call, code, after)
        try:
            result = source.to("cpu")
        except (BufferError, MemoryError) as caught:
            error = caught.with_traceback(None)
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
    here.sim.run()
    here.sim.check()
    # And it works the next time.
    again = source.to("cpu")
    here.sim.run()
    assert again.size == math.prod(again.shape)


def mapped():
    """The bytes that this process has mapped; None where that is unknown, or says nothing: a
    sanitizer keeps what is freed."""
    path = Path("/proc/self/statm")
    if "FASTDL_SANITIZE" in os.environ or sys.platform != "linux":
        return None
    return int(path.read_text().split()[0]) * mmap.PAGESIZE


@pytest.mark.parametrize("settled", [True, False])
def test_a_copy_to_the_host_that_is_not_known_to_have_ended(here, settled):
    """The stream is waited for, so that no copy works on memory that is freed. Where that fails as
    well, neither side is freed: rather a leak."""
    array = here.array(shape=(1 << 24,))  # of 64 MiB, which malloc maps and unmaps
    tensor = fastdl.from_dlpack(Plain(array), stream=-1)
    here.fail_next("line", 999)
    if not settled:
        here.fail_next("await stream", 999)
    waits, before = here.calls("await stream"), mapped()
    with pytest.raises(BufferError, match=rf"{here.name('line')} returned .*\(999\)"):
        tensor.to("cpu")
    assert here.calls("await stream") == waits + 1
    del tensor
    gc.collect()
    assert array.given.deleted == settled
    if before is not None:
        assert (mapped() - before > 1 << 25) is not settled
