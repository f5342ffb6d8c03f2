# SPDX-License-Identifier: Apache-2.0
"""The suite as pytest and the command line run it, and its reports."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from dlpack_conformance import (
    _dlpack,
    adapters,
    crashes,
    elements,
    leaks,
    outcomes,
    pairs,
    reports,
    runner,
    suite,
)
from dlpack_conformance.command import main


def run(folder, *arguments):
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def suite_of(folder, *arguments):
    return run(folder, "-m", "pytest", "-p", "no:cacheprovider", *arguments)


# ---- the plugin -----------------------------------------------------------------------------


def test_the_plugin_costs_nothing_when_it_is_not_used(tmp_path):
    (tmp_path / "test_one.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    found = {name for name in sys.modules if name.startswith('dlpack_conformance.')}\n"
        "    parts = ('pytest_plugin',)\n"
        "    assert found == {f'dlpack_conformance.{name}' for name in parts}\n"
    )
    done = suite_of(tmp_path, "-q", "test_one.py")
    assert done.returncode == 0, done.stdout


ADAPTER = """
import numpy as np
title = "Mine"
distribution = "numpy"
make = np.array
from_dlpack = np.from_dlpack
def values(array):
    return array.tolist()
"""


def test_a_library_by_its_own_adapter(tmp_path):
    """The configuration names it; reports are written; other tests run beside it."""
    (tmp_path / "mine.py").write_text(ADAPTER)
    (tmp_path / "test_own.py").write_text("def test_own(): pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\ndlpack = mine\npythonpath = .\n")
    names = [f"--dlpack-report=report.{kind}" for kind in ("json", "md", "html")]
    done = suite_of(tmp_path, "-k", "producer or own", "--junitxml=junit.xml", *names)
    assert done.returncode == 0, done.stdout
    assert "DLPack: Mine" in done.stdout
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["library"]["title"] == "Mine" and report["library"]["version"] == np.__version__
    results = {result["id"]: result for result in report["results"]}
    assert results["producer.values"]["outcome"] == "passed"
    assert "| Mine |" in (tmp_path / "report.md").read_text()
    page = (tmp_path / "report.html").read_text()
    assert "producer.values" in page and "http" not in page and "<script" not in page
    cases = {
        case.get("name") for case in ElementTree.parse(tmp_path / "junit.xml").iter("testcase")
    }
    assert {"test_own", "producer.values"} <= cases


BROKEN = """
import os, signal
from dlpack_conformance.adapters.numpy import *
deviations = {"layout.export": "Its documentation says that it is reversed."}
def to_dlpack(array, **keywords):
    if keywords.get("stream") == 7:
        os.kill(os.getpid(), signal.SIGSEGV)
    return array.T.__dlpack__(**keywords)
