"""The simulated drivers: contexts, codes, captures, copies and faults, call by call. What is said
here of CUDA and could be asked of a real driver is in tests/simulated/conformance.py as well."""

import ctypes
import json
import os
import subprocess
import sys

import pytest

from tests.support import build, isolate
from tests.support.simulation import (
    GLOBAL,
    LEGACY,
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

NONE, ACTIVE, INVALIDATED = 0, 1, 2  # what cuStreamIsCapturing says


@pytest.fixture(params=["cuda", "hip"])
def sim(request):
    with Simulation.fresh(request.param) as simulation:
        yield simulation


@pytest.fixture
def cuda():
    with Simulation.fresh("cuda") as simulation:
        yield simulation


@pytest.fixture
def hip():
    with Simulation.fresh("hip") as simulation:
        yield simulation


class TestContexts:
    def test_none(self, cuda):
        def calls():
            return [
                cuda.call("cuEventCreate", ctypes.c_void_p(), 0),
                cuda.call("cuStreamQuery", 0),
                cuda.call("cuMemAlloc_v2", ctypes.c_uint64(), 8),
                cuda.call("cuCtxGetDevice", ctypes.c_int()),
                cuda.launch(0),
            ]

        assert in_thread(calls) == [201] * 5

    def test_the_stack(self, cuda):
        assert cuda.context_depth() == 1
        with cuda.device(1):
            device = ctypes.c_int()
            cuda.ok("cuCtxGetDevice", device)
            assert (device.value, cuda.context_depth()) == (1, 2)
        assert cuda.context_depth() == 1
        assert in_thread(cuda.context_depth) == 0
        with pytest.raises(AssertionError, match="1 entries instead of 0"):
            cuda.check()
        cuda.check(depth=1)

    def test_an_event_belongs_to_a_context(self, sim):
        event = sim.event()
        with sim.device(1):
            name = "cuEventRecord" if sim.kind == "cuda" else "hipEventRecord"
            assert sim.call(name, event, 0) == 400
            assert sim.call(name, event, sim.stream()) == 400
        sim.record(event, 0)

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
        primary = cuda._made("cuCtxGetCurrent")
        data, event = cuda.allocate(8), cuda.event()
        cuda.kernel(1, write(data, 8, 1))
        with cuda.context(0, green) as context:
            assert context != primary
            assert cuda._made("cuCtxGetDevice", result_type=ctypes.c_int) == 0
            assert cuda.call("cuEventRecord", event, 1) == 400
            for stream in (0, 1, 2):  # each its own: nothing orders them after the kernel
                cuda.kernel(stream, read(data, 8))
            assert unordered(cuda) == 3
            assert cuda.live("contexts") == 1
        assert cuda._made("cuCtxGetCurrent") == primary
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
            kept = cuda._made("cuMemAllocAsync", 8, stream, result_type=ctypes.c_uint64)
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
        context = cuda._made("cuCtxCreate_v2", 0, 0)
        in_thread(lambda: cuda.ok("cuCtxDestroy_v2", context))
        assert cuda.call("cuCtxGetDevice", ctypes.c_int()) == 709
        assert cuda.call("cuCtxGetId", None, ctypes.c_uint64()) == 709
        assert cuda._made("cuCtxPopCurrent_v2") == context

    def test_a_reset(self, cuda):
        """The primary context is dead until it is next retained. The handle stays."""

        def number():
            found = ctypes.c_uint64()
            cuda.ok("cuCtxGetId", None, found)
            return found.value

        flags, active = ctypes.c_uint(), ctypes.c_int(5)
        before, first = cuda._made("cuCtxGetCurrent"), number()
        event, stream, data = cuda.event(), cuda.stream(), cuda.allocate(8)
        cuda.kernel(stream, write(data, 8, 1))
        cuda.ok("cuDevicePrimaryCtxReset_v2", 0)
        cuda.ok("cuDevicePrimaryCtxGetState", 0, flags, active)
        assert active.value == 0
        assert cuda._made("cuCtxGetCurrent") == before
        assert cuda.call("cuEventCreate", ctypes.c_void_p(), 0) == 709
        assert cuda.call("cuCtxGetId", before, ctypes.c_uint64()) == 709
        assert (cuda.live("allocations"), cuda.live("events"), cuda.live("streams")) == (0, 0, 0)
        assert cuda._made("cuDevicePrimaryCtxRetain", 0) == before
        assert number() != first
        assert cuda.violations() == []
        assert cuda.call("cuEventQuery", event) == 400
        assert "after it was destroyed" in cuda.violations()[0]

    def test_looking_makes_none(self, cuda):
        flags, active = ctypes.c_uint(), ctypes.c_int(5)
        cuda.ok("cuDevicePrimaryCtxGetState", 1, flags, active)
        assert active.value == 0
        cuda.ok("cuDevicePrimaryCtxGetState", 0, flags, active)
        assert active.value == 1
        assert cuda.live("retains") == 1

    def test_devices_that_do_not_exist(self, sim):
        if sim.kind == "cuda":
            assert sim.call("cuDevicePrimaryCtxRetain", ctypes.c_void_p(), 2) == 101
            assert sim.call("cuDeviceGet", ctypes.c_int(), -1) == 101
        else:
            assert sim.call("hipSetDevice", 2) == 101
            assert sim.call("hipSetDevice", -1) == 101


class TestLife:
    """Before, after, and beside the life of the driver."""

    def test_before_cuInit(self):
        cuda = Simulation("cuda", private=True)
        cuda.reset()
        count = ctypes.c_int()
        assert cuda.call("cuDeviceGetCount", count) == 3
        cuda.ok("cuInit", 0)
        cuda.ok("cuDeviceGetCount", count)
        assert count.value == 2

    def test_no_device(self, hip):
        hip.reset(devices=0)
        assert hip.call("hipGetDeviceCount", ctypes.c_int()) == 100
        cuda = Simulation("cuda", private=True)
        cuda.reset(devices=0)
        assert cuda.call("cuInit", 0) == 100

    def test_at_exit(self, sim):
        sim.deinit()
        assert sim.call("cuCtxGetCurrent" if sim.kind == "cuda" else "hipStreamQuery", None) == 4
        name = ctypes.c_char_p()
        if sim.kind == "cuda":
            sim.ok("cuGetErrorName", 4, name)
            assert name.value == b"CUDA_ERROR_DEINITIALIZED"
        sim.forget()

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    def test_in_a_forked_child(self):
        code = """
            import ctypes, os
            from tests.support.simulation import Simulation
            sim = Simulation("cuda", private=True)
            sim.ok("cuInit", 0)
            child = os.fork()
            if child == 0:
                count = ctypes.c_int()
                codes = [sim.call("cuInit", 0), sim.call("cuDeviceGetCount", count)]
                os._exit(0 if codes == [3, 3] else 1)
            assert os.waitpid(child, 0)[1] == 0
        """
        isolate.run_isolated(code, env={"PYTHONWARNINGS": "ignore"})

    @pytest.mark.slow
    def test_an_old_driver(self):
        old = Simulation("cuda", old=True, private=True)
        assert hasattr(old.driver, "cuMemAlloc_v2")
        assert not hasattr(old.driver, "cuMemAllocAsync")
        assert not hasattr(Simulation("hip", old=True, private=True).driver, "hipMallocAsync")

    def test_host_callbacks_may_not_call(self, sim):
        codes = []
        name = "cuStreamQuery" if sim.kind == "cuda" else "hipStreamQuery"
        launch = "cuLaunchHostFunc" if sim.kind == "cuda" else "hipLaunchHostFunc"
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
            lambda _: codes.append(sim.call(name, 0))
        )
        sim.ok(launch, 0, ctypes.cast(function, ctypes.c_void_p), None)
        assert codes == []
        sim.synchronize(0)
        assert codes == [800 if sim.kind == "cuda" else 999]
        assert "host callback" in sim.violations()[0]


