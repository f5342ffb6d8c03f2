# SPDX-License-Identifier: Apache-2.0
"""The simulated drivers of tests/simulated: CUDA's and HIP's, each with its own state.

They are built at first use, as `libcuda.so.1` and `libamdhip64.so.6` in a folder of their own each,
so that a process finds them by name with that folder in LD_LIBRARY_PATH, or by their path.

Device memory is host memory. Work is queued and runs only when the host waits for it, and then
only what that wait needs; `run` runs the rest. Every access to bytes, by a kernel, a copy or the
host, is compared with all others: two of them without an order, one of which writes, are a race,
whatever became of the bytes. What a real driver would crash on is a violation. `check` raises for
both.

A thread of the test is a thread of the simulation. It begins after all that other threads did
before its first call. Later, `publish` in the one and `acquire` in the other say what Python's own
queues, locks and joins order.
"""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache

from tests.support import build

SOURCES = build.ROOT / "tests" / "simulated"
_COMMON = "driver objects memory capture clocks work control".split()
_NAMES = {"cuda": "libcuda.so.1", "hip": "libamdhip64.so.6"}
_WARNINGS = ["-Wconversion", "-Wshadow", "-pedantic"]

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2  # capture modes

TYPES = {"cuda": 2, "hip": 10}  # of devices, in DLPack
#: CUDA's name of a function, HIP's, and what both take where a test calls them. p: a pointer or
#: handle, P: where one is returned, a: an address of a device (64 bits on CUDA, a pointer on HIP),
#: A: where one is returned, i, u: int, I: where one is returned, z: size_t, q: 64 bits, c: a byte.
_FUNCTIONS = """
cuInit hipInit u; cuDriverGetVersion hipRuntimeGetVersion; cuDeviceGetCount hipGetDeviceCount I
cuEventCreate hipEventCreateWithFlags Pu; cuEventRecord hipEventRecord pp
cuEventQuery hipEventQuery p; cuEventSynchronize hipEventSynchronize p
cuEventDestroy_v2 hipEventDestroy p; cuStreamCreate hipStreamCreateWithFlags Pu
cuStreamDestroy_v2 hipStreamDestroy p; cuStreamWaitEvent hipStreamWaitEvent ppu
cuStreamSynchronize hipStreamSynchronize p; cuLaunchHostFunc hipLaunchHostFunc ppp
cuStreamBeginCapture_v2 hipStreamBeginCapture pi; cuStreamEndCapture hipStreamEndCapture pP
cuGraphDestroy hipGraphDestroy p; cuStreamIsCapturing hipStreamIsCapturing
cuThreadExchangeStreamCaptureMode hipThreadExchangeStreamCaptureMode I
cuMemAlloc_v2 hipMalloc Az; cuMemFree_v2 hipFree a; cuMemAllocManaged hipMallocManaged Azu
cuMemHostAlloc hipHostMalloc Pzu; cuMemFreeHost hipHostFree p
cuPointerGetAttributes hipPointerGetAttributes; cuMemcpy2DAsync_v2 hipMemcpy2DAsync
cuMemcpyAsync hipMemcpyAsync; cuMemsetD8Async hipMemsetAsync
cuCtxGetCurrent hipGetDevice; cuCtxPushCurrent_v2 hipSetDevice
"""
#: Those that take something else, or that only one of the two has.
_OWN = """
cuMemcpyAsync qqzp; cuMemsetD8Async qczp; cuCtxGetCurrent P; cuCtxPushCurrent_v2 p
cuDevicePrimaryCtxRetain Pi; cuDevicePrimaryCtxRelease_v2 i; cuDevicePrimaryCtxReset_v2 i
cuCtxPopCurrent_v2 P; cuCtxSetCurrent p; cuCtxCreate_v2 Pui; cuCtxDestroy_v2 p
hipMemcpyAsync ppzip; hipMemsetAsync pizp; hipGetDevice I; hipSetDevice i
"""
ADDRESS = {"cuda": ctypes.c_uint64, "hip": ctypes.c_void_p}


def _entries(text):
    return [entry.split() for line in text.splitlines() for entry in line.split(";") if entry]


#: What HIP calls a function of CUDA.
HIP_NAMES = {cuda: hip for cuda, hip, *_ in _entries(_FUNCTIONS)}


class Access(ctypes.Structure):
    """What a kernel does to some bytes; made by `read` and `write`."""

    _fields_ = [
        ("pointer", ctypes.c_uint64),
        ("length", ctypes.c_uint64),
        ("mode", ctypes.c_int),
        ("payload", ctypes.c_int),
    ]


def read(pointer, length):
    return Access(pointer, length, ord("r"), 0)


