# SPDX-License-Identifier: Apache-2.0
"""The stream handshake with a driver that is absent, too old, shut down, or that fails, each call
in turn.

Whatever fails ends in an exception that says which call gave which error, with the upstream tensor
given back exactly once, contexts as they were, no event lost, and nothing forgotten: the same call
works the next time.
"""

import contextlib
import ctypes
import itertools
import re

import pytest

import fastdl
from fastdl._devices import driver
from tests.support import build
from tests.support.frameworks import (
    TYPES,
    Array,
    Plain,
    Table,
    current_stream,
    export,
    given_back,
    simulated,
    tensor_on,
)
from tests.support.memory import CALLS, FAILING_TO_THE_HOST
from tests.support.producers import Given, Producer, Tabled, hostile
from tests.support.simulation import GLOBAL, HIP_NAMES

UNKNOWN = 999  # in both drivers
NAMES = {"cuda": "CUDA_ERROR_UNKNOWN", "hip": "hipErrorUnknown"}


def asked_for(tensor, stream):
    """All that can be asked of the driver for a tensor."""
    return (
        lambda: export(tensor, stream),
        lambda: tensor.record(stream),
        lambda: tensor.release(stream),
    )


# ---- drivers that are none ------------------------------------------------------------------


@pytest.fixture(params=["cuda", "hip"])
def without(request):
    """A kind of device, and how to give it the driver at a path."""
    kind = request.param
    yield kind, lambda path: driver.replace_driver(TYPES[kind], str(path))
    driver.replace_driver(TYPES[kind], None)


def given_on(kind):
    return Given(data=0x7000, device=(TYPES[kind], 0))


def check_without_a_driver(kind, match):
    """Everything that needs no driver works; the rest says why it does not."""
    start = {"cuda": 1, "hip": 0}[kind]
    with pytest.raises(BufferError, match=match):
        driver.driver_facts(TYPES[kind])
    for make in (Producer, Tabled):
        given = given_on(kind)
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
    given = given_on(kind)
    tensor = fastdl.from_dlpack(Producer(given, (TYPES[kind], 0)), stream=-1)
    export(tensor, 4096)
    del tensor
    given.assert_released()


@pytest.mark.parametrize("text", [None, "GROUP ( libm.so.6 )"])
def test_a_driver_that_is_not_there_or_no_library(without, tmp_path, text):
    kind, put = without
    if text is not None:
        (tmp_path / "libcuda.so.1").write_text(text)
    put(tmp_path / "libcuda.so.1")
    check_without_a_driver(kind, "this machine has no (CUDA|HIP) driver")


def test_an_import_that_needs_an_order_needs_a_driver(without, tmp_path):
    """A table orders nothing: without a driver, only its own stream is the right one."""
    kind, put = without
    put(tmp_path / "libcuda.so.1")
    given = given_on(kind)
    with current_stream(4096), pytest.raises(BufferError, match="no (CUDA|HIP) driver") as caught:
        fastdl.from_dlpack(Tabled(given))
    del caught
    given.assert_released()
    given = given_on(kind)
    with pytest.raises(BufferError, match="no (CUDA|HIP) driver") as caught:
        fastdl.from_dlpack(Tabled(given), stream=4096)  # it has no __dlpack__ to be asked instead
    del caught
    given.assert_released()
    given = given_on(kind)
    with current_stream(4096), fastdl.use_stream((TYPES[kind], 0), 4096):
        fastdl.from_dlpack(Tabled(given))
    given.assert_released()


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


STARTING = {
    "cuda": ("cuInit", "cuDriverGetVersion", "cuDeviceGetCount"),
    "hip": ("hipInit", "hipRuntimeGetVersion", "hipGetDeviceCount"),
}


@pytest.mark.parametrize("at", range(3))
def test_a_driver_that_does_not_start(sim, at):
    """A driver whose kernel module is missing, or of another version."""
    symbol = STARTING[sim.kind][at]
    sim.fail_next(symbol, 100)
    check_without_a_driver(sim.kind, f"{symbol} returned .*(NO_DEVICE|NoDevice)")


@pytest.mark.parametrize("kind", ["cuda", "hip"])
def test_a_driver_without_a_device(kind):
    with simulated(kind, devices=0):
        check_without_a_driver(kind, r"(NO_DEVICE|NoDevice) \(100\)")


def test_a_driver_that_has_shut_down(sim):
    """At the end of a process it may go before the tensors do."""
    array = Array(sim)
    array.write()
    tensor = fastdl.from_dlpack(Plain(array))
    other = sim.side()
    sim.set("deinitialized", 1)
    for call in asked_for(tensor, other):
        with pytest.raises(BufferError, match=r"\(4\)") as caught:
            call()
    export(tensor, -1)
    del tensor, caught, call
    given_back(array)
    driver.forget_events(sim.type)  # which cannot be destroyed any more
    sim.reset()


