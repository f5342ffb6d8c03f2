"""Checks of a driver: devices, contexts, streams, events, pointers, copies."""

import ctypes
import os
import threading

from tests.simulated.conformance_driver import Assumed, Checks, Latch, about
from tests.support.simulation import LEGACY, MANAGED_POOL, PER_THREAD

DEVICE_MEMORY, PINNED = 2, 1  # values of CU_POINTER_ATTRIBUTE_MEMORY_TYPE


class Start(Checks):
    """From the first call on; each check needs the ones before it."""

    def prepare(self):
        pass

    def restore(self, context):
        pass

    @about("start")
    def check_initialization(self):
        d = self.driver
        self.expect("a call before cuInit", d.call("cuDeviceGetCount", ctypes.c_int()), 3)
        self.expect("cuInit(1)", d.call("cuInit", 1), 1)
        self.expect("cuInit(0)", d.call("cuInit", 0), 0)
        self.count = d.made("cuDeviceGetCount", kind=ctypes.c_int)
        self.expect("there is a device", self.count > 0, True)
        self.expect(
            "a driver of CUDA 11.4 or later",
            d.made("cuDriverGetVersion", kind=ctypes.c_int) >= 11040,
            True,
        )
        for ordinal in (self.count, -1):
            got = d.call("cuDeviceGet", ctypes.c_int(), ordinal)
            self.expect(f"cuDeviceGet({'-1' if ordinal < 0 else 'count'})", got, 101)

    @about("start")
    def check_a_child(self):
        if not hasattr(os, "fork"):
            raise Assumed("no fork on this system")
        child = os.fork()
        if child == 0:
            os._exit(self.driver.call("cuInit", 0))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self.expect("cuInit in a child made by fork", code, 3)

    @about("start")
    def check_error_names(self):
        names = {
            4: "CUDA_ERROR_DEINITIALIZED",
            201: "CUDA_ERROR_INVALID_CONTEXT",
            400: "CUDA_ERROR_INVALID_HANDLE",
            600: "CUDA_ERROR_NOT_READY",
            800: "CUDA_ERROR_NOT_PERMITTED",
            900: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
            905: "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
            906: "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
            907: "CUDA_ERROR_CAPTURED_EVENT",
        }
        for code, name in names.items():
            text = ctypes.c_char_p()
            self.driver.ok("cuGetErrorName", code, text)
            self.expect(f"the name of {code}", text.value.decode(), name)
        got = self.driver.call("cuGetErrorName", 12345, ctypes.c_char_p())
        self.expect("the name of no error", got, 1)

    @about("no-context")
    def check_no_context(self):
        d = self.driver
        self.expect("no context is current at first", d.current(), None)
        for name, *arguments in [
            ("cuCtxGetDevice", ctypes.c_int()),
            ("cuEventCreate", ctypes.c_void_p(), 2),
            ("cuStreamCreate", ctypes.c_void_p(), 0),
            ("cuStreamQuery", LEGACY),
            ("cuMemAlloc_v2", ctypes.c_uint64(), 64),
            ("cuMemHostAlloc", ctypes.c_void_p(), 64, 0),
            ("cuCtxPopCurrent_v2", ctypes.c_void_p()),
        ]:
            self.expect(f"{name} without a context", d.call(name, *arguments), 201)
        host = ctypes.create_string_buffer(8)
        known = d.pointer(ctypes.addressof(host))
        self.expect("cuPointerGetAttributes without a context", known["type"], 0)

    @about("stack")
    def check_primary_contexts(self):
        d = self.driver
        flags, active = ctypes.c_uint(), ctypes.c_int(-1)
        d.ok("cuDevicePrimaryCtxGetState", 0, flags, active)
        self.expect("the primary context is inactive at first", active.value, 0)
        self.context = d.made("cuDevicePrimaryCtxRetain", 0)
        again = d.made("cuDevicePrimaryCtxRetain", 0)
        self.expect("a second retain gives the same context", again == self.context, True)
        d.ok("cuDevicePrimaryCtxRelease_v2", 0)
        d.ok("cuDevicePrimaryCtxGetState", 0, flags, active)
        self.expect("and one release leaves it active", active.value, 1)
        self.expect("retaining makes nothing current", d.current(), None)
        got = d.call("cuDevicePrimaryCtxRetain", ctypes.c_void_p(), self.count)
        self.expect("retaining for no device", got, 101)

    @about("stack")
    def check_the_stack_of_contexts(self):
        d = self.driver
        d.push(self.context)
        self.expect("a pushed context is current", d.current() == self.context, True)
        device = d.made("cuCtxGetDevice", kind=ctypes.c_int)
        self.expect("and tells its device", device, 0)
        d.push(self.context)
        self.expect("a pop gives what was on top", d.pop() == self.context, True)
        self.expect("and leaves what was below", d.current() == self.context, True)
        d.push(self.context)
        d.ok("cuCtxSetCurrent", self.context)
        d.pop()
        self.expect("cuCtxSetCurrent replaces the top", d.current() == self.context, True)
        d.push(self.context)
        d.ok("cuCtxSetCurrent", None)
        self.expect("cuCtxSetCurrent(NULL) takes it off", d.current() == self.context, True)
        self.expect("another thread has a stack of its own", self.other_current(), None)

    def other_current(self):
        results = []
        thread = threading.Thread(target=lambda: results.append(self.driver.current()))
        thread.start()
        thread.join()
        return results[0]


