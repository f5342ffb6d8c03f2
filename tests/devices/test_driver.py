# SPDX-License-Identifier: Apache-2.0
"""How the driver is found, and what becomes of it in forked children, other threads and at exit."""

import pytest

from tests.support.isolate import run_isolated
from tests.support.simulation import Simulation

KINDS = {"cuda": 2, "hip": 10}


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def folder_of(kind):
    return {"LD_LIBRARY_PATH": str(Simulation(kind).folder)}


def in_child(kind, code):
    run_isolated(FORKED.format(kind=kind) + code, env=folder_of(kind))


LOADED = """
    import fastdl
    from fastdl._devices import driver as device
    def loaded():
        with open("/proc/self/maps") as maps:
            return "simulated-" in maps.read()
"""


def test_the_driver_is_loaded_at_first_need(kind):
    run_isolated(
        LOADED
        + f"""
    from tests.support.ctypes_dlpack import FakeProducer
    assert not loaded()
    fastdl.from_dlpack(fastdl.empty(3)).tolist()
    fastdl.from_dlpack(FakeProducer((3, 0))).__dlpack__()
    assert not loaded()
    name, version, devices = device.driver_facts({KINDS[kind]})
    assert (name.lower(), devices) == ({kind!r}, 2)
    assert loaded()
    """,
        env=folder_of(kind),
    )


def test_a_loaded_copy_of_hip_comes_first(tmp_path):
    """torch brings its own, under a name without a version."""
    copy = tmp_path / "libamdhip64.so"
    copy.write_bytes(Simulation("hip").path.read_bytes())
    run_isolated(
        f"""
    import ctypes
    copy = ctypes.CDLL({str(copy)!r})
    from fastdl._devices import driver as device
    device.driver_facts(10)
    assert copy.fk_calls(b"hipInit") == 1
    """,
        env=folder_of("hip"),
    )


def test_no_driver():
    run_isolated(
        """
    import pytest, sys
    from fastdl._devices import driver as device
    cuda, hip = ("nvcuda", "amdhip64") if sys.platform == "win32" else ("libcuda", "libamdhip64")
    for type, name in ((2, cuda), (13, cuda), (10, hip)):
        assert not device.has_driver(type)
        with pytest.raises(BufferError, match=f"no .* driver: {name}.* was not found"):
            device.driver_facts(type)
    with pytest.raises(BufferError, match="CUDA and ROCm drivers"):
        device.driver_facts(8)
    """,
        env={"LD_LIBRARY_PATH": ""},
    )


FORKED = """
    import os
    from fastdl._devices import driver as device
    from tests.support.frameworks import *
    import fastdl
    sim = Simulation({kind!r})
    def child(function):
        pid = os.fork()
        if pid == 0:
            try:
                function()
                os._exit(0)
            except BaseException as error:
                print(type(error), error, flush=True)
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""


def test_a_child_that_is_forked_before_first_need_has_the_driver(kind):
    in_child(
        kind,
        f"""
    child(lambda: device.driver_facts({KINDS[kind]}))
    """,
    )


def test_a_child_that_is_forked_later_has_none(kind):
    """What needs it says so; tensors of the parent are dropped in silence."""
    in_child(
        kind,
        """
    tensors = [fastdl.from_dlpack(Protocol(Array(sim)))]
    def use():
        calls = len(sim.log())
        try:
            tensors[0].__dlpack__(stream=sim.default)
        except BufferError as error:
            assert "forked" in str(error)
        else:
            raise AssertionError("exported")
        tensors[0].__dlpack__(stream=-1)
        tensors.clear()
        assert len(sim.log()) == calls
    child(use)
    tensors[0].__dlpack__(stream=sim.default)
    sim.run()
    sim.check()
    """,
    )


def test_tensors_that_live_until_the_process_ends(kind):
    in_child(
        kind,
        """
    import builtins
    kept = builtins.kept = [fastdl.from_dlpack(Protocol(Array(sim))) for _ in range(3)]
    """,
    )


def test_work_is_recorded_when_python_can_import_no_more(kind):
    in_child(
        kind,
        """
    from tests.support.frameworks import Table
    import sys
    class Kept:
        def __init__(self):
            self.tensor = fastdl.from_dlpack(Table(Array(sim)))
            self.stream = sim.side()
            del sys.modules["fastdl._protocol.streams"]  # which the tests' own modules load
        def __del__(self):
            assert sys.meta_path is None
            self.tensor.record(self.stream)
            assert device.edges(self.tensor)
    kept = Kept()
    """,
    )


def test_the_last_reference_goes_on_a_thread_without_python(kind):
    in_child(
        kind,
        """
    from tests.support.headers import load
    api = load("elsewhere", installed=True)
    array = Array(sim)
    capsule = fastdl.from_dlpack(Protocol(array)).__dlpack__(stream=-1, max_version=(1, 3))
    api.delete_unattached(api.leave(capsule))
    assert array.given.deleted == 1
    sim.run()
    sim.check()
    """,
    )


def test_two_threads_that_need_the_driver_first(kind):
    in_child(
        kind,
        f"""
    import threading
    barrier = threading.Barrier(4)
    found = []
    def find():
        barrier.wait()
        found.append(device.driver_facts({KINDS[kind]}))
    threads = [threading.Thread(target=find) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert len(set(found)) == 1 and len(found) == 4
    assert sim.calls("cuInit") == 1
    """,
    )
