"""`python -m tests.gpu`, as far as it goes without a GPU: a dry run on the simulated driver."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import fastdl
from tests.gpu import __main__ as command
from tests.gpu import backends, child, groups, measure
from tests.gpu.arrays import Library
from tests.gpu.faults import VARIABLE
from tests.gpu.measure import Row, row
from tests.gpu.report import COMPLETE, INTERRUPTED, RUNNING, TIME_UP, Report
from tests.simulated import conformance
from tests.support.isolate import run_isolated
from tests.support.simulation import library_path

ROOT = Path(__file__).parents[1]


@pytest.fixture
def gpu():
    backend = backends.Simulated("cuda")
    yield backend
    backend.close()


# ---- dry runs -------------------------------------------------------------------------------


def arguments(folder, *others):
    return [sys.executable, "-m", "tests.gpu", "--dry-run", "--output", str(folder), *others]


def environment(faults=None):
    library_path("cuda")  # compiled once, for all
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        VARIABLE: json.dumps(faults or {}),
    }


def dry_run(folder, *others, faults=None):
    """(code, report, page)"""
    done = subprocess.run(
        arguments(folder, *others),
        cwd=ROOT,
        env=environment(faults),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert not done.stderr, done.stderr
    return (done.returncode, *read(folder))


def read(folder):
    """(report, page)"""
    return json.loads((folder / "gpu.json").read_text()), (folder / "gpu.md").read_text()


def outcomes(report, group):
    return {r["name"]: r["outcome"] for r in report["outcomes"] if r["group"] == group}


FEW = ("--", "-k", "import_waits or stream_gone or own_memory")  # of the scenarios


@pytest.mark.slow
def test_a_dry_run(tmp_path):
    """Questions of each kind and scenarios, without a fault: all is reached, and nothing is
    confirmed about hardware. All of them run on the simulation in test_simulated_calls.py and
    test_scenarios.py."""
    asked = ("capture", "beside-callbacks", "library-torch", "reset")
    names = [f"ask-{group}" for group in asked]
    code, report, page = dry_run(tmp_path, "--groups", *names, "test-stand-ins", *FEW)
    assert code == 0, page
    assert report["state"].startswith(COMPLETE) and "dry run" in report["state"]
    for group, name, belief in conformance.checks():
        if group in asked:
            assert outcomes(report, f"ask-{group}")[name] == "passed"
            assert any(row["belief"] == belief for row in report["answers"])
    assert set(outcomes(report, "test-stand-ins").values()) == {"passed"}
    assert len(outcomes(report, "test-stand-ins")) >= 5
    assert report["facts"]["GPU"] == "Simulated device"
    assert report["facts"]["cupy-cuda12x"] and report["facts"]["fastdl"]
    assert report["beliefs"]["relaxed"] == "confirmed"
    assert report["beliefs"]["driver-lock"] == "answered"
    assert report["beliefs"]["hip-captures"] == "not asked"
    for part in (
        "### Refuted\n\nNone.",
        "## Not reached\n\nNothing.",
        "| In the relaxed mode",
        "needs an AMD GPU |",
        "beside-callbacks: calls while a callback runs: cuEventQuery while a callback runs |",
    ):
        assert part in page, part


@pytest.mark.slow
def test_faults_cost_one_item_each(tmp_path):
    """A crash, a hang and a device that answers nothing more, among questions and among tests."""
    tests = {"import_waits[plain]": "crash", "own_memory[recorded]": "break"}
    asked = {"forks": "hang", "captured events": "break"}
    code, report, page = dry_run(
        *(tmp_path, "--limit", "3"),
        *("--groups", "ask-capture", "test-stand-ins", "ask-memory", *FEW),
        faults=tests | asked,
    )
    assert code == 1
    words = {"crash": "crashed", "hang": "hung", "break": "broke the device"}
    expected = {name: words[how] for name, how in (tests | asked).items()}
    found = {row["name"]: row["outcome"] for row in report["outcomes"]}
    assert {name: outcome for name, outcome in found.items() if outcome != "passed"} == expected
    assert len(found) > 20
    assert {group["end"] for group in report["groups"].values()} == {"over"}
    # What was lost is not said to be refuted; what the others found is there.
    assert not [row for row in report["answers"] if not row["ok"]]
    assert report["beliefs"]["capture-forks"] == "not asked"
    assert report["beliefs"]["relaxed"] == "confirmed"
    for line in (
        "| ask-capture | forks | hung | no end after 3 s |",
        "| test-stand-ins | import_waits[plain] | crashed | SIGABRT |",
        "| test-stand-ins | own_memory[recorded] | broke the device | "
        "every call answers 700 after this |",
        "| capture: forks: the rest | hung: no end after 3 s |",
    ):
        assert line in page, line
    assert "## Not reached\n\nNothing." in page
    log = (tmp_path / "gpu.log").read_text()
    assert "Fatal Python error: Aborted" in log and "Timeout (0:00:02" in log


@pytest.mark.slow
def test_a_group_that_is_lost_again_and_again(tmp_path):
    """It is given up, and what it had not reached is named."""
    names = list(conformance.GROUPS["callbacks"].checks())
    faults = dict.fromkeys(names, "crash")
    code, report, page = dry_run(tmp_path, "--groups", "ask-callbacks", "ask-memory", faults=faults)
    assert code == 1
    found = list(outcomes(report, "ask-callbacks").values())
    assert found == ["crashed"] * command.TRIES + ["not reached"] * (len(names) - command.TRIES)
    assert set(outcomes(report, "ask-memory").values()) == {"passed"}
    assert f"| ask-callbacks | {names[-1]} | given up: {command.TRIES} processes" in page


@pytest.mark.slow
def test_a_time_that_is_up(tmp_path, monkeypatch):
    """A minute that passes as soon as an item hangs."""
    for name, value in environment({"order": "hang"}).items():
        monkeypatch.setenv(name, value)

    class Clock:
        late, sleep = 0, staticmethod(time.sleep)

        def monotonic(self):
            return time.monotonic() + self.late

    clock, add = Clock(), Report.add

    def added(report, event):
        add(report, event)
        if (event["event"], event.get("name")) == ("begin", "order"):
            clock.late = 61

    monkeypatch.setattr(command, "time", clock)
    monkeypatch.setattr(Report, "add", added)
    before = signal.getsignal(signal.SIGTERM)
    try:
        only = ["--groups", "ask-start", "ask-order", "test-*"]
        code = command.main(["--dry-run", "--output", str(tmp_path), "--minutes", "1", *only])
    finally:
        signal.signal(signal.SIGTERM, before)
    report, page = read(tmp_path)
    assert code == 1 and report["state"].startswith(TIME_UP)
    assert "passed" in outcomes(report, "ask-start").values()
    assert set(outcomes(report, "ask-order").values()) == {"not reached"}
    assert "| ask-order | order by events | no time was left |" in page
    assert "| test-torch | all of it | no time was left |" in page


@pytest.mark.slow
def test_an_interrupted_run(tmp_path):
    """The report is there, also while the run goes on: a signal that kills it leaves that one."""
    process = subprocess.Popen(
        arguments(tmp_path, "--groups", "ask-start", "ask-order", "test-stand-ins"),
        cwd=ROOT,
        env=environment({"order": "hang"}),
        stdout=subprocess.PIPE,
    )
    report, before = tmp_path / "gpu.json", {"outcomes": []}
    end = time.monotonic() + 60
    while not outcomes(before, "ask-order"):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.02)
        if report.exists():
            before = json.loads(report.read_text())  # whole, though the run goes on
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 130
    process.stdout.close()
    after, page = read(tmp_path)
    for found, state in ((before, RUNNING), (after, INTERRUPTED)):
        assert found["state"].startswith(state)
        assert "passed" in outcomes(found, "ask-start").values()
        assert set(outcomes(found, "ask-order").values()) == {"not reached"}
        assert found["not begun"] == {"test-stand-ins": "the run ended before"}
    assert "| test-stand-ins | all of it | the run ended before |" in page


@pytest.mark.slow
def test_a_library_that_is_missing(tmp_path, monkeypatch):
    """Without pytest there are no tests, but all the questions."""
    (tmp_path / "pytest.py").write_text("raise ModuleNotFoundError(\"No module named 'pytest'\")")
    monkeypatch.syspath_prepend(tmp_path)
    code, report, page = dry_run(tmp_path / "out", "--groups", "test-stand-ins", "ask-reset")
    assert code == 1
    assert report["groups"]["ask-reset"]["end"] == "over"
    why = "could not go on: ModuleNotFoundError: No module named 'pytest'"
    assert f"| test-stand-ins | all of it | {why} |" in page


@pytest.mark.slow
def test_a_wheel(tmp_path):
    """It is unpacked, and nothing is installed or built."""
    dist, output = tmp_path / "dist", tmp_path / "out"
    dist.mkdir()
    source = Path(fastdl.__file__).parent
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    with zipfile.ZipFile(dist / f"fastdlpack-9.9-{tag}-{tag}-linux_x86_64.whl", "w") as wheel:
        for path in source.rglob("*"):
            if path.suffix in (".py", ".so", ".pyd"):
                wheel.write(path, Path("fastdl") / path.relative_to(source))
    (dist / "fastdlpack-9.9-cp39-cp39-linux_x86_64.whl").write_bytes(b"for another Python")
    only = ["--groups", "test-stand-ins", "--", "-k", "test_import_waits"]
    code, report, page = dry_run(output, "--wheel", str(dist), *only)
    assert code == 0, page
    assert fastdl.__version__ in report["facts"]["fastdl"]
    assert str(source) not in report["facts"]["fastdl"]
    assert set(outcomes(report, "test-stand-ins").values()) == {"passed"}
    (dist / f"fastdlpack-9.9-{tag}-{tag}-linux_x86_64.whl").unlink()
    done = subprocess.run(
        arguments(output, "--wheel", str(dist)), cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2 and f"with -{tag}- in its name" in done.stderr


# ---- its parts ------------------------------------------------------------------------------


def test_groups():
    names = [group.name for group in groups.chosen(["test-cupy", "ask-s*"])]
    assert names == ["machine", "ask-start", "test-cupy"]
    assert groups.chosen(["*"]) == list(groups.GROUPS.values())
    with pytest.raises(ValueError, match="no group 'tests'"):
        groups.chosen(["tests"])


def test_the_groups_of_tests():
    """Each test of test_hardware.py is in one, and none is empty."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/gpu"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    found = [line.rpartition("::")[2] for line in done.stdout.splitlines() if "::" in line]
    assert len(found) > 300, done.stdout + done.stderr
    assert {groups.of_test(name) for name in found} == set(groups.TESTS)
    for name, group in {
        "test_torch_graph": "torch",
        "test_matrix[cupy-to-torch-ordered]": "cupy",
        "test_matrix[jax-to-numba-ordered]": "jax",
        "test_stream_object[torch-own-plain-to]": "streams",
        "test_exit_with_tensors_alive[module-jax]": "exit",
        "test_export_waits[plain-legacy-from-blocking]": "stand-ins",
    }.items():
        assert groups.of_test(name) == group