def write(pointer, length, payload):
    """`payload`: 0 to 255 fills; 256 leaves the bytes as they are."""
    return Access(pointer, length, ord("w"), payload)


def declare(library, kind):
    """Gives the functions of a loaded driver, simulated or not, their types. Those that it does not
    have are passed over."""
    types = {"p": ctypes.c_void_p, "q": ctypes.c_uint64, "i": ctypes.c_int, "u": ctypes.c_uint}
    types |= {"z": ctypes.c_size_t, "c": ctypes.c_ubyte, "a": ADDRESS[kind]}
    types |= {letter.upper(): ctypes.POINTER(found) for letter, found in types.items()}
    both = [(entry[kind == "hip"], *entry[2:]) for entry in _entries(_FUNCTIONS)]
    for name, *letters in both + _entries(_OWN):
        if letters and hasattr(library, name):
            getattr(library, name).argtypes = [types[letter] for letter in letters[0]]
    return library


@cache
def library_path(kind="cuda", *, old=False):
    """The path of a simulated driver, compiled at first use. `old`: without optional symbols."""
    variant, name = kind + "-old" * old, _NAMES[kind]
    place = build.folder() / f"simulated-{variant}"
    place.mkdir(exist_ok=True)
    flags = [*_WARNINGS, "-fvisibility=hidden", "-Wl,-Bsymbolic", f"-Wl,-soname,{name}"]
    flags += ["-pthread", *(["-DFK_OLD"] * old), *(["-DFK_HIP"] * (kind == "hip"))]
    first, *others = [SOURCES / f"{part}.c" for part in [kind, *_COMMON]]
    return build.compiled_once(
        place / name, lambda path: build.compile_source(first, path, *flags, *others)
    )


class Calls:
    """A driver, simulated or not, with results in place of result parameters. Its functions go by
    CUDA's names, on HIP too. `ok` and what is built on it raise AssertionError for codes other than
    0; `call` gives the code."""

    def __init__(self, library, kind="cuda"):
        self.driver, self.kind = declare(library, kind), kind

    def name(self, name):
        """What this driver calls it."""
        return HIP_NAMES.get(name, name) if self.kind == "hip" else name

    def call(self, name, *arguments):
        """The code, which is not left behind as the last error."""
        code = getattr(self.driver, self.name(name))(*arguments)
        if code != 0 and self.kind == "hip":
            self.driver.hipGetLastError()
        return code

    def ok(self, name, *arguments):
        code = self.call(name, *arguments)
        assert code == 0, f"{self.name(name)} answered {code}"

    def made(self, name, *arguments, kind=ctypes.c_void_p):
        """What the call leaves where its first argument points to."""
        result = kind()
        self.ok(name, ctypes.byref(result), *arguments)
        return result.value

    def stream(self, blocking=True):
        """Blocking: the legacy default stream waits for it and it for that."""
        return self.made("cuStreamCreate", 0 if blocking else 1)

    def event(self):
        return self.made("cuEventCreate", 2)

    def record(self, event, stream):
        self.ok("cuEventRecord", event, stream)

    def wait(self, stream, event):
        self.ok("cuStreamWaitEvent", stream, event, 0)

    def order(self, earlier, later):
        """`later` waits for what is queued on `earlier` now: what every library does."""
        event = Calls.event(self)
        self.record(event, earlier)
        self.wait(later, event)
        self.ok("cuEventDestroy_v2", event)  # in spite of the wait: the driver keeps what it needs

    def synchronize(self, stream):
        self.ok("cuStreamSynchronize", stream)

    def copy(self, to, source, length, stream):
        """Whatever kind of memory the two are."""
        direction = [4] if self.kind == "hip" else []  # which it is to find out
        self.ok("cuMemcpyAsync", to, source, length, *direction, stream)

    def allocate(self, length, kind="device"):
        """The address of memory of the current device: "device", "managed" or "pinned"."""
        if kind == "pinned":
            return self.made("cuMemHostAlloc", length, 0)
        managed = kind == "managed"
        name = "cuMemAllocManaged" if managed else "cuMemAlloc_v2"
        return self.made(name, length, *([1] if managed else []), kind=ADDRESS[self.kind])

    def free(self, pointer, kind="device"):
        self.ok("cuMemFreeHost" if kind == "pinned" else "cuMemFree_v2", pointer)


