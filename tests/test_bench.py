"""python -m fastdl bench: what it times, what it says of it, and of libraries that fail. No time is
judged here."""

import ast
import json
import os
import re
from collections import Counter
from types import ModuleType

import pytest

from fastdl.__main__ import main
from fastdl._cli import bench, costs, libraries, timing
from fastdl._cli.budgets import BUDGETS
from tests.support.fake_libraries import ARRAY, install, run

ROWS = {name: costs.rows_of(name) for name in libraries.BY_NAME}


def report_of(folder, *names):
    done = run(folder, "bench", "--json", "--quiet", "--only", ",".join(names))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def failure_of(tmp_path, monkeypatch):
    """What the report says of a library, by its source, that is installed in no environment of the
    tests."""

    def costs_of(source):
        install(tmp_path, "mxnet", source)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
        library = bench.costs_of(libraries.BY_NAME["mxnet"], bench.processes.Progress(1))
        assert library["name"] == "mxnet"
        return library

    return costs_of


# ---- the rows -------------------------------------------------------------------------------


def test_rows_are_statements_with_known_budgets():
    assert costs.ROWS.keys() <= libraries.BY_NAME.keys()
    for row in (row for rows in ROWS.values() for row in rows):
        for statement in (row.ours, row.peer):
            ast.parse(statement, mode="eval")
        assert "fastdl" in row.ours or "tensor" in row.ours
        assert not row.budget or row.budget in BUDGETS


@pytest.mark.slow
def test_all_rows_of_numpy_are_measured(tmp_path):
    """Those of others are in tests/interop/test_command_line.py."""
    report = report_of(tmp_path, "numpy")
    assert report["start"][0]["what"] == "import fastdl"
    assert report["empty_call_ns"] > 0
    (library,) = report["libraries"]
    assert library["name"] == "numpy" and library["version"]
    assert library["failure"] is None
    assert [row["what"] for row in library["rows"]] == [row.ours for row in ROWS["numpy"]]
    for row in library["rows"]:
        assert "error" not in row
        assert row["ns"] > 0 and row["peer_ns"] > 0
        assert row["quartiles"][0] <= row["ratio"] <= row["quartiles"][1]


def test_an_interpreter_that_says_more_is_timed(tmp_path, monkeypatch):
    """Around the number, and in no encoding."""
    code = r"""
import atexit, os
os.write(1, b"\xff hello\n1")
atexit.register(print, "bye")
"""
    (tmp_path / "sitecustomize.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    assert bench.import_seconds("import json") > 0


def test_a_numpy_that_cannot_be_imported_is_a_reason(tmp_path):
    """Of the rows that need it; the others are measured."""
    install(tmp_path, "numpy", "raise ImportError('libnumpy.so: no such file')\n")
    source = "import array\nclass Series(array.array):\n  to_numpy = array.array.tolist\n"
    source += "  def __new__(cls, values): return super().__new__(cls, 'f', values)\n"
    source += "class numpy:\n  def arange(n, dtype): return range(n)\n"
    install(tmp_path, "pandas", source)
    source = "import array as module\nfloat32 = str\nclass Array: pass\n"
    source += "def array(values, kind): return module.array('f', values)\n"
    install(tmp_path, "pyarrow", source)
    report = report_of(tmp_path, "pandas", "pyarrow")
    (start,) = report["start"]
    reason = "exit status 1: ImportError: libnumpy.so: no such file"
    assert start["error"] == f"import numpy: {reason}"
    pyarrow, pandas = (library["rows"] for library in report["libraries"])
    assert [row["what"] for row in pandas] == ["fastdl.asarray(x)"] and pandas[0]["ns"] > 0
    assert [row["what"] for row in pyarrow] == [row.ours for row in ROWS["pyarrow"]]
    assert all("libnumpy.so" in row["error"] for row in pyarrow[1:])


def test_a_row_whose_module_is_missing_is_left_out():
    steps = {"import": "1.0", ROWS["numpy"][1].both: {"ns": 1.0}}
    assert [row["what"] for row in bench.rows_in("numpy", steps)] == [ROWS["numpy"][1].ours]


# ---- timing ---------------------------------------------------------------------------------


def test_a_subject_runs_its_statement_as_often_as_asked():
    calls = Counter()
    module = ModuleType("module")
    module.count = lambda what: calls.update([what])
    run = timing.subject("module.count(x)", {"module": module, "x": "first"})
    module.count = None  # was looked up before
    assert run(3) > 0
    assert calls == {"first": 3}


def test_both_run_in_each_round_and_take_turns(monkeypatch):
    monkeypatch.setattr(timing, "ROUNDS", 3)
    monkeypatch.setattr(timing, "SAMPLE", 1e-6)
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
    row = timing.compared([(1e-9, 2e-9), (1e-6, 2e-6), (3e-9, 6e-9)])
    assert (row["ns"], row["peer_ns"]) == (pytest.approx(3), pytest.approx(6))
    assert row["ratio"] == pytest.approx(0.5)
    assert row["quartiles"] == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(
    ("quartiles", "verdict"), [((0.1, 0.3), "held"), ((0.31, 0.4), "missed"), ((0.2, 0.4), "close")]
)
def test_between_the_quartiles_there_is_no_verdict(quartiles, verdict):
    row = costs.judged({"quartiles": quartiles}, "from_numpy/numpy")
    assert BUDGETS["from_numpy/numpy"] == row["budget"] == 0.3
    assert row["verdict"] == verdict


# ---- the command ----------------------------------------------------------------------------


def test_table_and_progress(monkeypatch, capsys):
    cost = {"ratio": 0.25, "quartiles": [0.2, 0.3], "budget": 0.5, "verdict": "held"}
    rows = [
        {"what": "f(x)", "ns": 50.0, "peer": "g(x)", "peer_ns": 200.0, **cost},
        {"what": "h(x)", "peer": "g(x)", "error": "TypeError: no"},
    ]
    answers = {
        "numpy": {"name": "numpy", "version": "9.9", "rows": rows, "failure": None},
        "torch": {"name": "torch", "version": None, "rows": [], "failure": "hung"},
    }
    monkeypatch.setattr(libraries.Library, "installed", True)
    monkeypatch.setattr(bench, "imports", lambda progress: progress.ended("import", 1, None) or [])
    monkeypatch.setattr(bench, "costs_of", lambda library, progress: answers[library.name])
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["bench", "--only", "numpy,torch"]) == 0
    shown = capsys.readouterr()
    assert shown.err == "[1/3] import 1.0 s\n"
    lines = shown.out.splitlines()
    start = lines.index("numpy 9.9")
    assert lines[start + 1].split() == "f(x) 50 ns 0.25 <= 0.5 held".split()
    assert lines[start + 2].split() == "vs g(x) 200 ns 0.20 to 0.30".split()
    assert lines[start + 3 : start + 7] == [
        "  h(x): TypeError: no",
        "",
        "torch",
        "  not measured: hung",
    ]


