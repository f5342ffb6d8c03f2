"""What is measured on a GPU: the cost of the handshake, and the bandwidth of copies.

Each function gives rows (what, ours, peers, unit). What is compared runs in turns in one process;
a ratio is the median over rounds of the ratios within a round, as in benchmarks/timing.py. A row
may have a target for its ratio: the budgets of benchmarks/budgets.py, on tensors of a GPU. To miss
one is told; what ends the command with 1 is a row that could not be measured, for any reason but a
library that is not installed.
"""

import importlib
import statistics
import time
import timeit
from dataclasses import dataclass

import fastdl
from fastdl._devices import driver as fastdl_driver
from tests.gpu.peers import cupy_stream


@dataclass
class Row:
    what: str
    ours: float | None = None
    peer: str = ""
    theirs: float | None = None
    ratio: float | None = None
    unit: str = "ns"
    failure: str = ""  # why there are no numbers
    missing: str = ""  # the same, where it is only that a library is not installed
    target: float | None = None  # for the ratio: of times at most, of bandwidths at least

    @property
    def held(self):
        """Whether the target is kept; None where there is nothing to say."""
        if self.target is None or self.ratio is None:
            return None
        return self.ratio <= self.target if self.unit == "ns" else self.ratio >= self.target


ROUNDS = 15


def unmeasured(what, error, **facts):
    """The row of what raised `error`."""
    text = f"{type(error).__name__}: {error}"[:200]
    if isinstance(error, ModuleNotFoundError):
        return Row(what, missing=text, **facts)
    return Row(what, failure=text, **facts)


def interleaved(timers):
    """For each timer its values, one a round."""
    values = [[] for _ in timers]
    for timer in timers:
        timer()  # warms up
    for number in range(ROUNDS):
        pairs = list(zip(timers, values, strict=True))
        for timer, found in pairs if number % 2 else reversed(pairs):
            found.append(timer())
    return values


def row(what, unit, ours, peer, theirs, target=None):
    """A row of two timers, functions that return a value each time."""
    try:
        mine, others = interleaved([ours, theirs])
    except Exception as error:  # the report says so, and goes on
        return unmeasured(what, error, peer=peer, unit=unit, target=target)
    ratio = statistics.median(a / b for a, b in zip(mine, others, strict=True))
    mine, others = statistics.median(mine), statistics.median(others)
    return Row(what, mine, peer, others, ratio, unit, target=target)


# ---- the handshake --------------------------------------------------------------------------


def call(statement, **names):
    """A timer of a statement: nanoseconds for each time. Calibrates itself when it is first run."""
    timer = timeit.Timer(statement, globals=names)
    loops = 0

    def run():
        nonlocal loops
        if not loops:
            count, seconds = timer.autorange()
            loops = max(1, int(count * 0.02 / seconds))  # 20 ms each round
        return timer.timeit(loops) / loops * 1e9

    return run


def handshake(gpu):
    """With torch's tensors, whose table fastdl goes through without a `stream`, and whose
    `__dlpack__` it asks with one."""
    import torch

    device, host = torch.ones(8, device="cuda"), torch.ones(8)
    first, second = gpu.stream(), gpu.stream()
    torch.cuda.synchronize()
    tensor = fastdl.from_dlpack(device, stream=-1)
    imported = fastdl.from_dlpack(device, stream=first)
    gpu.finish(first)
    imported.__dlpack__(stream=second)  # from here on nothing is in flight
    names = {"fastdl": fastdl, "torch": torch, "x": device, "h": host, "s": first, "t": second}
    names |= {"y": imported, "free": tensor}
    take = "fastdl.from_dlpack"
    yield row("from_dlpack(CUDA tensor)", "ns", call(f"{take}(x)", **names),
              "torch.from_dlpack", call("torch.from_dlpack(x)", **names))  # fmt: skip
    yield row("from_dlpack(CUDA tensor)", "ns", call(f"{take}(x)", **names),
              "from_dlpack(host tensor)", call(f"{take}(h)", **names))  # fmt: skip
    yield row("import with a pooled event (stream=s)", "ns",
              call(f"{take}(x, stream=s)", **names),
              "without (stream=-1)", call(f"{take}(x, stream=-1)", **names))  # fmt: skip
    yield row("export, nothing in flight (stream=t)", "ns",
              call("y.__dlpack__(stream=t)", **names),
              "stream=-1", call("y.__dlpack__(stream=-1)", **names))  # fmt: skip
    yield row("record, then export with one wait", "ns",
              call("y.record(s); y.__dlpack__(stream=t)", **names),
              "record alone", call("y.record(s)", **names))  # fmt: skip


