"""The questions to drivers and libraries (tests/simulated/conformance*.py) can be answered wrongly,
and what only a GPU runs of them runs here on stand-ins."""

import ctypes
import re
import time
import warnings
from pathlib import Path

import pytest

from tests.gpu import backends
from tests.gpu.arrays import Library
from tests.simulated import conformance_callbacks
from tests.simulated.conformance import GROUPS
from tests.simulated.conformance_driver import Assumed, Checks, Driver, Latch, about, host_function
from tests.simulated.conformance_libraries import OK, OfLibrary
from tests.support.simulation import Simulation

pytestmark = pytest.mark.slow

DEVICES = Path(__file__).parents[1] / "src" / "fastdl" / "_devices"


@pytest.fixture
def simulation():
    simulation = Simulation("cuda", private=True)
    simulation.reset()
    yield simulation
    simulation.reset()


@pytest.fixture
def driver(simulation):
    return Driver(str(simulation.path))


def wrong(rows):
    return {row["name"] for row in rows if not row["ok"]}


# ---- answers that are wrong -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "fault", "refuted"),
    [
        ("order", ("ignore", "cuStreamWaitEvent"), "a stream waits for what an event holds"),
        ("order", ("set", "broken", 2), "a stream waits for what an event holds"),
        ("capture", ("ignore", "cuThreadExchangeStreamCaptureMode"),
         "cuMemFree_v2, relaxed, global capture elsewhere"),
        ("memory", ("ignore", "cuPointerGetAttributes"), "type of device memory"),
        ("start", ("set", "devices", 0), "there is a device"),
    ],
    ids=lambda x: x if isinstance(x, str) else x[1],
)  # fmt: skip
def test_a_driver_that_is_wrong(simulation, driver, group, fault, refuted):
    how, *arguments = fault
    getattr(simulation, how)(*arguments)
    checks = GROUPS[group](driver)
    if group == "start":
        driver.ok("cuDriverGetVersion", ctypes.c_int())
    rows = run(checks, done=["order", WAITS])
    assert refuted in wrong(rows) or any("rest" in name for name in wrong(rows))


WAITS = "what waits without a promise"  # a topic that takes seconds, like "order"


def run(checks, done):
    """Its rows, though it may not come to an end."""
    try:
        checks.run(done=done)
    except AssertionError:
        assert checks.rows
    return checks.rows


@pytest.mark.parametrize("group", ["capture", "order"])
def test_hip_answers_as_cuda(group):
    """From ROCm 7.2.1 on; before, some calls break captures (tests/test_simulated_calls.py)."""
    with Simulation.fresh("hip") as hip:
        hip.set("version", 70253211)
        rows = GROUPS[group](Driver(str(hip.path), "hip")).run()
        assert len(rows) > 15 and not wrong(rows)
        assert "lost" not in {row["kind"] for row in rows}


class Careless(Checks):
    @about("captures")
    def check_first(self):
        d = self.driver
        self.stream = d.stream()
        d.begun(self.stream)
        d.exchange(2)
        d.push(self.context)
        raise KeyError("gone")

    @about("captures")
    def check_second(self):
        d = self.driver
        self.expect("no stream captures", d.capturing(self.stream), (0, 0))
        self.expect("the mode of the thread", d.exchange(0), 0)
        raise Assumed("no such symbol")


def test_a_check_that_fails(simulation, driver):
    """It costs itself alone: what it began is ended."""
    told = []
    rows = Careless(driver, lambda event, **facts: told.append((event, facts))).run()
    assert [(r["topic"], r["kind"]) for r in rows] == [
        ("first", "lost"),
        ("second", "checked"),
        ("second", "checked"),
        ("second", "assumed"),
    ]
    assert not wrong(rows)
    assert "KeyError" in rows[0]["got"] and rows[3]["got"] == "no such symbol"
    assert [event for event, _ in told] == [
        *("begin", "answer", "outcome"),
        *("begin", "answer", "answer", "answer", "outcome"),
    ]
    outcomes = [facts["outcome"] for event, facts in told if event == "outcome"]
    assert outcomes == ["failed", "passed"]
    assert {row["topic"] for row in Careless(driver).run(done=["first"])} == {"second"}


@pytest.mark.parametrize("locked", [0, 1])
def test_calls_while_a_callback_runs(simulation, driver, monkeypatch, locked):
    """Both kinds of drivers can be told apart."""
    simulation.set("locked_callbacks", locked)
    monkeypatch.setattr(conformance_callbacks, "PATIENCE", 0.05 if locked else 20)
    rows = GROUPS["beside-callbacks"](driver).run()
    word = "waited for it" if locked else "returned"
    assert len(rows) > 15 and {row["got"] for row in rows} == {(word, 0)}


# What no deleter comes to call: at the beginning, or to copy.
NOT_BY_DELETERS = {
    *("cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet"),
    *("cuMemcpy2DAsync_v2", "cuMemcpyPeerAsync"),
}


