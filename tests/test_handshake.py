"""The stream handshake on a simulated driver that sees every missing wait.

Each test ends with the checker's word: no race between any two accesses, no call that a real
driver would not survive, no blocking call under the GIL, contexts as they were. Where a test
expects a race, it is the negative control: the checker must see what a missing wait does.
"""

import gc
import os
import sys
import threading
import weakref

import pytest

import fastdl
from fastdl._devices import driver
from tests.gpu.arrays import Taken
from tests.support.frameworks import (
    MANAGED,
    Array,
    Protocol,
    Table,
    consume,
    current_stream,
    simulated,
)
from tests.support.headers import load
from tests.support.producers import CUDA, Given, Producer, Tabled, hostile
from tests.support.simulation import GLOBAL, RELAXED

# ---- import, then use -----------------------------------------------------------------------


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("produced", ["default", "stream"])
def test_the_default_import_is_ready_on_the_default_stream(sim, produced, blocking):
    stream = None if produced == "default" else sim.side(blocking=blocking)
    array = Array(sim, stream=stream)
    array.write()
    tensor = fastdl.from_dlpack(Protocol(array))
    array.read(sim.default)
    assert driver.edges(tensor) == 1


def test_the_per_thread_default_stream(cuda):
    array = Array(cuda, stream=cuda.side())
    array.write()
    tensor = fastdl.from_dlpack(Protocol(array), stream=2)
    array.read(2)
    # The event, other than the number 2, means the same on every thread.
    cuda.in_thread(lambda: consume(tensor, 1, array))


def test_managed_memory_is_ordered_as_the_devices(cuda):
    array = Array(cuda, stream=cuda.side(), memory="managed")
    assert array.type == MANAGED
    array.write()
    tensor = fastdl.from_dlpack(Protocol(array))
    array.read(1)
    consume(tensor, cuda.side(), array)


@pytest.mark.parametrize("kind", [Protocol, Table])
def test_the_second_device(sim, kind):
    """Its default stream is another than that of the first, which is current here."""
    stream = sim.side(1)
    array = Array(sim, device=1, stream=stream)
    array.write()
    with sim.device(0), current_stream(stream):
        tensor = fastdl.from_dlpack(kind(array))
        array.read(sim.default)
        consume(tensor, sim.side(1), array)
        assert sim.context_depth() == (1 if sim.kind == "cuda" else 0)


# ---- import, then export for another stream -------------------------------------------------


def test_a_re_export_for_a_stream_of_another_device(sim):
    array = Array(sim, stream=sim.side())
    array.write()
    tensor = fastdl.from_dlpack(Protocol(array))
    consume(tensor, sim.side(1), array, device=1)


def test_work_on_a_stream_of_another_device(sim):
    array = Array(sim)
    other = sim.side(1)
    with sim.device(1):  # keeps its context alive
        tensor = fastdl.from_dlpack(Protocol(array), stream=other)
        expected = array.write()
        join(sim, array.stream, other)
        array.read(other, device=1)
        tensor.record(other)
        consume(tensor, sim.side(), array)
        sim.run()
        del tensor
    assert array.bytes() == expected


def test_a_view_carries_the_edges_of_its_base(sim):
    array = Array(sim, stream=sim.side())
    array.write()
    view = fastdl.from_dlpack(Protocol(array))[1:, ::2]
    consume(view, sim.side(), array)


def test_edges_whose_work_has_ended_are_dropped(sim):
    array = Array(sim, stream=sim.side())
    array.write()
    tensor = fastdl.from_dlpack(Protocol(array))
    assert driver.edges(tensor) == 1
    sim.finish(array.stream)
    sim.finish(sim.default)
    consume(tensor, sim.side(), array)
    assert driver.edges(tensor) == 0
    before, calls = waits(sim), len(sim.log())
    tensor.__dlpack__(stream=sim.side(blocking=True), max_version=(1, 3))
    assert waits(sim) == before
    assert not any("Event" in line for line in sim.log()[calls:])


# ---- producers with a table -----------------------------------------------------------------


def test_the_stream_at_import_counts_after_the_producer_changed_it(sim):
    first, second = sim.side(), sim.side()
    array = Array(sim, stream=first)
    array.write()
    with current_stream(first):
        tensor = fastdl.from_dlpack(Table(array))
    with current_stream(second):
        consume(tensor, second, array)
        consume(tensor, sim.side(), array)


