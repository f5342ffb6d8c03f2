# SPDX-License-Identifier: Apache-2.0
"""C code that works on a stream of its own, by fastdl_order and fastdl_order_back or within a
use_stream block."""

import ctypes
from contextlib import contextmanager

import numpy as np
import pytest

import fastdl
from tests.support.ctypes_dlpack import Table as ExchangeTable
from tests.support.ctypes_dlpack import address_in
from tests.support.frameworks import Interface, Protocol, Table, current_stream, export
from tests.support.headers import alone, every_world, installed
from tests.support.library import libraries, showing_table
from tests.support.memory import expect_race
from tests.support.producers import Given, Tabled, hostile
from tests.support.simulation import read, write
from tests.support.specs import ASARRAY

SHAPE, NBYTES = (2, 3), 24


@pytest.fixture
def streams(here):
    """The stream of the C code, and that of the library."""
    return here.sim.side(), here.sim.side()


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
    pinned = here.tensor(SHAPE, device=here.pinned)
    before = here.calls("record")
    for memory in (fastdl.empty(SHAPE), pinned):
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


# ---- what is no tensor by itself --------------------------------------------------------------


@every_world
def test_the_work_stream_of_what_asarray_takes(api, cuda_machine):
    x = Interface(cuda_machine.array(), "<f4")
    stream = cuda_machine.sim.side(blocking=True)
    with fastdl.use_stream("cuda:0", stream):
        assert api.work_stream(x, ASARRAY) == stream
    assert api.work_stream(x, ASARRAY) == 0
    assert api.work_stream(b"abc", ASARRAY) == 0


@installed
@pytest.mark.parametrize("missing", [None, "before", "after"])
def test_what_asarray_takes_is_ordered(api, cuda_machine, missing):
    own, theirs = (cuda_machine.sim.side() for _ in range(2))
    array = cuda_machine.array(stream=theirs)
    array.write()
    with fastdl.use_stream("cuda:0", theirs):
        work = (lambda: array.write(own), missing != "before", missing != "after")
        api.order(Interface(array, "<f4", stream=theirs), own, *work, ASARRAY)
    array.write()
    if missing:
        expect_race(cuda_machine.sim)


# ---- results ---------------------------------------------------------------------------------


@pytest.fixture
def allocator():
    """Has the table of Tabled allocate a given tensor, and take any."""
    yield lambda given: hostile.set_maker("give", given)
    hostile.set_maker("raise")


@installed
@pytest.mark.parametrize("missing", [None, "before", "after"])
def test_a_result_is_filled_on_another_stream(api, here, streams, allocator, missing):
    """The library has work on the memory that it allocates, and more after it gets the result."""
    own, theirs = streams
    prototype = here.tensor(SHAPE)
    before, after = ([] if missing == when else [own] for when in ("before", "after"))
    with working_on(theirs, Table, here) as (_, array):
        allocator(array.given)
        managed = api.empty(prototype, Tabled, *before)
        array.write(own)
        made = api.wrap(managed, Tabled, *after)
        assert made is not None
        array.write(theirs)
    if missing:
        expect_race(here.sim)


@installed
@pytest.mark.parametrize("missing", [False, True])
def test_a_result_that_is_a_tensor(api, here, streams, missing):
    """It is ready on the thread's work stream."""
    own, theirs = streams
    with here.sim.device(0), fastdl.use_stream(here.device, theirs):
        managed = api.own(here.tensor(SHAPE))
        here.sim.kernel(own, write(api.held(managed)["data"], NBYTES, 5))
        tensor = api.wrap(managed, None) if missing else api.wrap(managed, None, own)
        here.sim.kernel(theirs, read(tensor.data_ptr, NBYTES))
        del managed
    if missing:
        expect_race(here.sim)


@every_world
def test_a_result_in_host_memory_needs_no_order(api):
    managed = api.empty(np.ones(3), fastdl.Tensor, 77)
    assert api.wrap(managed, fastdl.Tensor, 77).shape == (3,)


@alone
def test_a_result_in_host_memory_that_cannot_be_made_is_released(api):
    given = Given()
    with pytest.raises(TypeError, match=r"only after fastdl_import\(\)"):
        api.wrap(given.capsule(), None, 77)
    given.assert_released()


@every_world
@pytest.mark.parametrize("device", [(1, 0), (2, 0)])
def test_a_result_whose_type_raises(api, device):
    """What may be in use on a stream is left alone."""

    class Attribute:
        def __get__(self, obj, cls):
            raise LookupError("not this type")

    like, given = type("Like", (), {"__dlpack_c_exchange_api__": Attribute()}), Given(device=device)
    with pytest.raises(LookupError, match="not this type"):
        api.wrap(given.capsule(), like, 77)
    if device == (1, 0):
        given.assert_released()
    else:
        given.assert_alive()


