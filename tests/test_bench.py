"""python -m fastdl bench: what it times, what it says of it, and of libraries that fail. No time is
judged here."""

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import pytest

from fastdl.__main__ import main
from fastdl.cli import bench, timing
from fastdl.cli.budgets import BUDGETS
from fastdl.cli.libraries import LIBRARIES
from fastdl.cli.rows import OTHERS, ROWS

KNOWN = {library.name: library for library in LIBRARIES}


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(timing, "ROUNDS", 3)
    monkeypatch.setattr(timing, "SAMPLE", 1e-6)


# ---- the rows -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*ROWS, "others"])
def test_rows_are_statements_with_known_budgets(name):
    assert name in KNOWN or name == "others"
    for row in ROWS.get(name, OTHERS):
        for statement in (row.ours, row.peer):
            ast.parse(statement, mode="eval")
        assert "fastdl" in row.ours or "tensor" in row.ours
        assert not row.budget or row.budget in BUDGETS


@pytest.mark.parametrize("name", ["numpy", "tvm_ffi"])
def test_all_rows_of_a_library_are_measured(name, quick):
    answer = bench.measure(KNOWN[name])
    assert answer["version"]
    assert [row["what"] for row in answer["rows"]] == [row.ours for row in ROWS[name]]
    for row in answer["rows"]:
        assert "failure" not in row
        assert row["ns"] > 0 and row["peer_ns"] > 0
        assert row["quartiles"][0] <= row["ratio"] <= row["quartiles"][1]


def test_a_row_that_fails_has_the_reason(quick):
    row = bench.row_of(bench.Row("tensor.nothing()", "tensor.shape"), {"tensor": 0})
    assert row == {
        "what": "tensor.nothing()",
        "peer": "tensor.shape",
        "failure": "AttributeError: 'int' object has no attribute 'nothing'",
    }


# ---- timing ---------------------------------------------------------------------------------


def test_a_subject_runs_its_statement_as_often_as_asked():
    calls = Counter()
    module = ModuleType("module")
    module.count = lambda what: calls.update([what])
    run = timing.subject("module.count(x)", {"module": module, "x": "first"})
    module.count = None  # was looked up before
    assert run(3) > 0
    assert calls == {"first": 3}


def test_names_are_those_given_or_modules():
    assert timing.names_in("(f.g(x, 'y')[z], z)") == {"f", "x", "z"}
    assert timing.subject("math.sqrt(x)", {"x": 4})(1) > 0
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        timing.subject("no_such_module.f()", {})


def test_both_run_in_each_round_and_take_turns(quick):
    order = []

    def subject(name, seconds):
        def run(loops):
            order.append(name)
            return loops * seconds

        return run

    samples = timing.interleave(subject("ours", 2e-6), subject("peer", 1e-6))
    assert samples == [(2e-6, 1e-6)] * 3
    assert order[-6:] == ["peer", "ours", "ours", "peer", "peer", "ours"]


def test_a_ratio_is_within_a_round():
    row = timing.compared("a", "b", [(1e-9, 2e-9), (1e-6, 2e-6), (3e-9, 6e-9)])
    assert (row["what"], row["peer"]) == ("a", "b")
    assert (row["ns"], row["peer_ns"]) == (pytest.approx(3), pytest.approx(6))
    assert row["ratio"] == pytest.approx(0.5)
    assert row["quartiles"] == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(
    ("quartiles", "verdict"), [((0.1, 0.3), "held"), ((0.31, 0.4), "missed"), ((0.2, 0.4), "close")]
)
def test_between_the_quartiles_there_is_no_verdict(quartiles, verdict):
    row = bench.judged({"quartiles": quartiles}, "from_numpy/numpy")
    assert BUDGETS["from_numpy/numpy"] == row["budget"] == 0.3
    assert row["verdict"] == verdict


# ---- the command ----------------------------------------------------------------------------


def test_json():
    """On stdout nothing else; the progress is on stderr."""
    command = [sys.executable, "-m", "fastdl", "bench", "--json", "numpy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [*report["libraries"]] == ["numpy"]
    assert len(report["libraries"]["numpy"]["rows"]) == len(ROWS["numpy"])
    assert report["start"][0]["what"] == "import fastdl"
    assert report["empty_call_ns"] > 0
    assert "numpy ... " in done.stderr


def test_table(monkeypatch, capsys):
    cost = {"ratio": 0.25, "quartiles": [0.2, 0.3], "budget": 0.5, "verdict": "held"}
    rows = [
        {"what": "f(x)", "ns": 50.0, "peer": "g(x)", "peer_ns": 200.0, **cost},
        {"what": "h(x)", "peer": "g(x)", "failure": "TypeError: no"},
    ]
    answers = {"numpy": {"version": "9.9", "rows": rows}, "torch": {"failure": "no answer"}}
    monkeypatch.setattr(bench, "installed", lambda: [SimpleNamespace(name=n) for n in answers])
    monkeypatch.setattr(bench, "imports", list)
    monkeypatch.setattr(bench, "in_child", answers.get)
    assert main(["bench"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "numpy 9.9"
    expected = "f(x) 50.0 ns g(x) 200.0 ns 0.25 (0.20 to 0.30) <= 0.5 held"
    assert lines[3].split() == expected.split()
    assert lines[4:7] == ["  h(x): TypeError: no", "torch", "  not measured: no answer"]


@pytest.mark.parametrize(
    ("nanoseconds", "shown"),
    [(0.4, "0.4 ns"), (55.5, "55.5 ns"), (1234, "1234 ns"), (10_500, "10.5 us"), (3e7, "30.0 ms")],
)
def test_costs(nanoseconds, shown):
    assert bench.cost(nanoseconds) == shown


def test_an_unknown_library(capsys):
    assert main(["bench", "nonsense"]) == 2
    assert "got nonsense" in capsys.readouterr().err


FAKES = {  # of a library that is installed in no environment of the tests
    "import no_such_module": "ModuleNotFoundError: No module named 'no_such_module'",
    "import sys; sys.exit('gone')": "ended with status 1: gone",
    "import os; os.abort()": "ended with status -6",
    "import time; time.sleep(600)": "no answer in 2 seconds",
}


@pytest.mark.skipif(find_spec("mxnet") is not None, reason="MXNet is installed")
@pytest.mark.skipif(sys.platform == "win32", reason="has no signals")
@pytest.mark.parametrize("source", FAKES)
def test_a_library_that_fails_has_the_reason(source, tmp_path, monkeypatch, capsys):
    (tmp_path / "mxnet.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.setattr(bench, "SECONDS", 2 if "sleep" in source else 120)
    failure = bench.in_child("mxnet")["failure"]
    assert failure.startswith(FAKES[source])
    assert failure in capsys.readouterr().err
