# SPDX-License-Identifier: Apache-2.0
"""Graph captures: what fastdl does while one is on, and that it never breaks one.

While a graph is captured, work is noted and not run; what depends on work outside of the graph
breaks the capture for good, and whoever began it learns of that at its end. Each test ends its
capture and asks for success. `capturing` is the foreign library that captures.
"""

from contextlib import contextmanager

import pytest

import fastdl
from fastdl._devices import driver
from tests.support.frameworks import (
    TYPES,
    Array,
    Plain,
    Protocol,
    Table,
    consume,
    current_stream,
    export,
    simulated,
)
from tests.support.simulation import GLOBAL, RELAXED


@pytest.fixture
def old():
    with simulated("cuda", old=True) as sim:
        yield sim


@contextmanager
def refused(match="graph"):
    """A BufferError that says what is going on and what to pass."""
    with pytest.raises(BufferError, match=match) as caught:
        yield
    assert "stream=-1" in str(caught.value) or "cannot" in str(caught.value)


kinds = pytest.mark.parametrize("kind", [Protocol, Table])
blocking = pytest.mark.parametrize("blocking", [True, False])


def imported_inside(array, kind=Protocol, **more):
    """An import for the stream on which `array` works, which captures. By the table of its library
    that is how a plain call ends."""
    with current_stream(array.stream):
        if kind is Table:
            return fastdl.from_dlpack(Table(array), **more)
        return fastdl.from_dlpack(Protocol(array), **{"stream": array.stream, **more})


# ---- imported inside ------------------------------------------------------------------------


@kinds
def test_an_import_inside_is_used_on_another_stream_of_the_capture(sim, kind):
    array = Array(sim, stream=sim.side())
    other = sim.side()
    with sim.capturing(array.stream):
        sim.join(array.stream, other)
        array.write()
        tensor = imported_inside(array, kind)
        waits = sim.calls("cuStreamWaitEvent")
        with current_stream(array.stream):
            consume(tensor, other, array)
        assert sim.calls("cuStreamWaitEvent") > waits  # an edge of the graph
        sim.join(other, array.stream)
        array.write()


def test_an_import_inside_is_not_given_away_afterwards(sim):
    array = Array(sim, stream=sim.side())
    with sim.capturing(array.stream):
        array.write()
        tensor = imported_inside(array)
    for stream in (array.stream, sim.side(blocking=True), None):
        with refused("imported inside a graph capture"):
            export(tensor, stream)
    export(tensor, -1)


def test_an_import_inside_is_not_given_to_the_next_capture(sim):
    """On the same stream, whose handle says nothing."""
    array = Array(sim, stream=sim.side())
    with sim.capturing(array.stream):
        tensor = imported_inside(array)
    with sim.capturing(array.stream), refused("imported inside a graph capture"):
        export(tensor, array.stream)


def test_the_table_of_a_capturing_library_is_not_asked_across_captures(sim):
    """The producer's current stream captures one graph, and the consumer's another."""
    array = Array(sim, stream=sim.side())
    other = sim.side()
    with current_stream(array.stream):
        tensor = fastdl.from_dlpack(Table(array))
        sim.finish(array.stream)
        sim.finish(sim.default)
        with sim.capturing(array.stream), sim.capturing(other), refused():
            export(tensor, other)


@kinds
def test_without_order_nothing_is_touched(sim, kind):
    """The way that is open whatever the state of captures."""
    array = Array(sim, stream=sim.side())
    with sim.capturing(array.stream), current_stream(array.stream):
        tensor = fastdl.from_dlpack(kind(array), stream=-1)
        before = len(sim.log())
        for stream in (-1, None, array.stream):
            export(tensor, stream)
        assert len(sim.log()) == before
        assert driver.edges(tensor) == 0


# ---- imported before ------------------------------------------------------------------------


@blocking
def test_the_producers_stream_outside_cannot_be_waited_for(sim, blocking):
    array = Array(sim, stream=sim.side())
    stream = sim.side(blocking=blocking)
    with current_stream(array.stream):
        tensor = fastdl.from_dlpack(Table(array))
        sim.finish(array.stream)
        sim.finish(sim.default)
        array.write()
        with sim.capturing(stream), refused():
            export(tensor, stream)


def test_a_producer_that_captures_too(cuda):
    """As torch within torch.cuda.graph: nothing is in flight, and its stream is the consumer's."""
    array = Array(cuda, stream=cuda.side())
    with current_stream(array.stream):
        tensor = fastdl.from_dlpack(Table(array))
    cuda.finish(1)
    stream = cuda.side()
    with cuda.capturing(stream), current_stream(stream):
        array.write(stream)
        consume(tensor, stream, array)


# ---- the default stream ---------------------------------------------------------------------


@pytest.mark.parametrize("stream", [None, 1])
def test_the_legacy_stream_while_a_blocking_stream_captures(cuda, stream):
    array = Array(cuda)
    tensor = fastdl.from_dlpack(Protocol(array))
    capture = cuda.side(blocking=True)
    with cuda.capturing(capture):
        with refused(r"default stream cannot be used.*pass stream=-1 or the capturing stream"):
            export(tensor, stream)
        with refused():
            tensor.record(1)
        with refused():
            tensor.release(1)
        with refused():
            fastdl.from_dlpack(Table(array))
    consume(tensor, stream, array)


def test_the_legacy_stream_while_another_kind_of_stream_captures(cuda):
    """It works, and what is queued there is not a part of the graph."""
    array = Array(cuda)
    array.write()
    tensor = fastdl.from_dlpack(Protocol(array))
    with cuda.capturing(cuda.side()):
        consume(tensor, None, array)