"""


def test_failures_and_crashes_are_told_with_what_they_are_from(tmp_path):
    (tmp_path / "broken.py").write_text(BROKEN)
    done = suite_of(
        tmp_path,
        "--dlpack=broken",
        "--dlpack-report=report.json",
        *(
            "-k",
            "producer.values or producer.keywords or host-has-none or layout.export and not conj",
        ),
        *("-o", "pythonpath=."),
    )
    assert done.returncode == 1
    found = json.loads((tmp_path / "report.json").read_text())["results"]
    assert {result["id"]: (result["outcome"], result["severity"]) for result in found} == {
        "producer.values": ("failed", outcomes.DATA),
        "layout.export": ("deviates", outcomes.DATA),
        "producer.keywords": ("passed", outcomes.DEVIATION),
        "streams.host-has-none": ("crashed", outcomes.MEMORY),
    }
    for words in ("the process died of SIGSEGV", "it is reversed", "DLPack 1.3, dlpack.h"):
        assert words in done.stdout


def test_an_adapter_that_cannot_be_imported(tmp_path):
    """One error for all of its checks."""
    for name in ("no_such_library", "", "numpy,torch"):
        done = suite_of(tmp_path, f"--dlpack={name}")
        assert done.returncode == 2 and "1 error in" in done.stdout, done.stdout
        assert f"{name} cannot be loaded: " in done.stdout


def test_a_check_by_its_name(tmp_path):
    """As pytest prints it; beside other tests; in the processes of pytest-xdist."""
    (tmp_path / "test_own.py").write_text("def test_own(): pass\n")
    names = ["dlpack::numpy::offset.offset", "dlpack::numpy::producer.values"]
    done = suite_of(tmp_path, "-v", *names, "test_own.py", "--junitxml=junit.xml")
    count = len(suite.all_checks())
    assert done.returncode == 0
    assert f"collected {count + 1} items / {count - 2} deselected" in done.stdout
    assert all(f"{name} PASSED" in done.stdout for name in (*names, "test_own.py::test_own"))
    assert suite_of(tmp_path, "dlpack::numpy::no.such-check").returncode == 4
    read = ElementTree.parse(tmp_path / "junit.xml").iter("property")
    found = [(one.get("name"), one.get("value")) for one in read]
    assert found[:2] == [("outcome", "passed"), ("severity", outcomes.DATA)]
    assert {name for name, _ in found} == {"outcome", "severity", "clause", "note"}
    pytest.importorskip("xdist")
    done = suite_of(tmp_path, names[0], "-n1", "--dlpack-report=report.json")
    assert done.returncode == 0 and "1 passed in" in done.stdout
    (result,) = json.loads((tmp_path / "report.json").read_text())["results"]
    assert result["id"] == "offset.offset"


def test_the_configuration_is_for_runs_of_all_tests(tmp_path):
    (tmp_path / "test_own.py").write_text("def test_own(): pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\ndlpack = numpy\n")
    done = suite_of(tmp_path, "test_own.py")
    assert "collected 1 item\n" in done.stdout and "1 passed" in done.stdout
    done = suite_of(tmp_path, "-k", "test_own or offset.offset")
    count = len(suite.all_checks())
    assert f"collected {count + 1} items / {count - 1} deselected / 2 selected" in done.stdout


def test_a_report_that_cannot_be_written_is_refused_at_once(tmp_path, capsys):
    for name, words in [("report.txt", "ends in .html or .json or .md"), ("none/x.md", "written")]:
        done = suite_of(tmp_path, "--dlpack=numpy", f"--dlpack-report={name}")
        assert done.returncode == 4 and words in done.stderr
        with pytest.raises(SystemExit, match="2"):
            main(["run", "numpy", "--report", str(tmp_path / name)])
        assert words in capsys.readouterr().err


# ---- the adapter is tried first ----

NUMPY = "from dlpack_conformance.adapters.numpy import *"


@pytest.fixture
def adapter(tmp_path, monkeypatch):
    """A function that writes the module of an adapter, where this process and others find it."""
    monkeypatch.syspath_prepend(tmp_path)
    return lambda name, *lines: (tmp_path / f"{name}.py").write_text("\n".join(lines))


WRONG = {
    "neither": ("", "neither make nor from_dlpack"),
    "text": ("dtypes = 'float32'", "dtypes of the adapter is not a list of names: 'float32'"),
    "listed": ("views = ['strided']", "views of the adapter is not a dictionary"),
    "called": ("values = 3", "values of the adapter is not a function"),
    "unknown": ("deviations = {'a.b': ''}", "deviations of checks that do not exist: ['a.b']"),
    "make": ("def make(values): return np.array(values)", "raised TypeError: make() takes 1"),
    "reads": ("def values(a): raise OSError('no')", "values(array) of make([[-1.5, 0.0, 2.0], "),
    "tuples": ("def values(a): return tuple(a.tolist())", "returned tuple: nested lists of"),
    "array": ("def values(a): return a", "returned ndarray: nested lists of numbers are due"),
    "scalars": ("def values(a): return [[*row] for row in a[..., None]]", "returned ndarray"),
    "other": ("def values(a): return (a + 1).tolist()", "returned [[-0.5, 1.0, 3.0], "),
    "alone": ("def make(*x): return [*x[0]]", "no attribute '__dlpack__': leave out `make`"),
    "crash": ("def make(*x): __import__('os').abort()", "died of SIGABRT: in make, "),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_fault_of_the_adapter_is_told_as_such(adapter, capsys, name):
    line, words = WRONG[name]
    adapter(f"wrong_{name}", *([NUMPY, line] if line else ()))
    assert main(["run", f"wrong_{name}"]) == 2
    told = capsys.readouterr().err
    assert words in told and "Traceback" not in told


def test_names_that_are_nearly_those_of_an_adapter(adapter, capsys):
    adapter(
        "doubtful",
        "import ctypes",
        "from dlpack_conformance.adapters.numpy import make, from_dlpack as form_dlpack",
        "dtypes = ('float32', 'flaot64', 'x')",
        "views = {'transpose': None}",
        "view = value = mine = 3",
    )
    assert main(["run", "doubtful", "-k", "producer.values"]) == 0
    found = re.findall("warning: (.*), which is not used: is (.*) meant", capsys.readouterr().out)
    assert found == [
        ("the adapter has form_dlpack", "from_dlpack"),
        ("the adapter has value", "values"),
        ("views of the adapter has 'transpose'", "transposed"),
        ("dtypes of the adapter has 'flaot64'", "float64"),
        ("dtypes of the adapter has 'x'", ", ".join(elements.DTYPES)),
    ]


@pytest.mark.parametrize("forks", [True, False])
def test_a_check_that_does_not_end(tmp_path, adapter, capsys, forks):
    """It is no crash."""
    sleeping = "def from_dlpack(x, **more): time.sleep(600)"
    adapter("slow", "import time", NUMPY, f"forks = {forks}", sleeping)
    path = tmp_path / "r.json"
    arguments = ["-k", "consumer.values", "--limit", "0.5", "--report", str(path)]
    assert main(["run", "slow", *arguments]) == 1
    (result,) = json.loads(path.read_text())["results"]
    assert (result["outcome"], result["severity"]) == (outcomes.TIMED_OUT, outcomes.DATA)
    assert result["note"] == "no answer in 0.5 s"
    assert capsys.readouterr().err.startswith("slow T")
    with pytest.raises(SystemExit, match="2"):
        main(["run", "slow", "--limit", "0"])


@pytest.mark.parametrize("forks", [True, False])
def test_a_crash_is_told_with_its_place(tmp_path, adapter, forks):
    adapter(
        *("crashing", "import os", NUMPY, f"forks = {forks}"),
        "def from_dlpack(x, **more):",
        "    os.write(2, b'first words\\nlast words\\n')",
        "    os.abort()",
    )
    (result,) = runner.report("crashing", checks=["consumer.values"])["results"]
    place = f"in from_dlpack, {tmp_path.name}/crashing.py:6"
    assert result["note"] == f"the process died of SIGABRT: last words: {place}"


def test_long_messages_end_after_a_word():
    assert crashes.shortened("one two", 7) == "one two"
    assert crashes.shortened("one two three", 12) == "one two ..."
    assert crashes.shortened("x" * 20, 10) == "xxxxxx ..."


def test_what_a_process_said_last():
    assert crashes.last_words("") == ""
    assert crashes.last_words("\n a \nb") == ": a"
    assert crashes.last_words("a\nframe #0: b (0x0 in c)\nFatal Python error: x\n") == ": a"
    assert crashes.last_words("Fatal Python error: x\n\nThread 1:\n  <no frame>") == ""
    reader, writer = os.pipe()
    assert crashes.Said(reader).words() == ""  # it has no place to read from
    os.close(reader), os.close(writer)


# ---- what it starts, it ends ----------------------------------------------------------------

BUSY = """
import signal, socket, time
from dlpack_conformance.adapters.numpy import *
from dlpack_conformance.suite import NotApplicable
def from_dlpack(x, device=None):
    if device is not None or type(x).__name__ == "Refusing":
        raise NotApplicable("another check")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in native code, which does not return
    kept = socket.create_connection(("127.0.0.1", {port}))
    time.sleep(90)