class Objects(Checks):
    @about("event-outlives-stream")
    def check_events_of_destroyed_streams(self):
        d = self.driver
        stream, later, event = d.stream(), d.stream(), d.event()
        latch = Latch(d, stream)
        d.ok("cuEventRecord", event, stream)
        d.ok("cuStreamDestroy_v2", stream)
        self.expect("its query, while there is work", d.call("cuEventQuery", event), 600)
        self.expect("a wait for it", d.wait(later, event), 0)
        latch.open()
        self.expect("a wait of the host", d.call("cuEventSynchronize", event), 0)
        self.expect("its query after that", d.call("cuEventQuery", event), 0)
        d.ok("cuStreamSynchronize", later)

    @about("default-streams")
    def check_streams(self):
        d = self.driver
        flags = ctypes.c_uint(9)
        for blocking, expected in ((True, 0), (False, 1)):
            d.ok("cuStreamGetFlags", d.stream(blocking), flags)
            kind = "blocking" if blocking else "non-blocking"
            self.expect(f"flags of a {kind} stream", flags.value, expected)
        self.expect("flags that mean nothing", d.call("cuStreamCreate", ctypes.c_void_p(), 64), 1)
        for stream in (0, LEGACY, PER_THREAD):
            self.expect(f"stream {stream}, idle", d.call("cuStreamQuery", stream), 0)
            context = ctypes.c_void_p()
            d.ok("cuStreamGetCtx", stream, context)
            same = context.value == self.context
            self.expect(f"stream {stream} is of the current context", same, True)
        other = self.second_context()
        d.push(other)
        try:
            for stream in (0, LEGACY, PER_THREAD):
                context = ctypes.c_void_p()
                d.ok("cuStreamGetCtx", stream, context)
                same = context.value == other
                self.expect(f"stream {stream} follows the current context", same, True)
        finally:
            d.pop()

    @about("events")
    def check_events(self):
        d = self.driver
        event, stream = d.event(), d.stream()
        self.expect("cuEventQuery, never recorded", d.call("cuEventQuery", event), 0)
        self.expect("cuEventSynchronize, likewise", d.call("cuEventSynchronize", event), 0)
        self.expect("cuStreamWaitEvent, likewise", d.wait(stream, event), 0)
        self.expect("cuEventRecord", d.record(event, stream), 0)
        d.ok("cuStreamSynchronize", stream)
        self.expect("cuEventQuery, reached", d.call("cuEventQuery", event), 0)
        self.expect("cuEventDestroy_v2", d.call("cuEventDestroy_v2", event), 0)
        got = d.call("cuEventCreate", ctypes.c_void_p(), 1 << 12)
        self.expect("an event with flags that mean nothing", got, 1)
        self.expect("cuStreamWaitEvent with such flags", self.wait_flags(stream), 1)
        for name, arguments in [
            ("cuEventQuery", (None,)),
            ("cuEventRecord", (None, stream)),
            ("cuStreamWaitEvent", (stream, None, 0)),
            ("cuEventDestroy_v2", (None,)),
        ]:
            self.expect(f"{name} of NULL", d.call(name, *arguments), 400)

    def wait_flags(self, stream):
        return self.driver.call("cuStreamWaitEvent", stream, self.driver.event(), 1 << 12)

    def second_context(self):
        """Of a kind of its own on this device, or of another device."""
        d = self.driver
        if not d.has("cuCtxCreate_v2"):
            if self.count > 1:
                return d.made("cuDevicePrimaryCtxRetain", 1)
            raise Assumed("one device, and no other context can be made")
        context = d.made("cuCtxCreate_v2", 0, 0)
        d.pop()
        return context

    @about("event-context")
    def check_two_contexts(self):
        d = self.driver
        event, stream, data = d.event(), d.stream(), d.allocate()
        other = self.second_context()
        d.push(other)
        try:
            theirs = d.stream()
            self.expect("an event, on a stream of another context", d.record(event, theirs), 400)
            self.expect("an event, on another context's legacy", d.record(event, LEGACY), 400)
            self.expect("an event, on its stream, from elsewhere", d.record(event, stream), 0)
            self.expect("a wait across contexts", d.wait(theirs, event), 0)
            self.expect("a wait of legacy across contexts", d.wait(LEGACY, event), 0)
            got = d.call("cuEventSynchronize", event)
            self.expect("cuEventSynchronize from elsewhere", got, 0)
            self.expect("cuEventQuery from elsewhere", d.call("cuEventQuery", event), 0)
            got = d.call("cuStreamSynchronize", stream)
            self.expect("cuStreamSynchronize from elsewhere", got, 0)
            self.expect("the ordinal of memory from elsewhere", d.pointer(data)["ordinal"], 0)
            self.expect("cuMemFree_v2 from elsewhere", d.call("cuMemFree_v2", data), 0)
        finally:
            d.pop()

    @about("handles-without-a-context")
    def check_handles_without_a_context(self):
        """Open questions: the driver could know the context from the handle."""
        d = self.driver
        event, stream, data = d.event(), d.stream(), d.allocate()
        d.pop()
        try:
            for name, arguments in [
                ("cuEventQuery", (event,)),
                ("cuEventRecord", (event, stream)),
                ("cuStreamWaitEvent", (stream, event, 0)),
                ("cuStreamQuery", (stream,)),
                ("cuMemFree_v2", (data,)),
                ("cuEventDestroy_v2", (event,)),
            ]:
                self.note(f"{name} of a handle, no context", d.call(name, *arguments))
        finally:
            d.push(self.context)


