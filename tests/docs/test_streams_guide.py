# SPDX-License-Identifier: Apache-2.0
"""docs/streams.md tells the truth: each cell of its two tables is run on the simulated drivers."""

import ctypes
import re
from pathlib import Path

import pytest

import fastdl
from tests.gpu.arrays import Library, TabledLibrary
from tests.gpu.backends import NEW, OLD, SIZE, Simulated
from tests.support.assumptions import ASSUMPTIONS
from tests.support.ctypes_dlpack import CPU, FakeProducer, opened
from tests.support.simulation import read

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "streams.md"
DEVICES = (
    *("cpu", "cuda", "cuda_host", "cuda_managed", "rocm", "rocm_host"),
    *("oneapi", "metal", "vulkan", "opencl"),
)
NUMBERS = {name: fastdl.Device(name).type for name in DEVICES}


def rows(name):
    """(device, what stands beside it, {column: cell}) for each device of each row of a table."""
    lines = GUIDE.read_text().partition(f"<!-- table: {name} -->\n\n")[2].partition("\n\n")[0]
    head, _, *body = (
        [cell.strip() for cell in line[1:-1].split("|")] for line in lines.split("\n")
    )
    for first, *cells in body:
        names, _, more = first.partition(" with ")
        for device in re.findall(r"`(\w+)`", names):
            yield device, more, dict(zip(head[1:], cells, strict=True))


def cells(name):
    return [
        pytest.param(device, more, column, cell, id=f"{device}{more and '-to-cpu'}-{column}")
        for device, more, row in rows(name)
        for column, cell in row.items()
    ]


@pytest.fixture
def gpu(device):
    backend = Simulated("hip" if device.startswith("rocm") else "cuda")
    yield backend
    backend.close()


def stream_of(column, gpu):
    if column == "a handle":
        return gpu.stream()
    return None if column in ("no `stream`", "`None`") else int(column.strip("`"))


ERRORS = {"ValueError": ValueError, "BufferError": BufferError}


def test_the_tables_are_whole():
    devices = set(DEVICES)
    assert {device for device, _, _ in rows("consumer")} == devices
    assert {device for device, more, _ in rows("producer") if not more} == devices
    for name in ("consumer", "producer"):
        assert all(len(row) == 6 for _, _, row in rows(name))


# ---- the consumer's table -------------------------------------------------------------------


