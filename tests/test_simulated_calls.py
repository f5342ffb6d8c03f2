"""The simulated drivers: contexts, captures, copies and faults, call by call. What a real driver
could be asked as well is in tests/simulated/conformance.py, and asked there."""

import ctypes
import json
import subprocess
import sys

import pytest

from tests.support import build
from tests.support.fresh import fresh
from tests.support.simulation import (
    RELAXED,
    THREAD_LOCAL,
    Simulation,
    functions,
    in_thread,
    library_path,
    read,
    unordered,
    write,
)

NONE, ACTIVE = 0, 1  # what cuStreamIsCapturing says

cuda, hip, sim = fresh("cuda"), fresh("hip"), fresh("cuda", "hip")


class TestContexts:
    def test_the_depth_of_the_stack(self, cuda):
        with cuda.device(1):
            assert cuda.context_depth() == 2
        assert in_thread(cuda.context_depth) == 0
        with pytest.raises(AssertionError, match="1 entries instead of 0"):
            cuda.check()
        cuda.check(depth=1)

    def test_a_kernel_belongs_to_a_context(self, sim):
        stream = sim.stream()
        with sim.device(1):
            assert sim.launch(stream) == 400

    def test_a_released_one(self, cuda):
        context = ctypes.c_void_p()
        cuda.ok("cuDevicePrimaryCtxRetain", context, 1)
        cuda.ok("cuDevicePrimaryCtxRelease_v2", 1)
        assert cuda.call("cuDevicePrimaryCtxRelease_v2", 1) == 201
        assert cuda.call("cuCtxPushCurrent_v2", context) == 201
        assert "without being retained" in cuda.violations()[0]

    @pytest.mark.parametrize("green", [False, True])
    def test_others_beside_the_primary_one(self, cuda, green):
        primary = cuda.made("cuCtxGetCurrent")
        data, event = cuda.allocate(8), cuda.event()
        cuda.kernel(1, write(data, 8, 1))
        with cuda.context(0, green) as context:
            assert context != primary
            assert cuda.made("cuCtxGetDevice", kind=ctypes.c_int) == 0
            assert cuda.call("cuEventRecord", event, 1) == 400
            for stream in (0, 1, 2):  # each its own: nothing orders them after the kernel
                cuda.kernel(stream, read(data, 8))
            assert unordered(cuda) == 3
            assert cuda.live("contexts") == 1
        assert cuda.made("cuCtxGetCurrent") == primary
        assert cuda.live("contexts") == 0

    def test_an_event_crosses_contexts(self, cuda):
        data, event = cuda.allocate(8), cuda.event()
        cuda.kernel(1, write(data, 8, 1))
        cuda.record(event, 1)
        with cuda.context(0, green=True):
            cuda.wait(1, event)
            cuda.kernel(1, read(data, 8))
        cuda.check(depth=1)

    def test_what_ends_with_a_context(self, cuda):
        with cuda.context(0) as context:
            event, stream, data = cuda.event(), cuda.stream(), cuda.allocate(8)
            kept = cuda.made("cuMemAllocAsync", 8, stream, kind=ctypes.c_uint64)
            assert in_thread(lambda: cuda.call("cuCtxSetCurrent", context)) == 0
            cuda.record(event, stream)
        assert (cuda.live("allocations"), cuda.live("events"), cuda.live("streams")) == (1, 0, 0)
        assert cuda.call("cuMemFree_v2", kept) == 0
        assert cuda.call("cuEventQuery", event) == 400
        assert cuda.call("cuStreamQuery", stream) == 400
        assert cuda.call("cuMemFree_v2", data) == 1
        assert cuda.call("cuCtxPushCurrent_v2", context) == 201
        assert len(cuda.violations()) == 4

    def test_a_current_one_that_was_destroyed(self, cuda):
        """On another thread, which is not told."""
        context = cuda.made("cuCtxCreate_v2", 0, 0)
        in_thread(lambda: cuda.ok("cuCtxDestroy_v2", context))
        assert cuda.call("cuCtxGetDevice", ctypes.c_int()) == 709
        assert cuda.call("cuCtxGetId", None, ctypes.c_uint64()) == 709
        assert cuda.made("cuCtxPopCurrent_v2") == context

    def test_a_reset(self, cuda):
        """The primary context is dead until it is next retained. The handle stays."""

        def number():
            found = ctypes.c_uint64()
            cuda.ok("cuCtxGetId", None, found)
            return found.value

        flags, active = ctypes.c_uint(), ctypes.c_int(5)
        before, first = cuda.made("cuCtxGetCurrent"), number()
        event, stream, data = cuda.event(), cuda.stream(), cuda.allocate(8)
        cuda.kernel(stream, write(data, 8, 1))
        cuda.ok("cuDevicePrimaryCtxReset_v2", 0)
        cuda.ok("cuDevicePrimaryCtxGetState", 0, flags, active)
        assert active.value == 0
        assert cuda.made("cuCtxGetCurrent") == before
        assert cuda.call("cuEventCreate", ctypes.c_void_p(), 0) == 709
        assert cuda.call("cuCtxGetId", before, ctypes.c_uint64()) == 709
        assert (cuda.live("allocations"), cuda.live("events"), cuda.live("streams")) == (0, 0, 0)
        assert cuda.made("cuDevicePrimaryCtxRetain", 0) == before
        assert number() != first
        assert cuda.violations() == []
        assert cuda.call("cuEventQuery", event) == 400
        assert "after it was destroyed" in cuda.violations()[0]


