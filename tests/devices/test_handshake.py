# SPDX-License-Identifier: Apache-2.0
"""The stream handshake on a simulated driver that sees every missing wait.

Each test ends with the checker's word: no race between any two accesses, no call that a real
driver would not survive, no blocking call under the GIL, contexts as they were. Where a test
expects a race, it is the negative control: the checker must see what a missing wait does.
"""

import gc
import weakref

import pytest

import fastdl
from fastdl._devices import driver
from tests.support.consumer import deleter_of, taken
from tests.support.frameworks import (
    MANAGED,
    Array,
    IntLike,
    LendingTable,
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


def test_the_per_thread_default_stream(cuda):
    array = Array(cuda, stream=cuda.side())
    array.write()
    tensor = fastdl.from_dlpack(Protocol(array), stream=2)
    array.read(2)
    # The event, other than the number 2, means the same on every thread.
    cuda.in_thread(lambda: consume(tensor, 1, array))


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


@pytest.mark.parametrize("kind", [Protocol, Table, LendingTable])
def test_imports_are_ready_on_the_stream_that_is_named(sim, kind):
    array = Array(sim, stream=sim.side())
    array.write()
    named = sim.side()
    with current_stream(array.stream):
        tensor = fastdl.from_dlpack(kind(array), stream=named)
    array.read(named)
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


@pytest.mark.parametrize("kind", [Protocol, Table])
def test_work_of_c_code_on_the_work_stream_is_waited_for(sim, kind):
    """It gets the tensor through the table, and queues what fastdl cannot see."""
    array = Array(sim)
    work = sim.side()
    with fastdl.use_stream(sim.place, work):
        tensor = fastdl.from_dlpack(kind(array))
        again = taken(tensor)  # a consumer of the table
        array.write(work)
        consume(tensor, sim.side(), array)
    del again


@pytest.mark.parametrize("elsewhere", [False, True])
def test_work_of_c_code_is_waited_for_after_its_block_has_been_left(sim, elsewhere):
    array = Array(sim)
    work = sim.side()
    tensor = fastdl.from_dlpack(Protocol(array))
    with fastdl.use_stream(sim.place, work):
        again = taken(tensor)
        array.write(work)
    target = sim.side()
    if elsewhere:
        sim.in_thread(lambda: consume(tensor, target, array))
    else:
        consume(tensor, target, array)
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
    with sim.capturing(work, RELAXED), fastdl.use_stream(sim.place, work):
        again = taken(tensor)
        array.write(work)
    consume(tensor, sim.side(), array)
    del again


def test_a_block_on_the_default_stream_does_not_end_in_silence_during_a_capture(sim):
    """Where the stream cannot be used, what is queued there would be forgotten."""
    array = Array(sim)
    tensor = fastdl.from_dlpack(Protocol(array))
    blocking, block = sim.side(blocking=True), fastdl.use_stream(sim.place, sim.default)
    block.__enter__()
    again = taken(tensor)
    array.write(sim.default)
    refused = pytest.raises(BufferError, match="a graph is being captured on this device")
    with sim.capturing(blocking, RELAXED), refused:
        block.__exit__()
    tensor.record(sim.default)  # as the caller can do now
    with fastdl.use_stream(sim.place, sim.side()):
        consume(tensor, sim.side(), array)
    del again


def test_a_block_that_nobody_leaves_goes_on(sim):
    """And its stream lives: what was queued there within is still waited for."""
    array, streams = Array(sim), [IntLike(sim.side())]
    tensor, alive = fastdl.from_dlpack(Protocol(array)), weakref.ref(streams[0])
    number, target = streams[0].__index__(), sim.side()

    def work():
        block = fastdl.use_stream(sim.place, streams.pop())
        block.__enter__()
        held = taken(tensor)
        array.write(number)
        del block, held
        gc.collect()
        assert driver.work_stream(*sim.place) == number
        tensor.__dlpack__(stream=target, max_version=(1, 3))

    sim.in_thread(work)
    array.read(target)
    tensor.record(target)
    assert alive() is not None


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


def waits(sim):
    return sim.calls("cuStreamWaitEvent")


def test_a_captured_tensor_is_ready_on_a_work_stream_of_the_same_capture(sim):
    stream, work = sim.side(), sim.side()
    array = Array(sim, stream=stream)
    with sim.capturing(stream, RELAXED):
        sim.join(stream, work)
        array.write()
        before = waits(sim)
        with current_stream(stream), fastdl.use_stream(sim.place, work):
            tensor = fastdl.from_dlpack(Table(array))
        assert waits(sim) == before + 1
        sim.join(work, stream)
    del tensor


def test_a_captured_tensor_cannot_be_ready_on_a_work_stream_outside(sim):
    stream, work = sim.side(), sim.side()
    array = Array(sim, stream=stream)
    with sim.capturing(stream, RELAXED), current_stream(stream):
        with (
            fastdl.use_stream(sim.place, work),
            pytest.raises(BufferError, match="imported inside a graph capture"),
        ):
            fastdl.from_dlpack(Table(array))
        tensor = fastdl.from_dlpack(Table(array := Array(sim, stream=stream)))  # nobody named one
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
            taken(tensor)
        cuda.finish(stream)
        cuda.finish(1)
        with cuda.capturing(capturing, RELAXED):
            consume(tensor, capturing, array)
            array.write(1 if lent else stream)
            with pytest.raises(BufferError, match="work in flight outside"):
                tensor.__dlpack__(stream=capturing, max_version=(1, 3))


def test_without_a_driver_the_host_cannot_wait():
    """Three streams may hold work: that of the import, the producer's now, and that of C code."""
    tensor = fastdl.from_dlpack(Tabled(Given(device=CUDA)))
    taken(tensor)
    with (
        current_stream(0x5000),
        fastdl.use_stream(CUDA, 0x6000),
        pytest.raises(BufferError, match="no CUDA driver"),
    ):
        driver.wait(tensor)


# ---- memory that comes back -----------------------------------------------------------------


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("origin", ["table", "protocol", "capsule"])
def test_a_table_that_hands_out_a_tensor_is_asked_for_its_own_stream(sim, origin, explicit):
    """A library in C that keeps Tensors inside, and works on them: fastdl has not seen what it did,
    and knows the memory already."""
    array, target = Array(sim), sim.side()
    made = {"table": Table, "protocol": Protocol, "capsule": lambda array: array.given.capsule()}
    tensor = fastdl.from_dlpack(made[origin](array))
    _, inside = deleter_of(taken(tensor))
    theirs = sim.side()
    array.write(theirs)
    with current_stream(theirs):
        back = fastdl.from_dlpack(Tabled(inside), **({"stream": target} if explicit else {}))
    array.read(target if explicit else sim.default)
    consume(back, sim.side(), array)


@pytest.mark.parametrize("driverless", [False, True])
def test_a_table_that_hands_out_a_tensor_for_who_orders_by_other_means(driverless):
    """stream=-1 asks nobody, even if the library captures, and leaves nothing to wait for."""
    if driverless:
        tensor = fastdl.from_dlpack(Tabled(Given(device=CUDA)), stream=-1)
        _, inside = deleter_of(taken(tensor))
        with current_stream(0x70):
            assert fastdl.from_dlpack(Tabled(inside), stream=-1).data_ptr == tensor.data_ptr
        return
    with simulated("cuda") as sim:
        array, theirs = Array(sim), sim.side()
        tensor = fastdl.from_dlpack(array.given.capsule())
        _, inside = deleter_of(taken(tensor))
        with sim.capturing(theirs, RELAXED), current_stream(theirs):
            back = fastdl.from_dlpack(Tabled(inside), stream=-1)
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
    holder = Tabled(deleter_of(taken(tensor))[1]) if by == "table" else Around(array, tensor)
    stream = sim.side()
    back = fastdl.from_dlpack(holder, stream=stream)
    array.read(stream)
    back.record(stream)


def test_a_table_that_hands_out_a_tensor_without_a_driver():
    tensor = fastdl.from_dlpack(Tabled(Given(device=CUDA)))
    for keywords in ({}, {"stream": 1}):
        _, inside = deleter_of(taken(tensor))
        assert fastdl.from_dlpack(Tabled(inside), **keywords).data_ptr == tensor.data_ptr
    _, inside = deleter_of(taken(tensor))
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
        array.write(work)
        consume(tensor, sim.side(), array)


def test_a_tensor_that_c_code_could_not_make_is_still_the_codes(sim):
    api = load("wrapping", installed=True)
    array = Array(sim)
    managed = api.own(Table(array))
    name = sim.name("cuEventRecord")
    driver.forget_events(sim.type)
    sim.fail_next(name, 999)
    with pytest.raises(BufferError, match=f"{name} returned"):
        api.wrap(managed, fastdl.Tensor)
    assert array.given.deleted == 1  # fastdl_wrap discards what is still the code's, once


def test_a_library_around_a_tensor_orders_its_own_work(sim):
    """The memory comes back to fastdl, which knows nothing of what the library did meanwhile."""
    array = Array(sim)

    class Library(Protocol):
        inner = None

        def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
            sim.join(self.array.stream, stream)
            return self.inner.__dlpack__(stream=-1, max_version=max_version)

    library = Library(array)
    library.inner = fastdl.from_dlpack(Protocol(array))
    array.stream = sim.side()
    array.write()
    tensor = fastdl.from_dlpack(library)
    consume(tensor, sim.side(), array)
