# SPDX-License-Identifier: Apache-2.0
"""The interpreter around fastdl: reimport, recursion, pickling, buffers, threads (faults M6 to
M10). Fork and exit, M2 and M5, are in test_reliability.py, and subinterpreters, M3, in
test_interpreters.py."""

import gc
import pickle
import sys
import threading

import pytest

import fastdl
from tests.support.isolate import run_isolated
from tests.support.producers import Given, Producer, entries, types


def test_m6_reimport_after_the_modules_were_deleted():
    """Tables and deleters stay mapped, old and new objects are usable together."""
    run_isolated("""
        import gc, importlib, sys
        import fastdl
        import numpy as np
        from tests.support.build import extension
        from tests.support.producers import Given
        from tests.support import consumer
        given = Given()
        old = fastdl.from_dlpack(given.capsule())
        array = fastdl.from_dlpack(np.arange(3.0))
        table, capsule = fastdl.exchange_api(np.ndarray), old.__dlpack__()
        for name in [name for name in sys.modules if name.partition(".")[0] == "fastdl"]:
            del sys.modules[name]
        del fastdl
        gc.collect()
        import fastdl as again
        assert again.from_dlpack(np.arange(3.0)).tolist() == [0.0, 1.0, 2.0]
        assert again.from_dlpack(old).tolist() == old.tolist()
        assert again.from_dlpack(capsule).tolist() == old.tolist()
        assert array[1:].tolist() == [1.0, 2.0]
        assert np.from_dlpack(old).shape == (2, 3)
        held = consumer.from_object(table, np.arange(3.0))
        assert isinstance(again.from_dlpack(array), type(array))
        held.release()
        del old, capsule
        gc.collect()
        given.assert_released()
    """)


def test_m6_reload():
    run_isolated("""
        import importlib
        import fastdl
        from tests.support.producers import Given
        old = fastdl.from_dlpack(Given().capsule())
        importlib.reload(fastdl)
        assert fastdl.from_dlpack(old).tolist() == old.tolist()
        assert fastdl.Tensor is type(old)
    """)


def test_m7_collector_and_trace_in_other_threads():
    """Imports, exports and views while another thread collects all the time."""
    given = [Given() for _ in range(300)]
    stop = threading.Event()
    interval = sys.getswitchinterval()
    events = []

    def collect():
        while not stop.is_set():
            gc.collect(0)

    def trace(frame, event, argument):
        events.append(event)
        return trace

    thread = threading.Thread(target=collect)
    sys.setswitchinterval(1e-6)
    tracer = sys.gettrace()
    thread.start()
    sys.settrace(trace)
    try:
        for one in given:
            tensor = fastdl.from_dlpack(Producer(one))
            view = fastdl.from_dlpack(tensor[1:].__dlpack__(max_version=(1, 0)))
            assert view.tolist() == [[3.0, 4.0, 5.0]]
    finally:
        sys.settrace(tracer)
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
    del tensor, view
    events.clear()
    for one in given:
        one.assert_released()


@entries
@types
def test_m8_producer_that_imports_itself(enter, of_type):
    producer = of_type(Producer)(Given(), act=lambda self: enter(self).__dlpack__())
    with pytest.raises(RecursionError):
        enter(producer)
    producer.managed.assert_alive()


@entries
def test_m8_wrappers_in_wrappers(enter):
    """100,000 deep: RecursionError, and everything is released."""
    given = Given()
    wrapped = Producer(given)
    for _ in range(100_000):
        wrapped = Producer(wrapped, act=lambda self: enter(self.managed).__dlpack__())
    with pytest.raises(RecursionError):
        enter(wrapped)
    given.assert_alive()
    while wrapped is not given:  # not all at once: that is Python's own recursion
        wrapped = wrapped.managed


PING_PONG = {
    "numpy()": "x = fastdl.from_dlpack(x.numpy())",
    "np.from_dlpack": "x = fastdl.from_dlpack(np.from_dlpack(x))",
    "memoryview": "x = fastdl.asarray(memoryview(x))",
    "view": "x = x[:]",
    "capsule": "x = fastdl.from_dlpack(x.__dlpack__(max_version=(1, 0)))",
    "legacy capsule": "x = fastdl.from_dlpack(x.__dlpack__())",
}
THROUGH_TORCH = "x = fastdl.from_dlpack(torch.from_dlpack(x))"


@pytest.mark.parametrize(
    "step",
    [
        *(pytest.param(step, id=name) for name, step in PING_PONG.items()),
        pytest.param(THROUGH_TORCH, id="torch", marks=pytest.mark.library("torch")),
    ],
)
def test_m8_memory_that_went_to_and_fro(step):
    """A loop that hands the same memory back and forth: its end is not the end of the stack, of
    which there are a hundred bytes for each step."""
    run_isolated(f"""
        import fastdl, numpy as np, threading
        from tests.support.producers import Given
        if "torch" in {step!r}:
            import torch
        given = Given()
        def to_and_fro():
            x = fastdl.from_dlpack(given.capsule())
            for _ in range(10_000):
                {step}
            assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
            del x
            given.assert_released()
            done.append(True)
        done = []
        threading.stack_size(1_000_000 // 4096 * 4096)
        thread = threading.Thread(target=to_and_fro)
        thread.start()
        thread.join()
        assert done
    """)


def tensor():
    return fastdl.from_dlpack(Given().capsule())


class Impostor:
    """Pickles as an instance of Tensor that was never made."""

    def __reduce__(self):
        return object.__new__, (fastdl.Tensor,)


UNMAKABLE = {
    "new": lambda: fastdl.Tensor.__new__(fastdl.Tensor),
    "object.__new__": lambda: object.__new__(fastdl.Tensor),
    "type.__call__": lambda: type.__call__(fastdl.Tensor),
    "subclass": lambda: type("Sub", (fastdl.Tensor,), {}),
    "subclass with slots": lambda: type("Sub", (fastdl.Tensor,), {"__slots__": ("a",)}),
    "pickle of an impostor": lambda: pickle.loads(pickle.dumps(Impostor())),
    "reduce without memory": lambda: fastdl._unpickle(None, (2, 32, 1), (2,), "C", False),
    "class": lambda: setattr(tensor(), "__class__", Producer),
    "class of another": lambda: setattr(Producer(None), "__class__", fastdl.Tensor),
    "type attribute": lambda: setattr(fastdl.Tensor, "__dlpack__", None),
}


@pytest.mark.parametrize("attempt", UNMAKABLE.values(), ids=UNMAKABLE)
def test_m9_tensors_that_cannot_be_made(attempt):
    """TypeError: no instance without memory behind it exists."""
    with pytest.raises(TypeError) as caught:
        attempt()
    assert caught.type is TypeError


def test_the_table_of_an_import_that_failed():
    """CPython keeps the modules that were imported before, and with them fastdl.Tensor."""
    said = run_isolated(
        """
        import sys
        from tests.support.build import extension

        sys.modules["fastdl._devices.driver"] = None  # its import fails
        try:
            import fastdl
        except ImportError:
            pass
        import ctypes
        from dlpack_conformance.producers import hostile
        from dlpack_conformance.structs import Tensor, address_in
        from fastdl._core.tensor import Tensor as Ours

        table = Ours.__dlpack_c_exchange_api__
        like = Tensor(device_type=1, code=2, bits=32, lanes=1)
        print(hostile.call_allocate(address_in(table), ctypes.addressof(like), False)[1:])
        print(extension("consumer").work_stream(table, 2, 0))
        """
    )
    assert said == f"{(0, '', '')}\n0\n"