"""


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no groups of processes")
@pytest.mark.parametrize(
    "command",
    [
        ("run", "tardy", "-k", "streams.host", "-k", "stream-only", "--report", "r.json"),
        ("pairs", "numpy", "tardy", "--output", "r.json"),
    ],
    ids=["run", "pairs"],
)
def test_ctrl_c_ends_the_check_that_runs(tmp_path, command):
    """What was done before is shown and written."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        (tmp_path / "tardy.py").write_text(BUSY.format(port=server.getsockname()[1]))
        line = [sys.executable, "-m", "dlpack_conformance", *command]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        # Who runs the tests in the background may ignore this signal, and a child inherits that.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        started = subprocess.Popen(line, cwd=tmp_path, start_new_session=True, **output)
        signal.signal(signal.SIGINT, before)
        try:
            check, _ = server.accept()
            os.killpg(started.pid, signal.SIGINT)  # as a terminal does
            printed, errors = started.communicate(timeout=30)
            assert started.returncode == 130 and "Traceback" not in errors
            assert "interrupted" in printed
            found = json.loads((tmp_path / "r.json").read_text())
            assert found["interrupted"] and (found.get("results") or found["pairs"])
            with check:
                check.settimeout(30)
                assert check.recv(1) == b""  # closed, since its process is gone
        finally:
            started.kill()
            started.wait()


