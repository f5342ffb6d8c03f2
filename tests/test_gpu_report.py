"""`python -m tests.gpu`, as far as it goes without a GPU."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastdl
from tests.gpu import __main__ as command
from tests.gpu import backends, measure
from tests.gpu.arrays import Library
from tests.gpu.measure import Row, row
from tests.interop.peers import require
from tests.support.isolate import run_isolated
from tests.support.simulation import library_path

ROOT = Path(__file__).parents[1]

ANSWERS = {
    "checks": [
        {"topic": "order", "name": "joins", "expected": True, "got": True, "ok": True},
        {"topic": "order", "name": "a name", "expected": 905, "got": 900, "ok": False},
    ]
}


@pytest.fixture
def simulated(monkeypatch):
    """The simulated driver in the place of the GPU, without the tests, which are elsewhere."""
    results = command.Results()
    results.outcomes = {"one": "passed", "two[x]": "skipped: why not"}
    monkeypatch.setattr(command, "Hardware", lambda: backends.Simulated("cuda"))
    monkeypatch.setattr(command, "run_tests", lambda arguments: results)
    monkeypatch.setattr(measure, "GROUPS", dict.fromkeys(measure.GROUPS, lambda gpu: ROWS))
    return results


ROWS = [
    Row("a copy", 90.0, "a peer", 100.0, 0.9, "GB/s"),
    Row("kept", 6.0, "a peer", 6.0, 1.0, "ns", target=1.15),
    Row("not kept", 6.0, "a peer", 4.0, 1.5, "ns", target=1.15),
    Row("no library", missing="ModuleNotFoundError: No module named 'cupy'", target=1.0),
]


@pytest.fixture
def gpu():
    backend = backends.Simulated("cuda")
    yield backend
    backend.close()


def run(monkeypatch, folder, answers):
    monkeypatch.setattr(command, "conformance", lambda: answers)
    monkeypatch.setattr(sys, "argv", ["tests.gpu", "--output", str(folder)])
    return command.main()


def test_a_report(simulated, monkeypatch, tmp_path):
    assert run(monkeypatch, tmp_path, {"checks": ANSWERS["checks"][:1]}) == 0
    report = json.loads((tmp_path / "gpu.json").read_text())
    assert report["tests"] == simulated.outcomes
    assert report["facts"]["GPU"] and report["facts"]["date"]
    assert set(report["measured"]) == {"The handshake", "Events", "From C", "Copies"}
    assert [Row(**row) for row in report["measured"]["Copies"]] == ROWS
    page = (tmp_path / "gpu.md").read_text()
    assert report["facts"]["GPU"] in page and report["facts"]["date"] in page
    assert "1 answers, 0 unexpected" in page and "1 passed, 0 failed, 1 skipped" in page
    for line in (
        "| a copy | 90 GB/s | a peer 100 GB/s | 0.9 |  |",
        "| kept | 6 ns | a peer 6 ns | 1 | ≤ 1.15 held |",
        "| not kept | 6 ns | a peer 4 ns | 1.5 | ≤ 1.15 MISSED |",
        "| no library | skipped: ModuleNotFoundError: No module named 'cupy' |  |  | ≤ 1 |",
    ):
        assert page.count(line + "\n") == 4, line


@pytest.mark.parametrize(
    ("unit", "ratio", "held"),
    [("ns", 1.0, True), ("ns", 1.01, False), ("GB/s", 1.0, True), ("GB/s", 0.99, False)],
)
def test_a_target(unit, ratio, held):
    """Less time is better, and more bandwidth."""
    assert Row("this", 1.0, "that", 1.0, ratio, unit, target=1.0).held is held
    assert Row("this", 1.0, "that", 1.0, ratio, unit).held is None
    assert Row("this", unit=unit, failure="no", target=1.0).held is None


def test_failures_are_told(simulated, monkeypatch, tmp_path):
    assert run(monkeypatch, tmp_path, ANSWERS) == 1
    page = (tmp_path / "gpu.md").read_text()
    assert "| order | a name | 905 | 900 |" in page
    assert run(monkeypatch, tmp_path, {"failure": "no such file", "checks": []}) == 1
    assert "no such file" in (tmp_path / "gpu.md").read_text()
    simulated.outcomes["three"] = "failed: AssertionError"
    assert run(monkeypatch, tmp_path, {"checks": []}) == 1
    assert "| three | failed: AssertionError |" in (tmp_path / "gpu.md").read_text()


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (ModuleNotFoundError("No module named 'cupy'"), 0, "skipped: ModuleNotFoundError"),
        (ImportError("libcublas.so.13: cannot open"), 1, "failed: ImportError"),
        (RuntimeError("out of memory"), 1, "failed: RuntimeError"),
    ],
)
@pytest.mark.parametrize("where", ["a group", "a row"])
def test_what_cannot_be_measured(simulated, monkeypatch, tmp_path, where, error, code, told):
    """A library that is missing is nobody's fault; all else is."""

    def broken():
        raise error

    def group(gpu):
        if where == "a group":
            broken()
        return [row("this", "ns", broken, "that", lambda: 3.0)]

    monkeypatch.setitem(measure.GROUPS, "Copies", group)
    assert run(monkeypatch, tmp_path, {"checks": []}) == code
    assert told in (tmp_path / "gpu.md").read_text()


