"""Checks of a driver: stream capture."""

import ctypes
from itertools import product

from tests.simulated.conformance_driver import Checks, about
from tests.support.simulation import (
    ADDRESS,
    GLOBAL,
    LEGACY,
    PER_THREAD,
    RELAXED,
    THREAD_LOCAL,
)

MODES = {GLOBAL: "global", THREAD_LOCAL: "thread-local", RELAXED: "relaxed"}


class Capture(Checks):
    @about("captures")
    def check_begin_and_end(self):
        d = self.driver
        stream = d.stream()
        self.expect("legacy cannot capture", d.begin(LEGACY), 900)
        self.expect("a mode that does not exist", d.begin(stream, 3), 1)
        self.expect("not capturing", d.capturing(stream), (0, 0))
        self.expect("begin", d.begin(stream), 0)
        self.expect("capturing", d.capturing(stream), (0, 1))
        self.expect("begin again", d.begin(stream), 401)
        self.expect("end", d.end(stream), 0)
        self.expect("end again", d.end(stream), 401)
        self.expect(
            "a per-thread stream captures", (d.begin(PER_THREAD), d.end(PER_THREAD)), (0, 0)
        )
        for mode, code in ((GLOBAL, 908), (THREAD_LOCAL, 908), (RELAXED, 0)):
            d.begun(stream, mode)
            got = self.in_thread(lambda: d.end(stream))
            self.expect(f"the end on another thread, {MODES[mode]}", got, code)
            d.end(stream)

    @about("legacy-capture")
    def check_legacy_and_a_blocking_capture(self):
        d = self.driver
        stream, event = d.stream(True), d.event()
        d.begun(stream, RELAXED)
        self.expect("asking legacy, blocking capture", d.capturing(LEGACY)[0], 906)
        self.expect("which breaks nothing", d.capturing(stream), (0, 1))
        self.expect("recording on legacy", d.record(event, LEGACY), 906)
        self.expect("which breaks the capture", d.capturing(stream), (0, 2))
        self.expect("work for a broken capture", d.record(event, stream), 901)
        self.expect("the end of a broken capture", d.end(stream), 901)

    @about("legacy-capture")
    def check_legacy_and_another_capture(self):
        d = self.driver
        stream, event, inner = d.stream(), d.event(), d.event()
        d.begun(stream, RELAXED)
        self.expect("asking legacy, non-blocking capture", d.capturing(LEGACY), (0, 0))
        self.expect("recording on legacy, likewise", d.record(event, LEGACY), 0)
        self.expect("which breaks nothing", d.capturing(stream), (0, 1))
        d.ok("cuEventRecord", inner, stream)
        self.note("legacy waits for a captured event", d.wait(LEGACY, inner))
        self.note("the status after that", d.capturing(stream)[1])
        self.note("the end after that", d.end(stream))

    @about("capture-edges")
    def check_edges_of_a_capture(self):
        d = self.driver
        stream, outside, event = d.stream(), d.stream(), d.event()
        d.begun(stream, RELAXED)
        self.expect("a wait, event never recorded", d.wait(stream, event), 0)
        self.expect("which breaks nothing", d.capturing(stream), (0, 1))
        d.ok("cuEventRecord", event, outside)
        self.expect("a wait for work from outside", d.wait(stream, event), 905)
        self.expect("which breaks the capture", d.capturing(stream), (0, 2))
        d.end(stream)
        second = d.stream()
        d.begun(stream, RELAXED)
        d.begun(second, RELAXED)
        d.ok("cuEventRecord", event, stream)
        self.expect("a wait for another capture", d.wait(second, event), 902)
        d.end(stream), d.end(second)

    @about("capture-forks")
    def check_forks(self):
        d = self.driver
        first, second, fork, join = d.stream(), d.stream(), d.event(), d.event()

        def begin():
            d.begun(first, RELAXED)
            d.ok("cuEventRecord", fork, first)
            d.ok("cuStreamWaitEvent", second, fork, 0)

        begin()
        self.expect("a fork captures", d.capturing(second), (0, 1))
        got = self.capture_id(first) == self.capture_id(second)
        self.expect("into the same graph", got, True)
        d.ok("cuEventRecord", join, second)
        d.ok("cuStreamWaitEvent", first, join, 0)
        self.expect("a fork that is joined", d.end(first), 0)
        begin()
        self.expect("a fork that is not", d.end(first), 904)
        begin()
        d.ok("cuEventRecord", join, second)
        d.ok("cuStreamWaitEvent", first, join, 0)
        d.ok("cuMemsetD8Async", d.allocate(), 1, 8, second)
        self.expect("work on a fork after it was joined", d.end(first), 904)
        begin()
        self.expect("the end on the fork", d.end(second), 903)
        d.end(first)

    def capture_id(self, stream):
        name = "cuStreamGetCaptureInfo_v2"
        status, number, count = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_size_t()
        graph, nodes = ctypes.c_void_p(), ctypes.c_void_p()
        self.driver.ok(name, stream, status, number, graph, nodes, count)
        return number.value

    @about("capture-edges")
    def check_captured_events(self):
        d = self.driver
        stream, event = d.stream(), d.event()
        for name in ("cuEventQuery", "cuEventSynchronize"):
            d.begun(stream, RELAXED)
            d.ok("cuEventRecord", event, stream)
            self.expect(f"{name}, captured", d.call(name, event), 907)
            self.note("the end after that", d.end(stream))
        d.ok("cuEventRecord", event, stream)
        d.ok("cuEventSynchronize", event)
        self.expect("the event, recorded anew", d.call("cuEventQuery", event), 0)

    @about("capture-unsafe")
    def check_calls_that_break_a_capture(self):
        d = self.driver
        for name, arguments in [
            ("cuStreamSynchronize", lambda stream: (stream,)),
            ("cuStreamQuery", lambda stream: (stream,)),
            ("cuCtxSynchronize", lambda _: ()),
        ]:
            stream = d.stream()
            d.begun(stream, RELAXED)
            self.expect(f"{name}, capturing", d.call(name, *arguments(stream)), 900)
            self.expect("the end after that", d.end(stream), 901)

    @about("capture-safe")
    def check_calls_that_do_not(self):
        d = self.driver
        stream, other, data = d.stream(), d.stream(), d.allocate()
        d.begun(stream, GLOBAL)
        event = d.event()
        d.ok("cuEventRecord", event, stream)
        d.ok("cuStreamWaitEvent", stream, event, 0)
        d.ok("cuEventDestroy_v2", event)
        event = d.event()
        d.ok("cuEventRecord", event, other)
        d.pointer(data)
        self.expect("events and pointers break no capture", d.end(stream), 0)

    @about("capture-unsafe")
    def check_unsafe_calls(self):
        d = self.driver
        self.expect("threads are in global mode", (d.exchange(GLOBAL), d.exchange(GLOBAL)), (0, 0))

        def allocate(mode):
            d.exchange(mode)
            code = d.call("cuMemAlloc_v2", ADDRESS[d.kind](), 64)
            d.exchange(GLOBAL)
            return code

        for mode, guard, elsewhere in product(MODES, MODES, (False, True)):
            refused = mode != RELAXED and guard != RELAXED
            if elsewhere:
                refused = mode == guard == GLOBAL
            stream = d.stream()
            d.begun(stream, mode)
            code = self.in_thread(lambda g=guard: allocate(g)) if elsewhere else allocate(guard)
            where = "another thread" if elsewhere else "this thread"
            name = f"cuMemAlloc_v2 by {where} in {MODES[guard]} mode, {MODES[mode]} capture"
            expected = (900, 901) if refused else (0, 0)
            self.expect(name, (code, d.end(stream)), expected)

    @about("capture-unsafe")
    def check_queries_of_other_events(self):
        d = self.driver
        event, stream = d.event(), d.stream()
        d.ok("cuEventRecord", event, d.stream())
        d.ok("cuEventSynchronize", event)
        d.begun(stream, GLOBAL)
        code = self.in_thread(lambda: d.call("cuEventQuery", event))
        self.expect("cuEventQuery elsewhere, global capture", (code, d.end(stream)), (900, 901))

    @about("capture-ids")
    def check_the_ids_of_captures(self):
        d = self.driver
        version = d.made("cuDriverGetVersion", kind=ctypes.c_int)
        there = d.has("cuStreamGetCaptureInfo_v2")
        self.expect("cuStreamGetCaptureInfo_v2 is there", there, version >= 11030)
        if there:
            first, second = d.stream(), d.stream()
            d.begun(first, RELAXED), d.begun(second, RELAXED)
            got = self.capture_id(first) != self.capture_id(second)
            self.expect("two captures have two ids", got, True)

    @about("relaxed")
    def check_relaxed_calls(self):
        """Each call that fastdl makes beside captures, by another thread in relaxed mode while this
        one captures in global mode; and without that mode, to see what it is for."""
        d = self.driver
        for name, make in CALLS.items():
            if not d.has(name):
                self.assume(f"{name}, relaxed, global capture elsewhere", f"no {name}")
                continue
            arguments = make(d)
            stream = d.stream()
            d.begun(stream, GLOBAL)
            code = self.in_thread(lambda a=arguments, n=name: self.relaxed_call(n, a))
            got = code, d.capturing(stream)[1], d.end(stream)
            self.expect(f"{name}, relaxed, global capture elsewhere", got, (0, 1, 0))
        for name, make in CALLS.items():
            if not d.has(name):
                continue
            arguments = make(d)
            stream = d.stream()
            d.begun(stream, GLOBAL)
            code = self.in_thread(lambda a=arguments, n=name: d.call(n, *a))
            self.note(f"{name}, the same in global mode", (code, d.end(stream)))

    def relaxed_call(self, name, arguments):
        with self.driver.relaxed():
            return self.driver.call(name, *arguments)