class TestFaults:
    def test_each_symbol_can_fail(self, sim):
        names = functions(sim.kind).keys()
        others = {"hipGetErrorName", "hipGetErrorString", "hipPeekAtLastError", "hipGetLastError"}
        for name in names - others:  # those return no code of their own
            sim.fail_next(name, 999)
            arguments = [kind() for kind in getattr(sim.driver, name).argtypes]
            assert sim.call(name, *arguments) == 999, name
        assert len(names) > 40

    def test_once_and_later(self, sim):
        name = "cuStreamQuery" if sim.kind == "cuda" else "hipStreamQuery"
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
        sim.ignore("cuStreamWaitEvent" if sim.kind == "cuda" else "hipStreamWaitEvent")
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
    sim.call("cuDriverGetVersion" if sim.kind == "cuda" else "hipRuntimeGetVersion", ctypes.c_int())
    lines = sim.log()
    return int(lines[-1].split(":")[0].split()[1])


class TestCapture:
    """Section "graph capture" of the drivers' documentation, and where HIP differs."""

    def status(self, sim, stream):
        """The code and the status."""
        status = ctypes.c_int(7)
        name = "cuStreamIsCapturing" if sim.kind == "cuda" else "hipStreamIsCapturing"
        return sim.call(name, stream, status), status.value

    def exchange(self, sim, mode):
        value = ctypes.c_int(mode)
        cuda = sim.kind == "cuda"
        name = "cuThreadExchangeStreamCaptureMode" if cuda else "hipThreadExchangeStreamCaptureMode"
        sim.ok(name, value)
        return value.value

    def test_work_becomes_part_of_the_graph(self, sim):
        stream, data = sim.stream(False), sim.allocate(8)
        assert self.status(sim, stream) == (0, NONE)
        assert sim.begin_capture(stream) == 0
        assert self.status(sim, stream) == (0, ACTIVE)
        sim.kernel(stream, write(data, 8, 1))
        assert sim.end_capture(stream) == 0
        assert self.status(sim, stream) == (0, NONE)
        sim.run()
        assert sim.peek(data, 8) == b"\xcd" * 8

    def test_begin_and_end_in_wrong_places(self, sim):
        stream = sim.stream()
        assert sim.begin_capture(0) == 900
        assert sim.end_capture(stream) == 401
        assert sim.begin_capture(stream, 3) == 1
        assert sim.begin_capture(stream) == 0
        assert sim.begin_capture(stream) == 401
        assert sim.end_capture(stream) == 0

    @pytest.mark.parametrize(("mode", "code"), [(GLOBAL, 908), (THREAD_LOCAL, 908), (RELAXED, 0)])
    def test_ending_on_another_thread(self, sim, mode, code):
        stream = sim.stream()
        assert sim.begin_capture(stream, mode) == 0
        assert in_thread(lambda: sim.end_capture(stream)) == code

    def test_a_fork_that_is_joined(self, sim):
        first, second, fork, join = sim.stream(), sim.stream(False), sim.event(), sim.event()
        sim.begin_capture(first)
        sim.record(fork, first)
        sim.wait(second, fork)
        assert self.status(sim, second) == (0, ACTIVE)
        sim.kernel(second)
        sim.record(join, second)
        sim.wait(first, join)
        assert sim.end_capture(first) == 0
        assert self.status(sim, second) == (0, NONE)

    def test_a_fork_that_is_not(self, sim):
        first, second, fork = sim.stream(), sim.stream(False), sim.event()
        sim.begin_capture(first)
        sim.record(fork, first)
        sim.wait(second, fork)
        assert sim.end_capture(first) == 904

    def test_work_after_the_join(self, sim):
        first, second, fork, join = sim.stream(), sim.stream(False), sim.event(), sim.event()
        sim.begin_capture(first)
        sim.record(fork, first)
        sim.wait(second, fork)
        sim.record(join, second)
        sim.wait(first, join)
        sim.kernel(second)
        assert sim.end_capture(first) == 904

    def test_ending_on_a_forked_stream(self, sim):
        first, second, fork = sim.stream(), sim.stream(False), sim.event()
        sim.begin_capture(first)
        sim.record(fork, first)
        sim.wait(second, fork)
        assert sim.end_capture(second) == 903

    def test_the_same_graph(self, cuda):
        def graph_id(stream):
            status, result = ctypes.c_int(), ctypes.c_uint64()
            graph, nodes, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t(9)
            words = (status, result, graph, nodes, size)
            cuda.ok("cuStreamGetCaptureInfo_v2", stream, *words)
            return result.value

        first, second, third, fork = *(cuda.stream(False) for _ in range(3)), cuda.event()
        cuda.begin_capture(first)
        cuda.begin_capture(third)
        cuda.record(fork, first)
        cuda.wait(second, fork)
        assert graph_id(first) == graph_id(second) != graph_id(third)

    def test_an_edge_from_outside(self, sim):
        stream, outside, event = sim.stream(False), sim.stream(False), sim.event()
        sim.record(event, outside)
        sim.begin_capture(stream)
        name = "cuStreamWaitEvent" if sim.kind == "cuda" else "hipStreamWaitEvent"
        assert sim.call(name, stream, event, 0) == 905
        assert self.status(sim, stream) == (0, INVALIDATED)
        assert sim.launch(stream) == 901
        assert sim.end_capture(stream) == 901
        assert self.status(sim, stream) == (0, NONE)

    def test_an_event_that_was_never_recorded(self, sim):
        stream = sim.stream(False)
        sim.begin_capture(stream)
        sim.wait(stream, sim.event())
        assert sim.end_capture(stream) == 0

    def test_two_captures(self, sim):
        first, second, event = sim.stream(False), sim.stream(False), sim.event()
        sim.begin_capture(first)
        sim.begin_capture(second)
        sim.record(event, first)
        name = "cuStreamWaitEvent" if sim.kind == "cuda" else "hipStreamWaitEvent"
        assert sim.call(name, second, event, 0) == 902
        assert sim.end_capture(first) == sim.end_capture(second) == 901

    def test_an_event_of_a_graph(self, cuda):
        stream, event = cuda.stream(False), cuda.event()
        cuda.begin_capture(stream, RELAXED)
        cuda.record(event, stream)
        assert cuda.call("cuEventQuery", event) == 907
        assert cuda.end_capture(stream) == 901
        assert cuda.call("cuEventSynchronize", event) == 907
        assert cuda.call("cuStreamWaitEvent", stream, event, 0) == 907
        cuda.record(event, stream)
        cuda.ok("cuEventQuery", event)

    @pytest.mark.parametrize("special", [0, LEGACY])
    def test_legacy_while_a_blocking_stream_captures(self, sim, special):
        stream, event = sim.stream(), sim.event()
        sim.begin_capture(stream)
        assert self.status(sim, special)[0] == 906
        assert self.status(sim, stream) == (0, ACTIVE)
        name = "cuEventRecord" if sim.kind == "cuda" else "hipEventRecord"
        assert sim.call(name, event, special) == 906
        assert self.status(sim, stream) == (0, INVALIDATED)
        assert sim.end_capture(stream) == 901
        sim.record(event, special)

    def test_legacy_of_another_device(self, sim):
        sim.begin_capture(sim.stream())
        with sim.device(1):
            assert self.status(sim, 0) == (0, NONE)
            sim.record(sim.event(), 0)

    def test_legacy_while_another_stream_captures(self, sim):
        stream, data = sim.stream(False), sim.allocate(8)
        sim.begin_capture(stream, RELAXED)
        assert self.status(sim, 0) == (0, NONE)
        sim.kernel(0, write(data, 8, 1))
        sim.run()
        assert sim.peek(data, 8) == b"\1" * 8
        assert sim.end_capture(stream) == 0

    @pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED])
    @pytest.mark.parametrize("other_thread", [False, True])
    @pytest.mark.parametrize("guard", [GLOBAL, THREAD_LOCAL, RELAXED])
    def test_unsafe_calls(self, sim, mode, other_thread, guard):
        """Allocation, by a thread in capture mode `guard`, during a capture in `mode`."""
        stream = sim.stream(False)
        sim.begin_capture(stream, mode)

        def allocate():
            name = "cuMemAlloc_v2" if sim.kind == "cuda" else "hipMalloc"
            result = ctypes.c_uint64() if sim.kind == "cuda" else ctypes.c_void_p()
            with sim.device(0):
                assert self.exchange(sim, guard) == GLOBAL
                code = sim.call(name, result, 8)
                assert self.exchange(sim, GLOBAL) == guard
            return code

        code = in_thread(allocate) if other_thread else allocate()
        if other_thread:
            refused = mode == GLOBAL and guard == GLOBAL
        else:
            refused = mode != RELAXED and guard != RELAXED
        assert code == (900 if refused else 0)
        assert sim.end_capture(stream) == (901 if refused else 0)

    @pytest.mark.parametrize("call", ["Synchronize", "Query"])
    def test_waiting_for_a_capture(self, sim, call):
        stream = sim.stream(False)
        sim.begin_capture(stream, RELAXED)
        name = ("cuStream" if sim.kind == "cuda" else "hipStream") + call
        assert sim.call(name, stream) == 900
        assert sim.end_capture(stream) == 901

    def test_waiting_for_all(self, sim):
        stream = sim.stream(False)
        sim.begin_capture(stream, RELAXED)
        self.exchange(sim, RELAXED)
        name = "cuCtxSynchronize" if sim.kind == "cuda" else "hipDeviceSynchronize"
        assert sim.call(name) == 900
        assert sim.end_capture(stream) == 901
        self.exchange(sim, GLOBAL)

    def test_asking_who_a_stream_is(self, sim):
        stream = sim.stream(False)
        sim.begin_capture(stream, RELAXED)
        if sim.kind == "cuda":
            assert sim.call("cuStreamGetId", stream, ctypes.c_uint64()) == 900
        else:
            assert sim.call("hipStreamGetDevice", stream, ctypes.c_int()) == 900
        assert sim.end_capture(stream) == 901

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