def test_a_table_on_the_default_stream_costs_one_record_and_no_wait(sim):
    array = Array(sim)
    array.write()
    names = "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"
    fastdl.from_dlpack(Table(Array(sim)))  # makes the event
    created, records, waits = map(sim.calls, names)
    tensor = fastdl.from_dlpack(Table(array))
    assert [*map(sim.calls, names)] == [created, records + 1, waits]
    del tensor


def test_a_table_that_tells_its_stream_and_raises_has_succeeded(sim):
    array = Array(sim)
    hostile.set_stream(0, 0, True)
    try:
        tensor = fastdl.from_dlpack(Table(array))
        again = fastdl.from_dlpack(tensor)
        again.__dlpack__(stream=sim.default, max_version=(1, 3))
        tensor.release(sim.side(blocking=True))
        explicit = fastdl.from_dlpack(Table(Array(sim)), stream=sim.default)
    finally:
        hostile.set_stream(0, 0, False)
    del tensor, again, explicit


# ---- the work stream ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Protocol, Table])
def test_imports_are_ready_on_the_work_stream(sim, kind):
    stream, work = sim.side(), sim.side()
    array = Array(sim, stream=stream)
    array.write()
    with fastdl.use_stream(sim.place, work), current_stream(stream):
        tensor = fastdl.from_dlpack(kind(array))
        assert driver.work_stream(*sim.place) == work
    array.read(work)
    del tensor


def test_managed_memory_that_was_ordered_on_another_device_than_it_names():
    """Its capsule may say 0 wherever it is. The default stream of the device that was announced, on
    which it is ready, is another than that of the one it names."""
    with simulated("cuda") as sim:
        array = Array(sim, device=1, memory="managed", stream=sim.side(1))
        array.write()
        array.given = Given(data=array.pointer, device=(MANAGED, 0), owner=array)
        tensor = fastdl.from_dlpack(Protocol(array))
        assert tensor.device == (MANAGED, 0)
        array.read(sim.default, device=0)
        consume(tensor, sim.side(), array, device=0)
        del tensor, array
        gc.collect()


def test_consumers_of_the_table_are_ordered_on_the_work_stream(sim):
    """A table orders nothing by its contract: fastdl orders its work stream before it answers."""
    array = Array(sim, stream=sim.side())
    array.write()
    tensor = fastdl.from_dlpack(Protocol(array), stream=sim.side())
    work = sim.side()
    with fastdl.use_stream(sim.place, work):
        again = Taken(tensor)  # through the table of Tensor
    array.read(work)
    del again


@pytest.mark.parametrize("kind", [Protocol, Table])
def test_work_of_c_code_on_the_work_stream_is_waited_for(sim, kind):
    """It gets the tensor through the table, and queues what fastdl cannot see."""
    array = Array(sim)
    work = sim.side()
    with fastdl.use_stream(sim.place, work):
        tensor = fastdl.from_dlpack(kind(array))
        again = Taken(tensor)  # a consumer of the table
        expected = array.write(work)
        consume(tensor, sim.side(), array)
    sim.run()
    assert array.bytes() == expected
    del again


@pytest.mark.parametrize("elsewhere", [False, True])
def test_work_of_c_code_is_waited_for_after_its_block_has_been_left(sim, elsewhere):
    array = Array(sim)
    work = sim.side()
    tensor = fastdl.from_dlpack(Protocol(array))
    with fastdl.use_stream(sim.place, work):
        again = Taken(tensor)
        expected = array.write(work)
    target = sim.side()
    if elsewhere:
        sim.in_thread(lambda: consume(tensor, target, array))
    else:
        consume(tensor, target, array)
    sim.run()
    assert array.bytes() == expected
    sim.finish(work)
    sim.finish(sim.default)
    before = waits(sim)
    consume(tensor, target, array)
    assert waits(sim) == before + 1  # for the work stream of now alone
    del again


def test_a_block_in_which_nothing_was_lent_costs_nothing(sim):
    work = sim.side()
    calls = len(sim.log())
    with fastdl.use_stream(sim.place, work):
        pass
    assert len(sim.log()) == calls


def test_a_block_around_a_capture_leaves_nothing_to_wait_for(sim):
    array = Array(sim)
    tensor = fastdl.from_dlpack(Protocol(array))
    sim.finish(sim.default)
    tensor.__dlpack__(stream=sim.default)  # drops the edge
    work = sim.side()
    capture_on(sim, work)
    with fastdl.use_stream(sim.place, work):
        again = Taken(tensor)
        array.write(work)
    end_capture(sim, work)
    consume(tensor, sim.side(), array)
    del again


