# SPDX-License-Identifier: Apache-2.0
"""from_pointer: what it checks, whom it keeps, and when it calls a deleter."""

import ctypes
import gc
import sys
import weakref

import numpy as np
import pytest

import fastdl
from fastdl._core import tensor as core
from tests.support import consumer
from tests.support.frameworks import consume
from tests.support.isolate import run_isolated

SIX = (ctypes.c_int32 * 6)(*range(6))
ADDRESS = ctypes.addressof(SIX)
SOMEWHERE = 4096  # where nobody looks


class Owner:
    """An object on which a weak eye can be kept, with the memory."""

    def __init__(self):
        self.memory = (ctypes.c_int32 * 6)(*range(6))
        self.address = ctypes.addressof(self.memory)


def counted(**keywords):
    """(tensor, the calls of its deleter)."""
    calls = []
    deleter = lambda *arguments: calls.append(arguments)  # noqa: E731 - it is told how it is called
    return fastdl.from_pointer(ADDRESS, (2, 3), "int32", deleter=deleter, **keywords), calls


# ---- what it describes ----------------------------------------------------------------------


def test_the_memory_is_shared():
    owner = Owner()
    tensor = fastdl.from_pointer(owner.address, (2, 3), np.int32, owner=owner)
    owner.memory[5] = 50
    assert tensor.tolist() == [[0, 1, 2], [3, 4, 50]]
    assert (tensor.data_ptr, tensor.strides, tensor.readonly) == (owner.address, (3, 1), False)
    tensor.numpy()[0, 0] = -1
    assert owner.memory[0] == -1


def test_what_stands_for_ints():
    tensor = fastdl.from_pointer(np.uint64(ADDRESS), np.int64(6), "<i4", strides=1)
    assert (tensor.tolist(), tensor.shape) == (list(range(6)), (6,))
    tensor = fastdl.from_pointer(ADDRESS, [2, np.int8(3)], "int32", strides=[1, 2])
    assert tensor.tolist() == [[0, 2, 4], [1, 3, 5]]


def test_strides_count_elements_and_may_be_negative():
    tensor = fastdl.from_pointer(ADDRESS + 20, (3, 2), "int32", strides=(-2, -1))
    assert tensor.tolist() == [[5, 4], [3, 2], [1, 0]]


@pytest.mark.parametrize("readonly", [False, True])
def test_read_only(readonly):
    tensor = fastdl.from_pointer(ADDRESS, 6, "int32", readonly=readonly)
    assert tensor.readonly is tensor[1:].readonly is readonly
    assert np.from_dlpack(tensor).flags.writeable is not readonly


def test_null_without_elements():
    assert fastdl.from_pointer(0, (0, 3), "int32").tolist() == []
    assert fastdl.from_pointer(0, (2**62, 0), "int32", strides=(2**62, 1)).size == 0


def test_unknown_codes_and_devices_pass():
    tensor = fastdl.from_pointer(SOMEWHERE, 2, (99, 8, 1), device=(77, 3))
    assert tensor.dtype == (99, 8, 1)
    assert tensor.device == (77, 3)


def test_a_handle_is_no_address():
    """Elements need not lie behind it."""
    assert fastdl.from_pointer(2**64 - 1, 10, "int32", device="vulkan").data_ptr == 2**64 - 1


def test_addresses_need_not_be_aligned():
    """As in every import; NumPy is told."""
    memory = (ctypes.c_char * 9)(*b"\0\1\0\0\0\2\0\0\0")
    tensor = fastdl.from_pointer(ctypes.addressof(memory) + 1, 2, "int32", owner=memory)
    assert tensor.tolist() == [1, 2]
    assert not tensor.numpy().flags.aligned