# ---- drivers that fail ----------------------------------------------------------------------


class Scene:
    """What is there before a call that is to fail. `run` is the call, and all that it asks the
    driver for is asked by fastdl; `after` is what others may do once it has worked."""

    memory = "device"
    make = Plain
    tolerated = ()  # calls whose failure changes nothing here
    instead = "-"  # what the exception may say of another call

    def __init__(self, sim):
        self.sim = sim
        driver.driver_facts(sim.type)  # loaded; no context of it has been touched
        self.array = Array(sim, memory=self.memory)
        self.side = sim.side()

    def end(self):
        pass


class Import(Scene):
    def __init__(self, sim):
        super().__init__(sim)
        self.spare = Array(sim)  # which cannot be allocated during a capture

    def run(self):
        self.tensor = fastdl.from_dlpack(self.make(self.array), stream=self.side)

    def failed(self):
        if self.array.given.handed:  # or the producer was not even asked
            given_back(self.array)
        self.array = self.spare

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


class ImportInside(Import):
    """For a stream on which a graph is being captured."""

    def __init__(self, sim):
        super().__init__(sim)
        with sim.device(0):
            assert sim.begin_capture(self.side) == 0

    def end(self):
        with self.sim.device(0):
            assert self.sim.end_capture(self.side) == 0


class Careless(Plain):
    """Leaves another device current than it found."""

    def __init__(self, array):
        super().__init__(array)
        self.switch = array.switch

    def __dlpack__(self, **keywords):
        self.switch()
        return super().__dlpack__(**keywords)


class ImportFromCareless(Import):
    """With the device current, so that it is made current again."""

    make = Careless
    tolerated = ("cuCtxSetCurrent", "hipSetDevice")

    def __init__(self, sim):
        super().__init__(sim)
        self.array.switch = self.spare.switch = self.switch
        self.current = contextlib.ExitStack()
        self.other = self.current.enter_context(sim.device(1))
        self.current.enter_context(sim.device(0))

    def switch(self):
        """Its calls are taken for fastdl's, so they may fail."""
        if self.sim.kind == "cuda":
            self.sim.call("cuCtxSetCurrent", self.other)
        else:
            self.sim.call("hipSetDevice", 1)

    def end(self):
        self.current.close()


class Held(Scene):
    """With a tensor on which work is in flight."""

    def __init__(self, sim):
        super().__init__(sim)
        self.tensor = fastdl.from_dlpack(self.make(self.array))
        self.expected = self.array.write(self.side)
        self.tensor.record(self.side)
        self.target = sim.side()

    def failed(self):
        self.array.given.assert_alive()

    def after(self):
        pass

    def end(self):
        """Nothing has been forgotten."""
        target = self.sim.side()
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
            stream = sim.side()
            export(self.tensor, stream)
            self.array.read(stream)
            self.tensor.record(stream)


class RecordAbroad(Record):
    """On a stream of another device, which takes no event of this one."""

    instead = r"EventRecord returned .*\(400\)"  # why another event was tried
    tolerated = (  # what cannot be known of other devices, and what is tried again
        *("cuGetErrorName", "cuDeviceGet", "cuDevicePrimaryCtxGetState"),
        "hipSetDevice",
    )

    def __init__(self, sim):
        super().__init__(sim)
        self.target = sim.side(1)
        if sim.kind == "cuda":  # whoever made the stream has its context
            sim.ok("cuDevicePrimaryCtxRetain", ctypes.c_void_p(), 1)


class RecordOnKnownDevice(RecordAbroad):
    """One that fastdl has used, for which it keeps events."""

    def __init__(self, sim):
        super().__init__(sim)
        tensor_on(sim, 1)


class ExportElsewhere(Export):
    """With a context of another device current that is not its primary one."""

    def __init__(self, sim):
        super().__init__(sim)
        self.made = None
        if sim.kind == "cuda":
            self.made = ctypes.c_void_p()
            sim.ok("cuCtxCreate_v2", self.made, 0, 1)

    def end(self):
        super().end()
        if self.made is not None:
            while self.sim.context_depth():  # twice there if it could not be left
                self.sim.ok("cuCtxPopCurrent_v2", ctypes.c_void_p())
            self.sim.ok("cuCtxDestroy_v2", self.made)


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
    *(Import, ImportByTable, ImportByCompiledTable, ImportInside, ImportFromCareless),
    *(Export, ExportByTable, Record, RecordMany, RecordAbroad, RecordOnKnownDevice),
    *(ExportElsewhere, Release, ReleaseByTable, ToTheHost),
]

