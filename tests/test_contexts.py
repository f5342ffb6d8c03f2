"""Contexts beside the primary one of a device, and primary contexts that were reset.

The default streams belong to the context that is current: whoever makes a green context current, or
one of its own, means the streams of that one by 0, 1 and 2. An event is of one context, too.
"""

import ctypes
from contextlib import contextmanager

import pytest

import fastdl
from fastdl._devices import driver
from tests.support.frameworks import (
    NBYTES,
    TYPES,
    Array,
    Plain,
    Protocol,
    Table,
    current_stream,
    export,
    given_back,
    in_thread,
    simulated,
    stream_on,
)
from tests.support.simulation import read, write
from tests.test_work_streams import taken_from


@pytest.fixture
def cuda():
    with simulated("cuda") as sim:
        yield sim


@pytest.fixture(params=["own", "green", "green, 13"])
def other(request, cuda):
    """`other()`: a context of device 0 that is not its primary one is current. `Here`: an array
    whose library works there."""

    @contextmanager
    def current():
        cuda.set("tells_green", request.param == "green, 13")
        with cuda.context(0, green=request.param != "own") as context:
            yield context

    return current


class Here(Array):
    """As its base, but works in the context that is current."""

    def write(self, stream=None):
        payload = next(self.payloads)
        stream = self.stream if stream is None else stream
        self.sim.kernel(stream, write(self.pointer, NBYTES, payload))
        return bytes([payload]) * NBYTES

    def read(self, stream):
        self.sim.kernel(stream, read(self.pointer, NBYTES))


def current(sim):
    result = ctypes.c_void_p()
    sim.ok("cuCtxGetCurrent", result)
    return result.value


def the_same(sim, context, depth=1):
    return (current(sim), sim.context_depth()) == (context, depth)


# ---- contexts beside the primary one --------------------------------------------------------


@pytest.mark.parametrize("make", [Protocol, Table, Plain])
@pytest.mark.parametrize("stream", [None, 1, 2])
def test_a_default_stream_is_that_of_the_current_context(cuda, other, make, stream):
    """It waits for the producer, and the consumer's waits for it."""
    array = Here(cuda)
    with other() as context:
        array.write()
        tensor = fastdl.from_dlpack(make(array), stream=1 if make is Plain else stream)
        assert the_same(cuda, context)
        if make is not Plain:
            array.read(stream or 1)
            tensor.record(stream or 1)
        side = cuda.stream(blocking=False)
        export(tensor, side)
        array.write(side)
        tensor.record(side)
        export(tensor, stream)
        array.read(stream or 1)
        assert the_same(cuda, context)
        del tensor


def test_a_handle_of_the_current_context(cuda, other):
    array = Here(cuda)
    with other():
        array.stream = cuda.stream(blocking=False)
        array.write()
        tensor = fastdl.from_dlpack(Plain(array), stream=array.stream)
        export(tensor, 1)
        array.read(1)
        del tensor


def test_a_handle_of_the_primary_context(cuda, other):
    array = Array(cuda, stream=stream_on(cuda, blocking=False))
    array.write()
    with other():
        tensor = fastdl.from_dlpack(Plain(array), stream=array.stream)
        export(tensor, 1)
        cuda.kernel(1, read(array.pointer, NBYTES))
        tensor.record(1)
        del tensor


def test_what_was_recorded_elsewhere_is_waited_for_here(cuda, other):
    """And the other way round."""
    array = Here(cuda)
    with cuda.device(0):
        array.write(1)
        tensor = fastdl.from_dlpack(Plain(array), stream=1)
        with other():
            export(tensor, 1)
            array.write(1)
            tensor.record(1)
            primary = cuda._made("cuDevicePrimaryCtxRetain", 0)
            cuda.ok("cuCtxPushCurrent_v2", primary)
            export(tensor, 1)
            array.read(1)
            cuda.ok("cuCtxPopCurrent_v2", ctypes.c_void_p())
            cuda.ok("cuDevicePrimaryCtxRelease_v2", 0)
            del tensor