def queued(here):
    return Given(device=(here.array().type, 0), data=0x1000)


@installed
def test_a_result_whose_streams_cannot_be_ordered(api, here, streams, allocator):
    """What was allocated goes back; what may be in use is left alone."""
    own, theirs = streams
    given, used = queued(here), queued(here)
    with current_stream(theirs):
        allocator(given)
        here.fail_next("record", 999)
        with pytest.raises(BufferError, match="999"):
            api.empty(Tabled(queued(here)), Tabled, own)
        given.assert_released()
        managed = api.own(Tabled(used))
        here.fail_next("record", 999)
        with pytest.raises(BufferError, match="999"):
            api.wrap(managed, Tabled, own)
        del managed
        used.assert_alive()


@alone
def test_a_result_without_the_package(api, here, streams, allocator):
    own, theirs = streams
    refused, given = queued(here), queued(here)
    with current_stream(theirs):
        allocator(refused)
        with pytest.raises(BufferError, match=r"call fastdl_import\(\)"):
            api.empty(Tabled(queued(here)), Tabled, own)
        refused.assert_released()
        allocator(given)
        assert api.held(api.empty(Tabled(queued(here)), Tabled, theirs))["data"] == 0x1000


# ---- what C code queues on its work stream ----------------------------------------------------

# After fastdl_empty or fastdl_own: who uses what fastdl_wrap makes of it waits for that.


def empty(api, here, cls):
    return api.empty(here.tensor(SHAPE), cls)


def owned(api, here, cls):
    return api.own(here.tensor(SHAPE))


def filled(api, here, stream, managed):
    """`managed`, on which a kernel writes."""
    with here.sim.device(0):
        here.sim.kernel(stream, write(api.held(managed)["data"], NBYTES, 5))
    return managed


def used(here, tensor, stream):
    export(tensor, stream)
    with here.sim.device(0):
        here.sim.kernel(stream, read(tensor.data_ptr, NBYTES))
        here.sim.synchronize(stream)


@installed
@pytest.mark.parametrize("before", [True, False], ids=["made before the block", "in it"])
@pytest.mark.parametrize("inside", [True, False], ids=["used in the block", "after it"])
def test_a_tensor_is_used_after_what_fills_it(api, here, streams, before, inside):
    own, other = streams
    managed = owned(api, here, fastdl.Tensor) if before else None
    with fastdl.use_stream(here.device, own):
        managed = managed or owned(api, here, fastdl.Tensor)
        tensor = api.wrap(filled(api, here, own, managed), fastdl.Tensor)
        if inside:
            used(here, tensor, other)
    if not inside:
        used(here, tensor, other)


@installed
@pytest.mark.parametrize("make", [empty, owned])
def test_a_library_without_a_table_gets_it_after_what_fills_it(
    api, here, streams, monkeypatch, make
):
    """It asks for its own stream, as CuPy does."""
    own, other = streams

    def finished(tensor, like):
        used(here, tensor, other)
        return like(tensor)

    def allocated(shape, dtype, device):
        return Protocol(here.array(shape=shape, dtype=dtype, device=device.id))

    cls = libraries(monkeypatch)(make=finished, devices="anywhere", empty=allocated)
    with fastdl.use_stream(here.device, own):
        api.wrap(filled(api, here, own, make(api, here, cls)), cls)


@installed
@pytest.mark.parametrize("recorded", [False, True], ids=["on its work stream", "recorded"])
def test_a_library_with_a_table_gets_memory_after_what_c_code_did(api, here, streams, recorded):
    """The current stream of the library waits."""
    own, other = streams
    current = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
    )

    @current
    def tell(device_type, device_id, out):
        out[0] = other
        return 0

    capsule = showing_table()
    table = ExchangeTable.from_address(address_in(capsule))
    table.current_work_stream = ctypes.cast(tell, ctypes.c_void_p).value
    cls = type("Lib", (), {"__dlpack_c_exchange_api__": capsule})
    array = here.array()
    tensor = fastdl.from_dlpack(Protocol(array))
    if recorded:
        array.write(own)
        tensor.record(own)
        result = api.wrap(api.own(tensor), cls)
    else:
        with fastdl.use_stream(here.device, own):
            managed = api.own(tensor)
            array.write(own)
            result = api.wrap(managed, cls)
    assert result.data_ptr == array.pointer
    with here.sim.device(0):
        here.sim.kernel(other, read(result.data_ptr, NBYTES))
        here.sim.synchronize(other)
