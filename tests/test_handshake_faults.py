"""The stream handshake with everything against it: streams and devices that do not exist, drivers
that are absent, too old or fail.

Whatever goes wrong ends in an exception that says which call gave which error, with the upstream
tensor given back exactly once, contexts as they were, and no event lost.
"""

import contextlib
import ctypes
import gc
import re

import pytest

import fastdl
from fastdl._core import device as driver
from tests.support import build
from tests.support.frameworks import (
    TYPES,
    Array,
    Protocol,
    Table,
    consume,
    default,
    destroy,
    simulated,
    stream_on,
    synchronize,
)
from tests.support.producers import Given, Producer, Tabled, hostile
from tests.support.simulation import GLOBAL, Simulation

UNKNOWN = 999  # in both drivers
NAMES = {"cuda": "CUDA_ERROR_UNKNOWN", "hip": "hipErrorUnknown"}


@pytest.fixture(params=["cuda", "hip"])
def sim(request):
    with simulated(request.param) as sim:
        yield sim
        gc.collect()


@pytest.fixture
def cuda():
    with simulated("cuda") as sim:
        yield sim
        gc.collect()


@pytest.fixture
def hip():
    with simulated("hip") as sim:
        yield sim
        gc.collect()


class Plain(Producer):
    """Orders nothing, so that all calls of the driver are fastdl's."""

    def __init__(self, array):
        super().__init__(array.given, (array.type, array.ordinal))


def export(tensor, stream):
    tensor.__dlpack__(stream=stream, max_version=(1, 3))


def asked_for(tensor, stream):
    """All that can be asked of the driver for a tensor."""
    return (
        lambda: export(tensor, stream),
        lambda: tensor.record(stream),
        lambda: tensor.release(stream),
    )


def given_back(array):
    """Its tensor was released by fastdl, once."""
    if array.given.deleted < array.given.handed:
        gc.collect()  # an exception that was looked at may hold frames in a cycle
    assert (array.given.deleted, array.given.destroyed) == (1, 0)


def violations(sim, words):
    """The simulation has noticed what a real driver might crash on: that is the test's doing."""
    found = sim.violations()
    assert found and all(words in line for line in found), found
    sim.forget()


# ---- streams that are none ------------------------------------------------------------------


ENTRIES = {
    "import": lambda array, tensor, stream: fastdl.from_dlpack(Protocol(array), stream=stream),
    "table": lambda array, tensor, stream: fastdl.from_dlpack(Table(array), stream=stream),
    "export": lambda array, tensor, stream: export(tensor, stream),
    "record": lambda array, tensor, stream: tensor.record(stream),
    "release": lambda array, tensor, stream: tensor.release(stream),
    "use_stream": lambda array, tensor, stream: fastdl.use_stream((array.type, 0), stream),
}
entries = pytest.mark.parametrize("entry", ENTRIES)


def refuses(sim, entry, streams, error, match):
    """The entry refuses each of these before anybody is asked: no call of the driver, and nothing
    is kept."""
    upstream = Array(sim)
    tensor = fastdl.from_dlpack(Plain(upstream))
    for stream in streams:
        array = Array(sim)
        calls = len(sim.log())
        with pytest.raises(error, match=match) as caught:
            ENTRIES[entry](array, tensor, stream)
        assert caught.type is error
        assert len(sim.log()) == calls
        caught = None
        if array.given.handed:
            given_back(array)
    upstream.given.assert_alive()
    del tensor
    given_back(upstream)


class Stream:
    """A stream object of some library."""

    def __init__(self, name, value):
        setattr(self, name, value)


@entries
def test_what_is_no_stream(sim, entry):
    streams = [True, False, 1.0, "1", b"1", (0, 1), [1], 1j, object()]
    refuses(sim, entry, streams, TypeError, "expected a stream")


@pytest.mark.parametrize("entry", sorted(set(ENTRIES) - {"export"}))
def test_a_stream_object_with_something_else_for_a_handle(cuda, entry):
    values = (True, "1", 2.0)
    streams = [Stream(name, value) for name in ("cuda_stream", "ptr", "handle") for value in values]
    refuses(cuda, entry, streams, TypeError, "expected a stream as an int")


