# SPDX-License-Identifier: Apache-2.0
"""What fastdl does while the driver runs a callback.

The driver may hold a lock of its own meanwhile: the simulation does so with `locked_callbacks`. A
callback that waits for the GIL then waits for each thread that holds it in a call of the driver.
And in a callback nothing may be asked of the driver: a deleter there puts off what needs it.
"""

import ctypes
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fastdl
from fastdl._devices import driver
from tests.support.consumer import deleter_of, take
from tests.support.frameworks import Plain, Table, given_back
from tests.support.isolate import run_isolated
from tests.support.simulation import write

TIMEOUT = 100  # of a process that would wait for ever


HAS_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()
with_a_gil = pytest.mark.skipif(
    not HAS_GIL,
    reason="who waits for what is told from the GIL",
)


HELD = """
    import ctypes, sys
    import fastdl
    from fastdl._devices import driver
    from tests.support.frameworks import *
    from tests.support.memory import Machine

    FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

    def during_callback(sim, function):
        '''Calls `function` while a callback waits for the GIL, which this thread has kept since
        before the callback began.'''
        ran = []
        callback = FUNCTION(ran.append)
        with sim.device(0):
            sim.ok("cuLaunchHostFunc", sim.default, ctypes.cast(callback, ctypes.c_void_p), None)
        sys.setswitchinterval(10_000)
        with sim.in_callback():
            assert not ran
            function()
        sys.setswitchinterval(0.005)
        assert ran
"""


@pytest.fixture(params=["cuda", "hip"])
def kind(request):
    return request.param


@with_a_gil
def test_no_call_waits_for_a_callback_that_waits_for_the_gil(kind):
    """Each function that asks the driver, with a callback of its own."""
    run_isolated(
        HELD
        + f"""
    with simulated({kind!r}, locked_callbacks=1) as sim:
        type, here = sim.type, Machine(sim).device
        arrays = [Array(sim) for _ in range(4)]
        with sim.device(0):
            streams = [sim.stream(False) for _ in range(3)]
        imported = [fastdl.from_dlpack(Plain(arrays[0]))]
        def scope():
            with fastdl.use_stream(here, streams[1]):
                fastdl.from_dlpack(Table(arrays[3]))
        for function in (
            lambda: imported.append(fastdl.from_dlpack(Plain(arrays[1]), stream=streams[0])),
            lambda: imported.append(fastdl.from_dlpack(Table(arrays[2]))),
            scope,
            lambda: imported[0].record(streams[0]),
            lambda: export(imported[0], streams[1]),
            lambda: imported[0].release(streams[2]),
            lambda: driver.wait(imported[0]),
            lambda: driver.find_pointer(type, arrays[0].pointer),
            lambda: driver.check_stream(type, 0, streams[0]),
            lambda: driver.call_on((type, 1), True, dict, {{}}),
            lambda: imported[0].to("cpu"),
            lambda: driver.forget_events(type),
        ):
            during_callback(sim, function)
        imported.clear()
    """,
        timeout=TIMEOUT,
    )


def test_no_call_with_the_gil_while_python_ends(kind):
    """What lives longest may use the driver when Python has begun to end, and still has its GIL."""
    said = run_isolated(f"""
    import builtins
    import fastdl
    from fastdl._devices import driver
    from tests.support.frameworks import TYPES, tensor_on
    from tests.support.simulation import Simulation
    sim = Simulation({kind!r})
    driver.replace_driver(sim.type, str(sim.path))
    class Last:
        def __init__(self, tensor, stream):
            self.record, self.stream, self.write = tensor.record, stream, print
        def __del__(self):
            self.record(self.stream)
            self.write("recorded", flush=True)
    builtins.last = Last(tensor_on(sim), sim.side(blocking=True))
    """)
    assert said == "recorded\n"


# ---- the last reference goes in a callback --------------------------------------------------


def queue(here, stream, deleter, argument):
    """The driver is to call the deleter on `stream`."""
    with here.sim.device(0):
        here.sim.ok("cuLaunchHostFunc", stream, deleter, argument)


def given_away(tensor, max_version=(1, 3)):
    """An export, whose deleter somebody else is to call."""
    return deleter_of(take(tensor.__dlpack__(stream=-1, max_version=max_version)))


def drop_in_callback(here, tensors):
    """Exports each tensor, clears the list, and has a callback call the deleters."""
    stream = here.sim.side()
    while tensors:
        queue(here, stream, *given_away(tensors.pop()))
    with here.sim.device(0):
        here.sim.synchronize(stream)


