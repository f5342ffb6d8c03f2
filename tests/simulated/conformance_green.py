"""Checks of a driver: green contexts, a primary context that is reset."""

import ctypes
from contextlib import contextmanager

from tests.simulated.conformance_driver import Assumed, Checks, about
from tests.support.simulation import LEGACY, PER_THREAD

SM, DEFAULT_STREAM = 1, 1  # a kind of resource; a flag of green contexts


class Green(Checks):
    """A green context with all multiprocessors of the device."""

    @contextmanager
    def green(self):
        """(green context, its context, which is current)"""
        d = self.driver
        resource, pointer = ctypes.create_string_buffer(512), ctypes.c_void_p
        code = d.call("cuDeviceGetDevResource", 0, resource, SM)
        if code != 0:
            raise Assumed(f"cuDeviceGetDevResource gave {code}")
        description, green = pointer(), pointer()
        for name, *arguments in [
            ("cuDevResourceGenerateDesc", ctypes.byref(description), resource, 1),
            ("cuGreenCtxCreate", ctypes.byref(green), description, 0, DEFAULT_STREAM),
        ]:
            code = d.call(name, *arguments)
            if code != 0:
                raise Assumed(f"{name} gave {code}")
        context = d.made("cuCtxFromGreenCtx", green)
        d.push(context)
        try:
            yield green, context
        finally:
            d.pop()
            d.call("cuGreenCtxDestroy", green)

    @about("green-context")
    def check_the_default_streams(self):
        d = self.driver
        with self.green() as (_, context):
            self.expect("it is not the primary one", context != self.context, True)
            self.expect("it is current", d.current() == context, True)
            device = d.made("cuCtxGetDevice", kind=ctypes.c_int)
            self.expect("and tells its device", device, 0)
            for stream in (0, LEGACY, PER_THREAD):
                self.note(f"a query of its stream {stream}", d.call("cuStreamQuery", stream))

    @about("green-context")
    def check_the_streams_of_its_own(self):
        d = self.driver
        with self.green() as (green, _):
            theirs = d.made("cuGreenCtxStreamCreate", green, 1, 0)
            event = d.event()
            self.expect("its event, on its stream", d.record(event, theirs), 0)
            self.expect("its event, on its default stream", d.record(event, LEGACY), 0)
            d.ok("cuStreamSynchronize", theirs)
            d.ok("cuStreamSynchronize", LEGACY)

    @about("green-context")
    def check_events_across(self):
        d = self.driver
        event, stream = d.event(), d.stream()
        with self.green() as (green, _):
            theirs = d.made("cuGreenCtxStreamCreate", green, 1, 0)
            own = d.event()
            self.note("an event of the primary one, on its stream", d.record(event, theirs))
            self.note("and on its default stream", d.record(event, LEGACY))
            self.note("its event, on a stream of the primary one", d.record(own, stream))
            d.ok("cuEventRecord", own, theirs)
            self.expect("a stream of the primary one waits for it", d.wait(stream, own), 0)
            d.push(self.context)
            self.expect("its default stream waits for it", d.wait(LEGACY, own), 0)
            self.expect("a query from elsewhere", d.call("cuEventSynchronize", own), 0)
            d.ok("cuEventRecord", event, stream)
            d.pop()
            self.expect("its stream waits for the primary one's", d.wait(theirs, event), 0)
            d.ok("cuStreamSynchronize", theirs)

    @about("green-context")
    def check_memory(self):
        d = self.driver
        with self.green():
            data = d.allocate()
            self.expect("the ordinal of its memory", d.pointer(data)["ordinal"], 0)
            d.push(self.context)
            self.expect("freed from elsewhere", d.call("cuMemFree_v2", data), 0)
            d.pop()


class Reset(Checks):
    """Last, and in a process of its own: what was made before is gone. Nothing of it is used here,
    since that would be undefined."""

    def finish(self):
        while self.driver.current() is not None:
            self.driver.pop()

    @about("reset")
    def check_a_reset(self):
        d = self.driver
        if not d.has("cuDevicePrimaryCtxReset_v2"):
            raise Assumed("no cuDevicePrimaryCtxReset_v2")
        data, number = d.allocate(), ctypes.c_uint64()
        if d.has("cuCtxGetId"):
            d.ok("cuCtxGetId", self.context, ctypes.byref(number))
        before = number.value
        d.pop()
        self.expect("the reset", d.call("cuDevicePrimaryCtxReset_v2", 0), 0)
        flags, active = ctypes.c_uint(), ctypes.c_int(-1)
        d.ok("cuDevicePrimaryCtxGetState", 0, flags, active)
        self.expect("the context is inactive then", active.value, 0)
        if d.has("cuCtxGetId"):
            code = d.call("cuCtxGetId", self.context, ctypes.byref(number))
            self.expect("cuCtxGetId says so", code in (201, 709), True)
        self.note("pushing it", d.call("cuCtxPushCurrent_v2", self.context))
        self.note("an event while it is current", d.call("cuEventCreate", ctypes.c_void_p(), 2))
        known = d.pointer(data)
        self.expect("its memory is unknown", known["type"], 0)
        again = d.made("cuDevicePrimaryCtxRetain", 0)
        self.note("retained anew, it has the same handle", again == self.context)
        d.push(again)
        self.expect("and it works", d.call("cuMemFree_v2", d.allocate()), 0)
        if d.has("cuCtxGetId"):
            code = d.call("cuCtxGetId", again, ctypes.byref(number))
            self.expect("cuCtxGetId tells them apart", (code, number.value != before), (0, True))
