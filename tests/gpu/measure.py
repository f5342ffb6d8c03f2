"""What is measured on a GPU: the cost of the handshake, and the bandwidth of copies.

Each function returns rows (what, ours, peers, unit). What is compared runs in turns in one process;
a ratio is the median over rounds of the ratios within a round, as in benchmarks/timing.py.
"""

import statistics
import time
import timeit
from dataclasses import dataclass

import fastdl


@dataclass
class Row:
    what: str
    ours: float | None = None
    peer: str = ""
    theirs: float | None = None
    ratio: float | None = None
    unit: str = "ns"
    failure: str = ""  # why there are no numbers


ROUNDS = 15


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


def row(what, unit, ours, peer, theirs):
    """A row of two timers, functions that return a value each time."""
    try:
        mine, others = interleaved([ours, theirs])
    except Exception as error:  # a missing feature or peer: the report says so, and goes on
        return Row(what, unit=unit, failure=f"{type(error).__name__}: {error}"[:200])
    ratio = statistics.median(a / b for a, b in zip(mine, others, strict=True))
    return Row(what, statistics.median(mine), peer, statistics.median(others), ratio, unit)


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
    return [
        row("from_dlpack(CUDA tensor)", "ns", call(f"{take}(x)", **names),
            "torch.from_dlpack", call("torch.from_dlpack(x)", **names)),
        row("from_dlpack(CUDA tensor)", "ns", call(f"{take}(x)", **names),
            "from_dlpack(host tensor)", call(f"{take}(h)", **names)),
        row("import with a pooled event (stream=s)", "ns", call(f"{take}(x, stream=s)", **names),
            "without (stream=-1)", call(f"{take}(x, stream=-1)", **names)),
        row("export, nothing in flight (stream=t)", "ns", call("y.__dlpack__(stream=t)", **names),
            "stream=-1", call("y.__dlpack__(stream=-1)", **names)),
        row("record, then export with one wait", "ns",
            call("y.record(s); y.__dlpack__(stream=t)", **names),
            "record alone", call("y.record(s)", **names)),
    ]  # fmt: skip


def borrow(gpu):
    """fastdl_borrow in a loop in C, beside torch's own table called directly."""
    try:
        import torch

        from benchmarks.native import load, loops

        ours = load("with_fastdl").borrow
    except Exception as error:
        return [Row("fastdl_borrow(CUDA tensor)", failure=f"{type(error).__name__}: {error}")]
    tensor = torch.ones(8, device="cuda")
    table = fastdl.exchange_api(tensor)
    count = 20_000

    def timer(function, *arguments):
        def run():
            start = time.perf_counter()
            function(count, *arguments)
            return (time.perf_counter() - start) / count * 1e9

        return run

    ours, theirs = timer(ours, tensor), timer(loops.borrow, table, tensor)
    return [row("fastdl_borrow(CUDA tensor)", "ns", ours, "the direct call", theirs)]


# ---- copies ---------------------------------------------------------------------------------

COPIED = 256 << 20  # bytes


def bandwidth(gpu, function, stream, size=COPIED):
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


SIDE = 1 << 13  # of a square of float32 with that many bytes


def our_copies(device, host, pinned, stream):
    """What fastdl does: {what: a function that queues it}. Each allocates its result."""
    half = SIDE // 2
    return {
        "host to device, pinned": lambda: pinned.to("cuda:0", stream=stream),
        "host to device": lambda: host.to("cuda:0", stream=stream),
        "device to host": lambda: device.to("cpu", stream=stream),
        "device to device": lambda: fastdl.from_dlpack(device, copy=True, stream=stream),
        "device to device, a window of rows": lambda: fastdl.from_dlpack(
            device[:half, :half], copy=True, stream=stream
        ),
    }


def copies(gpu):
    """Beside CuPy's copies of the same arrays, with its pool of memory and without."""
    import cupy
    import numpy

    stream, half = gpu.stream(), SIDE // 2
    queue = cupy.cuda.ExternalStream(stream)
    device = cupy.ones((SIDE, SIDE), "float32")
    host = numpy.ones((SIDE, SIDE), "float32")
    pinned = fastdl.empty((SIDE, SIDE), "float32", "cuda_host")
    array = pinned.numpy()
    array[:] = 1
    target = cupy.empty_like(device)
    cupy.cuda.Device().synchronize()
    home = fastdl.from_dlpack(device, stream=stream)
    ours = our_copies(home, fastdl.from_dlpack(host), pinned, stream)
    theirs = {
        "host to device, pinned": lambda: target.set(array),
        "host to device": lambda: cupy.asarray(host),
        "device to host": lambda: device.get(),
        "device to device": lambda: device.copy(),
        "device to device, a window of rows": lambda: device[:half, :half].copy(),
    }

    def on_stream(function, allocator):
        def run():
            with queue, cupy.cuda.using_allocator(allocator):
                return function()

        return run

    rows = []
    pool = cupy.get_default_memory_pool().malloc
    for what, function in ours.items():
        size = COPIED // 4 if "window" in what else COPIED
        mine = bandwidth(gpu, function, stream, size)
        for peer, allocator in (("CuPy", pool), ("CuPy without a pool", None)):
            other = bandwidth(gpu, on_stream(theirs[what], allocator), stream, size)
            rows.append(row(what, "GB/s", mine, peer, other))
    return rows


GROUPS = {"The handshake": handshake, "From C": borrow, "Copies": copies}


def all_rows(gpu):
    """{group: rows}. A group that cannot begin is one row that says why."""
    found = {}
    for name, group in GROUPS.items():
        try:
            found[name] = group(gpu)
        except Exception as error:
            found[name] = [Row(name, failure=f"{type(error).__name__}: {error}"[:200])]
    return found