# ---- the checks -----------------------------------------------------------------------------


def test_checks_are_described():
    checks = suite.all_checks()
    unsafe = sum(check.severity == outcomes.MEMORY for check in checks.values())
    readme = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
    assert f"There are {len(checks)} checks; {unsafe} of them" in readme
    for check in checks.values():
        assert re.fullmatch(r"[a-z]+\.[a-z0-9-]+", check.id)
        assert check.sentence.endswith(".") and check.clause
        assert not check.after or check.after in checks
    assert {check.section for check in checks.values()} == {*outcomes.SECTIONS}
    order = [*checks]
    assert all(order.index(c.after) < order.index(c.id) for c in checks.values() if c.after)


@pytest.mark.parametrize("absent", ["make", "from_dlpack, from_capsule"])
def test_a_library_may_have_one_side_only(adapter, absent):
    """What it lacks is not applicable, in whatever a check does with exceptions."""
    names = "{name: getattr(library, name) for name in dir(library) if name[0] != '_'}"
    adapter(
        *("one_sided", "from reference import Reference", "library = Reference()"),
        *(f"globals().update({names})", f"del {absent}"),
    )
    results = runner.report("one_sided")["results"]
    assert {result["outcome"] for result in results} == {outcomes.PASSED, outcomes.SKIPPED}
    assert not [result for result in results if "NotApplicable" in result["note"]]


def test_a_note_counts_the_cases_that_it_is_about():
    """It is said once, however many there are."""

    def check(lib, note):
        return note

    cases = [("zero", "copies"), ("one", None), ("two", "refused"), ("three", "copies")]
    found = suite.each(check, lambda lib: cases, suite.Library(object(), "none"))
    assert found == "copies (zero, and 1 more); refused (two)"


def test_nothing_uses_fastdl_but_its_adapter():
    for path in Path(suite.__file__).parent.rglob("*.*"):
        if path.suffix in (".c", ".py") and path.stem != "fastdl":
            assert not re.search(r"(?m)^ *(?:from|import|#include)\b.*\bfastdl\b", path.read_text())


def test_libraries_are_imported_in_an_order_in_which_they_get_along():
    order = adapters.in_order(["tensorflow", "numpy", "torch", "paddle", "dpnp"])
    assert order == ["dpnp", "paddle", "torch", "tensorflow", "numpy"]