def test_the_host_waits_for_the_current_context(cuda, other):
    array = Here(cuda, memory="managed")
    with other():
        array.write()
        tensor = fastdl.from_dlpack(Plain(array), stream=1)
        driver.wait(tensor)
        cuda.host_read(array.pointer, NBYTES)
        array.write()
        tensor.release(1)  # no table: the host waits
        cuda.host_read(array.pointer, NBYTES)
        del tensor


def test_a_context_of_another_device_is_not_kept(cuda):
    array = Array(cuda, device=1, stream=stream_on(cuda, 1, blocking=False))
    cuda.ok("cuDevicePrimaryCtxRetain", ctypes.c_void_p(), 1)  # by whoever made the stream
    array.write()
    with cuda.context(0) as context:
        tensor = fastdl.from_dlpack(Protocol(array))
        assert the_same(cuda, context)
        array.read(1)
        tensor.record(1)
        del tensor


def test_a_current_context_that_was_destroyed(cuda):
    """It stays current, and of no use: the primary one is used."""
    array = Array(cuda)
    array.write()
    dead = cuda._made("cuCtxCreate_v2", 0, 0)
    in_thread(cuda, lambda: cuda.ok("cuCtxDestroy_v2", dead))
    tensor = fastdl.from_dlpack(Protocol(array))
    array.read(1)
    assert cuda.context_depth() == 1
    cuda.ok("cuCtxPopCurrent_v2", ctypes.c_void_p())
    del tensor


def test_what_was_recorded_outlives_the_context(cuda, other):
    """Nothing that fastdl keeps is of a context that it does not own."""
    array = Here(cuda)
    with other():
        array.write()
        tensor = fastdl.from_dlpack(Plain(array), stream=1)
        assert driver.edges(tensor) == 1
    target = stream_on(cuda, blocking=False)
    export(tensor, target)
    with cuda.device(0):
        array.read(target)


def test_another_context_costs_no_events_once_there_are_some(cuda, other):
    """But one that is destroyed at once."""
    with other():
        made = []
        for _ in range(5):
            array = Here(cuda)
            array.write()
            tensor = fastdl.from_dlpack(Plain(array), stream=1)
            made.append((cuda.live("events"), cuda.live("streams")))
            del tensor
    assert made[1:] == made[:1] * 4


@pytest.mark.parametrize("failing", ["cuEventCreate", "cuEventRecord"])
def test_an_event_that_cannot_be_had_there(cuda, other, failing):
    """No event of another context takes its place: the order would be a wrong one."""
    array = Here(cuda)
    before = fastdl.from_dlpack(Plain(Array(cuda)))  # so that there is an event of the primary one
    del before
    with other() as context:
        array.write()
        cuda.fail_next(failing, 999, after=0 if failing == "cuEventCreate" else 1)
        with pytest.raises(BufferError, match=f"{failing} answered .*999"):
            fastdl.from_dlpack(Plain(array), stream=1)
        given_back(array)
        assert the_same(cuda, context)


def test_a_stream_whose_context_cannot_be_told(cuda):
    """A stream of a green context while another context is current: 12.x does not tell."""
    array = Here(cuda)
    with cuda.context(0, green=True):
        stream = cuda.stream(blocking=False)
        with cuda.device(0):
            with pytest.raises(BufferError, match="make its context current") as caught:
                fastdl.from_dlpack(Plain(array), stream=stream)
            del caught
            given_back(array)


# ---- captures of another context -------------------------------------------------------------


@pytest.mark.parametrize("stream", [None, "another"])
def test_a_capture_in_a_green_context(cuda, stream):
    """Even its default stream can capture. Nothing of fastdl's becomes a part of the graph."""
    with cuda.context(0, green=True):
        for _ in range(2):
            array = Here(cuda)
            capture = 1 if stream is None else cuda.stream(blocking=False)
            side, free_stream = cuda.stream(blocking=False), cuda.stream(blocking=False)
            event, free = cuda.event(), Here(cuda)
            assert cuda.begin_capture(capture) == 0
            cuda.record(event, capture)
            cuda.wait(side, event)
            array.write(capture)
            with current_stream(capture):
                tensor = fastdl.from_dlpack(Table(array), stream=capture)
                assert driver.edges(tensor) == 0
                export(tensor, side)
                array.read(side)
                free.write(free_stream)
                outside = fastdl.from_dlpack(Plain(free), stream=free_stream)
                assert driver.edges(outside) == 1
                cuda.record(event, side)
                cuda.wait(capture, event)
            assert cuda.end_capture(capture) == 0
            cuda.ok("cuEventDestroy_v2", event)
            del tensor, outside
        tensor = fastdl.from_dlpack(Plain(Here(cuda)), stream=1)  # over a stream of fastdl's
        export(tensor, 2)


