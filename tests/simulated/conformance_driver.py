"""What the groups of checks of conformance.py share: a driver to ask, and where answers go."""

import ctypes
import functools
import threading
from contextlib import contextmanager

from tests.gpu.driver import latch_texts
from tests.simulated.beliefs import BY_NAME
from tests.support.simulation import GLOBAL, RELAXED, Calls

PATIENCE = 0.5  # seconds after which a call or a wait that did not end waits for something

# Functions that the simulation does not have.
POINTER, NUMBER = ctypes.c_void_p, ctypes.c_uint
OTHERS = {
    "cuModuleLoadData": [POINTER, POINTER],
    "cuModuleGetFunction": [POINTER, POINTER, ctypes.c_char_p],
    "cuLaunchKernel": [POINTER, *([NUMBER] * 7), *([POINTER] * 3)],
}


class Assumed(Exception):
    """Cannot be asked of this driver on this machine; the text says why."""


def about(belief):
    """A check, or a class of checks, that asks about this belief (a name of beliefs.py)."""
    assert belief in BY_NAME, belief

    def mark(check):
        check.belief = belief
        return check

    return mark


class Driver(Calls):
    """The driver; on HIP a context is a device. What it does not have cannot be asked."""

    def __init__(self, path, kind="cuda"):
        super().__init__(ctypes.CDLL(path), kind)
        for name, types in OTHERS.items():
            if self.has(name):
                getattr(self.driver, name).argtypes = types
        self.captures, self.kernel = set(), None

    def call(self, name, *arguments):
        if not self.has(name):
            raise Assumed(f"no {name}")
        return super().call(name, *arguments)

    def has(self, name):
        return hasattr(self.driver, self.name(name))

    def push(self, context):
        self.ok("cuCtxPushCurrent_v2", context)

    def pop(self):
        return self.made("cuCtxPopCurrent_v2") if self.kind == "cuda" else None

    def current(self):
        return self.made("cuCtxGetCurrent")

    def known_current(self):
        """The same; None where the driver does not say."""
        context = ctypes.c_void_p() if self.kind == "cuda" else ctypes.c_int()
        return context.value if self.call("cuCtxGetCurrent", context) == 0 else None

    def stream(self, blocking=False):
        return super().stream(blocking)

    def allocate(self, size=64, kind="device"):
        return super().allocate(size, kind)

    def pinned(self, size=64):
        return super().allocate(size, "pinned")

    # ---- codes, in place of errors

    def record(self, event, stream):
        return self.call("cuEventRecord", event, stream)

    def wait(self, stream, event):
        return self.call("cuStreamWaitEvent", stream, event, 0)

    def copy(self, to, source, size, stream):
        return self.call("cuMemcpyAsync", *self.copied(to, source, size, stream))

    def begin(self, stream, mode=GLOBAL):
        code = self.call("cuStreamBeginCapture_v2", stream, mode)
        if code == 0:
            self.captures.add(stream)
        return code

    def begun(self, stream, mode=GLOBAL):
        code = self.begin(stream, mode)
        assert code == 0, f"cuStreamBeginCapture_v2 gave {code}"

    def end(self, stream):
        graph = ctypes.c_void_p()
        self.captures.discard(stream)
        code = self.call("cuStreamEndCapture", stream, graph)
        if graph.value:
            self.ok("cuGraphDestroy", graph)
        return code

    def end_captures(self):
        """Those that a check left behind when it failed."""
        for stream in list(self.captures):
            self.end(stream)
        self.call("cuThreadExchangeStreamCaptureMode", ctypes.c_int(GLOBAL))

    def capturing(self, stream):
        """The code and the status."""
        status = ctypes.c_int(-1)
        code = self.call("cuStreamIsCapturing", stream, status)
        return code, (status.value if code == 0 else None)

    @contextmanager
    def relaxed(self):
        previous = self.exchange(RELAXED)
        try:
            yield
        finally:
            self.exchange(previous)

    def exchange(self, mode):
        value = ctypes.c_int(mode)
        self.ok("cuThreadExchangeStreamCaptureMode", value)
        return value.value

    def attribute(self, number):
        return self.made("cuDeviceGetAttribute", number, 0, kind=ctypes.c_int)

    def pointer(self, address):
        """By name, what the driver knows of a pointer."""
        if self.kind == "hip":
            words = (ctypes.c_int * 8)()
            self.ok("cuPointerGetAttributes", words, address)
            return {"type": words[0], "ordinal": words[1]}
        known = [
            ("type", 2, ctypes.c_uint),
            ("device pointer", 3, ctypes.c_uint64),
            ("host pointer", 4, ctypes.c_uint64),
            ("managed", 8, ctypes.c_uint),
            ("ordinal", 9, ctypes.c_int),
            ("start", 11, ctypes.c_uint64),
            ("size", 12, ctypes.c_size_t),
        ]
        values = [kind() for _, _, kind in known]
        numbers = (ctypes.c_int * len(known))(*(number for _, number, _ in known))
        places = (ctypes.c_void_p * len(known))(*map(ctypes.addressof, values))
        self.ok("cuPointerGetAttributes", len(known), numbers, places, address)
        return {name: value.value for (name, _, _), value in zip(known, values, strict=True)}