class Memory(Checks):
    @about("allocation")
    def check_allocation(self):
        d = self.driver
        place = ctypes.c_uint64()
        self.expect("0 bytes", d.call("cuMemAlloc_v2", place, 0), 1)
        self.expect("2**50 bytes", d.call("cuMemAlloc_v2", place, 1 << 50), 2)
        self.expect("cuMemFree_v2(0)", d.call("cuMemFree_v2", 0), 0)
        data = d.allocate()
        self.expect("cuMemFree_v2 of an inner pointer", d.call("cuMemFree_v2", data + 8), 1)
        self.expect("cuMemFree_v2", d.call("cuMemFree_v2", data), 0)

    @about("pointers")
    def check_pointers(self):
        d = self.driver
        data = d.allocate(64)
        known = d.pointer(data + 8)
        self.expect("type of device memory", known["type"], DEVICE_MEMORY)
        self.expect("managed, device memory", known["managed"], 0)
        self.expect("ordinal of device memory", known["ordinal"], 0)
        self.expect("start of the range", known["start"] - data, 0)
        self.expect("host pointer of device memory", known["host pointer"], 0)
        data = d.pinned()
        known = d.pointer(data)
        self.expect("type of pinned memory", known["type"], PINNED)
        self.expect("managed, pinned memory", known["managed"], 0)
        self.expect("host pointer of pinned memory", known["host pointer"] == data, True)
        self.expect("device pointer of pinned memory", known["device pointer"] == data, True)
        self.expect("cuMemFreeHost", d.call("cuMemFreeHost", data), 0)
        host = ctypes.create_string_buffer(8)
        known = d.pointer(ctypes.addressof(host))
        self.expect("type of an unknown pointer", known["type"], 0)
        self.expect("managed, unknown pointer", known["managed"], 0)
        self.expect("start of an unknown pointer", known["start"], 0)
        self.note("ordinal of an unknown pointer", known["ordinal"])

        self.note("the device reads pageable memory", d.attribute(88))

    @about("range-size")
    def check_the_size_of_ranges(self):
        """fastdl compares a tensor with the range that it lies in."""
        d = self.driver
        for size in (1, 64, 4096, 3 << 20):
            for kind, data in (("device", d.allocate(size)), ("pinned", d.pinned(size))):
                known = d.pointer(data)
                name = f"the range of {size} bytes, {kind}"
                self.expect(f"{name}, is large enough", known["size"] >= size, True)
                self.expect(f"{name}, begins there", known["start"] - data, 0)
                self.note(name, known["size"])

    @about("managed")
    def check_managed_memory(self):
        d = self.driver
        data = d.made("cuMemAllocManaged", 64, 1, kind=ctypes.c_uint64)
        known = d.pointer(data)
        self.expect("managed, managed memory", known["managed"], 1)
        self.expect("ordinal of managed memory", known["ordinal"], 0)
        self.note("type of managed memory", known["type"])
        self.expect("cuMemFree_v2 of managed memory", d.call("cuMemFree_v2", data), 0)

    @about("managed-pools")
    def check_managed_memory_from_a_pool(self):
        d = self.driver
        pool = ctypes.c_void_p()
        code = d.call("cuMemPoolCreate", ctypes.byref(pool), MANAGED_POOL)
        if code != 0:
            raise Assumed(f"cuMemPoolCreate of a managed pool gave {code}")
        stream = d.stream()
        data = d.made("cuMemAllocFromPoolAsync", 64, pool, stream, kind=ctypes.c_uint64)
        d.ok("cuStreamSynchronize", stream)
        known = d.pointer(data)
        self.expect("managed, managed memory from a pool", known["managed"], 0)
        for name in ("type", "ordinal", "size"):
            self.note(f"{name} of managed memory from a pool", known[name])
        self.note("and it has a host pointer", known["host pointer"] != 0)
        d.ok("cuMemFreeAsync", data, stream)
        d.ok("cuStreamSynchronize", stream)
        d.ok("cuMemPoolDestroy", pool)

    @about("pointers")
    def check_memory_of_a_pool(self):
        d = self.driver
        if not d.attribute(115):
            raise Assumed("the device has no memory pools")
        stream = d.stream()
        data = d.made("cuMemAllocAsync", 64, stream, kind=ctypes.c_uint64)
        known = d.pointer(data)
        self.expect("type of memory from a pool", known["type"], DEVICE_MEMORY)
        self.expect("ordinal of it", known["ordinal"], 0)
        self.expect("managed, memory from a pool", known["managed"], 0)
        self.expect("cuMemFreeAsync", d.call("cuMemFreeAsync", data, stream), 0)
        d.ok("cuStreamSynchronize", stream)

    @about("copies")
    def check_copies(self):
        d = self.driver
        stream, device, back = d.stream(), d.allocate(), d.allocate()
        text = bytes(range(64))
        for kind in ("pinned", "pageable"):
            if kind == "pinned":
                source, target = d.pinned(), d.pinned()
                ctypes.memmove(source, text, 64)
            else:
                held = ctypes.create_string_buffer(text, 64), ctypes.create_string_buffer(64)
                source, target = map(ctypes.addressof, held)
            codes = [
                d.copy(device, source, 64, stream),
                d.copy(back, device, 64, stream),
                d.copy(target, back, 64, stream),
            ]
            self.expect(f"to the device, there, and back, {kind}", codes, [0, 0, 0])
            d.ok("cuStreamSynchronize", stream)
            same = ctypes.string_at(target, 64) == text
            self.expect(f"and it is what was sent, {kind}", same, True)
        self.expect("0 bytes", d.copy(device, back, 0, stream), 0)
        self.expect("to NULL", d.copy(0, back, 8, stream), 1)

    @about("copies")
    def check_copies_of_rows(self):
        d = self.driver
        stream, device, target = d.stream(), d.allocate(64), d.pinned(64)
        ctypes.memset(target, 0, 64)
        source = d.pinned(64)
        ctypes.memmove(source, bytes(range(64)), 64)
        d.ok("cuMemcpyAsync", device, source, 64, stream)

        def copy_2d(pitch=8, width=3, within=0):
            """Words of CUDA_MEMCPY2D: x, y, type, host, device, array, pitch; twice; then size."""
            to = (2, 0, within) if within else (1, target, 0)
            words = (2, 1, 2, 0, device, 0, 8), (1, 0, *to, 0, pitch)
            return (ctypes.c_size_t * 16)(*words[0], *words[1], width, 2)

        code = d.call("cuMemcpy2DAsync_v2", ctypes.byref(copy_2d()), stream)
        self.expect("cuMemcpy2DAsync_v2", code, 0)
        d.ok("cuStreamSynchronize", stream)
        got = list(ctypes.string_at(target, 12))
        self.expect("and what it copies", got, [0, 10, 11, 12, 0, 0, 0, 0, 0, 18, 19, 20])
        code = d.call("cuMemcpy2DAsync_v2", ctypes.byref(copy_2d(2)), stream)
        self.expect("a row longer than the pitch", code, 1)
        again = d.call("cuMemcpy2DAsync_v2", ctypes.byref(copy_2d(within=device + 32)), stream)
        self.note("rows within a device", again)
        limit = d.attribute(11)
        code = d.call("cuMemcpy2DAsync_v2", ctypes.byref(copy_2d(limit + 1)), stream)
        self.expect("a pitch beyond the limit", code, 1)