def reported(folder, *events):
    """The page and the report of these events of a group of questions."""
    report = Report(groups.chosen(["ask-order"]), folder)
    for event in events:
        report.add({"group": "ask-order", **event})
    report.finish()
    report.write()
    return report, (folder / "gpu.md").read_text()


def answer(**facts):
    row = {"event": "answer", "topic": "order", "name": "a name", "belief": "implicit-order"}
    return {**row, "kind": "checked", "expected": 905, "got": 905, "ok": True, **facts}


def test_what_is_refuted_is_told(tmp_path):
    """In a table that no answer breaks."""
    report, page = reported(tmp_path, answer(), answer(got="a | b\nc", ok=False))
    assert "| order: order: a name | 905 | a \\| b c |" in page and report.failed()
    assert report.as_json()["beliefs"]["implicit-order"] == "refuted"


def test_measurements_are_told(tmp_path):
    """Less time is better, and more bandwidth."""
    rows = [
        Row("a copy", 90.0, "a peer", 100.0, 0.9, "GB/s"),
        Row("kept", 6.0, "a peer", 6.0, 1.0, "ns", target=1.0),
        Row("not kept", 6.0, "a peer", 4.0, 1.5, "ns", target=1.15),
        Row("as fast", 90.0, "a peer", 90.0, 1.0, "GB/s", target=1.0),
        Row("slower", 90.0, "a peer", 100.0, 0.9, "GB/s", target=1.0),
        Row("no library", missing="ModuleNotFoundError: No module named 'cupy'", target=1.0),
        Row("it failed", failure="RuntimeError: no", unit="ns", target=1.0),
    ]
    events = [{"event": "measured", "title": "Copies", "row": child.measured(r)} for r in rows]
    _, page = reported(tmp_path, *events)
    for line in (
        "| a copy | 90 GB/s | a peer 100 GB/s | 0.9 |  |",
        "| kept | 6 ns | a peer 6 ns | 1 | ≤ 1 held |",
        "| not kept | 6 ns | a peer 4 ns | 1.5 | ≤ 1.15 MISSED |",
        "| as fast | 90 GB/s | a peer 90 GB/s | 1 | ≥ 1 held |",
        "| slower | 90 GB/s | a peer 100 GB/s | 0.9 | ≥ 1 MISSED |",
        "| it failed | failed: RuntimeError: no |  |  | ≤ 1 |",
        "| no library | skipped: ModuleNotFoundError: No module named 'cupy' |  |  | ≤ 1 |",
    ):
        assert page.count(line + "\n") == 1, line