class TestLife:
    """Before, after, and beside the life of the driver."""

    def test_no_device(self, hip):
        hip.reset(devices=0)
        assert hip.call("hipGetDeviceCount", ctypes.c_int()) == 100
        cuda = Simulation("cuda", private=True)
        cuda.reset(devices=0)
        assert cuda.call("cuInit", 0) == 100

    def test_at_exit(self, sim):
        sim.deinit()
        assert sim.call("cuCtxGetCurrent", None) == 4
        sim.forget()

    @pytest.mark.slow
    def test_an_old_driver(self):
        old = Simulation("cuda", old=True, private=True)
        assert hasattr(old.driver, "cuMemAlloc_v2")
        assert not hasattr(old.driver, "cuMemAllocAsync")
        assert not hasattr(Simulation("hip", old=True, private=True).driver, "hipMallocAsync")

    def test_host_callbacks_may_not_call(self, sim):
        codes = []
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
            lambda _: codes.append(sim.call("cuStreamQuery", 0))
        )
        sim.ok("cuLaunchHostFunc", 0, ctypes.cast(function, ctypes.c_void_p), None)
        assert codes == []
        sim.synchronize(0)
        assert codes == [800 if sim.kind == "cuda" else 999]
        assert "host callback" in sim.violations()[0]


class TestFaults:
    def test_each_symbol_can_fail(self, sim):
        names = functions(sim.kind).keys()
        others = {"hipGetErrorName", "hipPeekAtLastError", "hipGetLastError"}
        for name in names - others:  # those return no code of their own
            sim.fail_next(name, 999)
            arguments = [kind() for kind in getattr(sim.driver, name).argtypes]
            assert sim.call(name, *arguments) == 999, name
        assert len(names) > 30

    def test_once_and_later(self, sim):
        name = sim.name("cuStreamQuery")
        before = sim.calls(name)
        sim.fail_next(name, 700, after=2)
        assert [sim.call(name, 0) for _ in range(4)] == [0, 0, 700, 0]
        assert sim.calls(name) == before + 4
        assert sim.log()[-2:] == [f"thread {number(sim)}: {name} = {code}" for code in (700, 0)]

    def test_the_log_keeps_the_end(self, cuda):
        for _ in range(300_000):
            cuda.driver.cuStreamQuery(0)
        log = cuda.log()
        assert 100_000 < len(log) < 300_000
        assert set(log) == {f"thread {number(cuda)}: cuStreamQuery = 0"}

    def test_unknown_symbols(self, sim):
        with pytest.raises(ValueError, match="no function"):
            sim.fail_next("cuNothing", 1)
        with pytest.raises(ValueError, match="no function"):
            sim.ignore("cuNothing")

    def test_an_ignored_wait(self, sim):
        first, second, event, data = sim.stream(), sim.stream(), sim.event(), sim.allocate(8)
        sim.ignore("cuStreamWaitEvent")
        sim.kernel(first, write(data, 8, 1))
        sim.record(event, first)
        sim.wait(second, event)
        sim.kernel(second, read(data, 8))
        assert unordered(sim) == 1

    def test_a_misdirected_event(self, sim):
        first, second, event, data = sim.stream(), sim.stream(), sim.event(), sim.allocate(8)
        sim.misdirect(second)
        sim.kernel(first, write(data, 8, 1))
        sim.record(event, first)
        sim.wait(second, event)
        sim.kernel(second, read(data, 8))
        assert unordered(sim) == 1

    @pytest.mark.parametrize("forgives", [False, True])
    def test_last_errors(self, hip, forgives):
        """Each thread has one, which stays until somebody asks, whatever succeeds meanwhile."""
        hip.set("forgives_not_ready", forgives)
        stream = hip.stream(False)
        hip.kernel(stream)
        hip.fail_next("hipEventCreateWithFlags", 2)
        assert hip.driver.hipEventCreateWithFlags(ctypes.c_void_p(), 0) == 2
        assert hip.driver.hipStreamQuery(stream) == 600
        hip.synchronize(stream)
        code, name = (2, "hipEventCreateWithFlags") if forgives else (600, "hipStreamQuery")
        left = [f"thread {number(hip)} is left with the error {code} of {name}"]
        assert hip.last_errors() == left
        assert in_thread(hip.driver.hipGetLastError) == 0
        with pytest.raises(AssertionError, match=f"error {code}"):
            hip.check()
        assert hip.driver.hipPeekAtLastError() == hip.driver.hipGetLastError() == code
        assert hip.driver.hipGetLastError() == 0
        hip.check()

    def test_each_call_with_the_gil(self, sim):
        """Whether it can wait for work or not: the driver may hold its lock during a callback."""
        holding = ctypes.PyDLL(str(sim.path))
        assert sim.gil_violations() == []
        for name, types in functions(sim.kind).items():
            if not name.startswith(("hipGetError", "hipPeekAtLastError", "hipGetLastError")):
                sim.ignore(name)
            call = getattr(holding, name)
            call.argtypes = types
            call(*[kind() for kind in types])
            assert f" {name} with the GIL" in sim.gil_violations()[-1]
        sim.forget()
        with pytest.raises(AssertionError, match="GIL"):
            sim.check(depth=sim.context_depth())
        sim.reset()