def table_of(columns, library, rows, cores=2):
    """The lines of a report on one library; each row is of two statements."""
    cost = {"ns": 99_999.0, "peer_ns": 123.4, "ratio": 10.25, "quartiles": [10.2, 10.3]}
    cost |= {"budget": 0.667, "verdict": "missed"}
    report = {
        "fastdl": "1.0",
        "python": "3.99.0",
        "system": "Linux x86_64",
        "cores": cores,
        "load": None,
        "empty_call_ns": 10.0,
        "start": [],
        "not_installed": [],
        "libraries": [
            {
                "name": library,
                "version": "1.0",
                "rows": [{"what": ours, "peer": peer, **cost} for ours, peer in rows],
                "failure": None,
            }
        ],
    }
    return list(bench.as_text(report, columns))


@pytest.mark.parametrize("columns", [80, 100, 140])
def test_all_rows_fit_the_terminal(columns):
    for name, rows in ROWS.items():
        lines = table_of(columns, name, [(row.ours, row.peer) for row in rows])
        assert max(map(len, lines)) <= columns
        text = "\n".join(lines)
        for row in rows:
            assert f"  {row.ours} " in text and f"vs {row.peer}" in text
        # All numbers of a kind are in one place.
        assert len({line.index(" ns ") for line in lines if line.endswith("10.20 to 10.30")}) == 1


def test_rows_of_two_arrays_say_so():
    marked = [
        line
        for name, rows in ROWS.items()
        for line in table_of(80, name, [(row.ours, row.peer) for row in rows])
        if ", other array" in line
    ]
    assert [line.split()[1] for line in marked] == ["numpy.from_dlpack(ndarray),"]
    assert any(line.startswith("other array: ") for line in table_of(80, "tvm_ffi", []))


@pytest.mark.parametrize(
    ("nanoseconds", "shown"),
    [
        (0.4, "0.4 ns"),
        (55.5, "55.5 ns"),
        (999.4, "999 ns"),
        (999.6, "1 us"),
        (1234, "1.23 us"),
        (7_958_000, "7.96 ms"),
        (212_700_000, "213 ms"),
        (2e9, "2 s"),
    ],
)
def test_costs(nanoseconds, shown):
    assert bench.cost(nanoseconds) == shown


def test_a_library_that_is_not_installed(monkeypatch, capsys):
    """Asked for, it is mentioned; there is nothing else to show."""
    monkeypatch.setattr(libraries.Library, "installed", False)
    monkeypatch.setattr(bench, "imports", lambda _: [])
    assert main(["bench", "--quiet", "--only", "cupy"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["Not installed: cupy."]


def test_each_word_of_the_table_is_explained():
    text = " ".join(" ".join(table_of(80, "numpy", [])).split())
    for word in ("ratio", "budget", "held", "missed", "close", "round"):
        assert re.search(rf"\b{word}:|[Aa] {word} ", text), word


# ---- libraries that fail --------------------------------------------------------------------

WORKS = ARRAY.replace("def arange", "class nd:\n  @staticmethod\n  def arange").replace(
    "(n, dtype)", "(n)"
)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("class nd: arange = None", "TypeError: 'NoneType' object is not callable"),
        ("class nd: arange = str", "TypeError: "),
    ],
)
def test_a_library_that_does_not_work(source, reason, failure_of):
    library = failure_of(source)
    assert library["failure"].startswith(reason)
    assert library["rows"] == []


def test_a_library_that_dies(failure_of):
    library = failure_of("import os; os._exit(9)")
    assert library["failure"] == "crashed in import: exit status 9"


def test_a_row_that_raises_has_the_reason(failure_of):
    """The library has arrays with a buffer alone."""
    library = failure_of(WORKS)
    assert library["failure"] is None
    errors = [row["error"] for row in library["rows"]]
    assert len(errors) == len(ROWS["mxnet"])
    assert "no attribute '__dlpack__'" in errors[0] or "__dlpack__" in errors[0]