BUSY = 256 << 20  # bytes that a busy stream fills
FILLS = 40  # times: longer than LOOPS take
LOOPS = 200  # in a round, few enough for the queues of streams


def busy(gpu, source, target, function):
    """A timer of something that exports work on `source` for `target`: nanoseconds for each time.
    `source` works meanwhile, so that none of it is done, but is not held: what would block, blocks
    for as long as a program would."""
    pointer = gpu.driver.allocate(BUSY)

    def run():
        for _ in range(FILLS):
            gpu.driver.fill(source, pointer, 0, BUSY)
        start = time.perf_counter()
        for _ in range(LOOPS):
            function()
        seconds = time.perf_counter() - start
        gpu.finish(source)
        gpu.finish(target)
        return seconds / LOOPS * 1e9

    return run


def one_wait(gpu, array, source, target):
    """Import on `source` and export for `target`: one event recorded, one wait. `array`: of a
    library without a table that works on `source`. The events that fastdl keeps for that, beside
    one that is made each time and destroyed."""

    def exchange():
        tensor = fastdl.from_dlpack(array, stream=source)
        tensor.__dlpack__(stream=target, max_version=(1, 3))

    def anew():
        exchange()
        fastdl_driver.forget_events(gpu.device_type)

    return row(
        "import, then export with one wait", "ns", busy(gpu, source, target, exchange),
        "with an event made and destroyed each time", busy(gpu, source, target, anew),
    )  # fmt: skip


def events(gpu):
    """With CuPy's arrays, which have no table that would be asked for one more stream."""
    import cupy

    source, target = gpu.stream(), gpu.stream()
    with cupy_stream(cupy, source):
        array = cupy.ones(8, "float32")
        gpu.finish(source)
        return [one_wait(gpu, array, source, target)]


def from_c(gpu):
    """Called in loops in C: from_dlpack and fastdl_borrow of a CUDA tensor of torch's, beside
    torch's own table called directly, and tvm-ffi."""
    import torch

    from benchmarks.native import load, loops

    tensor = torch.ones(8, device="cuda")
    return in_loops(tensor, loops, load("with_fastdl"), peer_of("tvm_ffi"))