# ---- memory ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [None, 1, 2])
@pytest.mark.parametrize("kind", ["cuda", "cuda_host", "cuda_managed"])
def test_memory_outlives_the_context_in_which_it_was_asked_for(cuda, other, kind, stream):
    with other() as context:
        tensor = fastdl.empty((64,), "uint8", f"{kind}:0", **({"stream": stream} if stream else {}))
        assert the_same(cuda, context)
        if stream and kind == "cuda":
            cuda.kernel(stream, write(tensor.data_ptr, 64, 1))
            tensor.record(stream)
            driver.wait(tensor)
    with cuda.device(0):
        if kind == "cuda_host":
            cuda.host_read(tensor.data_ptr, 64)
        else:
            cuda.kernel(1, write(tensor.data_ptr, 64, 2))
            tensor.record(1)
    assert cuda.live("allocations") == 1
    del tensor
    assert cuda.live("allocations") == 0


def test_memory_is_freed_in_any_context(cuda, other):
    tensors = [fastdl.empty((64,), "uint8", "cuda:0", stream=stream) for stream in (None, 1)]
    with other() as context:
        while tensors:
            tensor = tensors.pop()
            export(tensor, 1)
            cuda.kernel(1, write(tensor.data_ptr, 64, 1))
            tensor.record(1)
            del tensor
        assert cuda.live("allocations") == 0
        assert the_same(cuda, context)


@pytest.mark.parametrize("stream", [None, 2])
def test_memory_that_c_code_works_on_in_another_context(cuda, other, stream):
    """On the default stream, which nobody records."""
    with other():
        tensor = fastdl.empty((64,), "uint8", "cuda:0", stream=stream)
        taken_from(tensor)
        cuda.kernel(1, write(tensor.data_ptr, 64, 1))
        del tensor
        assert cuda.live("allocations") == 0


def test_memory_of_a_stream_in_another_context_is_freed(cuda, other):
    with other():
        tensor = fastdl.empty((64,), "uint8", "cuda:0", stream=1)
    del tensor
    assert cuda.live("allocations") == 0


def test_copies_in_another_context(cuda, other):
    with other() as context:
        source = Here(cuda)
        value = source.write()
        tensor = fastdl.from_dlpack(Plain(source), stream=1)
        copy = tensor.copy()
        host = copy.to("cpu")
        assert bytes(memoryview(host).cast("B")) == value
        assert the_same(cuda, context)
        del copy, tensor


# ---- a device that was reset ----------------------------------------------------------------


@pytest.fixture(params=["at once", "by others first"])
def reset(request, cuda):
    """`reset(n)` resets a device; in the second case others have used it again since."""

    def reset(device=0):
        cuda.ok("cuDevicePrimaryCtxReset_v2", device)
        if request.param == "by others first":
            with cuda.device(device):
                cuda.synchronize(1)

    return reset


@pytest.mark.parametrize("make", [Protocol, Table, Plain])
def test_a_device_is_used_again_after_a_reset(cuda, reset, make):
    """Its events are gone, and their work has ended. Nothing that is dead is handed to the
    driver."""
    array, side = Array(cuda), stream_on(cuda, blocking=False)
    array.write()
    tensor = fastdl.from_dlpack(make(array))
    export(tensor, side)
    array.read(side)
    tensor.record(side)
    kept = fastdl.from_dlpack(Plain(Array(cuda)))
    del kept  # its event waits to be used again
    reset()
    export(tensor, 1)
    assert driver.edges(tensor) == 0
    driver.wait(tensor)
    del tensor
    given_back(array)
    again = Array(cuda, stream=stream_on(cuda, blocking=False))
    again.write()
    with current_stream(again.stream):
        tensor = fastdl.from_dlpack(make(again), stream=again.stream)
        export(tensor, None)
    again.read(1)


