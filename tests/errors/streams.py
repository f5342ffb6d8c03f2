"""Streams, graph captures and drivers, on the simulated drivers."""

import fastdl
from fastdl._devices import driver
from tests.errors.converting import on
from tests.errors.importing import producer
from tests.errors.row import Group, Row
from tests.support import build
from tests.support.frameworks import (
    Array,
    Plain,
    Protocol,
    Table,
    capturing,
    current_stream,
    export,
    in_thread,
    simulated,
    stream_on,
)
from tests.support.isolate import run_isolated
from tests.support.producers import (
    CUDA,
    OPENCL,
    BareProducer,
    Given,
    Producer,
    Tabled,
    hostile,
    new,
)
from tests.support.simulation import GLOBAL

ROCM = (10, 0)


def simulate(act, kind="cuda", **settings):
    """`act(sim)` on a simulated driver. What it raises leaves no tensors behind in its frames."""

    def do():
        caught = None
        with simulated(kind, **settings) as sim:
            try:
                act(sim)
            except Exception as error:
                caught = error.with_traceback(None)
                caught.__cause__ = caught.__context__ = None
        if caught is not None:
            raise caught

    return do


def imported(sim, stream=None):
    """A tensor with work in flight."""
    array = Array(sim, stream=stream)
    array.write()
    return fastdl.from_dlpack(Protocol(array))


def inside(act, memory="device"):
    """`act(tensor, stream)` while `stream` captures, on a tensor that was imported there: its work
    is a part of the graph."""

    def run(sim):
        stream = stream_on(sim, blocking=False)
        array = Array(sim, stream=stream, memory=memory)
        with capturing(sim, stream), current_stream(stream):
            act(fastdl.from_dlpack(Protocol(array), stream=stream), stream)

    return run


def before(act):
    """The same on a tensor that was imported before, with work in flight."""

    def run(sim):
        tensor = imported(sim, stream_on(sim, blocking=False))
        stream = stream_on(sim, blocking=False)
        with capturing(sim, stream):
            act(tensor, stream)

    return run


def at_the_default_stream(sim):
    tensor = imported(sim)
    with capturing(sim, stream_on(sim, blocking=True)):
        tensor.record(1)


def broken_capture(sim):
    """The host waits for a stream that is captured, which breaks the capture."""
    tensor = fastdl.from_dlpack(Protocol(Array(sim)))
    stream = stream_on(sim, blocking=False)
    with sim.device(0):
        assert sim.begin_capture(stream, GLOBAL) == 0
        assert sim.call("cuStreamSynchronize", stream) == 900
    try:
        tensor.record(stream)
    finally:
        with sim.device(0):
            sim.end_capture(stream)


def foreign_stream(sim):
    """A default stream while another context than the device's primary one is current."""
    array = Array(sim)
    with sim.context(0, green=False):
        fastdl.from_dlpack(Plain(array), stream=1)


def failing(sim):
    sim.fail_next("cuMemAlloc_v2", 999)
    fastdl.empty(1, device="cuda:0")


def silent_stream(sim):
    """A producer whose table does not know its current stream."""
    hostile.set_stream(-1, 0, False)
    try:
        fastdl.from_dlpack(Table(Array(sim)))
    finally:
        hostile.set_stream(0, 0, False)


def old_driver():
    ancient = build.folder() / "ancient.so"
    source = build.folder() / "ancient.c"
    source.write_text(
        "int cuInit(unsigned flags);\nint cuInit(unsigned flags) { return !flags; }\n"
    )
    build.compile_source(source, ancient)
    driver.replace_driver(2, str(ancient))
    try:
        fastdl.empty(1, device="cuda:0")
    finally:
        driver.replace_driver(2, None)


def in_a_forked_child(sim):
    """Its words come back through a pipe."""
    words = run_isolated(
        f"""
        import os
        import fastdl
        from fastdl._devices import driver
        from tests.support.simulation import Simulation
        driver.replace_driver(2, {str(sim.path)!r})
        fastdl.empty(1, device="cuda:0")
        reading, writing = os.pipe()
        if os.fork() == 0:
            try:
                fastdl.empty(1, device="cuda:0")
            except BufferError as error:
                os.write(writing, str(error).encode())
            os._exit(0)
        os.close(writing)
        print(os.read(reading, 1000).decode(), end="")
        os.wait()
        """
    )
    raise BufferError(words)