@pytest.mark.parametrize(("device", "more", "column", "cell"), cells("consumer"))
def test_consumer(gpu, device, more, column, cell):
    stream = stream_of(column, gpu)
    producer = FakeProducer((NUMBERS[device], 0), shape=(SIZE // 4,), data=gpu.memory())
    if cell in ERRORS:
        with pytest.raises(ERRORS[cell]):
            fastdl.from_dlpack(producer, stream=stream)
        assert producer.calls == []  # refused before the producer hears of it
        return
    fastdl.from_dlpack(producer, stream=stream)
    (keywords,) = producer.calls
    if cell == "nothing":
        assert "stream" not in keywords
    else:
        assert keywords["stream"] == (stream if cell == "the handle" else int(cell))


# ---- the producer's table -------------------------------------------------------------------


def export(gpu, device, more, form, stream):
    """Exports a tensor with work in flight; (its data, a stream that nobody asked for)."""
    worker, bystander = gpu.stream(), gpu.stream()
    pinned = device.endswith("_host") or device == "cpu"
    pointer = gpu.place() if pinned else gpu.memory(OLD)
    if device == "cuda_managed":
        pointer = gpu.driver.allocate(SIZE, "managed")
    producer = FakeProducer((NUMBERS[device], 0), shape=(SIZE // 4,), data=pointer)
    ours = NUMBERS[device] != CPU and fastdl.Device(device).stream_kind in (1, 2)
    tensor = fastdl.from_dlpack(producer)
    gpu.fill(worker, pointer, NEW)
    if ours:
        tensor.record(worker)
    arguments = {"dl_device": (CPU, 0)} if more else {}
    capsule = tensor.__dlpack__(stream=stream, **form, **arguments)
    exported = opened(capsule).tensor
    if exported.data != pointer:
        copy = exported.device_type, ctypes.string_at(exported.data, SIZE)
        assert copy == (CPU, bytes([NEW]) * SIZE)  # so the host has waited
        return None, bystander
    return pointer, bystander


def races(gpu, touch):
    """Whether the checker objects to what `touch` does."""
    assert not gpu.simulation.races()
    touch()
    found = bool(gpu.simulation.races())
    gpu.simulation.forget()
    return found


@pytest.mark.parametrize("form", [{}, {"max_version": (1, 3)}], ids=["legacy", "versioned"])
@pytest.mark.parametrize(("device", "more", "column", "cell"), cells("producer"))
def test_producer(gpu, device, more, column, form, cell):
    """Who waits is who touches the bytes afterwards without a race; others must not."""
    stream = stream_of(column, gpu)
    if cell in ERRORS:
        with pytest.raises(ERRORS[cell]):
            export(gpu, device, more, form, stream)
        gpu.simulation.run()
        return
    copied = export(gpu, device, more, form, stream)[0] is None
    assert copied == (cell == "copied")
    gpu.simulation.forget()
    if copied:
        return
    who = cell.removesuffix(" waits")
    assert who in ("no wait", "the host", "that stream", "0", "1", "2")
    if who in ("0", "1", "2"):
        assert stream in (None, int(who))
        stream = int(who)
    elif who == "no wait" or stream in (None, -1):
        stream = gpu.default_stream

    if fastdl.Device(device).stream_kind in (1, 2):
        pointer, _ = export_again(gpu, device, more, form, column, stream)
        assert races(gpu, lambda: gpu.simulation.kernel(stream, read(pointer, SIZE))) == (
            who == "no wait"
        )
    pointer, other = export_again(gpu, device, more, form, column, stream)
    assert races(gpu, lambda: gpu.simulation.kernel(other, read(pointer, SIZE))) == (
        who != "the host"
    )
    if device.endswith(("_host", "_managed")):
        pointer, _ = export_again(gpu, device, more, form, column, stream)
        assert races(gpu, lambda: gpu.simulation.host_read(pointer, SIZE)) == (who != "the host")


def export_again(gpu, device, more, form, column, handle):
    """As the column says: each look at the bytes needs an export of its own."""
    return export(
        gpu, device, more, form, handle if column == "a handle" else stream_of(column, gpu)
    )


# ---- what it costs --------------------------------------------------------------------------


COUNTED = {
    "make": "cuEventCreate",
    "record": "cuEventRecord",
    "wait": "cuStreamWaitEvent",
    "query": "cuEventQuery",
}


class Costs:
    """What calls cost between two streams, on the simulation."""

    def __init__(self, gpu):
        self.gpu = gpu
        self.one, self.two = gpu.stream(), gpu.stream()

    def counts(self):
        return {name: self.gpu.simulation.calls(symbol) for name, symbol in COUNTED.items()}

    def spent(self, before):
        now = self.counts()
        return {name: now[name] - before[name] for name in COUNTED if now[name] != before[name]}

    def imported(self, library):
        array = library.make(OLD)
        self.gpu.fill(self.one, array.pointer, NEW)
        before = self.counts()
        with library.using(self.one), fastdl.use_stream(self.gpu.device, self.one):
            tensor = fastdl.from_dlpack(array)
        return tensor, self.spent(before)

    def export(self, tensor, stream):
        before = self.counts()
        tensor.__dlpack__(stream=stream, max_version=(1, 3))
        return self.spent(before)


@pytest.mark.parametrize("device", ["cuda"])
def test_costs(gpu):
    """The table of costs, in its order, once events have been made."""
    costs, plain, table = Costs(gpu), Library(gpu), TabledLibrary(gpu)
    spare = costs.imported(plain), costs.imported(plain)
    del spare
    gpu.finish(costs.one)

    tensor, spent = costs.imported(plain)
    assert spent == {"record": 1}
    assert costs.export(tensor, costs.two) == {"query": 1, "wait": 1}
    gpu.finish(costs.one)
    assert costs.export(tensor, costs.two) == {"query": 1}
    assert costs.export(tensor, costs.two) == {}

    tensor, spent = costs.imported(table)
    assert spent == {"record": 1}
    gpu.finish(costs.one)
    with table.using(costs.one):
        assert costs.export(tensor, costs.two) == {"query": 1, "record": 1, "wait": 1}
        assert costs.export(tensor, costs.one) == {}


# ---- captures -------------------------------------------------------------------------------


def refuses(call):
    """Whether it does, because of a capture."""
    try:
        call()
    except BufferError as error:
        return "capture" in str(error)
    return False


@pytest.mark.parametrize("device", ["cuda", "rocm"])
def test_captures(gpu, device):
    """The table of captures, in its order. Whatever is refused, the capture goes on."""
    plain, table = Library(gpu), TabledLibrary(gpu)
    before, stream, second, other = gpu.stream(), gpu.stream(True), gpu.stream(), gpu.stream()
    of_table = table.make(OLD)

    def import_on(stream, array):
        with array.library.using(stream), fastdl.use_stream(gpu.device, stream):
            return fastdl.from_dlpack(array)

    idle = fastdl.from_dlpack(plain.make(OLD), stream=-1)
    busy, ended = plain.make(OLD), import_on(before, plain.make(OLD))
    gpu.finish(before)
    gpu.fill(before, busy.pointer, NEW)
    busy = import_on(before, busy)
    gpu.begin_capture(stream)
    gpu.begin_capture(second)

    idle.__dlpack__(stream=stream)
    busy.__dlpack__(stream=-1)
    inside = import_on(stream, of_table)
    with table.using(stream):
        inside.__dlpack__(stream=stream)
        assert refuses(lambda: busy.__dlpack__(stream=stream))
        ended.__dlpack__(stream=stream)
        assert refuses(lambda: inside.__dlpack__(stream=other))
        assert refuses(lambda: inside.__dlpack__(stream=second))
        if device == "cuda":
            assert refuses(lambda: busy.__dlpack__())
        assert refuses(lambda: idle.record(stream))
        assert refuses(lambda: idle.release(stream))
        assert refuses(lambda: inside.__dlpack__(dl_device=(CPU, 0)))
        assert refuses(lambda: inside.to("cpu", stream=stream))
    for capturing in (second, stream):
        gpu.destroy_graph(gpu.end_capture(capturing))


# ---- assumptions ----------------------------------------------------------------------------


@pytest.mark.parametrize("where", sorted({row[2] for row in ASSUMPTIONS}))
def test_the_simulation_has_what_encodes_an_assumption(where):
    files = re.findall(r"`([\w/]+\.(?:c|py))`", where)
    paths = [ROOT / ("" if "/" in name else "tests/simulated") / name for name in files]
    assert all(path.exists() for path in paths)
    text = "".join(path.read_text() for path in paths or (ROOT / "tests/simulated").iterdir())
    assert [name for name in re.findall(r"`(\w+)`", where) if name not in text] == []