def reached(d):
    """An event that was recorded, on a stream that is done."""
    event, stream = d.event(), d.stream()
    d.ok("cuEventRecord", event, stream)
    d.ok("cuStreamSynchronize", stream)
    return event


# What fastdl calls while others may capture; each with what makes its arguments.
CALLS = {
    "cuEventQuery": lambda d: (reached(d),),
    "cuEventSynchronize": lambda d: (reached(d),),
    "cuStreamWaitEvent": lambda d: (d.stream(), reached(d), 0),
    "cuEventRecord": lambda d: (d.event(), d.stream()),
    "cuEventCreate": lambda d: (ctypes.c_void_p(), 2),
    "cuEventDestroy_v2": lambda d: (reached(d),),
    "cuStreamSynchronize": lambda d: (d.stream(),),
    "cuStreamIsCapturing": lambda d: (d.stream(), ctypes.c_int()),
    "cuMemAlloc_v2": lambda d: (ADDRESS[d.kind](), 64),
    "cuMemFree_v2": lambda d: (d.allocate(),),
    "cuMemHostAlloc": lambda d: (ctypes.c_void_p(), 64, 0),
    "cuMemFreeHost": lambda d: (d.pinned(),),
    "cuMemAllocManaged": lambda d: (ADDRESS[d.kind](), 64, 1),
    "cuMemcpyAsync": lambda d: d.copied(d.allocate(), d.pinned(), 64, d.stream()),
}
