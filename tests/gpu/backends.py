# SPDX-License-Identifier: Apache-2.0
"""Where scenarios run: on the simulated drivers, and on a GPU.

Both offer the same few things: streams, memory, work, and a *latch*. While a latch holds a stream,
what was queued there after it has not begun, so "did that wait for this?" has an answer and not a
probability. On the simulation nothing runs before somebody waits for it, so a latch is a mark that
tells whether it had to run; on a GPU it is a kernel that spins until the host opens it.

A scenario says `waits` or `overtakes` of a mark, and ends with what it `saw` once the latch opened
or whether it `raced`, to which the simulation's checker has an answer and a GPU has none.
"""

import ctypes
import gc
import os
import threading
import time
from contextlib import contextmanager

import fastdl
from fastdl._devices import driver as fastdl_driver
from tests.gpu.driver import Driver, latch_texts
from tests.support.ctypes_dlpack import FakeProducer
from tests.support.simulation import Simulation

SIZE = 1 << 12  # bytes of every array
OLD, NEW, OTHER = 11, 22, 33  # what is in them

CUDA, ROCM = 2, 10
GLOBAL, THREAD_LOCAL = 0, 1  # capture modes


class Mark:
    """The point in a stream at which it was made, and the bytes that were copied there, if any."""

    def __init__(self, gpu, stream, copied=None):
        self.gpu, self.copied = gpu, copied
        self.event = gpu.driver.event()
        gpu.driver.ok("cuEventRecord", self.event, stream)

    def value(self):
        """The byte that all copied bytes are equal to; waits for them."""
        self.gpu.driver.ok("cuEventSynchronize", self.event)
        found = set(ctypes.string_at(self.copied, SIZE))
        assert len(found) == 1, f"expected {SIZE} equal bytes, got {sorted(found)}"
        return found.pop()


class Backend:
    """What both have. Made for one test; `close` it."""

    simulated = False

    def __init__(self, library, kind):
        self.kind = kind
        self.driver = Driver(library, kind)
        self.device_type = CUDA if kind == "cuda" else ROCM
        self.device = (self.device_type, 0)
        self.default_stream = 1 if kind == "cuda" else 0
        self.setup = self.driver.stream()
        self.captures = set()

    def close(self):
        self.driver.close()

    def end_captures(self):
        """Those that a test left behind when it failed: they would forbid what `close` does."""
        for stream in self.captures:
            self.driver.call("cuStreamEndCapture", stream, ctypes.c_void_p())
        self.captures.clear()

    def stream(self, blocking=False):
        return self.driver.stream(blocking)

    def memory(self, value=OLD):
        """SIZE bytes of the device, filled."""
        pointer = self.driver.allocate(SIZE)
        self.fill(self.setup, pointer, value)
        self.finish(self.setup)
        return pointer

    def fill(self, stream, pointer, value):
        self.driver.fill(stream, pointer, value, SIZE)

    def place(self):
        """Host memory for `look`, to be made before a latch is: allocating may wait for streams."""
        return self.driver.allocate(SIZE, "pinned")

    def look(self, stream, pointer, place):
        """Queues a copy of the bytes at `pointer` to `place`."""
        self.driver.copy(place, pointer, SIZE, stream)
        return Mark(self, stream, place)

    def mark(self, stream):
        return Mark(self, stream)

    def current_context(self):
        """What is current on the calling thread: a context of CUDA, or a device of HIP."""
        kind = ctypes.c_void_p if self.kind == "cuda" else ctypes.c_int
        return self.driver.made("cuCtxGetCurrent", kind=kind)

    def finish(self, stream):
        self.driver.ok("cuStreamSynchronize", stream)

    def judge(self, mark, latch, ordered):
        """The work waits for what is behind the latch, or in a control it does not."""
        (self.waits if ordered else self.overtakes)(mark, latch)

    def saw(self, look, value, ordered=True):
        """What was looked at, and that it raced if nobody had ordered it."""
        assert look.value() == value
        self.raced(not ordered)

    # ---- captures

    def begin_capture(self, stream, mode=GLOBAL):
        self.driver.ok("cuStreamBeginCapture_v2", stream, mode)
        self.captures.add(stream)

    def end_capture(self, stream):
        """The graph. AssertionError if the capture was broken meanwhile."""
        graph = ctypes.c_void_p()
        self.captures.discard(stream)
        self.driver.ok("cuStreamEndCapture", stream, graph)
        return graph.value

    def destroy_graph(self, graph):
        self.driver.ok("cuGraphDestroy", graph)


class Simulated(Backend):
    """On one of the simulated drivers, which fastdl uses until `close`."""

    simulated = True

    def __init__(self, kind):
        self.simulation = Simulation(kind)
        self.simulation.reset()
        number = CUDA if kind == "cuda" else ROCM
        fastdl_driver.replace_driver(number, str(self.simulation.path))
        super().__init__(self.simulation.driver, kind)

    def close(self):
        self.end_captures()
        gc.collect()  # an exception that was looked at may hold tensors
        self.simulation.run()
        fastdl_driver.replace_driver(self.device_type, None)
        try:
            self.simulation.check(depth=1 if self.kind == "cuda" else 0)
            for what, ours in (
                ("events", self.driver.events),
                ("streams", self.driver.streams),
                ("allocations", self.driver.memory),
            ):
                left = self.simulation.live(what) - len(ours)
                assert left == 0, f"fastdl left {left} {what} behind"
            super().close()
        finally:
            self.simulation.reset()

    @contextmanager
    def hold(self, stream):
        latch = self.driver.allocate(1)
        self.driver.fill(stream, latch, 1, 1)
        yield latch

    def open_soon(self, latch):
        """Nothing to do: a wait of the host runs what it needs, latch and all."""

    def _ran(self, latch):
        return self.simulation.peek(latch, 1) == b"\1"

    def waits(self, mark, latch):
        assert not self._ran(latch), "somebody waited for the latch: the scenario is wrong"
        self.driver.ok("cuEventSynchronize", mark.event)
        assert self._ran(latch), "the work did not wait for what is behind the latch"

    def overtakes(self, mark, latch):
        self.driver.ok("cuEventSynchronize", mark.event)
        assert not self._ran(latch), "the work waited for what is behind the latch"

    def raced(self, expected):
        races = self.simulation.races()
        assert bool(races) == expected, "\n".join(races) or "the checker saw no race"
        if expected:
            self.simulation.forget()

    def replay(self, graph, stream):
        """Graphs cannot be launched on the simulation."""
        return False