WRONG = {
    "no address": (TypeError, "an address as an int", {"address": None}),
    "a bool as address": (TypeError, "an address as an int", {"address": True}),
    "a ctypes pointer": (TypeError, r"ctypes\.cast", {"address": ctypes.c_void_p(1)}),
    "a negative address": (BufferError, "an address of 64 bits", {"address": -1}),
    "a long address": (BufferError, "an address of 64 bits", {"address": 2**64}),
    "NULL": (BufferError, "a NULL data pointer", {"address": 0}),
    "a text as shape": (TypeError, "ints as shape", {"shape": "23"}),
    "an empty text as shape": (TypeError, "ints as shape", {"shape": ""}),
    "bytes as shape": (TypeError, "ints as shape", {"shape": b"\2\3"}),
    "a bytearray as shape": (TypeError, "ints as shape", {"shape": bytearray(b"\2\3")}),
    "a set as shape": (TypeError, "ints as shape", {"shape": {2, 3}}),
    "a dictionary as strides": (TypeError, "ints as strides", {"strides": {3: 0, 1: 0}}),
    "no shape": (TypeError, "ints as shape", {"shape": None}),
    "fractions": (TypeError, "ints as shape", {"shape": (2.0, 3)}),
    "a negative size": (BufferError, "a negative dimension", {"shape": (-1, 3)}),
    "a long size": (BufferError, "ints of 64 bits as shape", {"shape": (2**63,)}),
    "65 dimensions": (BufferError, "at most 64 dimensions", {"shape": (1,) * 65}),
    "too many elements": (BufferError, "more bytes than", {"shape": (2**32, 2**32)}),
    "too many bytes": (BufferError, "more bytes than", {"shape": 2**61}),
    "past the end": (BufferError, "an address .* outside", {"address": 2**64 - 8, "shape": 3}),
    "before the start": (
        BufferError,
        "an address .* outside",
        {"address": 8, "shape": 4, "strides": -1},
    ),
    "strides that overflow": (
        BufferError,
        "strides that reach outside",
        {"strides": (2**62, 1), "shape": (3, 1)},
    ),
    "a stride missing": (BufferError, "as many strides as dimensions", {"strides": (1,)}),
    "long strides": (BufferError, "ints of 64 bits as strides", {"strides": (2**63, 1)}),
    "packed with gaps": (
        BufferError,
        "elements that share bytes",
        {"dtype": "int4", "strides": (1, 2)},
    ),
    "an impossible size": (ValueError, "a dtype", {"dtype": "float31"}),
    "no dtype": (TypeError, "a dtype", {"dtype": None}),
    "no device": (ValueError, "expected a device", {"device": "gpu"}),
    "a stream on the host": (ValueError, "has no streams", {"stream": 1}),
    "an ambiguous device": (ValueError, "CPU 1", {"device": "cpu:1"}),
    "no such stream": (ValueError, "no stream 1", {"device": "rocm", "stream": 1}),
    "no stream": (TypeError, "expected a stream", {"device": "cuda", "stream": "1"}),
    "no number for streams": (BufferError, "stream numbers", {"device": "metal", "stream": 7}),
    "no function": (TypeError, "deleter=None or a function", {"deleter": 7}),
}


@pytest.mark.parametrize(("error", "words", "changes"), WRONG.values(), ids=WRONG)
def test_what_is_refused(error, words, changes):
    """And what was passed is still the caller's."""
    calls, owner = [], Owner()
    references = sys.getrefcount(owner)
    given = {"address": SOMEWHERE, "shape": (2, 3), "dtype": "int32", **changes}
    with pytest.raises(error, match=words):
        fastdl.from_pointer(**{"deleter": lambda: calls.append(1), "owner": owner, **given})
    assert (calls, sys.getrefcount(owner)) == ([], references)


# ---- the owner ------------------------------------------------------------------------------


@pytest.mark.parametrize("deleter", [None, int])
def test_the_owner_lives_until_the_last_use_ends(deleter):
    owner = Owner()
    seen = weakref.ref(owner)
    tensor = fastdl.from_pointer(owner.address, 6, "int32", owner=owner, deleter=deleter)
    del owner
    uses = [tensor, tensor[1:], tensor.__dlpack__(), np.from_dlpack(tensor), memoryview(tensor)]
    del tensor
    while uses:
        assert seen() is not None
        uses.pop(0)
    assert seen() is None


def test_the_owner_outlives_the_deleter():
    owner = Owner()
    seen = weakref.ref(owner)
    alive = []
    tensor = fastdl.from_pointer(
        owner.address, 6, "int32", owner=owner, deleter=lambda: alive.append(seen() is not None)
    )
    del owner, tensor
    assert alive == [True]
    assert seen() is None