def number(sim):
    """Of this thread, as the log has it."""
    sim.call("cuDriverGetVersion", ctypes.c_int())
    lines = sim.log()
    return int(lines[-1].split(":")[0].split()[1])


class TestCapture:
    """What conformance.py does not ask: bytes, two devices, and where HIP differs."""

    def status(self, sim, stream):
        """The code and the status."""
        status = ctypes.c_int(7)
        return sim.call("cuStreamIsCapturing", stream, status), status.value

    def test_work_becomes_part_of_the_graph(self, sim):
        stream, data = sim.stream(False), sim.allocate(8)
        assert sim.begin_capture(stream) == 0
        assert self.status(sim, stream) == (0, ACTIVE)
        sim.kernel(stream, write(data, 8, 1))
        assert sim.end_capture(stream) == 0
        assert self.status(sim, stream) == (0, NONE)
        sim.run()
        assert sim.peek(data, 8) == b"\xcd" * 8

    def test_legacy_of_another_device(self, sim):
        sim.begin_capture(sim.stream())
        with sim.device(1):
            assert self.status(sim, 0) == (0, NONE)
            sim.record(sim.event(), 0)

    def test_hip_breaks_captures_by_queries(self, hip):
        stream, event = hip.stream(False), hip.event()
        hip.begin_capture(stream, THREAD_LOCAL)
        assert in_thread(lambda: hip.call("hipEventQuery", event)) == 900
        assert hip.end_capture(stream) == 901

    def test_pools_inside_of_a_capture(self, cuda):
        stream = cuda.stream(False)
        cuda.begin_capture(stream, RELAXED)
        assert cuda.call("cuMemAllocAsync", ctypes.c_uint64(), 8, stream) == 900
        assert cuda.end_capture(stream) == 901


HOST, DEVICE, UNIFIED = 1, 2, 4  # types of memory in CUDA's copies of rows


def copy_rows(sim, to, to_pitch, source, pitch, width, height, *, kind=UNIFIED, stream=0):
    """The code. HIP's directions have the same number for "find out"."""
    if sim.kind == "hip":
        words = to, to_pitch, source, pitch, width, height, kind, stream
        return sim.call("hipMemcpy2DAsync", *words)
    words = (0, 0, kind, 0, source, 0, pitch), (0, 0, kind, 0, to, 0, to_pitch), (width, height)
    return sim.call("cuMemcpy2DAsync_v2", (ctypes.c_size_t * 16)(*sum(words, ())), stream)


def copy_to_peer(sim, to, to_device, source, source_device):
    """The code of a copy of 8 bytes on the current device."""
    if sim.kind == "hip":
        return sim.call("hipMemcpyPeerAsync", to, to_device, source, source_device, 8, 0)
    contexts = [sim.made("cuDevicePrimaryCtxRetain", d) for d in (to_device, source_device)]
    return sim.call("cuMemcpyPeerAsync", to, contexts[0], source, contexts[1], 8, 0)