@pytest.mark.parametrize("entry", sorted(set(ENTRIES) - {"export"}))
def test_a_wrong_answer_to_cuda_stream(cuda, entry):
    answers = [None, 4096, (1, 4096), (0,), (0, 1, 2), (0, "x"), (0, True), (True, 1)]
    streams = [Stream("__cuda_stream__", lambda answer=answer: answer) for answer in answers]
    refuses(cuda, entry, streams, TypeError, "from __cuda_stream__|expected a stream")


def test_an_export_takes_no_stream_objects(sim):
    streams = [Stream("ptr", 4096), Stream("__cuda_stream__", lambda: (0, 4096))]
    refuses(sim, "export", streams, TypeError, "expected a stream as an int or None")


@entries
def test_numbers_that_no_handle_has(sim, entry):
    streams = [-2, -(2**63), -(2**70), 2**63, 2**64, 2**100]
    refuses(sim, entry, streams, ValueError, "64 bits")


@pytest.mark.parametrize("entry", ["record", "release", "use_stream"])
def test_what_needs_a_stream(sim, entry):
    refuses(sim, entry, [None, -1], ValueError, "expected a stream, got")


@pytest.mark.parametrize("entry", ["export", "record", "release", "use_stream"])
def test_stream_0_of_cuda(cuda, entry):
    refuses(cuda, entry, [0], ValueError, "ambiguous.*1 .*legacy.*2 .*per-thread")


@entries
def test_streams_1_and_2_of_rocm(hip, entry):
    refuses(hip, entry, [1, 2], ValueError, "pass 0")


def test_a_destroyed_stream(sim):
    """What it does is the driver's affair: an error by luck. It is told, and nothing is lost."""
    array = Array(sim)
    tensor = fastdl.from_dlpack(Plain(array))
    gone = stream_on(sim, blocking=False)
    destroy(sim, gone)
    for entry in (lambda: tensor.record(gone), lambda: tensor.release(gone)):
        with pytest.raises(BufferError, match=r"Invalid|INVALID"):
            entry()
    array.write()
    tensor.record(default(sim))
    with pytest.raises(BufferError, match=r"Invalid|INVALID"):
        export(tensor, gone)
    imported = Array(sim)
    for make in (Plain, Table):
        with pytest.raises(BufferError, match=r"Invalid|INVALID") as caught:
            fastdl.from_dlpack(make(imported), stream=gone)
        del caught
        given_back(imported)
        imported = Array(sim)
    violations(sim, "destroyed")
    consume(tensor, stream_on(sim), array)


def test_a_destroyed_work_stream(sim):
    gone = stream_on(sim, blocking=False)
    destroy(sim, gone)
    array = Array(sim)
    with (
        fastdl.use_stream((TYPES[sim.kind], 0), gone),
        pytest.raises(BufferError, match=r"Invalid|INVALID") as caught,
    ):
        fastdl.from_dlpack(Table(array))
    del caught
    given_back(array)
    violations(sim, "destroyed")


# ---- devices that are none ------------------------------------------------------------------


@pytest.mark.parametrize("make", [Producer, Tabled], ids=["protocol", "table"])
@pytest.mark.parametrize("ordinal", [2, 63, 64, 2**31 - 1, -1])
def test_a_device_that_does_not_exist(sim, make, ordinal):
    given = Given(data=0x7000, device=(TYPES[sim.kind], ordinal))
    producer = make(given) if make is Tabled else make(given, (TYPES[sim.kind], ordinal))
    with pytest.raises(BufferError, match=f"there is no .* device {ordinal}: .* has 2") as caught:
        fastdl.from_dlpack(producer)
    del caught
    if given.handed or given.deleted:  # a producer is not even asked
        given.assert_released()


def test_the_capsule_names_another_device_than_announced(sim):
    """Which does not exist: that is found after the capsule was taken."""
    given = Given(data=0x7000, device=(TYPES[sim.kind], 9))
    with pytest.raises(BufferError, match=r"device 9: .* has 2") as caught:
        fastdl.from_dlpack(Producer(given, (TYPES[sim.kind], 0)))
    del caught
    given.assert_released()


# ---- drivers that are none ------------------------------------------------------------------


@pytest.fixture(params=["cuda", "hip"])
def without(request):
    """A kind of device, and how to give it the driver at a path."""
    kind = request.param
    yield kind, lambda path: driver.replace_driver(TYPES[kind], str(path))
    driver.replace_driver(TYPES[kind], None)