def busy(here, tensor):
    """Work in flight on the memory."""
    stream = here.sim.side()
    with here.sim.device(0):
        here.sim.kernel(stream, write(tensor.data_ptr, tensor.nbytes, 3))
    tensor.record(stream)
    return tensor


def let_main_run():
    """Time for pending calls, which before 3.13 wait until the main thread next takes the GIL."""
    for _ in range(100):
        time.sleep(0)


def waiting():
    return driver.deferred()[1]


class Puts:
    """How many releases were put off since it was made."""

    def __init__(self):
        self.before = driver.deferred()[0]

    def __int__(self):
        return driver.deferred()[0] - self.before


@pytest.mark.parametrize("producer", [Plain, Table])
@pytest.mark.parametrize("memory", ["device", "managed", "pinned"])
def test_memory_of_others(here, producer, memory):
    """Its owner may need the driver, too."""
    if memory == "managed" and here.kind == "hip":
        pytest.skip("DLPack has no such device")
    puts, array = Puts(), here.array(memory=memory)
    drop_in_callback(here, [fastdl.from_dlpack(producer(array))])
    let_main_run()
    given_back(array)
    assert (int(puts), waiting()) == (1, 0)


def test_memory_behind_plain_host_memory(here):
    """An ndarray on pinned memory is plain host memory to those who import it. Its owner is
    released in the callback, with a Python thread state for as long as that takes; the pinned
    memory is not."""
    puts, array = Puts(), here.array(memory="pinned")
    tensors = [fastdl.from_dlpack(fastdl.from_dlpack(Plain(array)).numpy())]
    drop_in_callback(here, tensors)
    let_main_run()
    given_back(array)
    # Without a GIL the ndarray ends on the thread that made it, which may call the driver.
    assert (int(puts), waiting()) == (int(HAS_GIL), 0)


def test_python_in_a_callback_ends_nothing(here):
    """What a deleter of host memory runs comes past a safe point, and is still in the callback."""
    array, other, host, kept, seen = here.array(), here.array(), np.arange(3), [], []

    def import_another():
        kept.append(fastdl.from_dlpack(Table(other), stream=-1))
        seen.append((waiting(), array.given.deleted))

    tensors = [fastdl.from_pointer(host.ctypes.data, 3, "int64", deleter=import_another)]
    tensors.append(fastdl.from_dlpack(Plain(array)))
    drop_in_callback(here, tensors)
    let_main_run()
    assert seen == [(1, 0)]
    assert waiting() == 0
    given_back(array)


def test_an_export_in_the_legacy_form(here):
    """Its deleter is another."""
    array, stream, puts = here.array(), here.sim.side(), Puts()
    queue(here, stream, *given_away(fastdl.from_dlpack(Plain(array)), max_version=None))
    with here.sim.device(0):
        here.sim.synchronize(stream)
    let_main_run()
    given_back(array)
    assert int(puts) == 1


@with_a_gil
def test_plain_host_memory_is_released_at_once(here):
    """put_off.h says why."""
    array, puts, seen = np.arange(3), Puts(), []
    released, stream = weakref.ref(array), here.sim.side()
    deleter, address = given_away(fastdl.asarray(array))
    del array
    after = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: seen.append(released()))
    queue(here, stream, deleter, address)
    queue(here, stream, ctypes.cast(after, ctypes.c_void_p), None)
    with here.sim.device(0):
        here.sim.synchronize(stream)
    assert seen == [None]
    assert int(puts) == 0


def while_main_waits(sim, function):
    """Runs a function on another thread, while this one is in a wait outside of Python from the
    function's beginning to its end: no pending call is made."""
    gate, before = threading.Lock(), sys.getswitchinterval()
    gate.acquire()

    def run():
        gate.acquire()
        sim.acquire()
        function()
        sim.publish()

    with ThreadPoolExecutor(1) as threads:
        sim.publish()
        running = threads.submit(run)
        sys.setswitchinterval(10_000)  # this thread keeps the GIL from here to its wait
        gate.release()
        try:
            running.result()
        finally:
            sys.setswitchinterval(before)
    sim.acquire()


SAFE_POINTS = {
    "a tensor comes in": lambda here, other: fastdl.from_dlpack(Table(here.array()), stream=-1),
    "a device is entered": lambda here, other: other.record(here.default),
}