class TestCopies:
    def grid(self, sim, rows, columns):
        """Pinned memory in which each byte is its own number."""
        data = sim.allocate(rows * columns, "pinned")
        ctypes.memmove(data, bytes(range(rows * columns)), rows * columns)
        sim.driver.fk_forget_range(data, rows * columns)
        return data

    def test_only_the_bytes_of_the_copy_are_touched(self, sim):
        """The 2 x 3 bytes at row 1, column 2 of a 4 x 6 grid, to the end of rows of 5."""
        source, target, stream = self.grid(sim, 4, 6), sim.allocate(10), sim.stream(False)
        sim.driver.fk_forget_range(target, 10)
        assert copy_rows(sim, target + 2, 5, source + 8, 6, 3, 2, stream=stream) == 0
        sim.kernel(sim.stream(False), write(target, 2, 1), write(target + 5, 2, 1))
        assert sim.races() == []
        sim.run()
        assert sim.peek(target, 10) == b"\1\1\x08\x09\x0a\1\1\x0e\x0f\x10"
        sim.kernel(sim.stream(False), write(source + 8, 1, 1))
        assert len(sim.races()) == 1

    def test_rows_that_are_refused(self, sim):
        source, target = self.grid(sim, 4, 6), sim.allocate(24)
        assert copy_rows(sim, target, 5, source, 6, 6, 2) == 1
        assert copy_rows(sim, target, 6, source, 6, 6, 2, kind=9) == (
            1 if sim.kind == "cuda" else 21
        )

    def test_between_devices(self, sim):
        source = self.grid(sim, 2, 4)
        with sim.device(1):
            target = sim.allocate(8)
            assert copy_to_peer(sim, target, 1, source, 0) == 0
        sim.run()
        assert sim.peek(target, 8) == bytes(range(8))

    @pytest.mark.parametrize("memory", ["device", "pool"])
    def test_what_no_driver_promises(self, sim, memory):
        """Between devices by the call for one, or by that for two with the wrong ones; and rows
        within memory of devices."""
        source = sim.allocate(24, memory)
        with sim.device(1):
            target = sim.allocate(24, memory)
        assert sim.call("cuMemcpyAsync", *sim.copied(target, source, 8, 0)) == 1
        assert copy_to_peer(sim, target, 0, source, 1) == 1
        assert copy_rows(sim, source + 12, 6, source, 6, 6, 2) == 1

    def test_beyond_the_end(self, sim):
        source, target = self.grid(sim, 2, 4), sim.allocate(4)
        assert sim.call("cuMemcpyAsync", *sim.copied(target, source, 8, 0)) == 1
        assert "beyond the end" in sim.violations()[0]


@pytest.mark.parametrize(
    ("version", "types"), [(60241133, (2, 3, 1, 0)), (50422804, (1, 4, 0, None))]
)
def test_pointers_of_hip(hip, version, types):
    """The kinds of memory were renumbered in ROCm 6; before, unknown pointers were errors."""
    hip.set("version", version)
    host = ctypes.create_string_buffer(8)
    pointers = [hip.allocate(8, kind) for kind in ("device", "managed", "pinned")]
    found = []
    for pointer in [*pointers, ctypes.addressof(host)]:
        words = (ctypes.c_int * 8)()
        code = hip.call("hipPointerGetAttributes", ctypes.byref(words), pointer)
        found.append(None if code == 1 else words[0])
    assert tuple(found) == types


class TestLibraries:
    @pytest.mark.parametrize(
        ("kind", "name"), [("cuda", "libcuda.so.1"), ("hip", "libamdhip64.so.6")]
    )
    def test_exports(self, kind, name):
        """What the driver has, under its own name, and the control functions; nothing else."""
        path = library_path(kind)
        assert path.name == name
        dynamic = ["objdump", "-p", str(path)]
        assert name in subprocess.run(dynamic, capture_output=True, text=True, check=True).stdout
        table = ["nm", "-D", "--defined-only", str(path)]
        text = subprocess.run(table, capture_output=True, text=True, check=True).stdout
        names = {line.split()[-1] for line in text.splitlines() if line.split()[-2] == "T"}
        control = {name for name in names if name.startswith("fk_")}
        assert names - control == functions(kind).keys()
        assert len(control) > 20

    @pytest.mark.slow
    def test_conformance(self):
        """The facts that conformance.py asks of a driver are those of the simulation."""
        script, output = "tests.simulated.conformance", build.folder() / "conformance.json"
        # Another path than this process's, so another simulation.
        command = [sys.executable, "-m", script, library_path("cuda"), "--json", output]
        result = subprocess.run(
            [*map(str, command)], cwd=build.ROOT, capture_output=True, text=True, timeout=120
        )
        assert result.returncode == 0, result.stdout + result.stderr
        report = json.loads(output.read_text())
        assert report["device"] == "Simulated device"
        assert sum(check["kind"] == "checked" for check in report["checks"]) >= 60
        assert all(check["ok"] and check["kind"] != "lost" for check in report["checks"])