def check_without_a_driver(kind, match):
    """Everything that needs no driver works; the rest says why it does not."""
    start = {"cuda": 1, "hip": 0}[kind]
    with pytest.raises(BufferError, match=match):
        driver.driver_facts(TYPES[kind])
    for make in (Producer, Tabled):
        given = Given(data=0x7000, device=(TYPES[kind], 0))
        producer = make(given) if make is Tabled else make(given, (TYPES[kind], 0))
        tensor = fastdl.from_dlpack(producer)
        for stream in (None, start, -1):
            export(tensor, stream)
        for call in asked_for(tensor, 4096):
            with pytest.raises(BufferError, match=match) as caught:
                call()
        given.assert_alive()
        del caught, call, tensor
        given.assert_released()
    given = Given(data=0x7000, device=(TYPES[kind], 0))
    tensor = fastdl.from_dlpack(Producer(given, (TYPES[kind], 0)), stream=-1)
    export(tensor, 4096)
    del tensor
    given.assert_released()


def test_a_driver_that_is_not_there(without, tmp_path):
    kind, put = without
    put(tmp_path / "libcuda.so.1")
    check_without_a_driver(kind, "this machine has no (CUDA|HIP) driver")


def test_a_driver_that_is_no_library(without, tmp_path):
    kind, put = without
    (tmp_path / "libcuda.so.1").write_text("GROUP ( libm.so.6 )")
    put(tmp_path / "libcuda.so.1")
    check_without_a_driver(kind, "this machine has no (CUDA|HIP) driver")


def test_a_driver_without_what_is_needed(without, tmp_path):
    """The name of what it lacks is in the error; nothing of it has been called."""
    kind, put = without
    source = tmp_path / "ancient.c"
    first = "cuInit" if kind == "cuda" else "hipInit"
    source.write_text(
        f"int {first}(unsigned flags);\nint {first}(unsigned flags)\n"
        "{ (void)flags; __builtin_trap(); }\n"
    )
    build.compile_source(source, tmp_path / "ancient.so")
    put(tmp_path / "ancient.so")
    check_without_a_driver(kind, "too old: it has no (cuDriverGetVersion|hipRuntimeGetVersion)")


@pytest.mark.parametrize(("kind", "version"), [("cuda", 10020), ("hip", 40500000)])
def test_a_driver_of_an_old_version(kind, version):
    with simulated(kind, version=version):
        check_without_a_driver(kind, f"too old: its version is {version}")


@pytest.mark.parametrize("at", range(3))
def test_a_driver_that_does_not_start(sim, at):
    """A driver whose kernel module is missing, or of another version."""
    symbols = {
        "cuda": ["cuInit", "cuDriverGetVersion", "cuDeviceGetCount"],
        "hip": ["hipInit", "hipRuntimeGetVersion", "hipGetDeviceCount"],
    }
    symbol = symbols[sim.kind][at]
    sim.fail_next(symbol, 100)
    check_without_a_driver(sim.kind, f"{symbol} answered .*(NO_DEVICE|NoDevice)")


@pytest.mark.parametrize("kind", ["cuda", "hip"])
def test_a_driver_without_a_device(kind):
    with simulated(kind, devices=0):
        check_without_a_driver(kind, r"(NO_DEVICE|NoDevice) \(100\)")


def test_an_old_driver_without_optional_symbols():
    with simulated("cuda", sim=Simulation("cuda", old=True)) as sim:
        array = Array(sim, stream=stream_on(sim, blocking=False))
        array.write()
        tensor = fastdl.from_dlpack(Protocol(array))
        array.read(1)
        tensor.record(1)
        consume(tensor, stream_on(sim, blocking=False), array)
        tensor.release(1)
        del tensor


def test_a_driver_that_has_shut_down(sim):
    """At the end of a process it may go before the tensors do."""
    array = Array(sim)
    array.write()
    tensor = fastdl.from_dlpack(Plain(array))
    other = stream_on(sim, blocking=False)
    sim.deinit()
    for call in asked_for(tensor, other):
        with pytest.raises(BufferError, match=r"\(4\)") as caught:
            call()
    export(tensor, -1)
    del tensor, caught, call
    given_back(array)
    driver.forget_events(TYPES[sim.kind])  # which cannot be destroyed any more
    sim.reset()


