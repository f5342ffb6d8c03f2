# SPDX-License-Identifier: Apache-2.0
"""Small array libraries on a simulated device, which order their work as real ones do."""

import gc
import itertools
from contextlib import contextmanager

import fastdl
from fastdl._devices import driver
from tests.support.producers import Given, Lending, Producer, Tabled, hostile
from tests.support.simulation import GLOBAL, TYPES, Simulation, read, write

NBYTES = 24  # of the six float32 of a Given
MANAGED = 13
PINNED = {"cuda": 3, "hip": 11}


@contextmanager
def simulated(kind, devices=2, *, old=False, **settings):
    """fastdl on a new simulated driver; at the end nothing is wrong and nothing left. `old`: on one
    without the optional functions."""
    sim = Simulation(kind, old=old)
    sim.reset(devices=devices, **settings)
    driver.replace_driver(TYPES[kind], str(sim.path))
    try:
        yield sim
        sim.run()
        driver.forget_events(TYPES[kind])
        if sim.live("events"):  # of tensors in the frames of an exception that was looked at
            gc.collect()
            driver.forget_events(TYPES[kind])
        sim.check()
        assert (sim.live("events"), sim.live("captures")) == (0, 0)
        assert sim.capture_mode() == GLOBAL, "fastdl has left this thread in another mode"
    finally:
        sim.forget()
        driver.replace_driver(TYPES[kind], None)


class Array:
    """Memory on a device of a simulation, by default of six float32 in two rows, and the stream on
    which its library works.

    `write` and `read` queue kernels there, or on another stream; `owner` frees the memory at once,
    whoever uses it, as libraries do.
    """

    def __init__(self, sim, device=0, stream=None, memory="device", shape=(2, 3), dtype="float32"):
        self.sim = sim
        self.ordinal = device
        self.type = {"managed": MANAGED, "pinned": PINNED[sim.kind]}.get(memory, TYPES[sim.kind])
        like = fastdl.empty(shape, dtype)
        self.nbytes, self.shape = like.nbytes, like.shape
        with sim.device(device):
            self.pointer = self.data_ptr = sim.allocate(max(self.nbytes, 1), memory)
            self.stream = sim.default if stream is None else stream
        self.given = Given(
            data=self.pointer,
            device=(self.type, device),
            owner=self,
            shape=self.shape,
            dtype=like.dtype.__dlpack_data_type__(),
        )
        self.payloads = itertools.count(1)

    def write(self, stream=None):
        payload = next(self.payloads)
        with self.sim.device(self.ordinal):
            stream = self.stream if stream is None else stream
            self.sim.kernel(stream, write(self.pointer, self.nbytes, payload))
        return bytes([payload]) * self.nbytes

    def read(self, stream, device=None):
        with self.sim.device(self.ordinal if device is None else device):
            self.sim.kernel(stream, read(self.pointer, self.nbytes))


class Protocol(Producer):
    """Exports as CuPy does: an event on the current stream of the current device, for which the
    consumer's stream waits."""

    def __init__(self, array):
        super().__init__(array.given, (array.type, array.ordinal))
        self.array = array

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        array, sim = self.array, self.array.sim
        self.asked.append(stream)
        if stream != -1:
            # The event is of the context that is current: that of the array, or it fails.
            sim.order(array.stream, sim.default if stream is None else stream)
        return array.given.capsule()


class Plain(Producer):
    """Orders nothing, so that all that the driver is asked for is asked by fastdl."""

    def __init__(self, array):
        super().__init__(array.given, (array.type, array.ordinal))


class Table(Tabled):
    """Exports through an exchange table, as torch does: the table orders nothing, and tells the
    current stream, which is one for all tables of a process here (see `current_stream`)."""

    def __init__(self, array):
        super().__init__(array.given)
        self.array = array


class LendingTable(Table):
    """The same with a borrowing slot, which tells the device before anything is taken."""

    __dlpack_c_exchange_api__ = Lending.__dlpack_c_exchange_api__


class Interface:
    """An array that has `__cuda_array_interface__` and nothing else, in the memory of an Array or a
    Tensor. `stream`: where it is in use."""

    def __init__(self, memory, typestr="<i4", **changes):
        self.memory = memory
        self.__cuda_array_interface__ = {
            "shape": memory.shape,
            "typestr": typestr,
            "data": (memory.data_ptr, False),
            "strides": None,
            "version": 3,
            **changes,
        }


class IntLike:
    """As a stream object that says its number as an int, and nothing else."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


def tensor_on(sim, device=0, **array):
    """A tensor in memory of a library that orders nothing. See Array."""
    return fastdl.from_dlpack(Plain(Array(sim, device, **array)))


@contextmanager
def current_stream(stream):
    """What the tables of tests answer to current_work_stream."""
    hostile.set_stream(0, stream if stream > 1 else 0, False)
    try:
        yield
    finally:
        hostile.set_stream(0, 0, False)


def export(tensor, stream):
    tensor.__dlpack__(stream=stream, max_version=(1, 3))


def given_back(array):
    """Asserts that fastdl has released what came from `array`, once."""
    if array.given.deleted < array.given.handed:
        gc.collect()  # an exception that was looked at may hold frames in a cycle
    assert (array.given.deleted, array.given.destroyed) == (1, 0)


def consume(tensor, stream, array, device=None):
    """What a library does that imports `tensor` for its stream, and then reads it there. It drops
    its capsule; the memory is the producer's."""
    with array.sim.device(array.ordinal if device is None else device):
        export(tensor, stream)
    array.read(array.sim.default if stream is None else stream, device)