def test_peers_in_other_versions(monkeypatch):
    assert child.pinned()["torch"] and child.pinned()["mlx"]
    versions = {"torch": "2.13.0+cu130", "jax": "0.11.2"}

    def version(name):
        if name not in versions:
            raise child.importlib.metadata.PackageNotFoundError
        return versions[name]

    monkeypatch.setattr(child.importlib.metadata, "version", version)
    assert child.peer("torch", "2.13.0") == "2.13.0+cu130"
    assert child.peer("jax", "0.10.2") == "0.11.2 (the tests without a GPU use 0.10.2)"
    assert child.peer("cupy", None) == "missing"


def test_captures_of_a_test_that_fails():
    """They are ended, so that the next test finds a device that may be used."""
    gpu = backends.Simulated("cuda")
    gpu.begin_capture(gpu.stream())
    ended = gpu.stream()
    gpu.begin_capture(ended)
    gpu.destroy_graph(gpu.end_capture(ended))
    gpu.close()
    gpu = backends.Simulated("cuda")
    assert gpu.simulation.live("captures") == 0
    gpu.close()


# ---- what is measured -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "failed", "told"),
    [
        (ModuleNotFoundError("No module named 'cupy'"), False, "skipped: ModuleNotFoundError"),
        (ImportError("libcublas.so.13: cannot open"), True, "failed: ImportError"),
        (RuntimeError("out of memory"), True, "failed: RuntimeError"),
    ],
)
@pytest.mark.parametrize("where", ["a group", "a row"])
def test_what_cannot_be_measured(monkeypatch, tmp_path, where, error, failed, told):
    """A library that is missing is nobody's fault; all else is. What came before is kept."""

    def broken():
        raise error

    def group(gpu):
        yield row("before", "ns", lambda: 6.0, "that", lambda: 3.0)
        if where == "a group":
            broken()
        yield row("this", "ns", broken, "that", lambda: 3.0)

    monkeypatch.setitem(measure.GROUPS, "Copies", group)
    before, last = measure.rows_of("Copies", None)
    assert before == Row("before", 6.0, "that", 3.0, 2.0, "ns")
    assert bool(last.failure) is failed and last.ratio is None
    event = {"event": "measured", "title": "Copies", "row": child.measured(last)}
    assert told in reported(tmp_path, event)[1]


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


