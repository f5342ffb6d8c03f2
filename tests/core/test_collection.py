# SPDX-License-Identifier: Apache-2.0
"""The garbage collector and Tensors: what it may take, and what it must not."""

import gc
import sys
import textwrap

import numpy as np
import pytest

import fastdl
from tests.support.isolate import run_isolated


class Array(np.ndarray):
    """An array that can be part of a cycle."""


def array_with_tensor():
    array = np.arange(4.0).view(Array)
    array.tensor = fastdl.from_dlpack(array)
    return array


def array_whose_views_died():
    """In cycles."""
    array = array_with_tensor()
    for _ in range(3):
        cycle = [array.tensor[1:]]
        cycle.append(cycle)
        del cycle
    gc.collect()
    return array


def test_views_that_die_in_a_cycle_are_counted_down():
    """Else the collector would think that exports are views, and take what they stand on."""
    array = array_whose_views_died()
    exports = [np.from_dlpack(array.tensor) for _ in range(3)]
    owner = array.tensor
    array.marker = "intact"
    del array
    gc.collect()
    assert owner.tolist() == [0.0, 1.0, 2.0, 3.0]
    base = owner.numpy().base
    assert base is owner
    assert all(export.tolist() == [0.0, 1.0, 2.0, 3.0] for export in exports)


def test_an_exported_array_in_a_cycle_keeps_its_attributes():
    array = array_whose_views_died()
    collected = []
    array.witness = type("Witness", (), {"__del__": lambda self: collected.append(1)})()
    exports = [np.from_dlpack(array.tensor) for _ in range(3)]
    del array  # alive by its exports alone, which the collector cannot see
    gc.collect()
    assert collected == []
    del exports
    gc.collect()
    assert collected == [1]


def test_a_view_keeps_its_root_and_lets_it_go():
    tensor = fastdl.empty(4)
    view = tensor[1:][1:]
    address = tensor.data_ptr
    del tensor
    gc.collect()
    assert view.data_ptr == address + 8


# ---- every kind of owner, in a cycle --------------------------------------------------------

# How each makes `owner` and `tensor`. Whoever else holds the memory is in the cycle as well.
OWNERS = {
    "memoryview": "owner = memoryview(bytearray(64)); tensor = fastdl.asarray(owner)",
    "part of a memoryview": """
        owner = memoryview(bytearray(64)); part = owner[8:]; tensor = fastdl.asarray(part)""",
    "shared memory": """
        from multiprocessing import shared_memory
        owner = memory = shared_memory.SharedMemory(create=True, size=64)
        tensor = fastdl.asarray(memory.buf)
        memory.unlink()
        type(memory).__del__ = lambda self: None  # which would tell that the buffer is in use""",
    "mmap": "import mmap; owner = mmap.mmap(-1, 64); tensor = fastdl.asarray(owner)",
    "derived from mmap": """
        import mmap
        owner = type("Map", (mmap.mmap,), {})(-1, 64); tensor = fastdl.asarray(owner)""",
    "ctypes": "import ctypes; owner = (ctypes.c_int * 1000)(); tensor = fastdl.asarray(owner)",
    "derived from ctypes": """
        import ctypes
        owner = type("Numbers", (ctypes.c_int * 1000,), {})(); tensor = fastdl.asarray(owner)""",
    "ctypes on other memory": """
        import ctypes
        memory = bytearray(64)
        owner = (ctypes.c_int * 16).from_buffer(memory); tensor = fastdl.asarray(owner)""",
    "PickleBuffer": """
        import pickle
        owner = pickle.PickleBuffer(bytearray(64)); tensor = fastdl.asarray(owner)""",
    "BytesIO": """
        import io
        file = io.BytesIO(bytes(1000)); owner = file.getbuffer(); tensor = fastdl.asarray(owner)""",
    "array.array": """
        import array
        owner = type("Numbers", (array.array,), {})("i", [0] * 1000)
        tensor = fastdl.asarray(owner)""",
    "bytearray": """
        owner = type("Bytes", (bytearray,), {})(64); tensor = fastdl.asarray(owner)""",
    "an array over a memoryview": """
        owner = memoryview(bytearray(64))
        tensor = fastdl.asarray(np.frombuffer(owner, np.uint8))""",
    "an array of a class": """
        owner = np.zeros(1000).view(type("Array", (np.ndarray,), {}))
        tensor = fastdl.from_dlpack(owner)""",
    "memmap": """
        import tempfile
        with tempfile.TemporaryFile() as file:
            owner = np.memmap(file, shape=(64,), mode="w+")
        tensor = fastdl.from_dlpack(owner)""",
    "a tensor's memoryview": """
        owner = memoryview(fastdl.empty(64)); tensor = fastdl.asarray(owner)""",
    "a pickle's buffer": """
        import pickle
        buffers = []
        text = pickle.dumps(fastdl.empty(64), 5, buffer_callback=buffers.append)
        owner = [memoryview(buffer) for buffer in buffers]
        tensor = pickle.loads(text, buffers=owner)""",
    "an object whose capsule has no deleter": """
        from tests.support.producers import Given, Producer
        owner = Producer(Given(deleter=False)); tensor = fastdl.from_dlpack(owner)""",
}
if sys.version_info >= (3, 12):
    OWNERS["a class with __buffer__"] = """
        class Exporter:
            def __init__(self):
                self.memory = bytearray(64)
            def __buffer__(self, flags):
                return memoryview(self.memory)
        owner = Exporter(); tensor = fastdl.asarray(owner)"""