def test_words_of_an_allocator_that_are_cut():
    """In the middle of a character, if it comes to that."""

    class Handler:
        def allocate(self, prototype):
            raise MemoryError("xx" + "\N{SNOWMAN}" * 200)

    table = _dlpack.handled_table(Handler())
    (status, _, _), calls, kind, words = _dlpack.call_allocate(table, 0)
    assert (status, calls, kind) == (-1, 1, "MemoryError")
    assert re.fullmatch("xx\N{SNOWMAN}{60,}\N{REPLACEMENT CHARACTER}*", words)


def test_the_memory_of_this_process(monkeypatch):
    resource = pytest.importorskip("resource")
    now = leaks.resident()
    room = bytearray(b"x" * (1 << 26))
    assert leaks.resident() - now > (1 << 26) - (1 << 23)
    del room
    monkeypatch.setattr(resource, "getpagesize", lambda: 1 << 14)  # as on arm64
    if Path("/proc/self/statm").exists():
        assert leaks.resident() > 2 * now

    def refuse(*path):
        raise FileNotFoundError

    monkeypatch.setattr(leaks, "open", refuse, raising=False)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for platform, unit in (("linux", 1024), ("darwin", 1)):
        monkeypatch.setattr(sys, "platform", platform)
        assert leaks.resident() == pytest.approx(peak * unit, rel=0.2)


# ---- what else the command line does --------------------------------------------------------


def test_the_list_of_checks(capsys):
    assert main(["list", "offset."]) == 0
    printed = capsys.readouterr().out
    assert "offset.offset (wrong data)" in printed and "NVIDIA/warp#1573" in printed
    assert "producer.values" not in printed


def test_running_from_the_command_line(tmp_path, capsys):
    path = tmp_path / "report.md"
    assert main(["run", "numpy", "-k", "offset.", "--report", str(path)]) == 0
    assert "1 passed" in capsys.readouterr().out
    assert "| NumPy |" in path.read_text()
    assert main(["run", "no_such_library"]) == 2


def test_one_library_that_is_absent(tmp_path, capsys):
    """The others are checked all the same, and in the report."""
    path = tmp_path / "report.json"
    arguments = ["no_such_library", "numpy", "-k", "producer.values", "--report", str(path)]
    assert main(["run", *arguments]) == 2
    assert "no_such_library cannot be loaded" in capsys.readouterr().err
    assert json.loads(path.read_text())["library"]["name"] == "numpy"


@pytest.mark.parametrize("command", [("list", "ofset"), ("run", "numpy", "-k", "ofset")], ids=str)
def test_a_check_that_does_not_exist(capsys, command):
    assert main([*command]) == 2
    printed = capsys.readouterr()
    assert printed.err == "python -m dlpack_conformance: no check has 'ofset' in its name\n"
    assert not printed.out


def test_nothing_that_could_be_checked(adapter, capsys):
    adapter("takes_only", NUMPY, "del make")
    assert main(["run", "takes_only", "-k", "producer."]) == 2
    assert "nothing was checked" in capsys.readouterr().err
    assert main(["pairs", "no_such_library"]) == 2
    assert "none of these libraries" in capsys.readouterr().err
    assert runner.report("takes_only", checks=[])["results"] == []


def test_a_reader_that_has_seen_enough(tmp_path):
    line = [sys.executable, "-m", "dlpack_conformance", "list"]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(line, cwd=tmp_path, **output) as started:
        started.stdout.close()
        assert started.stderr.read() == b""