def test_the_drivers_answers(monkeypatch):
    """The script is found and its report understood: here the simulation answers."""
    folder = str(library_path("cuda").parent)
    monkeypatch.setenv("LD_LIBRARY_PATH", folder)
    answers = command.conformance()
    assert "failure" not in answers and len(answers["checks"]) > 60
    monkeypatch.setattr(command, "CONFORMANCE", ROOT / "no" / "such.py")
    assert "such.py" in command.conformance()["failure"]


def test_a_row():
    numbers = iter(range(1, 100))
    found = row("this", "ns", lambda: next(numbers) * 0 + 6.0, "that", lambda: 3.0)
    assert found == Row("this", 6.0, "that", 3.0, 2.0, "ns")

    def broken():
        raise BufferError("cannot be copied")

    found = row("this", "ns", broken, "that", lambda: 3.0)
    assert found.failure == "BufferError: cannot be copied"
    assert found.ratio is None


def numbers(*shape):
    count = np.prod(shape)
    return fastdl.from_dlpack(np.arange(float(count), dtype="float32").reshape(shape))


def test_our_copies(gpu):
    """They run, and move the bytes: CuPy's side is for a machine with a GPU."""
    host, stream = numbers(64, 64), gpu.stream()
    cubic = numbers(8, 8, 8)
    device, cube = host.to("cuda:0", stream=stream), cubic.to("cuda:0", stream=stream)
    pinned = host.to("cuda_host")
    parts = {"window": host.numpy()[:32, :32], "box": cubic.numpy()[:4, :4, :4]}
    copies = measure.our_copies(device, host, pinned, cube, stream)
    for what, function in copies.items():
        expected = next((part for word, part in parts.items() if word in what), host.numpy())
        found = function()
        assert found.nbytes == expected.nbytes, what
        assert (found.to("cpu").numpy() == expected).all(), what
        assert str(found.device) == (
            "cuda:0" if "to device" in what else "cuda_host:0" if "pinned" in what else "cpu:0"
        )
        assert measure.bandwidth(gpu, function, stream, found.nbytes)() > 0
    both = measure.against_pinned(gpu, copies, stream, host.nbytes)
    assert both.failure == "" and both.ours > 0 and both.theirs > 0


def test_events_that_are_kept_and_not(gpu, monkeypatch):
    """Both timers record once and wait once each time; one of them makes the event for it."""
    monkeypatch.setattr(measure, "BUSY", 16)
    monkeypatch.setattr(measure, "FILLS", 1)
    library, counts = Library(gpu), []
    source, target, array = gpu.stream(), gpu.stream(), library.make(0)

    def counted(what, unit, ours, peer, theirs):
        for timer in (ours, theirs):
            timer()  # warms up
            calls = {name: gpu.simulation.calls(name) for name in EVENT_CALLS}
            timer()
            counts.append([gpu.simulation.calls(name) - calls[name] for name in EVENT_CALLS])

    monkeypatch.setattr(measure, "row", counted)
    with library.using(source):
        measure.one_wait(gpu, array, source, target)
    each = measure.LOOPS
    assert counts == [[0, each, each, 0], [each, each, each, each]]


EVENT_CALLS = ("cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy_v2")


def test_loops_in_c():
    """Those of a GPU, with a tensor of the host: each timer does what its row says."""
    require("torch")
    run_isolated(
        """
    import torch
    from benchmarks.native import load, loops
    from tests.gpu import measure

    measure.ROUNDS = 1
    tensor, ours = torch.ones(8), load("with_fastdl")
    rows = measure.in_loops(tensor, loops, ours, measure.peer_of("tvm_ffi"))
    assert [row.failure + row.missing for row in rows] == [""] * 4
    assert [row.peer for row in rows] == ["torch's table", "the direct call"] + ["tvm-ffi"] * 2
    assert [row.target for row in rows] == [None, 1.15, 0.5, 0.35]
    rows = measure.in_loops(tensor, loops, ours, measure.peer_of("no_such_module"))
    assert [row.ratio is None for row in rows] == [False, False, True, True]
    assert all("no_such_module" in row.missing for row in rows[2:])
    """
    )


def test_without_a_gpu():
    result = subprocess.run(
        [sys.executable, "-m", "tests.gpu", "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    look = "from tests.gpu.backends import find; find()"
    there = subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True)
    if there.returncode == 0:
        pytest.skip("there is one, and `python -m tests.gpu` takes a while")
    result = subprocess.run(
        [sys.executable, "-m", "tests.gpu"], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 2, result.stderr
    assert result.stdout.startswith("nothing to run: no NVIDIA ")
