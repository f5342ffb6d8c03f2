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
from tests.gpu.measure import Row, row
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
    return results


def run(monkeypatch, folder, answers):
    monkeypatch.setattr(command, "conformance", lambda: answers)
    monkeypatch.setattr(sys, "argv", ["tests.gpu", "--output", str(folder)])
    return command.main()


def test_a_report(simulated, monkeypatch, tmp_path):
    assert run(monkeypatch, tmp_path, {"checks": ANSWERS["checks"][:1]}) == 0
    report = json.loads((tmp_path / "gpu.json").read_text())
    assert report["tests"] == simulated.outcomes
    assert report["facts"]["GPU"] and report["facts"]["date"]
    assert set(report["measured"]) == {"The handshake", "From C", "Copies"}
    page = (tmp_path / "gpu.md").read_text()
    assert report["facts"]["GPU"] in page and report["facts"]["date"] in page
    assert "1 answers, 0 unexpected" in page and "1 passed, 0 failed, 1 skipped" in page


def test_failures_are_told(simulated, monkeypatch, tmp_path):
    assert run(monkeypatch, tmp_path, ANSWERS) == 1
    page = (tmp_path / "gpu.md").read_text()
    assert "| order | a name | 905 | 900 |" in page
    assert run(monkeypatch, tmp_path, {"failure": "no such file", "checks": []}) == 1
    assert "no such file" in (tmp_path / "gpu.md").read_text()
    simulated.outcomes["three"] = "failed: AssertionError"
    assert run(monkeypatch, tmp_path, {"checks": []}) == 1
    assert "| three | failed: AssertionError |" in (tmp_path / "gpu.md").read_text()


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


def test_our_copies(monkeypatch):
    """They run, and move the bytes: CuPy's side is for a machine with a GPU."""
    monkeypatch.setattr(measure, "SIDE", 64)
    gpu = backends.Simulated("cuda")
    host = fastdl.from_dlpack(np.arange(64.0 * 64, dtype="float32").reshape(64, 64))
    stream = gpu.stream()
    device = host.to("cuda:0", stream=stream)
    pinned = host.to("cuda_host")
    expected = host.numpy()
    for what, function in measure.our_copies(device, host, pinned, stream).items():
        found = function().to("cpu").numpy()
        assert (found == (expected[:32, :32] if "window" in what else expected)).all(), what
        assert measure.bandwidth(gpu, function, stream)() > 0
    del device, pinned, function, found
    gpu.close()


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