def twice():
    scope = fastdl.use_stream("cuda:0", 1)
    with scope, scope:
        pass


def on_another_thread(sim):
    scope = fastdl.use_stream("cuda:0", 1)
    in_thread(sim, scope.__enter__)
    scope.__exit__(None, None, None)


class Stream:
    """A stream object of some library."""

    def __init__(self, **fields):
        vars(self).update(fields)


def without_driver(stream):
    """CUDA memory on a machine without CUDA."""
    tensor = fastdl.from_dlpack(new(Producer)(Given(device=CUDA), CUDA))
    export(tensor, stream)


def late_driver():
    """A driver that appears after the import."""
    tensor = fastdl.from_dlpack(new(Producer)(Given(device=CUDA), CUDA))
    simulate(lambda sim: export(tensor, 4096))()


def unordered():
    kind = type("nb_ndarray", (Producer,), {"__module__": "nanobind"})
    fastdl.from_dlpack(kind(Given(device=CUDA), CUDA))


ABOUT = "a float32 tensor of shape (2, 3) on …:0 cannot be "
NUMBERS = "[What to pass as stream](streams.md)."
CAPTURES = "[Captures](streams.md#graph-captures)."

GROUP = Group(
    "Streams and drivers",
    "`stream=` of `from_dlpack`, `to` and `__dlpack__`; `use_stream`, `record`, `release`; "
    "copies between devices; graph captures. [The guide to streams](streams.md).",
    [
        Row(
            lambda: fastdl.from_dlpack(producer(device=CUDA), stream=1.0),
            TypeError,
            "expected a stream as an int, None, an object with __cuda_stream__, or a stream of "
            "torch, CuPy or Numba, got 1.0",
            NUMBERS,
        ),
        Row(
            lambda: export(on(CUDA), Stream(ptr=4096)),
            TypeError,
            "expected a stream as an int or None, got …",
            "`__dlpack__` takes numbers only, as its standard says: pass `stream.ptr` or the like.",
        ),
        Row(
            lambda: on(CUDA).record(Stream(__cuda_stream__=lambda: 4096)),
            TypeError,
            "expected (0, handle) from __cuda_stream__ of …, got 4096",
            "The library of the stream is at fault. Pass its handle as an int.",
        ),
        Row(
            lambda: on(CUDA).record(Stream(ptr=0, device_id=1)),
            ValueError,
            "expected a stream of cuda:0, got the default stream of device 1: …",
            "Pass a stream of the tensor's own device.",
        ),
        Row(
            lambda: on(CUDA).record(-5),
            ValueError,
            "expected a stream handle of 64 bits, or -1, got -5",
            NUMBERS,
        ),
        Row(
            lambda: fastdl.from_dlpack(producer(), stream=4096),
            ValueError,
            "data on cpu:0 has no streams: expected stream=None or -1, got 4096",
            "Leave out `stream` for data on the host.",
        ),
        Row(
            lambda: fastdl.from_dlpack(producer(device=OPENCL), stream=4096),
            BufferError,
            "DLPack has no stream numbers for opencl:0: pass stream=None",
            "Wait for the producer's work with its own library first.",
        ),
        Row(
            lambda: on(CUDA).record(0),
            ValueError,
            "stream 0 is ambiguous on CUDA: pass 1 for the legacy default stream or 2 for the "
            "per-thread default stream",
            "A stream object whose handle is 0 is understood.",
        ),
        Row(
            lambda: on(ROCM).record(1),
            ValueError,
            "ROCm has no stream 1: pass 0 for the default stream",
            NUMBERS,
        ),
        Row(
            lambda: fastdl.use_stream("cpu", 1),
            ValueError,
            "expected a device of CUDA or ROCm, got cpu:0, which has no streams that fastdl can "
            "name",
            "`use_stream`, `record` and `release` are for devices that have streams.",
        ),
        Row(
            lambda: on(CUDA).record(None),
            ValueError,
            "expected a stream, got None: pass the handle of one, or a stream object",
            "1 is the default stream of CUDA, and 0 that of ROCm.",
        ),
        Row(
            twice,
            RuntimeError,
            "this use_stream has been entered already: create another",
            "`with fastdl.use_stream(...)` makes one each time.",
        ),
        Row(
            simulate(on_another_thread),
            RuntimeError,
            "a use_stream must be left on the thread that entered it",
            "Each thread has work streams of its own. Beware of generators and coroutines.",
        ),
        Row(
            lambda: fastdl.from_dlpack(new(BareProducer)(Given(device=CUDA), CUDA), stream=4096),
            BufferError,
            "… does not take a stream: pass stream=None",
            "Its `__dlpack__` supports only the default stream.",
        ),
        Row(
            unordered,
            BufferError,
            "… ignores `stream`, so its pending work is not ordered: synchronize first, then "
            "pass fastdl.from_dlpack(x, stream=-1)",
            "Wait with the library's own synchronize function. See [hazards](streams.md#hazards).",
        ),
        # ---- without a driver
        Row(
            lambda: without_driver(4096),
            BufferError,
            "a float32 tensor of shape (2, 3) on cuda:0 cannot be ordered for stream 4096: this "
            "machine has no CUDA driver: libcuda was not found; without it pass stream=-1 once the "
            "producer's work has ended, or import and export on the default stream",
            "Install the driver, or put its folder into `LD_LIBRARY_PATH`. In a container: start "
            "it with access to the GPU.",
        ),
        Row(
            lambda: fastdl.from_dlpack(Tabled(Given(device=CUDA)), stream=4096),
            BufferError,
            "a float32 tensor of shape (2, 3) on cuda:0 cannot be ordered after its producer for "
            "stream 4096: this machine has no CUDA driver: libcuda was not found",
            "Only a driver can make that stream wait for the producer's. Install it, or pass "
            "`stream=-1` after you have waited.",
        ),
        Row(
            late_driver,
            BufferError,
            "a float32 tensor of shape (2, 3) on cuda:0 cannot be ordered for stream 4096: there "
            "was no driver when it was imported; without it pass stream=-1 once the producer's "
            "work has ended, or import and export on the default stream",
            "Import the tensor again.",
        ),
        Row(
            lambda: fastdl.empty(1, device="rocm:0"),
            BufferError,
            "cannot allocate 4 bytes on rocm:0: this machine has no HIP driver: libamdhip64 was "
            "not found",
            "Install ROCm, or put the folder of its libraries into `LD_LIBRARY_PATH`.",
        ),
        Row(
            old_driver,
            BufferError,
            "…the CUDA driver of this machine is too old: it has no …",
            "fastdl needs CUDA 11.0 or ROCm 5.0.",
        ),
        Row(
            simulate(lambda sim: fastdl.empty(1, device="cuda:0"), version=10020),
            BufferError,
            "…the CUDA driver of this machine is too old: its version is 10020",
            "fastdl needs CUDA 11.0 or ROCm 5.0.",
        ),
        Row(
            simulate(in_a_forked_child),
            BufferError,
            "…the process was forked after its parent had used the device driver, which does not "
            "survive that: start processes by spawn",
            '`multiprocessing.get_context("spawn")`. See '
            "[hazards](hazards.md#crashes-and-processes).",
        ),
        Row(
            simulate(lambda sim: fastdl.empty(1, device="cuda:2")),
            BufferError,
            "cannot allocate 4 bytes on cuda:2: there is no CUDA device 2: this machine has 2",
            "Devices are counted from 0; `CUDA_VISIBLE_DEVICES` hides some.",
        ),
        Row(
            simulate(failing),
            BufferError,
            "cannot allocate 4 bytes on cuda:0: … answered CUDA_ERROR_UNKNOWN (999)",
            "What the driver says, with its code: see the manual of CUDA or HIP. *MemoryError* if "
            "the device has no memory left.",
        ),
        Row(
            simulate(lambda sim: fastdl.empty(2**50, device="cuda:0")),
            MemoryError,
            "cannot allocate … bytes on cuda:0: … answered CUDA_ERROR_OUT_OF_MEMORY (2)",
            "Release tensors first. Memory that a stream still uses is freed when its work has "
            "ended. *MemoryError* with `out of memory`: the host has none left.",
        ),
        Row(
            simulate(foreign_stream),
            BufferError,
            ABOUT + "ordered after its producer, on stream …: cuEventRecord answered "
            "CUDA_ERROR_INVALID_HANDLE (400): if stream … is of another context than its device's "
            "primary one, synchronize it and pass stream=-1",
            "Or the stream has been destroyed, or is of another device.",
        ),
        Row(
            simulate(silent_stream),
            BufferError,
            "…the exchange table of the producer cannot tell its current stream on device (2, 0): "
            "its library is at fault",
            "Pass `stream=-1` after you have waited for its work.",
        ),
        Row(
            simulate(lambda sim: on(CUDA, data=64).to("cuda:1")),
            BufferError,
            ABOUT + "copied to cuda:1: the CUDA driver does not know the address … of its data",
            "The memory has been freed, or is not CUDA's.",
        ),
        Row(
            simulate(lambda sim: on((2, 1), data=Array(sim).pointer).to("cuda:0")),
            BufferError,
            "… cannot be copied to cuda:0: the CUDA driver says that its data, at …, is on cuda:0",
            "The producer names the wrong device. Report it to its library.",
        ),
        # ---- graph captures
        Row(
            "tests/test_c_order.py: cannot wait for a stream outside of it",
            BufferError,
            "a graph is being captured, and cannot wait for a stream outside of it: wait for that "
            "stream's work before the capture, and do not order the two in it",
            "Of `fastdl_order`, or `fastdl_order_back` where the library captures. " + CAPTURES,
        ),
        Row(
            simulate(inside(lambda tensor, stream: export(tensor, 1))),
            BufferError,
            ABOUT + "ordered for stream 1: the tensor was imported inside a graph capture and can "
            "be used only there: pass the capturing stream or stream=-1",
            "What the graph computes is not there before it is launched. " + CAPTURES,
        ),
        Row(
            simulate(inside(lambda tensor, stream: tensor.to("cuda:1", stream=-1))),
            BufferError,
            "… the tensor was imported inside a graph capture and can be used only there, on its "
            "own device",
            CAPTURES,
        ),
        Row(
            simulate(inside(lambda tensor, stream: tensor.record(stream))),
            BufferError,
            ABOUT + "recorded on stream …: a graph is being captured on that stream, whose work "
            "begins when the graph is launched: record the stream of the launch",
            CAPTURES,
        ),
        Row(
            simulate(before(lambda tensor, stream: tensor.release(stream))),
            BufferError,
            ABOUT + "released after stream …: a graph is being captured, during which the host "
            "cannot wait for the device: do this before or after the capture",
            CAPTURES,
        ),
        Row(
            simulate(inside(lambda tensor, stream: tensor.__dlpack__(dl_device=(1, 0)), "managed")),
            BufferError,
            ABOUT
            + "waited for on the host: the tensor was imported inside a graph capture, so the host "
            "cannot wait for it: import it again outside",
            CAPTURES,
        ),
        Row(
            simulate(before(lambda tensor, stream: export(tensor, stream))),
            BufferError,
            ABOUT + "ordered for stream …: a graph is being captured, and the tensor has work in "
            "flight outside of it: wait for that work before the capture, or pass stream=-1 if the "
            "graph does not depend on it",
            CAPTURES,
        ),
        Row(
            simulate(before(lambda tensor, stream: export(tensor, stream)), "hip"),
            BufferError,
            ABOUT + "ordered for stream …: a graph is being captured, and the tensor may have work "
            "in flight outside of it, after which HIP cannot be queried: pass stream=-1 if that "
            "work has ended, or does not matter",
            CAPTURES,
        ),
        Row(
            simulate(at_the_default_stream),
            BufferError,
            ABOUT + "recorded on stream 1: a graph is being captured on this device, so its "
            "default stream cannot be used: pass stream=-1 or the capturing stream",
            CAPTURES,
        ),
        Row(
            simulate(broken_capture),
            BufferError,
            ABOUT + "recorded on stream …: the graph capture on this stream has been invalidated: "
            "end it, and capture the graph again",
            "Something waited for the device while the graph was captured. " + CAPTURES,
        ),
        Row(
            simulate(before(lambda tensor, stream: tensor.to("cpu", stream=stream))),
            BufferError,
            ABOUT + "copied to cpu:0: a graph is being captured on stream …: pass a stream that "
            "does not capture, or copy before the capture",
            "fastdl puts no copies into graphs. " + CAPTURES,
        ),
    ],
)
