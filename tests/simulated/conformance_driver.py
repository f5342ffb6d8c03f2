"""What the groups of checks of conformance.py share: a driver to ask, and where answers go."""

import ctypes
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.simulation import GLOBAL, declare


class Assumed(Exception):
    """Cannot be asked of this driver on this machine; the text says why."""


class Driver:
    """The driver, with results in place of result parameters. `ok` and what is built on it raise
    AssertionError for codes other than 0; the others give the code."""

    def __init__(self, path):
        self.library = declare(ctypes.CDLL(path), "cuda")

    def code(self, name, *arguments):
        function = getattr(self.library, name, None)
        if function is None:
            raise Assumed(f"no {name}")
        return function(*arguments)

    def ok(self, name, *arguments):
        code = self.code(name, *arguments)
        assert code == 0, f"{name} gave {code}"

    def made(self, name, *arguments, kind=ctypes.c_void_p):
        """What the call leaves where its first argument points to."""
        result = kind()
        self.ok(name, ctypes.byref(result), *arguments)
        return result.value

    def push(self, context):
        self.ok("cuCtxPushCurrent_v2", context)

    def pop(self):
        return self.made("cuCtxPopCurrent_v2")

    def current(self):
        return self.made("cuCtxGetCurrent")

    def stream(self, blocking=False):
        return self.made("cuStreamCreate", 0 if blocking else 1)

    def event(self):
        return self.made("cuEventCreate", 2)

    def allocate(self, size=64):
        return self.made("cuMemAlloc_v2", size, kind=ctypes.c_uint64)

    def pinned(self, size=64):
        return self.made("cuMemHostAlloc", size, 0)

    def record(self, event, stream):
        return self.code("cuEventRecord", event, stream)

    def wait(self, stream, event):
        return self.code("cuStreamWaitEvent", stream, event, 0)

    def copy(self, to, source, size, stream):
        return self.code("cuMemcpyAsync", to, source, size, stream)

    def begin(self, stream, mode=GLOBAL):
        return self.code("cuStreamBeginCapture_v2", stream, mode)

    def end(self, stream):
        graph = ctypes.c_void_p()
        code = self.code("cuStreamEndCapture", stream, graph)
        if graph.value:
            self.ok("cuGraphDestroy", graph)
        return code

    def capturing(self, stream):
        """The code and the status."""
        status = ctypes.c_int(-1)
        code = self.code("cuStreamIsCapturing", stream, status)
        return code, (status.value if code == 0 else None)

    def exchange(self, mode):
        value = ctypes.c_int(mode)
        self.ok("cuThreadExchangeStreamCaptureMode", value)
        return value.value

    def attribute(self, number):
        return self.made("cuDeviceGetAttribute", number, 0, kind=ctypes.c_int)

    def pointer(self, address):
        """By name, what the driver knows of a pointer."""
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
    """Work that does not end before `open`, put into a stream."""

    def __init__(self, driver, stream):
        self._gate = threading.Event()
        self._function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._hold)
        pointer = ctypes.cast(self._function, ctypes.c_void_p)
        driver.ok("cuLaunchHostFunc", stream, pointer, None)

    def _hold(self, _):
        self._gate.wait(20)

    def open(self):
        self._gate.set()


class Checks:
    """A group of checks: its methods `check_...`, run in the order in which they are written.

    Groups are bases of one class, since later ones need what earlier ones made: `context`, the
    primary one of device 0, which is current, and `count`, how many devices there are.
    """

    def __init__(self, driver):
        self.driver = driver
        self.rows = []
        self.topic = ""

    def _row(self, kind, name, got, expected=None):
        ok = kind != "checked" or got == expected
        row = {"topic": self.topic, "name": name, "kind": kind, "expected": expected, "got": got}
        self.rows.append({**row, "ok": ok})

    def expect(self, name, got, expected):
        self._row("checked", name, got, expected)

    def note(self, name, got):
        """What the driver does where nothing is promised."""
        self._row("noted", name, got)

    def assume(self, name, why):
        """What cannot be asked here."""
        self._row("assumed", name, why)

    def run(self):
        for group in type(self).__bases__:
            for name, method in vars(group).items():
                if name.startswith("check_"):
                    self._run_one(name.removeprefix("check_").replace("_", " "), method)
        return self.rows

    def _run_one(self, topic, method):
        self.topic = topic
        try:
            method(self)
        except Assumed as reason:
            self.assume("the rest", str(reason))
        except AssertionError as error:
            self.expect("the rest", str(error), "no failure")

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
