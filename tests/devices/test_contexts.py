# SPDX-License-Identifier: Apache-2.0
"""Contexts beside the primary one of a device, and primary contexts that were reset.

The default streams belong to the context that is current: whoever makes one of its own current, or
a green one, means the streams of that one by 0, 1 and 2. An event is of one context, too.
"""

import ctypes

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
    simulated,
    tensor_on,
)
from tests.support.simulation import read, write


@pytest.fixture
def other(cuda):
    """`other()`: a context of device 0 that is not its primary one is current. `Here`: an array
    whose library works there."""
    return lambda: cuda.context(0)


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


def refused():
    return pytest.raises(BufferError, match="other than its primary one is current.*stream=-1")


@pytest.mark.parametrize("make", [Protocol, Table, Plain])
@pytest.mark.parametrize("stream", [None, 1, 2, "handle"])
def test_nothing_is_ordered_in_another_context(cuda, other, make, stream):
    """An event of that context would end with it, which may be at any time."""
    array = Here(cuda)
    tensor_on(cuda)  # so that fastdl has the primary context
    with other() as context:
        if stream == "handle":
            stream = array.stream = cuda.stream(blocking=False)
        array.write()
        retained = cuda.calls("cuDevicePrimaryCtxRetain")
        with refused():
            fastdl.from_dlpack(make(array), stream=stream)
        assert the_same(cuda, context)
        assert array.given.deleted == array.given.handed
        assert cuda.live("events") <= 1  # which is kept
        assert cuda.calls("cuDevicePrimaryCtxRetain") == retained  # no other device is woken


@pytest.mark.parametrize("make", [Protocol, Table])
def test_who_orders_all_work_needs_no_context(cuda, other, make):
    array = Here(cuda)
    with other() as context:
        array.write()
        cuda.synchronize(1)
        tensor = fastdl.from_dlpack(make(array), stream=-1)
        export(tensor, 1)
        array.read(1)
        for use in (tensor.record, tensor.release):
            with refused():
                use(1)
        assert the_same(cuda, context)
        del tensor, use
    given_back(array)


@pytest.mark.parametrize("stream", [None, 1, 2, "handle"])
def test_what_was_imported_before_waits_for_nobody_in_another_context(cuda, other, stream):
    array = Array(cuda, stream=cuda.side())
    array.write()
    tensor = fastdl.from_dlpack(Plain(array), stream=array.stream)
    with other() as context:
        for _ in range(2):
            with refused():
                export(tensor, cuda.stream(blocking=False) if stream == "handle" else stream)
        export(tensor, -1)
        assert the_same(cuda, context)
    export(tensor, 1)
    array.read(1)


def test_a_stream_of_no_device_wakes_none(cuda, other):
    """An event of the primary context cannot be recorded there, nor one of another device."""
    tensor = tensor_on(cuda)
    with other():
        stream = cuda.stream(blocking=False)
        retained = cuda.calls("cuDevicePrimaryCtxRetain")
        with cuda.device(0):
            message = rf"\(400\): if stream {stream} belongs to a context other .* pass stream=-1"
            with pytest.raises(BufferError, match=message):
                tensor.record(stream)
        assert cuda.calls("cuDevicePrimaryCtxRetain") <= retained + 1  # that of cuda.device


def test_a_context_of_another_device_is_not_kept(cuda):
    array = Array(cuda, device=1, stream=cuda.side(1))
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
    dead = cuda.made("cuCtxCreate_v2", 0, 0)
    cuda.in_thread(lambda: cuda.ok("cuCtxDestroy_v2", dead))
    tensor = fastdl.from_dlpack(Protocol(array))
    array.read(1)
    assert cuda.context_depth() == 1
    cuda.ok("cuCtxPopCurrent_v2", ctypes.c_void_p())
    del tensor


def test_a_copy_to_the_host_in_another_context(cuda, other):
    tensor = tensor_on(cuda)
    with other() as context:
        with refused():
            tensor.to("cpu")
        assert the_same(cuda, context)


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
    array, side = Array(cuda), cuda.side()
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
    again = Array(cuda, stream=cuda.side())
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
    tensor_on(cuda, 1)  # so that fastdl has events there
    array, abroad = Array(cuda), cuda.side(1)
    array.write()
    tensor = fastdl.from_dlpack(Plain(array))
    export(tensor, abroad)
    array.read(abroad, device=1)
    tensor.record(abroad)
    reset(1)
    assert driver.edges(tensor) == 2
    side = cuda.side()
    export(tensor, side)
    array.write(side)
    assert driver.edges(tensor) == 0


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


def test_an_error_is_no_reset(cuda):
    tensor = fastdl.from_dlpack(Plain(Array(cuda)))
    retained = cuda.calls("cuDevicePrimaryCtxRetain")
    cuda.fail_next("cuCtxGetId", 999)
    tensor.record(1)
    assert cuda.calls("cuDevicePrimaryCtxRetain") == retained


def test_what_is_kept_is_forgotten_after_a_reset(cuda, reset):
    tensor = fastdl.from_dlpack(Plain(Array(cuda)))
    del tensor
    reset()
    driver.forget_events(TYPES["cuda"])
    tensor_on(cuda)


@pytest.mark.slow
def test_an_old_driver_tells_a_reset_that_is_recent():
    """Before CUDA 12 contexts have no ids: only that the context is dead can be seen."""
    with simulated("cuda", old=True) as sim:
        array, side = Array(sim), sim.side()
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
        with pytest.raises(MemoryError, match="cuDevicePrimaryCtxRetain returned"):
            tensor.record(1)
        tensor.record(1)
        assert driver.edges(tensor) == 1
        del tensor
