# SPDX-License-Identifier: Apache-2.0
"""What the tests of memory and copies on the simulated devices have in common."""

import gc
from contextlib import contextmanager

import numpy as np

import fastdl
from fastdl._core import tensor as core
from tests.support.frameworks import MANAGED, PINNED, Array, Plain, simulated

#: CUDA's names of calls, by what they do.
CALLS = {
    "line": "cuMemcpyAsync",
    "rows": "cuMemcpy2DAsync_v2",
    "record": "cuEventRecord",
    "new event": "cuEventCreate",
    "await event": "cuEventSynchronize",
    "await stream": "cuStreamSynchronize",
    "order": "cuStreamWaitEvent",
    "is capturing": "cuStreamIsCapturing",
    "pointer": "cuPointerGetAttributes",
    "enter": "cuCtxGetCurrent",
    "switch": "cuCtxPushCurrent_v2",
}

#: Those that fail in the tests of copies to the host: of what is compact, and of rows.
FAILING_TO_THE_HOST = {
    "to the host": ["pointer", "enter", "switch", "is capturing", "order", "line", "await stream"],
    "rows": ["enter", "rows", "await stream"],
}


class Machine:
    """A simulation and the names that its devices have in fastdl."""

    def __init__(self, sim):
        self.sim = sim
        self.kind = sim.kind
        cuda = sim.kind == "cuda"
        self.device = "cuda" if cuda else "rocm"
        self.pinned = f"{self.device}_host"
        self.devices = [f"{self.device}:0", f"{self.device}:1", self.pinned]
        self.devices += ["cuda_managed:0", "cuda_managed:1"] if cuda else []
        self.default = 1 if cuda else 0
        self.arrays = []

    def name(self, call):
        return self.sim.name(CALLS[call])

    def calls(self, call):
        return self.sim.calls(self.name(call))

    def fail_next(self, call, code, after=0):
        self.sim.fail_next(self.name(call), code, after)

    def ignore(self, call):
        self.sim.ignore(self.name(call))

    @property
    def allocations(self):
        return self.sim.live("allocations") - len(self.arrays)

    def array(self, **where):
        """An array of a foreign library, which frees it after the test."""
        self.arrays.append(Array(self.sim, **where))
        return self.arrays[-1]

    def tensor(self, shape=(2, 3), dtype="float32", device=None):
        """A tensor in the memory of such an array, whose library orders nothing."""
        place = fastdl.Device(device or self.device)
        memory = {MANAGED: "managed", PINNED[self.kind]: "pinned"}.get(place.type, "device")
        array = self.array(device=place.id, memory=memory, shape=shape, dtype=dtype)
        return fastdl.from_dlpack(Plain(array))

    def holding(self, elements, device=None):
        """The same, with the elements of a NumPy array."""
        tensor = self.tensor(elements.shape, elements.dtype.name, device)
        self.sim.poke(tensor.data_ptr, elements.tobytes())
        return tensor


@contextmanager
def machine(kind, **settings):
    """fastdl on a simulated driver with two devices; at the end all memory has been freed."""
    with simulated(kind, **settings) as sim:
        found = Machine(sim)
        yield found
        gc.collect()
        sim.run()
        sim.check()
        sim.forget()
        for array in found.arrays:
            with sim.device(array.ordinal):
                sim.free(array.pointer, "pinned" if array.type in PINNED.values() else "device")
        fastdl._devices.driver.forget_events(fastdl.Device(found.device).type)
        assert sim.live("allocations") == 0, "memory was not freed"


def expect_race(sim):
    """The checker sees what the test has broken."""
    gc.collect()
    sim.run()
    assert sim.races(), "no race was seen"
    sim.forget()


def values(*shape, dtype="int32"):
    """Distinct elements."""
    count = int(np.prod(shape))
    return (np.arange(count) * 7 + 1).astype(dtype).reshape(shape)


def bytes_of(sim, tensor):
    """The bytes of a compact tensor, wherever it is, once all work has run."""
    sim.run()
    return sim.peek(tensor.data_ptr, tensor.nbytes)


def filled(dtype, shape=(3, 4)):
    """A compact tensor of distinct bytes."""
    tensor = fastdl.empty(shape, dtype)
    memory = core.as_bytes(tensor).numpy()
    memory[:] = np.arange(1, memory.size + 1, dtype=np.uint8)
    return tensor


def assert_copied(tensor, original):
    """That a tensor is on the host what another one is, wherever that is."""
    assert type(tensor) is fastdl.Tensor
    assert tensor.shape == original.shape
    assert tensor.dtype is original.dtype
    assert tensor.device == "cpu"
    assert core.is_packed(tensor) == core.is_packed(original)
    assert core.read_bytes(tensor) == core.read_bytes(original)