def test_text_of_a_library_is_escaped():
    library = {"name": "x", "title": "my|lib <b>", "platform": ""}
    result = {"id": "a.b", "outcome": "failed", "severity": outcomes.DATA, "section": "offset"}
    texts = {"sentence": "It is so.", "note": "it is not", "clause": "a page"}
    made = {"library": library, "results": [{**result, **texts}], "interrupted": False}
    text = reports.as_markdown([made])
    assert "| my\\|lib &lt;b> |" in text and "<summary>my\\|lib &lt;b>: 1 failed</summary>" in text
    assert "Rule: It is so. Found: it is not (from a page)" in text
    page = reports.as_html([made])
    assert "my|lib &lt;b&gt;" in page and "rule: It is so.<br>found: it is not" in page
    library["doubts"] = ["a | b"]
    assert "Warning: a \\| b\n" in reports.as_markdown([made])
    assert "<p>warning: a | b</p>" in reports.as_html([made])
    lines = ["  rule:  It is so.", "  found: it is not", "  from:  a page"]
    assert [*reports.summary(made)][2:5] == lines
    one = {**result, "outcome": "deviates"}
    assert reports.verdict({**made, "results": [one]}) == "1 deviation"
    assert reports.verdict({**made, "results": [one, one]}) == "2 deviations"
    assert reports.verdict({**made, "results": [], "interrupted": True}) == "interrupted"


def test_invalid_input_is_counted_by_itself():
    """It is no deviation, and its crash is not beside those of correct producers."""
    facts = {"section": "hostile", "sentence": "S.", "clause": "C", "note": "it was accepted"}
    one, other = (
        {**facts, **runner.describe("hostile.ndim-huge", {"outcome": outcome, "note": "N"})}
        for outcome in ("deviates", "crashed")
    )
    library = {"name": "x", "version": "1", "platform": ""}
    made = {"library": library, "results": [one, other], "interrupted": False}
    assert reports.verdict(made) == "2 of invalid input"
    assert [*reports.table_of([made])] == [("x", "1", "0", "-", "-", "-", "-", "2", "-")]
    assert not reports.findings(made, outcomes.DEVIATES)
    crash = runner.describe("consumer.values", {"outcome": "crashed"})
    assert crash["severity"] == outcomes.MEMORY


def test_a_page_begins_with_failures():
    facts = {
        "section": "offset",
        "sentence": "S.",
        "clause": "C",
        "note": "",
        "severity": outcomes.DATA,
    }
    results = [{**facts, "id": f"a.{one}", "outcome": one} for one in ("passed", "failed")]
    library = {"name": "x", "version": "1", "platform": ""}
    page = reports.as_html([{"library": library, "results": results, "interrupted": False}])
    assert page.index("a.failed") < page.index("a.passed") and page.count("(wrong data)") == 2


def test_pairs(tmp_path, adapter, capsys):
    path = tmp_path / "pairs.json"
    adapter("other", NUMPY)
    assert main(["pairs", "other", "numpy", "no_such_library", "--output", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "= shared" in printed and "not loaded: no_such_library" in printed
    found = json.loads(path.read_text())
    assert {key: cell["outcome"] for key, cell in found["pairs"].items()} == dict.fromkeys(
        ("other/other", "other/numpy", "numpy/other", "numpy/numpy"), "shared"
    )


def test_pairs_that_are_wrong(adapter):
    """A consumer that reads too far, one that frees too early, and one that ends the process."""
    adapter(
        "wrong",
        "import os",
        "from mutants import mistakes",
        "from reference import Reference",
        "def of(name): return type('Mutant', (Reference,), mistakes()[name])",
        "Moved, Early = of('consumer.values'), of('consumer.outlives-the-producer')",
        "class Dying(Reference):",
        "    def from_dlpack(self, x, **more): os.abort()",
    )
    found = pairs.measure(["numpy", "wrong:Moved", "wrong:Early", "wrong:Dying"])
    kinds = [found["pairs"][f"numpy/wrong:{n}"]["outcome"] for n in ("Moved", "Early", "Dying")]
    assert kinds == ["wrong", "wrong", "dies"]


def test_a_library_with_one_side_has_one_side_of_the_pairs(adapter):
    adapter("takes", NUMPY, "del make")
    found = pairs.measure(["numpy", "takes"])
    assert found["pairs"].keys() == {"numpy/numpy", "numpy/takes"}
    assert f"takes{'':8}  2" in list(pairs.lines(found))
