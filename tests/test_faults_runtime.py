"""The interpreter around fastdl: fork, exit, reimport, recursion, pickling, buffers, threads
(faults M2, M3, M5 to M10)."""

import _testbuffer
import gc
import pickle
import sys
import threading
import weakref

import numpy as np
import pytest

import fastdl
from tests.support.isolate import run_isolated
from tests.support.producers import Given, Producer, entries, types


def test_m2_fork_with_live_tensors():
    """Parent and child give back what they hold, each once; the child can go on importing."""
    run_isolated("""
        import os
        import fastdl
        from tests.support.build import extension
        from tests.support.producers import Given
        consumer = extension("consumer")
        given = [Given() for _ in range(20)]
        tensors = [fastdl.from_dlpack(one.capsule()) for one in given]
        held = [consumer.take(t.__dlpack__(max_version=(1, 0))) for t in tensors[:10]]
        capsules = [t.__dlpack__() for t in tensors[10:]]
        for ends_normally in (False, True):
            child = os.fork()
            if child == 0:
                again = [fastdl.from_dlpack(capsule) for capsule in capsules]
                assert all(t.shape == (2, 3) for t in again)
                consumer.delete_on_threads(held, 2)
                del tensors, capsules, again
                assert [one.deleted for one in given] == [1] * 20
                assert fastdl.from_dlpack(Given().capsule()).tolist()[1][2] == 5.0
                if ends_normally:
                    raise SystemExit
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        assert [one.deleted for one in given] == [0] * 20
        for one in held:
            one.delete()
        del tensors, capsules
        assert [one.deleted for one in given] == [1] * 20
    """)


def test_m3_subinterpreter_is_refused():
    """Tables are process-wide: the import fails with a reason, and the main interpreter goes on."""
    printed = run_isolated("""
        import _testcapi
        import fastdl
        from tests.support.producers import Given
        code = '''
        try:
            import fastdl
        except ImportError as error:
            print("refused", bool(str(error)), flush=True)
        '''
        import textwrap
        assert _testcapi.run_in_subinterp(textwrap.dedent(code)) == 0
        assert fastdl.from_dlpack(Given().capsule()).shape == (2, 3)
    """)
    assert printed == "refused True\n"


EXITS = {
    "tensors in the module": "",
    "cycle": "tensors.append(tensors)",
    "atexit": "import atexit; atexit.register(lambda: [t.tolist() for t in tensors])",
    "daemon thread": """
import threading
def churn():
    while True:
        fastdl.from_dlpack(tensors[0].__dlpack__(max_version=(1, 0)))[1:].tolist()
threading.Thread(target=churn, daemon=True).start()
""",
    "exception": "raise SystemExit(0) from ValueError(tensors)",
}


@pytest.mark.parametrize("ending", EXITS.values(), ids=EXITS)
def test_m5_exit_with_live_exports(ending):
    """No crash, no hang, nothing printed."""
    for _ in range(4):
        printed = run_isolated(
            "import fastdl, sys\n"
            "from tests.support.producers import Given, Producer\n"
            "import numpy as np\n"
            "tensors = [fastdl.from_dlpack(Given().capsule()) for _ in range(100)]\n"
            "tensors += [fastdl.from_dlpack(x) for x in (np.arange(3.0), Producer(Given()))]\n"
            "arrays = [np.from_dlpack(t) for t in tensors[:50]] + [memoryview(tensors[-1])]\n"
            "capsules = [t.__dlpack__() for t in tensors]\n"
            "sys.modules['keep'] = capsules, arrays\n" + ending
        )
        assert printed == ""