class Copying(Protocol):
    """Its library copies to the other device, on the stream there that it is passed."""

    def __init__(self, array, copy):
        super().__init__(array)
        self.copy = copy

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if dl_device is None:
            return super().__dlpack__(stream=stream)
        with self.array.sim.device(1):
            self.copy.write(stream)
        return self.copy.given.capsule()


@pytest.mark.parametrize("device", [0, 1])
def test_a_copy_by_its_library_while_a_device_captures(sim, device):
    """What counts is the device of the stream, and not that of the data."""
    array = Array(sim, stream=sim.side())
    copy = Array(sim, 1)
    producer = Copying(array, copy)
    target = fastdl.Device((sim.type, 1))
    with sim.capturing(sim.side(device, blocking=True), device=device):
        if device == 1:
            with refused("a graph is being captured on this device"):
                fastdl.from_dlpack(producer, device=target)
        else:
            assert fastdl.from_dlpack(producer, device=target).data_ptr == copy.pointer


def test_the_per_thread_stream_is_not_the_legacy_stream(cuda):
    """It is unaffected by a capture on a blocking stream, and not joined with the legacy one."""
    with cuda.device(0):
        array = Array(cuda, stream=2)
    with cuda.capturing(cuda.side(blocking=True)):
        array.write()
        tensor = fastdl.from_dlpack(Protocol(array), stream=2)
        assert driver.edges(tensor) == 1
        consume(tensor, 2, array)


# ---- captures on other threads --------------------------------------------------------------


def while_another_thread_captures(sim, work):
    """A capture in the mode in which other threads can break it, by asking an event, say."""
    stream = sim.side()

    def captures():
        with sim.capturing(stream, GLOBAL):
            sim.in_thread(work)

    sim.in_thread(captures)


def test_a_capture_on_another_thread_survives_everything(cuda):
    array = Array(cuda, stream=cuda.side())
    side = cuda.side()

    def work():
        array.write()
        tensor = fastdl.from_dlpack(Protocol(array))  # retains a context, creates events, records
        consume(tensor, side, array)  # asks an event, waits
        tensor.record(side)
        tensor.release(side)  # waits on the host
        del tensor
        driver.forget_events(TYPES["cuda"])  # destroys events

    while_another_thread_captures(cuda, work)
    assert cuda.calls("cuEventQuery") and cuda.calls("cuStreamSynchronize")


def test_pinned_memory_is_waited_for_while_another_thread_captures(cuda):
    array = Array(cuda, memory="pinned")
    side = cuda.side()
    tensor = fastdl.from_dlpack(Plain(array))
    array.write(side)
    tensor.record(side)

    def work():
        export(tensor, None)
        cuda.host_read(array.pointer, 4)

    while_another_thread_captures(cuda, work)


# ---- what HIP cannot do during a capture ----------------------------------------------------


@pytest.fixture(params=[60241133, 70253210])
def old_hip(request):
    """Before ROCm 7.2.1, a query of an event breaks all captures."""
    with simulated("hip", version=request.param) as sim:
        yield sim


def test_old_hip_is_never_queried(old_hip):
    """Whether a stream captures somewhere is unknown. So work may be in flight that has ended."""
    array = Array(old_hip, stream=old_hip.side())
    array.write()
    tensor = fastdl.from_dlpack(Protocol(array))
    old_hip.finish(0)
    stream, other = (old_hip.side() for _ in range(2))
    with old_hip.capturing(stream):
        with refused("HIP cannot report now: pass stream=-1"):
            export(tensor, stream)
        export(tensor, -1)
        consume(tensor, other, array)
    consume(tensor, stream, array)
    assert driver.edges(tensor) == 1
    assert old_hip.calls("cuEventQuery") == 0


def test_newer_hip_breaks_no_capture(hip):
    """From ROCm 7.2.1 on a thread in the relaxed mode may query events."""
    array = Array(hip, stream=hip.side())
    array.write()
    tensor = fastdl.from_dlpack(Protocol(array))
    hip.finish(hip.default)
    with hip.capturing(hip.side()):  # of which fastdl sees nothing
        stream = hip.side()
        assert hip.begin_capture(stream, GLOBAL) == 0
        consume(tensor, stream, array)  # its work has ended, as a query says
        assert hip.end_capture(stream) == 0


# ---- what a driver cannot tell --------------------------------------------------------------


def test_an_old_driver_cannot_tell_captures_apart(old):
    """It knows which streams capture, which is enough while there is one capture."""
    array = Array(old, stream=old.side())
    with old.capturing(array.stream):
        array.write()
        tensor = imported_inside(array)
        consume(tensor, array.stream, array)
        with refused():
            export(tensor, None)


def test_two_captures_that_cannot_be_told_apart_are_two(old):
    """Neither the stream of another capture nor the producer's is taken for one of this capture."""
    array = Array(old, stream=old.side())
    known = fastdl.from_dlpack(Table(Array(old)))
    other = old.side()
    with old.capturing(array.stream), old.capturing(other, RELAXED):
        array.write()
        tensor = imported_inside(array, Table)
        with refused("only there"):
            export(tensor, other)
        with current_stream(array.stream), refused():
            export(known, other)
        with current_stream(array.stream):
            export(known, array.stream)


def test_a_broken_capture_is_reported(sim):
    array = Array(sim, stream=sim.side())
    tensor = fastdl.from_dlpack(Protocol(array))
    stream = sim.side()
    with sim.device(0):
        assert sim.begin_capture(stream) == 0
        # Somebody else's mistake: the host waits for a stream that captures.
        assert sim.call("cuStreamSynchronize", stream) == 900
    with pytest.raises(BufferError, match="invalidated"):
        tensor.record(stream)
    with sim.device(0):
        assert sim.end_capture(stream) == 901