# ---- drivers that fail ----------------------------------------------------------------------


class Scene:
    """What is there before a call that is to fail. `run` is the call, and all that it asks the
    driver for is asked by fastdl; `after` is what others may do once it has worked."""

    memory = "device"
    make = Plain

    def __init__(self, sim):
        self.sim = sim
        driver.driver_facts(TYPES[sim.kind])  # loaded; no context of it has been touched
        self.array = Array(sim, memory=self.memory)
        self.side = stream_on(sim, blocking=False)

    def end(self):
        pass


class Import(Scene):
    def run(self):
        self.tensor = fastdl.from_dlpack(self.make(self.array), stream=self.side)

    def failed(self):
        if self.array.given.handed:  # or the producer was not even asked
            given_back(self.array)
        self.array = Array(self.sim)

    def after(self):
        self.array.read(self.side)
        self.tensor = None
        given_back(self.array)


class ImportByTable(Import):
    """Ordered for another stream than that of the table."""

    make = Table


class ImportByCompiledTable(ImportByTable):
    """The short way."""

    def run(self):
        with fastdl.use_stream((self.array.type, 0), self.side):
            self.tensor = fastdl.from_dlpack(Table(self.array))


class Held(Scene):
    """With a tensor on which work is in flight."""

    def __init__(self, sim):
        super().__init__(sim)
        self.tensor = fastdl.from_dlpack(self.make(self.array))
        self.expected = self.array.write(self.side)
        self.tensor.record(self.side)
        self.target = stream_on(sim, blocking=False)

    def failed(self):
        self.array.given.assert_alive()

    def after(self):
        pass

    def end(self):
        """Nothing has been forgotten."""
        target = stream_on(self.sim, blocking=False)
        export(self.tensor, target)
        self.array.write(target)
        self.array.given.assert_alive()
        self.tensor = None
        given_back(self.array)


class Export(Held):
    def run(self):
        export(self.tensor, self.target)

    def after(self):
        self.array.read(self.target)
        self.tensor.record(self.target)


class ExportByTable(Export):
    make = Table


class Record(Held):
    def run(self):
        self.tensor.record(self.target)


class RecordMany(Record):
    """The edge that stands for all others."""

    def __init__(self, sim):
        super().__init__(sim)
        while driver.edges(self.tensor) < 8:
            stream = stream_on(sim, blocking=False)
            export(self.tensor, stream)
            self.array.read(stream)
            self.tensor.record(stream)


class Release(Held):
    def run(self):
        self.tensor.release(self.side)

    def after(self):
        self.array.write()  # others have the memory now

    def end(self):
        self.tensor = None
        given_back(self.array)


class ReleaseByTable(Release):
    make = Table


class ToTheHost(Held):
    """Pinned memory, which the host reads."""

    memory = "pinned"

    def run(self):
        export(self.tensor, None)

    def after(self):
        assert self.sim.host_read(self.array.pointer, 4) == self.expected[:4]


SCENES = [
    *(Import, ImportByTable, ImportByCompiledTable, Export, ExportByTable, Record, RecordMany),
    *(Release, ReleaseByTable, ToTheHost),
]

# Calls whose failure changes nothing for the caller: what cannot be asked is taken for pending, and
# a device is left as well as can be.
TOLERATED = """
cuEventQuery hipEventQuery cuThreadExchangeStreamCaptureMode hipThreadExchangeStreamCaptureMode
cuCtxPopCurrent_v2 cuCtxGetCurrent hipGetDevice
""".split()


def calls_of(kind, scene):
    """The calls of the driver that a scene makes: (name, how many of that name before it)."""
    with simulated(kind) as sim:
        it = scene(sim)
        before = len(sim.log())
        it.run()
        names = re.findall(r": (\w+) = ", "\n".join(sim.log()[before:]))
        it.after()
        it.end()
    return [(name, names[:at].count(name)) for at, name in enumerate(names)]