def peer_of(module):
    """A library, or the ModuleNotFoundError that says that it is not there."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        return error


def in_loops(tensor, loops, ours, tvm_ffi):
    table, count = fastdl.exchange_api(tensor), 20_000

    def timer(function, *arguments):
        def run():
            start = time.perf_counter()
            function(count, *arguments)
            return (time.perf_counter() - start) / count * 1e9

        return run

    take = timer(loops.call, fastdl.from_dlpack, tensor)
    borrow = timer(ours.borrow, tensor)
    three = timer(loops.call, ours.borrow, 3, tensor)
    names = "from_dlpack(CUDA tensor)", "fastdl_borrow(CUDA tensor)", "a call that borrows three"
    rows = [
        row(names[0], "ns", take, "torch's table", timer(loops.own, table, tensor)),
        row(names[1], "ns", borrow, "the direct call", timer(loops.borrow, table, tensor), 1.15),
    ]
    if isinstance(tvm_ffi, ModuleNotFoundError):
        facts = {"peer": "tvm-ffi"}
        return [*rows, *(unmeasured(name, tvm_ffi, **facts) for name in (names[0], names[2]))]
    nothing = tvm_ffi.get_global_func("testing.nop")  # takes its arguments, and returns
    theirs = timer(loops.call, tvm_ffi.from_dlpack, tensor)
    nop = timer(loops.call, nothing, tensor, tensor, tensor)
    return [
        *rows,
        row(names[0], "ns", take, "tvm-ffi", theirs, 0.5),
        row(names[2], "ns", three, "tvm-ffi", nop, 0.35),
    ]


# ---- copies ---------------------------------------------------------------------------------


def bandwidth(gpu, function, stream, size):
    """A timer of something that queues a copy of `size` bytes on `stream`: GB/s."""

    def run():
        gpu.finish(stream)
        start = time.perf_counter()
        result = function()
        gpu.finish(stream)
        seconds = time.perf_counter() - start
        del result
        return size / seconds / 1e9

    return run


SIDE = 1 << 13  # of a square of float32: 256 MiB
BOX = 1 << 9  # of a cube of float32: 512 MiB, of which an eighth is copied


def our_copies(device, host, pinned, cube, stream):
    """What fastdl does: {what: a function that queues it}. Each allocates its result."""
    half, part = device.shape[0] // 2, cube.shape[0] // 2
    window, box = (slice(half),) * 2, (slice(part),) * 3
    here, take = "cuda:0", fastdl.from_dlpack
    return {
        "host to device, pinned": lambda: pinned.to(here, stream=stream),
        "host to device": lambda: host.to(here, stream=stream),
        "host to device, a window of rows": lambda: host[window].to(here, stream=stream),
        "device to host": lambda: device.to("cpu", stream=stream),
        "device to host, pinned": lambda: device.to("cuda_host", stream=stream),
        "device to device": lambda: take(device, copy=True, stream=stream),
        "device to device, a window of rows": lambda: take(
            device[window], copy=True, stream=stream
        ),
        "device to device, a box of three dimensions": lambda: take(
            cube[box], copy=True, stream=stream
        ),
    }


def copies(gpu):
    """Beside CuPy's copies of the same arrays, with its pools of memory and without."""
    import cupy
    import cupyx
    import numpy

    stream = gpu.stream()
    queue = cupy_stream(cupy, stream)
    device = cupy.ones((SIDE, SIDE), "float32")
    cube = cupy.ones((BOX, BOX, BOX), "float32")
    host = numpy.ones((SIDE, SIDE), "float32")
    pinned = fastdl.empty((SIDE, SIDE), "float32", "cuda_host")
    array = pinned.numpy()
    array[:] = 1
    target = cupy.empty_like(device)
    cupy.cuda.Device().synchronize()
    take = fastdl.from_dlpack
    ours = our_copies(
        take(device, stream=stream), take(host), pinned, take(cube, stream=stream), stream
    )
    half, part = SIDE // 2, BOX // 2
    theirs = {
        "host to device, pinned": lambda: target.set(array),
        "host to device": lambda: cupy.asarray(host),
        "host to device, a window of rows": lambda: cupy.asarray(host[:half, :half]),
        "device to host": lambda: device.get(),
        "device to host, pinned": lambda: device.get(
            out=cupyx.empty_pinned(device.shape, device.dtype)
        ),
        "device to device": lambda: device.copy(),
        "device to device, a window of rows": lambda: device[:half, :half].copy(),
        "device to device, a box of three dimensions": lambda: cube[:part, :part, :part].copy(),
    }

    def on_stream(function, pooled):
        """With CuPy's pools, or with new memory each time, as fastdl's."""
        pool = cupy.get_default_memory_pool().malloc if pooled else None

        def run():
            if not pooled:
                cupy.cuda.set_pinned_memory_allocator()
            try:
                with queue, cupy.cuda.using_allocator(pool):
                    return function()
            finally:
                cupy.cuda.set_pinned_memory_allocator(cupy.get_default_pinned_memory_pool().malloc)

        return run

    for what, function in ours.items():
        size = function().nbytes
        mine = bandwidth(gpu, function, stream, size)
        for peer, pooled in (("CuPy", True), ("CuPy without a pool", False)):
            other = bandwidth(gpu, on_stream(theirs[what], pooled), stream, size)
            yield row(what, "GB/s", mine, peer, other)
    yield against_pinned(gpu, ours, stream, host.nbytes)


def against_pinned(gpu, ours, stream, size):
    """What pageable memory costs, fastdl beside fastdl."""
    timers = [
        bandwidth(gpu, ours[what], stream, size)
        for what in ("host to device", "host to device, pinned")
    ]
    return row("host to device", "GB/s", timers[0], "fastdl, pinned", timers[1])


GROUPS = {"The handshake": handshake, "Events": events, "From C": from_c, "Copies": copies}


def rows_of(name, gpu):
    """The rows of a group, each as soon as it is known. If the group cannot go on, the last one
    says why."""
    try:
        yield from GROUPS[name](gpu)
    except Exception as error:
        yield unmeasured(name, error)