class Copy2D(ctypes.Structure):
    _fields_ = [
        (side + name, kind)
        for side in ("src", "dst")
        for name, kind in [
            ("XInBytes", ctypes.c_size_t),
            ("Y", ctypes.c_size_t),
            ("MemoryType", ctypes.c_uint),
            ("Host", ctypes.c_void_p),
            ("Device", ctypes.c_uint64),
            ("Array", ctypes.c_void_p),
            ("Pitch", ctypes.c_size_t),
        ]
    ] + [("WidthInBytes", ctypes.c_size_t), ("Height", ctypes.c_size_t)]


class TestCopies:
    def grid(self, sim, rows, columns):
        """Pinned memory in which each byte is its own number."""
        data = sim.allocate(rows * columns, "pinned")
        ctypes.memmove(data, bytes(range(rows * columns)), rows * columns)
        sim.driver.fk_forget_range(data, rows * columns)
        return data

    def test_two_dimensions(self, sim):
        """The 2 x 3 bytes at row 1, column 2 of a 4 x 6 grid, to the end of rows of 5."""
        source, target = self.grid(sim, 4, 6), sim.allocate(10)
        if sim.kind == "cuda":
            copy = Copy2D(2, 1, 1, source, 0, None, 6, 2, 0, 2, None, target, None, 5, 3, 2)
            sim.ok("cuMemcpy2DAsync_v2", ctypes.byref(copy), 0)
        else:
            sim.ok("hipMemcpy2DAsync", target + 2, 5, source + 8, 6, 3, 2, 4, 0)
        sim.run()
        assert sim.peek(target, 10) == b"\xcd\xcd\x08\x09\x0a\xcd\xcd\x0e\x0f\x10"
        assert unordered(sim) == 0

    def test_only_the_bytes_of_the_copy_are_touched(self, sim):
        source, target, stream = self.grid(sim, 4, 6), sim.allocate(10), sim.stream(False)
        sim.driver.fk_forget_range(target, 10)
        if sim.kind == "cuda":
            copy = Copy2D(2, 1, 1, source, 0, None, 6, 2, 0, 2, None, target, None, 5, 3, 2)
            sim.ok("cuMemcpy2DAsync_v2", ctypes.byref(copy), stream)
        else:
            sim.ok("hipMemcpy2DAsync", target + 2, 5, source + 8, 6, 3, 2, 4, stream)
        sim.kernel(sim.stream(False), write(target, 2, 1), write(target + 5, 2, 1))
        assert sim.races() == []
        sim.kernel(sim.stream(False), write(source + 8, 1, 1))
        assert len(sim.races()) == 1

    def test_a_row_longer_than_the_pitch(self, sim):
        source, target = self.grid(sim, 4, 6), sim.allocate(24)
        if sim.kind == "cuda":
            copy = Copy2D(0, 0, 1, source, 0, None, 6, 0, 0, 2, None, target, None, 5, 6, 2)
            assert sim.call("cuMemcpy2DAsync_v2", ctypes.byref(copy), 0) == 1
            copy = Copy2D(0, 0, 3, source, 0, None, 6, 0, 0, 2, None, target, None, 6, 6, 2)
            assert sim.call("cuMemcpy2DAsync_v2", ctypes.byref(copy), 0) == 1
        else:
            assert sim.call("hipMemcpy2DAsync", target, 5, source, 6, 6, 2, 4, 0) == 1
            assert sim.call("hipMemcpy2DAsync", target, 6, source, 6, 6, 2, 9, 0) == 21

    def test_between_devices(self, sim):
        source = self.grid(sim, 2, 4)
        with sim.device(1) as context:
            target = sim.allocate(8)
        if sim.kind == "cuda":
            with sim.device(0) as here, sim.device(1):
                sim.ok("cuMemcpyPeerAsync", target, context, source, here, 8, 0)
        else:
            sim.ok("hipMemcpyPeerAsync", target, 1, source, 0, 8, 0)
        sim.run()
        assert sim.peek(target, 8) == bytes(range(8))

    @pytest.mark.parametrize("memory", ["device", "pool"])
    def test_what_no_driver_promises(self, sim, memory):
        """Between devices by the call for one, or by that for two with the wrong ones; and rows
        within memory of devices."""
        source = sim.allocate(24, memory)
        with sim.device(1):
            target = sim.allocate(24, memory)
        line = ("cuMemcpyAsync",) if sim.kind == "cuda" else ("hipMemcpyAsync",)
        kind = [] if sim.kind == "cuda" else [4]
        assert sim.call(*line, target, source, 8, *kind, 0) == 1
        if sim.kind == "cuda":
            with sim.device(1) as there, sim.device(0) as here:
                assert sim.call("cuMemcpyPeerAsync", target, here, source, there, 8, 0) == 1
            copy = Copy2D(0, 0, 2, None, source, None, 6, 0, 0, 2, None, source + 12, None, 6, 6, 2)
            assert sim.call("cuMemcpy2DAsync_v2", ctypes.byref(copy), 0) == 1
        else:
            assert sim.call("hipMemcpyPeerAsync", target, 0, source, 1, 8, 0) == 1
            assert sim.call("hipMemcpy2DAsync", source + 12, 6, source, 6, 6, 2, 4, 0) == 1

    def test_beyond_the_end(self, sim):
        source, target = self.grid(sim, 2, 4), sim.allocate(4)
        name = "cuMemcpyAsync" if sim.kind == "cuda" else "hipMemcpyAsync"
        assert sim.call(name, target, source, 8, *([] if sim.kind == "cuda" else [4]), 0) == 1
        assert "beyond the end" in sim.violations()[0]


