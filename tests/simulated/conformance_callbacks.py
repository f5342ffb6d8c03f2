"""Checks of a driver: callbacks of cuLaunchHostFunc, where cuda.h forbids all calls. What the
driver answers there is noted; nothing is relied on. Each call is a check of its own, since one that
never returns takes its process with it."""

import ctypes
import threading

from tests.simulated.conformance_capture import CALLS
from tests.simulated.conformance_driver import PATIENCE, Checks, about, host_function

# What a deleter could call, beside what it calls during captures.
MORE = {
    "cuCtxGetCurrent": lambda d: (ctypes.c_void_p(),),
    "cuCtxSetCurrent": lambda d: (d.current(),),
    "cuCtxPushCurrent_v2": lambda d: (d.current(),),
    "cuCtxPopCurrent_v2": lambda d: (ctypes.c_void_p(),),
    "cuThreadExchangeStreamCaptureMode": lambda d: (ctypes.c_int(0),),
    "cuPointerGetAttributes": lambda d: (1, (ctypes.c_int * 1)(2), places(), d.allocate()),
    "cuStreamGetCaptureInfo_v2": lambda d: (d.stream(), ctypes.c_int(), *[None] * 4),
    "cuDevicePrimaryCtxRetain": lambda d: (ctypes.c_void_p(), 0),
    "cuDevicePrimaryCtxGetState": lambda d: (0, ctypes.c_uint(), ctypes.c_int()),
    "cuCtxGetDevice": lambda d: (ctypes.c_int(),),
    "cuCtxGetId": lambda d: (d.current(), ctypes.c_uint64()),
    "cuGetErrorName": lambda d: (600, ctypes.c_char_p()),
}


def places(kept=ctypes.c_uint()):  # noqa: B008
    return (ctypes.c_void_p * 1)(ctypes.addressof(kept))


class Callback:
    """A callback that runs until `open`, or for three seconds. Made once it runs."""

    def __init__(self, checks, body=None):
        self.entered, self._gate, self.result = threading.Event(), threading.Event(), None
        self._checks, self._body = checks, body
        driver = checks.driver
        self.stream = driver.stream()
        driver.ok("cuLaunchHostFunc", self.stream, host_function(self._run), None)
        # Somebody must wait, or a simulation would run nothing.
        self._join = checks.begin_thread(lambda: driver.call("cuStreamSynchronize", self.stream))
        assert self.entered.wait(5), "the callback was not called"

    def _run(self):
        self.entered.set()
        if self._body is None:
            self._gate.wait(3)
        else:
            self.result = self._body()

    def open(self):
        """The code of the wait for it."""
        self._gate.set()
        return self._join()


class Beside(Checks):
    @about("driver-lock")
    def check_calls_while_a_callback_runs(self):
        """Whether they return, on another thread, before the callback does."""
        d = self.driver
        for name, make in {**MORE, **CALLS}.items():
            if name in ("cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2") or not d.has(name):
                continue  # the pair is made around each
            arguments = make(d)
            callback = Callback(self)
            join = self.begin_thread(lambda n=name, a=arguments: (d.call(n, *a),))
            got = join(PATIENCE)
            callback.open()
            word = "returned" if got is not None else "waited for it"
            self.note(f"{name} while a callback runs", (word, join()[0]))


class Callbacks(Checks):
    """One check for each call; see below."""


def _ask(name, make):
    @about("callbacks")
    def check(self):
        d = self.driver
        arguments = make(d) if d.has(name) else ()
        callback = Callback(self, lambda: d.call(name, *arguments))
        code = callback.open()
        self.note(f"{name} in a callback", callback.result)
        self.note("and the wait for its stream", code)

    return check


for _name, _make in {**MORE, **CALLS}.items():
    setattr(Callbacks, f"check_{_name}_in_a_callback", _ask(_name, _make))