def test_a_block_on_the_default_stream_does_not_end_in_silence_during_a_capture(sim):
    """Where the stream cannot be used, what is queued there would be forgotten."""
    array = Array(sim)
    tensor = fastdl.from_dlpack(Protocol(array))
    blocking, block = sim.side(blocking=True), fastdl.use_stream(sim.place, sim.default)
    block.__enter__()
    again = Taken(tensor)
    array.write(sim.default)
    capture_on(sim, blocking)
    with pytest.raises(BufferError, match="a graph is being captured on this device"):
        block.__exit__()
    end_capture(sim, blocking)
    tensor.record(sim.default)  # as the caller can do now
    with fastdl.use_stream(sim.place, sim.side()):
        consume(tensor, sim.side(), array)
    del again


def test_a_block_that_nobody_leaves_goes_on(sim):
    """And its stream lives: what was queued there within is still waited for."""
    array, streams = Array(sim), [Named(sim.side())]
    tensor, alive = fastdl.from_dlpack(Protocol(array)), weakref.ref(streams[0])
    number, target = streams[0].__index__(), sim.side()

    def work():
        block = fastdl.use_stream(sim.place, streams.pop())
        block.__enter__()
        taken = Taken(tensor)
        array.write(number)
        del block, taken
        gc.collect()
        assert driver.work_stream(*sim.place) == number
        tensor.__dlpack__(stream=target, max_version=(1, 3))

    sim.in_thread(work)
    array.read(target)
    tensor.record(target)
    assert alive() is not None


class Named:
    """A stream object."""

    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number


# ---- record and release ---------------------------------------------------------------------


def test_any_amount_of_recorded_work(sim):
    array = Array(sim)
    tensor = fastdl.from_dlpack(Protocol(array))
    streams = [sim.side() for _ in range(20)]
    for stream in streams:
        array.read(stream)
        tensor.record(stream)
        assert driver.edges(tensor) <= 8
    target = sim.side()
    tensor.__dlpack__(stream=target, max_version=(1, 3))
    array.write(target)


def test_release_makes_the_producers_stream_wait(sim):
    stream = sim.side()
    array = Array(sim, stream=stream)
    side = sim.side()
    with current_stream(stream):
        tensor = fastdl.from_dlpack(Table(array), stream=side)
        array.read(side)
        tensor.release(side)
        del tensor
    array.write()  # the memory is another array's by now


def test_release_without_a_table_waits_on_the_host(sim):
    array = Array(sim, stream=sim.side())
    side = sim.side()
    tensor = fastdl.from_dlpack(Protocol(array), stream=side)
    array.read(side)
    tensor.release(side)
    del tensor
    array.write(sim.side())


# ---- captures -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [GLOBAL, RELAXED])
def test_an_import_for_the_default_stream_asks_before_the_producer_breaks_a_capture(sim, mode):
    """While a blocking stream captures, the default stream cannot be touched."""
    array = Array(sim, stream=sim.side())
    producer = Protocol(array)
    with sim.capturing(sim.side(blocking=True), mode):
        with pytest.raises(BufferError, match="a graph is being captured.*stream=-1"):
            fastdl.from_dlpack(producer)
        assert producer.asked == []
        fastdl.from_dlpack(producer, stream=-1)


def capture_on(sim, stream, *others):
    """Begins a capture on a stream, which others join."""
    with sim.device(0):
        assert sim.begin_capture(stream, RELAXED) == 0
        join(sim, stream, *others)


def end_capture(sim, stream, *others):
    """Ends it; it must be whole."""
    with sim.device(0):
        for other in others:
            join(sim, other, stream)
        assert sim.end_capture(stream) == 0


def join(sim, stream, *others):
    """Makes other streams wait for one, and so join its capture if it is in one."""
    with sim.device(0):
        event = sim.event()
        sim.record(event, stream)
        for other in others:
            sim.wait(other, event)
        sim.ok("cuEventDestroy_v2", event)


def waits(sim):
    return sim.calls("cuStreamWaitEvent")


def test_a_captured_tensor_is_ready_on_a_work_stream_of_the_same_capture(sim):
    stream, work = sim.side(), sim.side()
    array = Array(sim, stream=stream)
    capture_on(sim, stream, work)
    array.write()
    before = waits(sim)
    with current_stream(stream), fastdl.use_stream(sim.place, work):
        tensor = fastdl.from_dlpack(Table(array))
    assert waits(sim) == before + 1
    end_capture(sim, stream, work)
    del tensor