@pytest.mark.parametrize("deleter", ["None", "lambda: freed.append(owner)"])
def test_the_collector_never_takes_an_owner(deleter):
    """Clearing it would free the memory while other garbage may use the Tensor."""
    printed = run_isolated(f"""
        import ctypes, gc
        import fastdl
        gc.disable()
        def make(freed):
            class Memory(ctypes.c_int32 * 1000):
                pass
            owner = Memory()
            owner.witness = type("Witness", (), {{"__del__": lambda self: freed.append(1)}})()
            owner.tensor = fastdl.from_pointer(
                ctypes.addressof(owner), 1000, "int32", owner=owner, deleter={deleter})
        freed = []
        make(freed)
        gc.collect()
        print(freed)
    """)
    assert printed == "[]\n"


# ---- the deleter ----------------------------------------------------------------------------


def test_a_deleter_is_called_once_without_arguments():
    tensor, calls = counted()
    view = tensor[1:]
    del tensor
    assert calls == []
    del view
    assert calls == [()]


def test_while_an_exception_is_pending(monkeypatch):
    """It stays as it is, though the deleter has one of its own, which goes to the hook."""
    caught = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: caught.append(args[:2] + args[4:]))

    def deleter():
        raise LookupError("from the deleter")

    tensor = fastdl.from_pointer(ADDRESS, 6, "int32", deleter=deleter)
    held = consumer.take(tensor.__dlpack__())
    del tensor
    assert held.release("pending") is True
    ((kind, error, name),) = caught
    assert (kind, str(error), name) == (LookupError, "from the deleter", deleter)


def test_a_deleter_for_which_there_is_no_memory(monkeypatch):
    """Whatever fails, even last, leaves the memory to the caller."""

    def fail(tensor, deleter):
        raise MemoryError

    calls = []
    monkeypatch.setattr(core, "delete_with", fail)
    with pytest.raises(MemoryError):
        fastdl.from_pointer(ADDRESS, 6, "int32", deleter=lambda: calls.append(1))
    gc.collect()
    assert calls == []


# ---- devices --------------------------------------------------------------------------------


def on_device(here, array, **keywords):
    return fastdl.from_pointer(array.pointer, (2, 3), "float32", device=here.device, **keywords)


def test_memory_is_ready_on_its_stream(here):
    """Consumers on every other stream wait for what was queued there; without the edge the
    simulation reports a race."""
    array = here.array()
    source, other = here.sim.side(blocking=True), here.sim.side(blocking=True)
    array.write(source)
    tensor = on_device(here, array, stream=source)
    for stream in (other, None, source):
        consume(tensor, stream, array)


def test_memory_without_a_stream_is_ready_on_the_work_stream(here):
    array = here.array()
    source, other = here.sim.side(), here.sim.side()
    array.write(source)
    with fastdl.use_stream(here.device, source):
        tensor = on_device(here, array)
    consume(tensor, other, array)


def test_memory_that_its_caller_orders(here):
    array = here.array()
    tensor = on_device(here, array, stream=-1)
    records = here.calls("record")
    tensor.__dlpack__(stream=here.sim.default, max_version=(1, 0))
    assert here.calls("record") == records


def test_a_stream_that_cannot_be_recorded(here):
    """BufferError, and the memory is the caller's."""
    array, calls = here.array(), []
    here.fail_next("record", 1)
    with pytest.raises(BufferError, match="ordered after its producer"):
        on_device(here, array, stream=here.sim.side(blocking=True), deleter=lambda: calls.append(1))
    gc.collect()
    assert calls == []


def test_the_deleter_of_device_memory_on_a_thread_without_python(here):
    """Put off until the main thread runs, since the driver may be running a callback there."""
    array, calls = here.array(), []
    tensor = on_device(here, array, deleter=lambda: calls.append(1))
    held = consumer.take(tensor.__dlpack__(stream=-1))
    del tensor
    consumer.delete_on_threads([held], 1)
    fastdl.from_dlpack(on_device(here, array))  # the next import of device memory, at the latest
    assert calls == [1]


def test_without_a_driver():
    """As an import: for the stream on which it is ready alone."""
    tensor = fastdl.from_pointer(SOMEWHERE, 6, "int32", device="cuda")
    tensor.__dlpack__(stream=1, max_version=(1, 0))
    with pytest.raises(BufferError, match="stream 64: this machine has no CUDA driver"):
        tensor.__dlpack__(stream=64, max_version=(1, 0))