@pytest.mark.library("torch")
def test_loops_in_c():
    """Those of a GPU, with a tensor of the host: each timer does what its row says."""
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


def test_without_a_gpu(tmp_path):
    """It ends at once, and nothing is written."""
    look = "from tests.gpu.backends import find; find()"
    there = subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True)
    if there.returncode == 0:
        pytest.skip("there is one, and `python -m tests.gpu` takes a while")
    output = tmp_path / "out"
    result = subprocess.run(
        [sys.executable, "-m", "tests.gpu", "--output", str(output)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2, result.stderr
    assert result.stdout.startswith("nothing to run: no NVIDIA ")
    assert not output.exists()


def test_the_manual(capsys):
    """The page for people with a GPU names options and groups that exist, and all of the former."""
    with pytest.raises(SystemExit, match="0"):
        command.parsed(["--help"], None)
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"}
    page = (ROOT / "docs" / "contributing.md").read_text()
    rows = "".join(line for line in page.splitlines(keepends=True) if line.startswith("| `-"))
    assert set(re.findall(r"--[a-z-]+", rows)) - {"--help"} == options
    assert groups.chosen(shlex.split(re.search(r"--groups ([^`]+)`", page)[1]))
    assert command.MINUTES == 8 and "at most eight minutes" in page