def test_a_captured_tensor_cannot_be_ready_on_a_work_stream_outside(sim):
    stream, work = sim.side(), sim.side()
    array = Array(sim, stream=stream)
    capture_on(sim, stream)
    with current_stream(stream):
        with (
            fastdl.use_stream(sim.place, work),
            pytest.raises(BufferError, match="imported inside a graph capture"),
        ):
            fastdl.from_dlpack(Table(array))
        tensor = fastdl.from_dlpack(Table(array := Array(sim, stream=stream)))  # nobody named one
    end_capture(sim, stream)
    del tensor, array


@pytest.mark.parametrize("lent", [False, True])
def test_a_tensor_whose_work_has_ended_can_be_used_in_a_capture(cuda, lent):
    """The producer's stream, and that of C code, are asked whether anything is left on them."""
    stream, capturing = cuda.side(), cuda.side()
    array = Array(cuda, stream=stream)
    with current_stream(stream):
        array.write()
        tensor = fastdl.from_dlpack((Protocol if lent else Table)(array))
        if lent:
            Taken(tensor)
        cuda.finish(stream)
        cuda.finish(1)
        capture_on(cuda, capturing)
        consume(tensor, capturing, array)
        array.write(1 if lent else stream)
        with pytest.raises(BufferError, match="work in flight outside"):
            tensor.__dlpack__(stream=capturing, max_version=(1, 3))
        end_capture(cuda, capturing)


def test_without_a_driver_the_host_cannot_wait():
    """Three streams may hold work: that of the import, the producer's now, and that of C code."""
    tensor = fastdl.from_dlpack(Tabled(Given(device=CUDA)))
    Taken(tensor)
    with (
        current_stream(0x5000),
        fastdl.use_stream(CUDA, 0x6000),
        pytest.raises(BufferError, match="no CUDA driver"),
    ):
        driver.wait(tensor)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")  # xdist is
def test_a_forked_child_drops_events_of_other_contexts_in_silence(cuda):
    with cuda.device(1):
        tensor = fastdl.from_dlpack(Protocol(Array(cuda)))
        tensor.record(cuda.side(1, blocking=True))
        calls = len(cuda.log())
        pid = os.fork()
        if pid == 0:
            try:
                del tensor
                os._exit(len(cuda.log()) - calls)
            finally:
                os._exit(99)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        del tensor


def test_a_driver_that_cannot_tell_captures_apart():
    """A tensor of the first capture does not break the second."""
    with simulated("hip", old=True) as sim:
        first, second = sim.side(), sim.side()
        array = Array(sim, stream=first)
        capture_on(sim, first)
        with current_stream(first):
            tensor = fastdl.from_dlpack(Table(array))
        end_capture(sim, first)
        capture_on(sim, second)
        with current_stream(second), pytest.raises(BufferError, match="imported inside a graph"):
            tensor.__dlpack__(stream=second, max_version=(1, 3))
        end_capture(sim, second)
        del tensor


# ---- memory that comes back -----------------------------------------------------------------


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("origin", ["table", "protocol", "capsule"])
def test_a_table_that_hands_out_a_tensor_is_asked_for_its_own_stream(sim, origin, explicit):
    """A library in C that keeps Tensors inside, and works on them: fastdl has not seen what it did,
    and knows the memory already."""
    array, target = Array(sim), sim.side()
    made = {"table": Table, "protocol": Protocol, "capsule": lambda array: array.given.capsule()}
    tensor = fastdl.from_dlpack(made[origin](array))
    _, inside = Taken(tensor).give()
    theirs = sim.side()
    expected = array.write(theirs)
    with current_stream(theirs):
        back = fastdl.from_dlpack(Tabled(inside), **({"stream": target} if explicit else {}))
    array.read(target if explicit else sim.default)
    consume(back, sim.side(), array)
    sim.run()
    assert array.bytes() == expected


@pytest.mark.parametrize("driverless", [False, True])
def test_a_table_that_hands_out_a_tensor_for_who_orders_by_other_means(driverless):
    """stream=-1 asks nobody, even if the library captures, and leaves nothing to wait for."""
    if driverless:
        tensor = fastdl.from_dlpack(Tabled(Given(device=CUDA)), stream=-1)
        _, inside = Taken(tensor).give()
        with current_stream(0x70):
            assert fastdl.from_dlpack(Tabled(inside), stream=-1).data_ptr == tensor.data_ptr
        return
    with simulated("cuda") as sim:
        array, theirs = Array(sim), sim.side()
        tensor = fastdl.from_dlpack(array.given.capsule())
        _, inside = Taken(tensor).give()
        capture_on(sim, theirs)
        with current_stream(theirs):
            back = fastdl.from_dlpack(Tabled(inside), stream=-1)
        end_capture(sim, theirs)
        assert driver.edges(back) == 0
        del tensor, back
        gc.collect()


