# SPDX-License-Identifier: Apache-2.0
"""use_stream: whose work stream it is, for which device, and for how long."""

import threading

import numpy as np
import pytest

import fastdl
from fastdl._devices import driver
from tests.support import consumer
from tests.support.frameworks import (
    MANAGED,
    TYPES,
    Array,
    Protocol,
    Table,
    consume,
    current_stream,
    simulated,
)

CUDA = TYPES["cuda"]


def test_blocks_nest():
    with fastdl.use_stream("cuda:0", 0x100):
        with fastdl.use_stream("cuda:0", 0x200):
            assert driver.work_stream(CUDA, 0) == 0x200
        assert driver.work_stream(CUDA, 0) == 0x100
    assert driver.work_stream(CUDA, 0) == 1


def test_a_block_that_raises_is_left():
    with pytest.raises(KeyError), fastdl.use_stream("cuda:0", 0x100):
        raise KeyError
    assert driver.work_stream(CUDA, 0) == 1


def test_blocks_may_end_in_any_order():
    """As those of two generators do."""
    outer, inner = fastdl.use_stream("cuda:0", 0x100), fastdl.use_stream("cuda:0", 0x200)
    outer.__enter__()
    inner.__enter__()
    outer.__exit__()
    assert driver.work_stream(CUDA, 0) == 0x200
    inner.__exit__()
    assert driver.work_stream(CUDA, 0) == 1


def test_other_devices_are_not_affected():
    with fastdl.use_stream("cuda:1", 0x100):
        assert driver.work_stream(CUDA, 0) == 1
        assert driver.work_stream(CUDA, 1) == 0x100
        assert driver.work_stream(TYPES["hip"], 1) == 0
        with fastdl.use_stream("rocm:1", 0x200):
            assert driver.work_stream(CUDA, 1) == 0x100
            assert driver.work_stream(TYPES["hip"], 1) == 0x200


@pytest.mark.parametrize("device", ["cuda:1", "cuda_managed:1", "cuda_host:1"])
def test_all_memory_of_a_device_is_used_on_one_stream(device):
    with fastdl.use_stream(device, 0x100):
        assert {driver.work_stream(kind, 1) for kind in (CUDA, MANAGED, 3)} == {0x100}


def test_other_threads_are_not_affected():
    seen = []
    with fastdl.use_stream("cuda:0", 0x100):
        thread = threading.Thread(target=lambda: seen.append(driver.work_stream(CUDA, 0)))
        thread.start()
        thread.join()
    assert seen == [1]


def test_a_block_is_left_where_it_was_entered():
    scope = fastdl.use_stream("cuda:0", 0x100)
    raised = []

    def leave():
        try:
            scope.__exit__()
        except RuntimeError as error:
            raised.append(str(error))

    with scope:
        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
        assert driver.work_stream(CUDA, 0) == 0x100
    assert raised == ["a use_stream must exit on the thread that entered it"]
    assert driver.work_stream(CUDA, 0) == 1


def test_a_block_is_entered_once_at_a_time():
    scope = fastdl.use_stream("cuda:0", 0x100)
    with scope:
        with pytest.raises(RuntimeError, match="entered already"):
            scope.__enter__()
        assert driver.work_stream(CUDA, 0) == 0x100
    with scope:
        assert driver.work_stream(CUDA, 0) == 0x100
    with pytest.raises(RuntimeError):
        scope.__exit__()


# ---- what imports make of it ----------------------------------------------------------------


@pytest.mark.parametrize("kind", [Protocol, Table])
def test_a_stream_of_the_call_comes_first(sim, kind):
    stream, wanted = sim.side(), sim.side()
    array = Array(sim, stream=stream)
    array.write()
    work = sim.side()
    with fastdl.use_stream(sim.place, work), current_stream(stream):
        tensor = fastdl.from_dlpack(kind(array), stream=wanted)
    array.read(wanted)
    del tensor


@pytest.mark.parametrize("kind", [Protocol, Table])
def test_the_work_stream_of_another_device_is_not_touched(sim, kind):
    array = Array(sim, stream=sim.side())
    array.write()
    other = sim.side(1)
    with fastdl.use_stream((sim.type, 1), other), current_stream(array.stream):
        tensor = fastdl.from_dlpack(kind(array))
        array.read(sim.default)
        before = sim.calls("cuStreamWaitEvent")
        consumer.taken(tensor)  # through the table of Tensor
        assert sim.calls("cuStreamWaitEvent") <= before + 2
    consume(tensor, sim.side(), array)


def test_managed_memory_from_a_table_is_ready_on_the_work_stream_of_cuda():
    with simulated("cuda") as sim:
        array = Array(sim, stream=sim.side(), memory="managed")
        array.write()
        work = sim.side()
        with fastdl.use_stream("cuda:0", work), current_stream(array.stream):
            tensor = fastdl.from_dlpack(Table(array))
            array.read(work)
            consume(tensor, sim.side(), array)
        del tensor


# ---- what tables say ------------------------------------------------------------------------


def told_by(subject, device_type, ordinal):
    return consumer.work_stream(fastdl.exchange_api(subject), device_type, ordinal)


@pytest.mark.parametrize("subject", [fastdl.Tensor, np.ndarray, Protocol])
def test_each_table_tells_the_work_stream(sim, subject):
    device_type = sim.type
    work, inner = sim.side(), sim.side(1)
    assert told_by(subject, device_type, 0) == 0
    with fastdl.use_stream((device_type, 0), work):
        assert told_by(subject, device_type, 0) == work
        assert told_by(subject, device_type + 1, 0) == work  # pinned memory
        assert told_by(subject, device_type, 1) == 0
        with fastdl.use_stream((device_type, 1), inner):
            assert told_by(subject, device_type, 0) == work
            assert told_by(subject, device_type, 1) == inner
        assert told_by(subject, 1, 0) == 0  # the host has none
    assert told_by(subject, device_type, 0) == 0


@pytest.mark.parametrize("scoped", [True, False])
@pytest.mark.parametrize("tensor", [True, False])
def test_what_is_taken_is_ready_on_the_stream_that_is_told(sim, tensor, scoped):
    array = Array(sim, stream=sim.side())
    array.write()
    source = producer = Protocol(array)
    start = sim.default
    work = sim.side() if scoped else start
    if tensor:
        source = fastdl.from_dlpack(producer, stream=sim.side())
    del producer.asked[:]
    with fastdl.use_stream((array.type, 0), work):
        told = told_by(source, array.type, 0)
        consumer.from_object(fastdl.exchange_api(source), source).release()
        array.read(told or start)
        assert (told or start) == work
    assert producer.asked == ([] if tensor else [work])
    del source