class Latch:
    """Work that does not end before `open`, put into a stream: a kernel, or on the simulation,
    which has none, a function of the host. Ends by itself after ten seconds."""

    LIMIT = 10.0

    def __init__(self, driver, stream):
        if not driver.has("cuLaunchKernel"):
            self._gate = threading.Event()
            self._function = host_function(lambda: self._gate.wait(self.LIMIT))
            driver.ok("cuLaunchHostFunc", stream, self._function, None)
            self.open = self._gate.set
            return
        if driver.kernel is None:
            driver.kernel = Kernel(driver)
        self.open = driver.kernel.launch(stream, self.LIMIT)


class Kernel:
    """latch.ptx, loaded, and the flags that open it. Made while nothing is held."""

    FLAGS = 1024

    def __init__(self, driver):
        self.driver, self.used = driver, 0
        self.flags = driver.pinned(4 * self.FLAGS)
        ctypes.memset(self.flags, 0, 4 * self.FLAGS)
        module = ctypes.c_void_p()
        load = functools.partial(driver.call, "cuModuleLoadData", ctypes.byref(module))
        assert any(load(text) == 0 for text in latch_texts()), "the kernel cannot be loaded"
        self.function = driver.made("cuModuleGetFunction", module.value, b"latch")

    def launch(self, stream, limit):
        flag = self.flags + 4 * (self.used % self.FLAGS)
        self.used += 1
        ctypes.c_uint32.from_address(flag).value = 0
        values = ctypes.c_uint64(flag), ctypes.c_uint64(int(limit * 1e9))
        arguments = (ctypes.c_void_p * 2)(*map(ctypes.addressof, values))
        self.driver.ok("cuLaunchKernel", self.function, *([1] * 6), 0, stream, arguments, None)

        def release():
            ctypes.c_uint32.from_address(flag).value = 1

        return release


_functions = []  # those that a driver may still call


def host_function(body):
    """`body`, a Python function without arguments, as cuLaunchHostFunc takes it."""
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: body())
    _functions.append(function)
    return ctypes.cast(function, ctypes.c_void_p)


class Checks:
    """A group of checks: its methods `check_...`, run in the order in which they are written. Each
    is marked with the belief that it asks about.

    `context` is the primary one of device 0, which is current, and `count` how many devices there
    are. `tell` is called with each event as it happens: ("begin", name=...) before a check,
    ("answer", ...) with a row, and ("outcome", name=..., outcome=..., text=...) after it.
    """

    def __init__(self, driver, tell=lambda event, **facts: None):
        self.driver, self.tell = driver, tell
        self.rows = []
        self.topic = self.belief = ""

    @classmethod
    def checks(cls):
        """{name: (belief, method)}"""
        return {
            name.removeprefix("check_").replace("_", " "): (method.belief, method)
            for kind in reversed(cls.__mro__)
            for name, method in vars(kind).items()
            if name.startswith("check_")
        }

    def prepare(self):
        """What `checks` need, unless they are about that."""
        d = self.driver
        d.ok("cuInit", 0)
        self.count = d.made("cuDeviceGetCount", kind=ctypes.c_int)
        self.context = d.made("cuDevicePrimaryCtxRetain", 0) if d.kind == "cuda" else 0
        d.push(self.context)

    def finish(self):
        self.driver.pop()

    def _row(self, kind, name, got, expected=None):
        ok = kind != "checked" or got == expected
        row = {"topic": self.topic, "name": name, "belief": self.belief, "kind": kind}
        self.rows.append({**row, "expected": expected, "got": got, "ok": ok})
        self.tell("answer", **self.rows[-1])

    def expect(self, name, got, expected):
        self._row("checked", name, got, expected)

    def note(self, name, got):
        """What the driver does where nothing is promised."""
        self._row("noted", name, got)

    def assume(self, name, why):
        """What cannot be asked here."""
        self._row("assumed", name, why)

    def run(self, done=()):
        """The rows of all checks but those that are done already."""
        self.prepare()
        for name, (belief, method) in self.checks().items():
            if name not in done:
                self._run_one(name, belief, method)
        self.finish()
        return self.rows

    def _run_one(self, name, belief, method):
        self.topic, self.belief = name, belief
        self.tell("begin", name=name)
        before, outcome, text = self.driver.known_current(), "passed", ""
        try:
            method(self)
        except Assumed as reason:
            self.assume("the rest", str(reason))
        except AssertionError as error:  # a call that should have succeeded
            outcome, text = "failed", str(error)
            self.expect("the rest", text, "no failure")
        except Exception as error:  # nothing is refuted by that; one check is lost, and no more
            outcome, text = "failed", f"{type(error).__name__}: {error}"
            self._row("lost", "the rest", text)
        self.restore(before)
        self.tell("outcome", name=name, outcome=outcome, text=text)

    def restore(self, context):
        """Ends what a check that failed has begun."""
        self.driver.end_captures()
        if self.driver.known_current() != context:
            self.driver.call("cuCtxSetCurrent", context)

    def in_thread(self, function):
        """On a new thread with the context current; what it gives."""
        return self.begin_thread(function)()

    def begin_thread(self, function):
        """The same, without waiting. What is returned waits, as long as it is told, and gives None
        if that was not long enough."""
        results = []

        def body():
            self.driver.push(self.context)
            results.append(function())
            self.driver.pop()

        thread = threading.Thread(target=body, daemon=True)
        thread.start()

        def join(timeout=None):
            thread.join(timeout)
            return results[0] if results else None

        return join