class Hardware(Backend):
    """On the first NVIDIA GPU, whose driver fastdl uses until `close`. RuntimeError, with the
    reason, if there is none."""

    LIMIT = 10.0  # seconds for which a latch holds at most
    PATIENCE = 0.2  # seconds for which what must wait is watched

    def __init__(self):
        library = find()
        pointer, number = ctypes.c_void_p, ctypes.c_uint
        for name, arguments in {
            "cuModuleLoadData": [pointer] * 2,
            "cuModuleGetFunction": [pointer, pointer, ctypes.c_char_p],
            "cuLaunchKernel": [pointer, *([number] * 7), *([pointer] * 3)],
            "cuGraphInstantiateWithFlags": [pointer, pointer, ctypes.c_ulonglong],
            "cuGraphLaunch": [pointer] * 2,
            "cuGraphExecDestroy": [pointer],
        }.items():
            getattr(library, name).argtypes = arguments
        fastdl_driver.replace_driver(CUDA, "")
        super().__init__(library, "cuda")
        self.flags = self.driver.allocate(4096, "pinned")
        ctypes.memset(self.flags, 0, 4096)
        self.latches = 0
        self.kernel = self._load()
        self._warm_up()

    def close(self):
        self.end_captures()
        gc.collect()  # as above
        fastdl_driver.replace_driver(CUDA, None)
        super().close()

    def _load(self):
        self.module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        module = ctypes.byref(self.module)
        loaded = any(self.driver.call("cuModuleLoadData", module, t) == 0 for t in latch_texts())
        assert loaded, "the kernel cannot be loaded"
        self.driver.ok("cuModuleGetFunction", ctypes.byref(kernel), self.module, b"latch")
        return kernel

    def _warm_up(self):
        """Whatever a driver or fastdl does at the first time only, and may wait for the device."""
        place, pointer = self.place(), self.memory()
        with self.hold(self.setup) as latch:
            self._open(latch)
            self.fill(self.setup, pointer, OLD)
            self.look(self.setup, pointer, place).value()
        producer = FakeProducer(self.device, shape=(SIZE // 4,), data=pointer)
        tensor = fastdl.from_dlpack(producer, stream=self.setup)
        tensor.__dlpack__(stream=self.default_stream, max_version=(1, 3))
        self.finish(self.setup)

    @contextmanager
    def hold(self, stream):
        latch = self.flags + 4 * self.latches
        self.latches += 1
        begun = time.monotonic()
        flag, limit = ctypes.c_uint64(latch), ctypes.c_uint64(int(self.LIMIT * 1e9))
        pointers = (ctypes.c_void_p * 2)(ctypes.addressof(flag), ctypes.addressof(limit))
        self.driver.ok("cuLaunchKernel", self.kernel, 1, 1, 1, 1, 1, 1, 0, stream, pointers, None)
        try:
            yield latch
        finally:
            self._open(latch)
        took = time.monotonic() - begun
        assert took < self.LIMIT / 2, f"the host was blocked for {took:.1f} s by a held stream"

    def _open(self, latch):
        ctypes.c_uint32.from_address(latch).value = 1

    def open_soon(self, latch):
        """For a host that is about to wait for the held stream."""
        threading.Timer(self.PATIENCE, self._open, [latch]).start()

    def _passes(self, mark, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.driver.is_done(mark.event):
                return True
            time.sleep(0.001)
        return False

    def waits(self, mark, latch):
        assert not self._passes(mark, self.PATIENCE), "the work did not wait for the latch"

    def overtakes(self, mark, latch):
        assert self._passes(mark, self.LIMIT / 4), "the work waited for the latch: no proof"

    def raced(self, expected):
        """The bytes are all that there is to see."""

    def replay(self, graph, stream):
        """Launches the graph once, and waits."""
        program = ctypes.c_void_p()
        self.driver.ok("cuGraphInstantiateWithFlags", ctypes.byref(program), graph, 0)
        self.driver.ok("cuGraphLaunch", program, stream)
        self.finish(stream)
        self.driver.ok("cuGraphExecDestroy", program)
        return True


ENVIRONMENT = {  # of the driver, and of JAX
    "CUDA_MODULE_LOADING": "EAGER",  # loading a kernel late waits for the device
    "CUDA_DEVICE_MAX_CONNECTIONS": "32",  # fewer streams share a queue, and wait for each other
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # others need memory too
}


def find():
    """NVIDIA's driver, with a device. RuntimeError if there is none."""
    name = "libcuda.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise RuntimeError(f"no NVIDIA driver: {error}") from None
    if hasattr(library, "fk_reset"):
        raise RuntimeError("the simulated driver is loaded in this process: run tests/gpu alone")
    for variable, value in ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    count = ctypes.c_int()
    code = library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count))
    if code != 0 or count.value == 0:
        raise RuntimeError(f"no NVIDIA GPU: the driver answers {code}, with {count.value} devices")
    return library