CYCLE = """
import gc
import numpy as np
import fastdl
gc.disable()

class Worker:
    def run(self):
        pass

class Witness:
    seen = 0
    def __del__(self):
        Witness.seen += 1

def make():
OWNER
    worker = Worker()
    worker.parts = dict(locals())
    worker.step = worker.run
    worker.witness = Witness()
    LINK

for _ in range(3):
    make()
    gc.collect()
    gc.collect()
print(Witness.seen)
"""


def collected(owner, link="pass"):
    """How many of three cycles die."""
    lines = textwrap.indent(textwrap.dedent(OWNERS[owner]).strip(), "    ")
    return int(run_isolated(CYCLE.replace("OWNER", lines).replace("LINK", link)))


@pytest.mark.parametrize("owner", OWNERS)
def test_a_cycle_with_an_owner_and_its_tensor(owner):
    """The collector clears the objects of a cycle one by one. A memoryview, a PickleBuffer and a
    ctypes array give up their memory then, so the Tensor must be gone before."""
    assert collected(owner) == 3


# Whether the collector is shown the owner.
SHOWN = {
    "an array of a class": True,
    "memmap": True,
    "an object whose capsule has no deleter": True,
    "derived from mmap": False,
    "derived from ctypes": False,
    "ctypes": False,
    "array.array": False,
    "bytearray": False,
}


@pytest.mark.parametrize("owner", SHOWN)
def test_a_cycle_through_an_owner(owner):
    """If the owner itself refers to the Tensor, only what the collector is shown is collected."""
    assert collected(owner, "owner.worker = worker") == (3 if SHOWN[owner] else 0)


def test_a_list_under_construction_is_not_seen():
    """By what runs at a collection, which CPython starts when it allocates a list: before 3.12."""
    run_isolated("""
        import gc
        import numpy as np
        import fastdl
        def look(phase, info):
            sizes.append(sum(len(list(x)) for x in gc.get_objects() if type(x) is list))
        sizes, x = [], fastdl.from_dlpack(np.arange(300).reshape(3, 50, 2))
        gc.callbacks.append(look)
        gc.set_threshold(1)
        result = x.tolist()
        gc.callbacks.clear()
        assert all(map(gc.is_tracked, (result, *result, *result[0])))
        assert result == x.numpy().tolist()
    """)
