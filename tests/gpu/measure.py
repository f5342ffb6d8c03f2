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


def copies(gpu):
    """`Tensor.to` and `copy` beside CuPy's copies of the same arrays, allocation included."""
    import cupy
    import numpy

    stream = gpu.stream()
    theirs = cupy.cuda.ExternalStream(stream)
    side = 1 << 13
    device = cupy.ones((side, side), "float32")
    pinned_memory = cupy.cuda.alloc_pinned_memory(COPIED)
    pinned = numpy.frombuffer(pinned_memory, "float32", side * side).reshape(side, side)
    pinned[:] = 1
    pageable = numpy.ones((side, side), "float32")
    cupy.cuda.Device().synchronize()
    home = fastdl.from_dlpack(device, stream=stream)

    def with_stream(function):
        def run():
            with theirs:
                return function()

        return run

    def compare(what, ours, cupys, size=COPIED):
        return row(
            what, "GB/s", bandwidth(gpu, ours, stream, size),
            "CuPy", bandwidth(gpu, with_stream(cupys), stream, size),
        )  # fmt: skip

    def upload(array):
        return lambda: fastdl.from_dlpack(array).to("cuda:0", stream=stream)

    window, half = home[: side // 2, : side // 2], device[: side // 2, : side // 2]
    return [
        compare("host to device, pinned", upload(pinned), lambda: cupy.asarray(pinned)),
        compare("host to device, pageable", upload(pageable), lambda: cupy.asarray(pageable)),
        compare("device to host", lambda: home.to("cpu", stream=stream), lambda: device.get()),
        compare("device to device", lambda: home.copy(), lambda: device.copy()),
        compare("device to device, a window of rows", lambda: window.copy(), lambda: half.copy(),
                COPIED // 4),
    ]  # fmt: skip


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