@pytest.mark.parametrize("kind", ["cuda", "hip"])
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_each_call_fails_in_turn(kind, scene):
    calls = calls_of(kind, scene)
    assert len(calls) > 3
    for name, before in calls:
        with simulated(kind) as sim:
            it = scene(sim)
            sim.fail_next(name, UNKNOWN, before)
            said = ""
            try:
                it.run()
            except BufferError as error:
                said = str(error)
            if said:
                assert f"{name} answered {NAMES[kind]} (999)" in said, (name, before)
                it.failed()
                it.run()  # as if nothing had happened
            else:
                assert name in TOLERATED, (name, before)
            it.after()
            it.end()
            if name.endswith("CaptureMode"):  # could not be given back
                sim.ok(name, ctypes.c_int(GLOBAL))


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_driver_without_memory(scene, sim):
    """Of the device or of the host: it is a MemoryError."""
    it = scene(sim)
    name = "cuCtxGetCurrent" if sim.kind == "cuda" else "hipGetDevice"
    sim.fail_next(name, 2)
    with pytest.raises(MemoryError, match=f"{name} answered .*(OUT_OF_MEMORY|OutOfMemory)"):
        it.run()
    it.failed()
    it.run()
    it.after()
    it.end()


def test_a_driver_that_cannot_name_its_error(cuda):
    tensor = fastdl.from_dlpack(Plain(Array(cuda)))
    cuda.fail_next("cuEventRecord", 999)
    cuda.fail_next("cuGetErrorName", 1)
    with pytest.raises(BufferError, match=r"cuEventRecord answered an error \(999\)"):
        tensor.record(1)


def test_an_error_that_has_no_name(sim):
    tensor = fastdl.from_dlpack(Plain(Array(sim)))
    name = "cuEventRecord" if sim.kind == "cuda" else "hipEventRecord"
    sim.fail_next(name, 54321)
    with pytest.raises(BufferError, match=rf"{name} answered .*\(54321\)"):
        tensor.record(default(sim))


@pytest.mark.parametrize("raises", [True, False])
def test_a_table_that_cannot_tell_its_stream(sim, raises):
    """With an exception of its own or without."""
    array, refused = Array(sim), Array(sim)
    tensor = fastdl.from_dlpack(Table(array))
    hostile.set_stream(-1, 0, raises)
    try:
        for call in (lambda: fastdl.from_dlpack(Table(refused)), *asked_for(tensor, 4096)[::2]):
            with pytest.raises(Exception) as caught:
                call()
            assert raises or (caught.type is BufferError and "cannot tell" in str(caught.value))
            assert caught.type is not SystemError
    finally:
        hostile.set_stream(0, 0, False)
    del caught, call, tensor
    given_back(array)
    given_back(refused)


# ---- contexts -------------------------------------------------------------------------------


class Switching(Protocol):
    """Leaves another device current than it found, as libraries do that select one for good."""

    def __dlpack__(self, **keywords):
        sim = self.array.sim
        capsule = super().__dlpack__(**keywords)
        if sim.kind == "hip":
            sim.ok("hipSetDevice", 1 - self.array.ordinal)
        else:
            context = ctypes.c_void_p()
            sim.ok("cuDevicePrimaryCtxRetain", context, 1 - self.array.ordinal)
            sim.ok("cuCtxSetCurrent", context)
        return capsule


def current(sim):
    if sim.kind == "cuda":
        sim.ok("cuInit", 0)
    result = ctypes.c_int() if sim.kind == "hip" else ctypes.c_void_p()
    sim.ok("hipGetDevice" if sim.kind == "hip" else "cuCtxGetCurrent", result)
    return result.value


@pytest.mark.parametrize("make", [Protocol, Switching])
@pytest.mark.parametrize("ordinal", [0, 1])
@pytest.mark.parametrize("here", [None, 0, 1])
def test_what_was_current_is_current_again(sim, make, ordinal, here):
    with contextlib.ExitStack() as stack:
        if here is not None:
            stack.enter_context(sim.device(here))
        before, depth = current(sim), sim.context_depth()

        def unchanged():
            return (current(sim), sim.context_depth()) == (before, depth)

        array = Array(sim, device=ordinal, stream=stream_on(sim, ordinal, blocking=False))
        tensor = fastdl.from_dlpack(make(array))
        assert unchanged()
        other = stream_on(sim, ordinal, blocking=False)
        export(tensor, other)
        assert unchanged()
        tensor.record(other)
        tensor.release(other)
        assert unchanged()
        with pytest.raises(ValueError):
            tensor.record(-5)
        sim.fail_next("cuEventRecord" if sim.kind == "cuda" else "hipEventRecord", 999)
        with pytest.raises(BufferError):
            tensor.record(other)
        assert unchanged()


