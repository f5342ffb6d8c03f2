"""fastdl_order and fastdl_order_back: C code that works on a stream of its own."""

from contextlib import contextmanager

import pytest

import fastdl
from tests.support.frameworks import Protocol, Table, current_stream, stream_on
from tests.support.headers import alone, installed
from tests.support.memory import expect_race
from tests.support.producers import Given, Tabled

SHAPE = (2, 3)


@pytest.fixture
def streams(here):
    """The stream of the C code, and that of the library."""
    return stream_on(here.sim, blocking=False), stream_on(here.sim, blocking=False)


@contextmanager
def working_on(stream, make, here):
    """A tensor whose library works on `stream`, and its memory."""
    array = here.array(stream=stream)
    array.write()
    with here.sim.device(0):
        if make is Table:
            with current_stream(stream):
                yield make(array), array
        else:
            with fastdl.use_stream(here.device, stream):
                yield make(array), array


def tensor(array):
    return fastdl.from_dlpack(Protocol(array))


@installed
@pytest.mark.parametrize("missing", [None, "before", "after"])
@pytest.mark.parametrize("make", [Table, Protocol, tensor])
def test_work_is_ordered_on_another_stream(api, here, streams, make, missing):
    own, theirs = streams
    with working_on(theirs, make, here) as (x, array):
        api.order(x, own, lambda: array.write(own), missing != "before", missing != "after")
        array.write(theirs)
    if missing:
        expect_race(here.sim)


@installed
def test_the_default_stream_is_null(api, here, streams):
    own, theirs = streams
    with working_on(theirs, Table, here) as (x, array):
        api.order(x, 0, lambda: array.write(here.default))
        array.write(theirs)
    with working_on(here.default, Table, here) as (x, array):
        api.order(x, own, lambda: array.write(own))
        array.write(here.default)


def no_work():
    """Launches nothing."""


@installed
def test_one_stream_needs_no_order(api, here, streams):
    own, _ = streams
    with working_on(own, Table, here) as (x, _):
        before = here.calls("record")
        api.order(x, own, no_work)
        assert here.calls("record") == before


@installed
def test_host_memory_needs_no_order(api, here, streams):
    own, _ = streams
    before = here.calls("record")
    for memory in (fastdl.empty(SHAPE), fastdl.empty(SHAPE, device=here.pinned)):
        api.order(memory, own, no_work)
    assert here.calls("record") == before


@installed
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("call", ["record", "order"])
def test_a_driver_that_fails(api, here, streams, call, before):
    own, theirs = streams
    with working_on(theirs, Table, here) as (x, _):
        here.fail_next(call, 999)
        with pytest.raises(BufferError, match="999"):
            api.order(x, own, no_work, before)


@installed
@pytest.mark.parametrize("before", [False, True])
def test_a_capture_that_would_wait_for_a_stream_outside(api, here, streams, before):
    """Of the caller's stream before the work, or of the library's after it."""
    own, theirs = streams
    waiting = own if before else theirs
    with working_on(theirs, Table, here) as (x, _):
        here.sim.begin_capture(waiting)
        with pytest.raises(BufferError, match="cannot wait for a stream outside of it"):
            api.order(x, own, no_work, before, not before)
        assert here.sim.end_capture(waiting) == 0  # it is intact
        here.sim.synchronize(theirs)


@installed
def test_a_stream_joins_the_capture_of_the_library(api, here, streams):
    own, theirs = streams
    with working_on(theirs, Table, here) as (x, array):
        here.sim.begin_capture(theirs)
        api.order(x, own, lambda: array.write(own))
        assert here.sim.end_capture(theirs) == 0  # unjoined, it is an error


@alone
def test_without_the_package(api, here, streams):
    own, theirs = streams
    with working_on(theirs, Table, here) as (x, _):
        with pytest.raises(BufferError, match=r"call fastdl_import\(\)"):
            api.order(x, own, no_work)
        api.order(Table(here.array()), theirs, no_work)


@installed
@pytest.mark.parametrize("stream", [0, 77])
def test_streams_that_have_no_numbers(api, stream):
    queued = Given(device=(14, 0))  # oneAPI
    with current_stream(0):
        if stream == 0:
            api.order(Tabled(queued), stream, no_work)
        else:
            with pytest.raises(BufferError, match=r"got device \(14, 0\)"):
                api.order(Tabled(queued), stream, no_work)
    queued.assert_released()