def test_a_refused_table_leaves_the_stream_to_the_protocol():
    class Both(Tabled, Producer):
        def __init__(self, given):
            Producer.__init__(self, given, CUDA)
            self.mode = "nothing"

    for _ in range(2):
        for stream in (-1, 1):
            producer = Both(Given(device=CUDA))
            fastdl.from_dlpack(producer, stream=stream)
            assert [asked[0] for asked in producer.asked] == [stream]


class Around(Protocol):
    """Holds a Tensor, has done nothing, and hands it on."""

    def __init__(self, array, tensor):
        super().__init__(array)
        self.tensor = tensor

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        return self.tensor.__dlpack__(stream=-1, max_version=max_version)


@pytest.mark.parametrize("by", ["table", "protocol"])
def test_what_comes_back_is_ready_on_the_stream_of_the_import(sim, by):
    """Also after work that was recorded, of which the library around it knows nothing."""
    array, recorded = Array(sim), sim.side()
    tensor = fastdl.from_dlpack(array.given.capsule())
    array.write(recorded)
    tensor.record(recorded)
    holder = Tabled(Taken(tensor).give()[1]) if by == "table" else Around(array, tensor)
    stream = sim.side()
    back = fastdl.from_dlpack(holder, stream=stream)
    array.read(stream)
    back.record(stream)


def test_many_threads_record_at_a_time(sim):
    """There is room for eight edges, which they take from each other."""
    array = Array(sim)
    tensor = fastdl.from_dlpack(array.given.capsule())
    streams = [sim.side() for _ in range(4)]
    failed = []

    def record(stream):
        try:
            for _ in range(200):
                array.read(stream)
                tensor.record(stream)
        except BufferError as error:
            failed.append(error)

    workers = [threading.Thread(target=record, args=(stream,)) for stream in streams]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failed
    assert driver.edges(tensor) <= 8


def test_a_table_that_hands_out_a_tensor_without_a_driver():
    tensor = fastdl.from_dlpack(Tabled(Given(device=CUDA)))
    for keywords in ({}, {"stream": 1}):
        _, inside = Taken(tensor).give()
        assert fastdl.from_dlpack(Tabled(inside), **keywords).data_ptr == tensor.data_ptr
    _, inside = Taken(tensor).give()
    with pytest.raises(BufferError, match="no CUDA driver"):
        fastdl.from_dlpack(Tabled(inside), stream=0x70)


def test_a_tensor_that_c_code_made_is_ordered_after_the_work_stream(sim):
    """fastdl_wrap: the code has queued its work there, and may queue more."""
    api = load("wrapping", installed=True)
    work = sim.side()
    array = Array(sim)
    with fastdl.use_stream(sim.place, work):
        managed = api.own(Table(array))
        array.write(work)
        tensor = api.wrap(managed, fastdl.Tensor)
        target = sim.side()
        consume(tensor, target, array)
        sim.finish(target)
        expected = array.write(work)
        consume(tensor, sim.side(), array)
    sim.run()
    assert array.bytes() == expected


def test_a_tensor_that_c_code_could_not_make_is_still_the_codes(sim):
    api = load("wrapping", installed=True)
    array = Array(sim)
    managed = api.own(Table(array))
    name = sim.name("cuEventRecord")
    driver.forget_events(sim.type)
    sim.fail_next(name, 999)
    with pytest.raises(BufferError, match=f"{name} answered"):
        api.wrap(managed, fastdl.Tensor)
    assert array.given.deleted == 1  # fastdl_wrap discards what is still the code's, once


def test_a_library_around_a_tensor_orders_its_own_work(sim):
    """The memory comes back to fastdl, which knows nothing of what the library did meanwhile."""
    array = Array(sim)

    class Library(Protocol):
        inner = None

        def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
            join(sim, self.array.stream, stream)
            return self.inner.__dlpack__(stream=-1, max_version=max_version)

    library = Library(array)
    library.inner = fastdl.from_dlpack(Protocol(array))
    array.stream = sim.side()
    expected = array.write()
    tensor = fastdl.from_dlpack(library)
    consume(tensor, sim.side(), array)
    sim.run()
    assert array.bytes() == expected