def test_all_calls_of_fastdl_are_asked_inside_of_callbacks():
    text = "".join(path.read_text() for path in DEVICES.glob("*.[ch]"))
    ours = set(re.findall(r'"(cu[A-Z]\w+)"', text))
    asked = {*conformance_callbacks.CALLS, *conformance_callbacks.MORE}
    assert len(ours) > 30 and ours <= asked | NOT_BY_DELETERS
    assert ours >= NOT_BY_DELETERS


# ---- the kernel that holds a stream ---------------------------------------------------------


class WithKernels:
    """The simulation's functions, and those that load and launch the one kernel there is: here a
    function of the host that looks at the same flag."""

    def __init__(self, library):
        self._library, self.text, self.launched = library, None, 0

    def __getattr__(self, name):
        return getattr(self._library, name)

    def cuModuleLoadData(self, module, text):
        self.text, module._obj.value = text, 11
        return 0

    def cuModuleGetFunction(self, function, module, name):
        assert (module, name) == (11, b"latch")
        function._obj.value = 12
        return 0

    def cuLaunchKernel(self, function, *arguments):
        *shape, shared, stream, pointers, extra = arguments
        assert (function, shape, shared, extra) == (12, [1] * 6, 0, None)
        flag, limit = (ctypes.c_uint64.from_address(pointer).value for pointer in pointers)
        self.launched += 1

        def spin():
            end = time.monotonic() + limit / 1e9
            while not ctypes.c_uint32.from_address(flag).value and time.monotonic() < end:
                time.sleep(0.001)

        return self._library.cuLaunchHostFunc(stream, host_function(spin), None)


def test_a_kernel_holds_a_stream(driver):
    library = driver.driver = WithKernels(driver.driver)
    checks = GROUPS["order"](driver)
    checks.prepare()
    stream = driver.stream()
    latch = Latch(driver, stream)
    assert library.text.startswith(b"// A kernel") and b".entry latch(" in library.text
    done = checks.begin_thread(lambda: driver.call("cuStreamSynchronize", stream))
    assert done(0.1) is None
    latch.open()
    assert done(10) == 0
    checks.finish()
    rows = checks.run(done=["order", WAITS])
    assert len(rows) == 6 and not wrong(rows) and library.launched == 6


# ---- libraries ------------------------------------------------------------------------------


class OfStandIn(OfLibrary):
    """A library of arrays.py on the simulation, where real ones cannot be."""

    waits = True

    def prepare(self):
        super().prepare()
        self.simulated = False

    def load(self):
        self.module = Library(backends.Backend(self.driver.driver, "cuda"))

    def array(self):
        return self.module.make(1)

    def pointer(self, array):
        return array.pointer

    @about("producers-order")
    def check_waits(self):
        self.library()

        def make(stream):
            return self.array(), self.module.using(stream)

        self.expect("a wait", self.inserts_a_wait(make), (self.waits, False))

    @about("producer-streams")
    def check_streams(self):
        self.library()
        for number in (None, -1, 1, 2):
            self.expect(f"stream {number}", self.exported(self.array(), stream=number), OK)

    @about("primary-context")
    def check_where(self):
        self.library()
        self.ask_where(self.pointer(self.array()))


class OfIgnorant(OfStandIn):
    """It takes the keyword, as cuda.core's buffers do, and that is all."""

    waits = False

    def array(self):
        array = super().array()
        array._make_wait = lambda stream: None
        return array


class OfStrict(OfStandIn):
    """It warns of streams, refuses the second, and waits for none."""

    def array(self):
        array = super().array()

        def refuse(stream):
            if stream == 2:
                raise BufferError("per-thread\nunsupported")
            warnings.warn("unsure", UserWarning, stacklevel=1)

        array._make_wait = refuse
        return array


@pytest.fixture
def shared():
    """The simulation that backends use."""
    simulation = Simulation("cuda")
    simulation.reset()
    yield Driver(str(simulation.path))
    simulation.reset()


@pytest.mark.parametrize("kind", [OfStandIn, OfIgnorant])
def test_questions_to_libraries(shared, kind):
    rows = kind(shared).run()
    assert {(row["topic"], row["kind"]) for row in rows} >= {
        *(("waits", "checked"), ("streams", "checked"), ("where", "checked"))
    }
    assert not wrong(rows), rows


def test_a_library_that_answers_otherwise(shared):
    rows = OfStrict(shared).run()
    got = {row["name"]: row["got"] for row in rows}
    assert got["a wait"] == (False, False)
    assert got["stream 1"] == f"{OK}, with a UserWarning" == got["stream None"]
    assert got["stream 2"] == "BufferError: per-thread" and got["stream -1"] == OK
    assert wrong(rows) == {"a wait", "stream None", "stream 1", "stream 2"}


def test_a_library_that_is_missing(shared):
    class Missing(OfStandIn):
        def load(self):
            raise ModuleNotFoundError("No module named 'cupy'")

    rows = Missing(shared).run()
    assert {row["kind"] for row in rows} == {"assumed"}
    assert {row["got"] for row in rows} == {"ModuleNotFoundError: No module named 'cupy'"}