def test_m6_reimport_after_the_modules_were_deleted():
    """Tables and deleters stay mapped, old and new objects are usable together."""
    run_isolated("""
        import gc, importlib, sys
        import fastdl
        import numpy as np
        from tests.support.build import extension
        from tests.support.producers import Given
        consumer = extension("consumer")
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
        held.delete()
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
    """A loop that hands the same memory back and forth: its end is not the end of the stack."""
    run_isolated(f"""
        import fastdl, numpy as np
        from tests.support.producers import Given
        if "torch" in {step!r}:
            import torch
        given = Given()
        x = fastdl.from_dlpack(given.capsule())
        for _ in range(100_000):
            {step}
        assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
        del x
        given.assert_released()
    """)


def tensor():
    return fastdl.from_dlpack(Given().capsule())


class Impostor:
    """Pickles as an instance of Tensor that was never made."""

    def __reduce__(self):
        return object.__new__, (fastdl.Tensor,)


UNMAKABLE = {
    "call": lambda: fastdl.Tensor(),
    "new": lambda: fastdl.Tensor.__new__(fastdl.Tensor),
    "object.__new__": lambda: object.__new__(fastdl.Tensor),
    "type.__call__": lambda: type.__call__(fastdl.Tensor),
    "subclass": lambda: type("Sub", (fastdl.Tensor,), {}),
    "subclass with slots": lambda: type("Sub", (fastdl.Tensor,), {"__slots__": ("a",)}),
    "pickle of an impostor": lambda: pickle.loads(pickle.dumps(Impostor())),
    "reduce without memory": lambda: fastdl._unpickle(None, (2, 32, 1), (2,), "C", False),
    "class": lambda: setattr(tensor(), "__class__", Producer),
    "class of another": lambda: setattr(Producer(None), "__class__", fastdl.Tensor),
    "truth": lambda: bool(tensor()),
    "type attribute": lambda: setattr(fastdl.Tensor, "__dlpack__", None),
}


@pytest.mark.parametrize("attempt", UNMAKABLE.values(), ids=UNMAKABLE)
def test_m9_tensors_that_cannot_be_made(attempt):
    """TypeError: no instance without memory behind it exists."""
    with pytest.raises(TypeError) as caught:
        attempt()
    assert caught.type is TypeError


@pytest.mark.parametrize("name", ["shape", "__dict__", "anything", "readonly", "data_ptr"])
def test_m9_attributes_cannot_be_set(name):
    with pytest.raises(AttributeError):
        setattr(tensor(), name, (6,))


def test_m9_weak_references():
    one = tensor()
    dead = []
    watch = weakref.ref(one, dead.append)
    store = weakref.WeakValueDictionary(one=one)
    assert watch() is one
    del one
    assert (watch(), dead, len(store)) == (None, [watch], 0)
    assert weakref.getweakrefcount(tensor()) == 0  # a reused object starts without


def test_m9_hash_and_equality_are_by_identity():
    one, two = tensor(), tensor()
    assert one == one
    assert len({one, two, one}) == 2
    with pytest.raises(TypeError, match="array_equal"):
        one == two  # noqa: B015


def test_m10_buffer_outlives_the_tensor():
    given = Given()
    view = memoryview(fastdl.from_dlpack(given.capsule()))
    given.assert_alive()
    assert view.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    part = view[1:]
    view.release()
    view.release()
    given.assert_alive()
    part.release()
    given.assert_released()


def test_m10_writable_buffer():
    given = Given()
    one = fastdl.from_dlpack(given.capsule())
    memoryview(one)[0, 0] = 9.0
    assert given.owner().memory[0] == 9.0
    readonly = fastdl.from_dlpack(Given(flags=1).capsule())
    with pytest.raises(TypeError):
        memoryview(readonly)[0, 0] = 9.0
    with pytest.raises(BufferError, match="read-only"):
        _testbuffer.ndarray(readonly, getbuf=_testbuffer.PyBUF_WRITABLE)


@pytest.mark.parametrize(
    ("flag", "refused"),
    [("SIMPLE", True), ("ND", True), ("C_CONTIGUOUS", True), ("F_CONTIGUOUS", True),
     ("ANY_CONTIGUOUS", True), ("STRIDES", False), ("FULL_RO", False), ("RECORDS", False)],
)  # fmt: skip
def test_m10_buffer_that_cannot_be_described(flag, refused):
    strided = fastdl.from_dlpack(np.arange(12.0).reshape(3, 4))[:, ::2]
    flags = getattr(_testbuffer, f"PyBUF_{flag}")
    if refused:
        with pytest.raises(BufferError, match="contiguous"):
            _testbuffer.ndarray(strided, getbuf=flags)
    else:
        view = _testbuffer.ndarray(strided, getbuf=flags)
        assert (view.shape, view.strides) == ((3, 2), (32, 16))


def test_m10_failed_buffer_keeps_nothing():
    given = Given(device=(2, 0))
    one = fastdl.from_dlpack(given.capsule())
    for _ in range(3):
        with pytest.raises(BufferError):
            memoryview(one)
    del one
    given.assert_released()


def test_the_table_of_an_import_that_failed_refuses():
    """CPython keeps the modules that were imported before, and with them fastdl.Tensor."""
    said = run_isolated(
        """
        import ctypes, sys

        sys.modules["fastdl._devices.driver"] = None  # its import fails
        try:
            import fastdl
        except ImportError:
            pass
        from fastdl._core.tensor import Tensor
        from tests.support.ctypes_dlpack import Table, address_in

        table = Table.from_address(address_in(Tensor.__dlpack_c_exchange_api__))
        pointer, reasons = ctypes.c_void_p, []
        on_error = ctypes.CFUNCTYPE(None, pointer, ctypes.c_char_p, ctypes.c_char_p)
        allocate = ctypes.CFUNCTYPE(
            ctypes.c_int, pointer, ctypes.POINTER(pointer), pointer, on_error
        )(table.managed_tensor_allocator)
        report = on_error(lambda context, kind, text: reasons.append(text))
        print(allocate(None, pointer(), None, report), reasons)
        stream = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(pointer)
        )(table.current_work_stream)
        out = pointer(1)
        print(stream(2, 0, out), out.value)
        """
    )
    assert said == "-1 [b'`import fastdl` did not finish']\n0 None\n"