# Calls whose failure changes nothing for the caller: what cannot be asked is taken for pending, and
# a device is left as well as can be. Nor is every error of a context's id a reset of its device.
TOLERATED = """
cuEventQuery hipEventQuery cuThreadExchangeStreamCaptureMode hipThreadExchangeStreamCaptureMode
cuCtxPopCurrent_v2 cuCtxGetCurrent hipGetDevice cuCtxGetId
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
    calls = [call for call in calls_of(kind, scene) if call[0] != DESTROYING[kind]]
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
                failed = f"{name} returned {NAMES[kind]} (999)" in said
                assert failed or re.search(it.instead, said), (name, before)
                it.failed()
                it.run()  # as if nothing had happened
            else:
                assert name in TOLERATED or name in it.tolerated, (name, before)
            it.after()
            it.end()
            if name.endswith("CaptureMode"):  # could not be given back
                sim.ok(name, ctypes.c_int(GLOBAL))


@pytest.mark.parametrize("kind", TYPES)
def test_events_are_given_back(kind):
    """Of many tensors that live at a time, some are kept for the next, and the others destroyed as
    those come."""
    with simulated(kind) as sim:
        array = Array(sim)

        def imported():
            given = Given(data=array.pointer, device=(array.type, 0), owner=array)
            return fastdl.from_dlpack(Producer(given, (array.type, 0)))

        tensors = [imported() for _ in range(2000)]
        assert sim.live("events") == 2000
        del tensors
        for _ in range(1000):
            imported()
        assert sim.live("events") == 1025
        made = sim.calls(CALLS["new event"])
        tensors = [imported() for _ in range(1025)]
        assert sim.calls(CALLS["new event"]) == made
        del tensors


DESTROYING = {"cuda": "cuEventDestroy_v2", "hip": "hipEventDestroy"}


@pytest.mark.parametrize(("kind", "symbol"), DESTROYING.items())
def test_what_cannot_be_destroyed_is_left(kind, symbol):
    """And nothing else is."""
    with simulated(kind) as sim:
        tensor = fastdl.from_dlpack(Plain(Array(sim)))
        stream = sim.side()
        with sim.device(0):
            sim.kernel(stream)
        tensor.record(stream)
        tensor.record(sim.default)
        del tensor
        assert sim.live("events") == 2
        sim.fail_next(symbol, UNKNOWN)
        driver.forget_events(TYPES[kind])
        assert sim.live("events") == 1
        sim.check()
        sim.reset()


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_driver_without_memory(scene, sim):
    """Of the device or of the host: it is a MemoryError."""
    it = scene(sim)
    sim.fail_next("cuCtxGetCurrent", 2)
    name = sim.name("cuCtxGetCurrent")
    with pytest.raises(MemoryError, match=f"{name} returned .*(OUT_OF_MEMORY|OutOfMemory)"):
        it.run()
    it.failed()
    it.run()
    it.after()
    it.end()


def test_an_error_that_has_no_name(sim):
    """It is told by its number; so is one that the driver cannot name."""
    tensor = fastdl.from_dlpack(Plain(Array(sim)))
    name = sim.name("cuEventRecord")
    if sim.kind == "cuda":
        sim.fail_next("cuGetErrorName", 1)
    for number in (999, 54321) if sim.kind == "cuda" else (54321,):
        sim.fail_next(name, number)
        words = r"an error " if (sim.kind, number) == ("cuda", 999) else r".*"
        with pytest.raises(BufferError, match=rf"{name} returned {words}\({number}\)"):
            tensor.record(sim.default)


def test_every_call_of_the_driver_fails_in_some_test():
    """The names in driver.h, and those that the tests of faults here and of copies let fail."""
    source = (build.ROOT / "src/fastdl/_devices/driver.h").read_text()
    names = set(re.findall(r'"((?:cu|hip)[A-Z]\w+)"', source))
    assert len(names) > 40
    failing = {"cuGetErrorName", "hipPeekAtLastError", "hipGetLastError"}  # the last two cannot
    failing.add("cuDevicePrimaryCtxGetState")  # of old drivers: see test_contexts.py
    for kind in ("cuda", "hip"):
        failing.update(STARTING[kind], [DESTROYING[kind]])
        failing.update(name for scene in SCENES for name, _ in calls_of(kind, scene))
    for call in itertools.chain(*FAILING_TO_THE_HOST.values()):
        failing.update({CALLS[call], HIP_NAMES[CALLS[call]]})
    assert names - failing == set()


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
            assert raises or (caught.type is BufferError and "not report" in str(caught.value))
            assert caught.type is not SystemError
    finally:
        hostile.set_stream(0, 0, False)
    del caught, call, tensor
    given_back(array)
    given_back(refused)