class Simulation(Calls):
    """One simulated driver. Whoever loads the same path shares its state; `reset` makes it new."""

    loaded = {}  # by path

    def __init__(self, kind="cuda", *, old=False):
        self.path = library_path(kind, old=old)
        self.folder = self.path.parent
        super().__init__(ctypes.CDLL(str(self.path)), kind)
        self.type = TYPES[kind]
        self.place = self.type, 0
        self.default = 1 if kind == "cuda" else 0  # the number of the default stream
        self._declare_control()
        self.loaded[self.path] = self

    def _declare_control(self):
        p, q, i = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int
        for name, arguments, result in [
            ("reset", [], None),
            ("forget", [], None),
            ("set", [ctypes.c_char_p, i], i),
            ("fail_next", [ctypes.c_char_p, i, ctypes.c_long], None),
            ("ignore", [ctypes.c_char_p], None),
            ("calls", [ctypes.c_char_p], ctypes.c_long),
            ("live", [ctypes.c_char_p], i),
            ("context_depth", [], i),
            ("start", [], i),
            ("join", [], None),
            ("run", [], None),
            ("kernel", [p, i, ctypes.POINTER(Access)], i),
            ("host_read", [q, q, p], i),
            ("publish", [], None),
            ("acquire", [], None),
            ("text", [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t], ctypes.c_size_t),
        ]:
            function = getattr(self.driver, f"fk_{name}")
            function.argtypes, function.restype = arguments, result

    # ---- the whole

    def reset(self, **settings):
        """As in a new process: handles, memory, retained contexts and cuInit are gone. Only for
        tests whose code under test starts anew as well; others use `forget`. `settings`: see `set`.
        """
        self.driver.fk_reset()
        for name, value in settings.items():
            self.set(name, value)

    def forget(self):
        """Runs what is queued, then forgets accesses, reports, counts and injected faults; not the
        calls made with the GIL held. Handles and memory stay."""
        self.driver.fk_forget()

    def set(self, name, value):
        """devices (2), version, locked_callbacks (0; 1: calls wait while a host function runs on
        another thread, as for a lock of the driver's own), forgives_not_ready (0; 1:
        hipErrorNotReady is no last error, as in newer versions of HIP), managed_type (2: what the
        driver calls managed memory; 1 is seen as well), managed_pool (0; 1: managed memory is said
        to be from a pool), deinitialized (0; 1: every call gives 4, as at the end of a
        process)."""
        if self.driver.fk_set(name.encode(), value) != 0:
            raise ValueError(f"no setting {name!r}, or not with {value}")

    # ---- work

    def kernel(self, stream, *accesses):
        """Queues a kernel that does what `read` and `write` say. The stream must be of the current
        context."""
        code = self.driver.fk_kernel(stream, len(accesses), (Access * len(accesses))(*accesses))
        assert code == 0, f"the launch failed with {code}\n{self._report()}"

    def host_read(self, pointer, length):
        """The bytes as the host sees them now; an access of this thread, to be ordered as any."""
        buffer = ctypes.create_string_buffer(length)
        code = self.driver.fk_host_read(pointer, length, buffer)
        assert code == 0, f"the host cannot read there\n{self._report()}"
        return buffer.raw

    def peek(self, pointer, length):
        """The bytes, wherever they are, seen by nobody."""
        return ctypes.string_at(pointer, length)

    def poke(self, pointer, content):
        """Puts bytes there, seen by nobody: as if they had always been there."""
        ctypes.memmove(pointer, content, len(content))

    def run(self):
        """Runs all that is queued, in the order in which it was queued."""
        self.driver.fk_run()

    @contextmanager
    def in_callback(self):
        """Within it a host function that is queued runs, on a thread that is not Python's; at the
        end it has returned, and all else has run too. This thread keeps the GIL at the beginning.
        """
        start = ctypes.PyDLL(str(self.path)).fk_start
        assert start() == 0
        try:
            yield
        finally:
            self.driver.fk_join()

    def publish(self):
        """What this thread did and knows is known to whoever calls `acquire` from now on."""
        self.driver.fk_publish()

    def acquire(self):
        self.driver.fk_acquire()

    def begin_capture(self, stream, mode=GLOBAL):
        return self.call("cuStreamBeginCapture_v2", stream, mode)

    def end_capture(self, stream):
        return self.call("cuStreamEndCapture", stream, ctypes.c_void_p())

    @contextmanager
    def capturing(self, stream, mode=GLOBAL, device=0):
        """While a library captures a graph on a stream. The capture is intact at its end."""
        with self.device(device):
            assert self.begin_capture(stream, mode) == 0
        try:
            yield
        finally:
            with self.device(device):
                assert self.end_capture(stream) == 0, "the capture was broken"

    def capture_mode(self):
        """How this thread deals with captures: GLOBAL, unless it asked for something else."""
        name, mode = "cuThreadExchangeStreamCaptureMode", ctypes.c_int(GLOBAL)
        if self.call(name, mode) != 0:
            return GLOBAL  # not initialised
        found = mode.value
        self.ok(name, mode)
        return found

    # ---- faults

    def fail_next(self, symbol, code, after=0):
        """One call of the driver function, after `after` that work, returns `code` and does no
        more."""
        self.driver.fk_fail_next(self._known(symbol), code, after)

    def ignore(self, symbol):
        """From now on the driver function returns 0 and does nothing."""
        self.driver.fk_ignore(self._known(symbol))

    def _known(self, symbol):
        """AttributeError if the driver has no such function."""
        return getattr(self.driver, self.name(symbol)).__name__.encode()

    # ---- observations

    def live(self, what):
        """How many there are: events, streams, allocations or captures."""
        assert what in ("events", "streams", "allocations", "captures")
        return self.driver.fk_live(what.encode())

    def calls(self, symbol):
        return self.driver.fk_calls(self.name(symbol).encode())

    def context_depth(self):
        return self.driver.fk_context_depth()

    def races(self):
        return self._lines("races")

    def violations(self):
        return self._lines("violations")

    def gil_violations(self):
        """The calls made with the GIL held, until `reset`. A process with some ends with an error,
        and so does each test (tests/conftest.py)."""
        return self._lines("gil_violations")

    def last_errors(self):
        """HIP: what threads are left with that did not look what went wrong, as `call` does."""
        return self._lines("last_errors") if self.kind == "hip" else []

    def log(self):
        """The calls so far, oldest first: "thread 0: cuInit = 0"."""
        return self._lines("log")

    def _lines(self, name):
        while True:
            size = self.driver.fk_text(name.encode(), None, 0) + 1
            buffer = ctypes.create_string_buffer(size)
            if (
                self.driver.fk_text(name.encode(), buffer, size) < size
            ):  # no other thread added to it meanwhile
                return buffer.value.decode().splitlines()

    def _report(self):
        return "\n".join([*self.races(), *self.violations(), *self.gil_violations()])

    def check(self, depth=0):
        """AssertionError with all races, violations, calls made with the GIL held, last errors
        that were left behind, and a stack of contexts of another depth than it should have. Work
        that is still queued is not run."""
        problems = self._report().splitlines() + self.last_errors()
        found = self.context_depth()
        if found != depth:
            problems.append(f"the stack of contexts has {found} entries instead of {depth}")
        assert not problems, "\n".join(problems)

    # ---- a library that uses the driver, for tests that need one beside fastdl

    def ok(self, name, *arguments):
        code = self.call(name, *arguments)
        assert code == 0, f"{self.name(name)} failed with {code}\n{self._report()}"

    @contextmanager
    def device(self, number):
        """Makes a device current for this thread, and what was current before again."""
        if self.kind == "hip":
            before = ctypes.c_int()
            self.ok("hipGetDevice", before)
            self.ok("hipSetDevice", number)
            try:
                yield
            finally:
                self.call("hipSetDevice", before.value)
            return
        self.ok("cuInit", 0)
        context = self.made("cuDevicePrimaryCtxRetain", number)
        self.ok("cuCtxPushCurrent_v2", context)
        try:
            yield context
        finally:
            self.call("cuCtxPopCurrent_v2", ctypes.c_void_p())
            if hasattr(self.driver, "cuDevicePrimaryCtxRelease_v2"):  # old drivers have none
                self.call("cuDevicePrimaryCtxRelease_v2", number)

    @contextmanager
    def context(self, number):
        """CUDA: a context of a device beside its primary one, current meanwhile, with default
        streams of its own. It is destroyed at the end."""
        self.ok("cuInit", 0)
        context = self.made("cuCtxCreate_v2", 0, number)
        try:
            yield context
        finally:
            self.ok("cuCtxPopCurrent_v2", ctypes.c_void_p())
            self.ok("cuCtxDestroy_v2", context)

    def side(self, device=0, *, blocking=False):
        """A new stream of a device."""
        with self.device(device):
            return self.stream(blocking)

    def join(self, stream, later, device=0):
        """Has a stream of a device wait for another, and so become a part of its capture."""
        with self.device(device):
            self.order(stream, later)

    def destroy(self, stream, device=0):
        with self.device(device):
            self.ok("cuStreamDestroy_v2", stream)

    def finish(self, stream, device=0):
        """The host waits for a stream of a device."""
        with self.device(device):
            self.synchronize(stream)

    def in_thread(self, function):
        """Runs a function on a new thread, ordered before and after by Python; what it returned or
        raised."""

        def run():
            self.acquire()
            try:
                return function()
            finally:
                self.publish()

        self.publish()
        try:
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(run).result()
        finally:
            self.acquire()