@with_a_gil
@pytest.mark.parametrize("enter", SAFE_POINTS.values(), ids=SAFE_POINTS)
def test_while_the_main_thread_is_busy(here, enter):
    """It waits outside of Python here. What next needs the device releases what was put off."""
    other, arrays = here.tensor(), [here.array(), here.array()]
    tensors = [fastdl.from_dlpack(Plain(array)) for array in arrays]
    busy(here, tensors[0])

    def on_a_thread():
        drop_in_callback(here, tensors)
        let_main_run()
        assert (waiting(), [array.given.deleted for array in arrays]) == (2, [0, 0])
        kept = enter(here, other)
        assert waiting() == 0
        for array in arrays:
            given_back(array)
        del kept

    while_main_waits(here.sim, on_a_thread)


NOTHING = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda _: 0)


def fill_pending_calls():
    """So that there is no room for another, until the main thread runs Python."""
    for _ in range(10_000):
        if ctypes.pythonapi.Py_AddPendingCall(NOTHING, None) != 0:
            return
    raise AssertionError("there is always room")


@with_a_gil
def test_no_room_for_a_pending_call(here):
    """The next release that is put off asks again."""
    arrays = [here.array(), here.array()]
    tensors, others = ([fastdl.from_dlpack(Plain(array))] for array in arrays)

    def on_a_thread():
        fill_pending_calls()
        drop_in_callback(here, tensors)

    while_main_waits(here.sim, on_a_thread)
    let_main_run()
    assert (waiting(), [array.given.deleted for array in arrays]) == (1, [0, 0])
    drop_in_callback(here, others)
    let_main_run()
    assert waiting() == 0
    for array in arrays:
        given_back(array)


PUT_OFF = """
    import atexit, ctypes, os, sys
    atexit.register(lambda: print(sim.live("allocations"), "allocations", flush=True))
    import fastdl
    from tests.support.frameworks import *
    from tests.support.memory import *
    from tests.devices.test_callbacks import *
    sim = Simulation({kind!r})
    here = Machine(sim)
    driver.replace_driver(sim.type, str(sim.path))
    driver.driver_facts(sim.type)  # in use: a forked child has none
    class Owner:
        def __init__(self):
            with sim.device(0):
                self.pointer = sim.allocate(12)
        def __del__(self):
            with sim.device(0):
                sim.free(self.pointer)
            print("released", flush=True)
    def put_off(then):  # and no pending call is left to end it
        owner = Owner()
        where = owner.pointer, (3,), (1,), (2, 32, 1), sim.place
        tensors = [driver.on_memory(*where, False, owner)]
        del owner
        def on_a_thread():
            fill_pending_calls()
            drop_in_callback(here, tensors)
            then()
        while_main_waits(sim, on_a_thread)
        let_main_run()
        assert waiting() == 1
"""


def in_child(kind, code):
    return run_isolated(PUT_OFF.format(kind=kind) + code, timeout=TIMEOUT)


@with_a_gil
def test_nothing_is_lost_when_python_ends(kind):
    said = in_child(kind, "    put_off(int)")
    assert said.splitlines() == ["released", "0 allocations"]


def test_nothing_is_scheduled_once_python_ends(kind):
    """Neither when it begins to end, nor afterwards: then libc runs the deleter of a tensor."""
    in_child(
        kind,
        """
    driver.at_exit()
    drop_in_callback(here, [tensor_on(sim)])
    let_main_run()
    assert waiting() == 1
    deleter, address = given_away(tensor_on(sim))
    register = ctypes.CDLL(None).__cxa_atexit
    register.argtypes = [ctypes.c_void_p] * 3
    assert register(deleter, address, None) == 0
    """,
    )


@with_a_gil
def test_a_forked_child_leaves_it_to_its_parent(kind):
    said = in_child(
        kind,
        """
    import warnings
    warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
    def fork():
        calls = len(sim.log())
        child = os.fork()
        if child == 0:
            driver.at_exit()
            os._exit(0 if waiting() == 0 and len(sim.log()) == calls else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert waiting() == 1
    put_off(fork)
    """,
    )
    assert said.splitlines() == ["released", "0 allocations"]


def test_a_deleter_does_not_wait_for_the_gil(kind):
    """The main thread keeps it until the callback has ended, as a library may that calls the driver
    with the GIL held."""
    in_child(
        kind,
        """
    array = Array(sim)
    queue(here, sim.side(), *given_away(fastdl.from_dlpack(Plain(array))))
    keeping = ctypes.PyDLL(str(sim.path))
    sys.setswitchinterval(10_000)
    keeping.fk_start()
    keeping.fk_join()
    sys.setswitchinterval(0.005)
    let_main_run()
    given_back(array)
    """,
    )