def test_a_reset_while_the_device_is_current(cuda, reset):
    array = Array(cuda)
    with cuda.device(0) as context:
        array.write()
        tensor = fastdl.from_dlpack(Plain(array))
        reset()
        export(tensor, 2)
        assert the_same(cuda, context)
        del tensor


def test_a_reset_of_the_device_of_a_stream(cuda, reset):
    """Where the memory is another's."""
    fastdl.empty(1, device="cuda:1")  # so that fastdl has events there
    array, abroad = Array(cuda), stream_on(cuda, 1, blocking=False)
    array.write()
    tensor = fastdl.from_dlpack(Plain(array))
    export(tensor, abroad)
    array.read(abroad, device=1)
    tensor.record(abroad)
    reset(1)
    assert driver.edges(tensor) == 2
    side = stream_on(cuda, blocking=False)
    export(tensor, side)
    array.write(side)
    assert driver.edges(tensor) == 0


def test_a_reset_with_another_context_current(cuda, reset):
    array = Here(cuda)
    with cuda.context(0) as context:
        array.write()
        tensor = fastdl.from_dlpack(Plain(array), stream=1)
        cuda.synchronize(1)
        reset()
        export(tensor, 2)
        assert the_same(cuda, context)
        again = Here(cuda)
        again.write()
        tensor = fastdl.from_dlpack(Plain(again), stream=1)
        export(tensor, 2)
        again.read(2)
        del tensor


@pytest.mark.parametrize("stream", [None, 1])
@pytest.mark.parametrize("kind", ["cuda", "cuda_host", "cuda_managed"])
def test_memory_of_a_device_that_was_reset_is_gone(cuda, reset, kind, stream):
    """It is freed by nobody, and the next is had as ever."""
    device, keywords = f"{kind}:0", {"stream": stream} if stream and kind == "cuda" else {}
    tensor = fastdl.empty((64,), "uint8", device, **keywords)
    reset()
    assert cuda.live("allocations") == 0
    again = fastdl.empty((64,), "uint8", device, **keywords)
    del tensor
    assert cuda.live("allocations") == 1
    del again
    assert cuda.live("allocations") == 0


def test_each_reset_is_noticed_once(cuda, reset):
    for _ in range(3):
        tensor = fastdl.from_dlpack(Plain(Array(cuda)))
        retained = cuda.calls("cuDevicePrimaryCtxRetain")
        export(tensor, 1)
        tensor.record(1)
        assert cuda.calls("cuDevicePrimaryCtxRetain") == retained
        reset()
        retained = cuda.calls("cuDevicePrimaryCtxRetain")
        tensor.record(1)
        tensor.record(1)
        assert cuda.calls("cuDevicePrimaryCtxRetain") == retained + 1


@pytest.mark.parametrize("streams", [False, True])
def test_what_is_kept_is_forgotten_after_a_reset(cuda, reset, streams):
    if streams:
        fastdl.empty(1, device="cuda:0", stream=1)
    with cuda.context(0):
        tensor = fastdl.from_dlpack(Plain(Here(cuda)), stream=1)
        del tensor
    reset()
    driver.forget_events(TYPES["cuda"])
    fastdl.empty(1, device="cuda:0", stream=1)


def test_an_old_driver_tells_a_reset_that_is_recent():
    """Before CUDA 12 contexts have no ids: only that the context is dead can be seen."""
    with simulated("cuda", old=True) as sim:
        array, side = Array(sim), stream_on(sim, blocking=False)
        array.write()
        tensor = fastdl.from_dlpack(Plain(array))
        sim.fail_next("cuDevicePrimaryCtxGetState", 999)  # which says nothing of a reset
        export(tensor, side)
        array.read(side)
        tensor.record(side)
        sim.ok("cuDevicePrimaryCtxReset_v2", 0)
        export(tensor, 2)
        assert driver.edges(tensor) == 0
        tensor.record(1)
        sim.ok("cuDevicePrimaryCtxReset_v2", 0)
        sim.fail_next("cuDevicePrimaryCtxRetain", 2)
        with pytest.raises(MemoryError, match="cuDevicePrimaryCtxRetain answered"):
            tensor.record(1)
        tensor.record(1)
        assert driver.edges(tensor) == 1
        del tensor