def test_a_producer_that_raises_with_another_device_current(sim):
    class Raising(Switching):
        def __dlpack__(self, **keywords):
            super().__dlpack__(**keywords)
            raise KeyError("no")

    before = current(sim)
    with pytest.raises(KeyError):
        fastdl.from_dlpack(Raising(Array(sim, device=1)))
    assert (current(sim), sim.context_depth()) == (before, 0)


def test_each_device_has_events_of_its_own(sim):
    """An event is of one context, and cannot be recorded in another."""
    for ordinal in (0, 1, 0, 1):
        array = Array(sim, device=ordinal)
        array.write()
        tensor = fastdl.from_dlpack(Plain(array))
        consume(tensor, stream_on(sim, ordinal, blocking=False), array)
        del tensor


def test_a_stream_of_another_context(cuda):
    """As those of green contexts are: what is recorded there needs an event of that context."""
    array = Array(cuda)
    array.write()
    abroad = stream_on(cuda, 1, blocking=False)
    with cuda.device(1), cuda.device(0):  # the former is retained by whoever made it
        tensor = fastdl.from_dlpack(Protocol(array), stream=abroad)
        array.read(abroad, device=1)
        tensor.record(abroad)
        assert driver.edges(tensor) == 2
        target = stream_on(cuda, blocking=False)
        export(tensor, target)
        array.write(target)
        synchronize(cuda, target)
        tensor.record(target)  # the edges have ended, and their events are not of this context
        assert driver.edges(tensor) == 1
        tensor.record(target)


@pytest.mark.parametrize("failing", ["cuStreamGetCtx", "cuCtxPushCurrent_v2", "cuEventCreate"])
def test_a_stream_of_another_context_that_cannot_be_used(cuda, failing):
    tensor = fastdl.from_dlpack(Plain(Array(cuda)))
    abroad = stream_on(cuda, 1, blocking=False)
    array = Array(cuda)
    with cuda.device(1), cuda.device(0):
        synchronize(cuda, 1)
        tensor.record(1)  # no event need be made for the first try
        cuda.fail_next(failing, 999)
        with pytest.raises(BufferError, match=r"cuEventRecord answered .*400|cuEventCreate"):
            fastdl.from_dlpack(Plain(array), stream=abroad)
        given_back(array)
        assert cuda.context_depth() == 2
        tensor.record(abroad)


# ---- events ---------------------------------------------------------------------------------


def test_what_cannot_be_asked_is_pending(sim):
    """Whatever the error: an edge is dropped only when its work has ended."""
    array = Array(sim, stream=stream_on(sim, blocking=False))
    array.write()
    tensor = fastdl.from_dlpack(Protocol(array))
    sim.fail_next("cuEventQuery" if sim.kind == "cuda" else "hipEventQuery", 999)
    consume(tensor, stream_on(sim, blocking=False), array)
    assert driver.edges(tensor) == 1


def test_the_host_waits_again_after_it_could_not(sim):
    array = Array(sim, memory="pinned")
    side = stream_on(sim, blocking=False)
    tensor = fastdl.from_dlpack(Plain(array))
    expected = array.write(side)
    tensor.record(side)
    sim.fail_next("cuEventSynchronize" if sim.kind == "cuda" else "hipEventSynchronize", 999)
    with pytest.raises(BufferError, match="EventSynchronize answered"):
        export(tensor, None)
    assert driver.edges(tensor) == 1
    tensor.__dlpack__(dl_device=(1, 0), stream=-1)  # whatever the stream: the host waits
    assert sim.host_read(array.pointer, 4) == expected[:4]


def test_nothing_is_made_when_all_is_in_use_again(sim):
    """Events come out of the pool and go back, failed ones too."""
    array = Array(sim)
    tensor = fastdl.from_dlpack(Plain(array))
    tensor.record(default(sim))
    record = "cuEventRecord" if sim.kind == "cuda" else "hipEventRecord"
    live = sim.live("events")
    for _ in range(5):
        sim.fail_next(record, 999)
        with pytest.raises(BufferError):
            tensor.record(default(sim))
    assert sim.live("events") <= live + 1