class TestPointers:
    def attributes(self, cuda, pointer):
        """Memory type, managed, ordinal, start and size of the range."""
        kinds = [ctypes.c_uint, ctypes.c_uint, ctypes.c_int, ctypes.c_uint64, ctypes.c_size_t]
        values = [kind(123) for kind in kinds]
        numbers = (ctypes.c_int * 5)(2, 8, 9, 11, 12)
        places = (ctypes.c_void_p * 5)(*map(ctypes.addressof, values))
        cuda.ok("cuPointerGetAttributes", 5, numbers, places, pointer)
        return tuple(value.value for value in values)

    def test_cuda(self, cuda):
        with cuda.device(1):
            device, managed, pinned = (cuda.allocate(8, k) for k in ("device", "managed", "pinned"))
        assert self.attributes(cuda, device + 3) == (2, 0, 1, device, 8)
        assert self.attributes(cuda, managed) == (2, 1, 1, managed, 8)
        assert self.attributes(cuda, pinned) == (1, 0, 1, pinned, 8)
        assert self.attributes(cuda, device + 8) == (0, 0, -2, 0, 0)
        host = ctypes.create_string_buffer(8)
        assert self.attributes(cuda, ctypes.addressof(host)) == (0, 0, -2, 0, 0)
        cuda.set("managed_type", 1)
        assert self.attributes(cuda, managed)[:2] == (1, 1)

    @pytest.mark.parametrize(
        ("version", "types"), [(60241133, (2, 3, 1, 0)), (50422804, (1, 4, 0, None))]
    )
    def test_hip(self, hip, version, types):
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
