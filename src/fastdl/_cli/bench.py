"""python -m fastdl bench: what exchanges cost here, next to the libraries' own functions.

A row is two Python statements, shown as they are timed. Each library has its own process.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import timeit
from collections.abc import Iterator
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import fastdl
from fastdl._cli import processes
from fastdl._cli.costs import Row, judged, rows_of
from fastdl._cli.libraries import Library, installed
from fastdl._cli.options import add_only, add_quiet
from fastdl._cli.privacy import anonymous_all
from fastdl._cli.report import missing
from fastdl._cli.timing import ROUNDS, compared, names_in
from fastdl._cli.words import counted, terminal_width, wrapped

LIMIT = 60.0  # seconds that a library may take for one step
STARTS = 7  # of an interpreter, to time an import
IMPORT = """\
import os
from time import perf_counter as now
start = now()
{}
print(f"\\n{{now() - start}}", flush=True)
os._exit(0)  # without what libraries print at exit
"""


def add_arguments(parser) -> None:
    parser.epilog = (
        "Each row compares a statement of fastdl with the libraries' own (vs). Its budget is the "
        "highest ratio of the two costs that fastdl allows itself."
    )
    add_only(parser, "libraries to measure")
    parser.add_argument("--json", action="store_true", help="print JSON, with costs in nanoseconds")
    add_quiet(parser)


def run(options) -> int:
    chosen = options.only or installed()
    found = [library for library in chosen if library.installed]
    progress = processes.Progress(1 + len(found), options.quiet)
    report = {
        **facts(),
        "start": imports(progress),
        "libraries": [costs_of(library, progress) for library in found],
        "not_installed": [library.name for library in chosen if not library.installed],
    }
    print(
        json.dumps(anonymous_all(report), indent=1)
        if options.json
        else "\n".join(as_text(report, terminal_width()))
    )
    return 0


def costs_of(library: Library, progress: processes.Progress) -> dict[str, Any]:
    """The rows of a library, up to a crash or hang: that is the "failure"."""
    job = processes.Job(library.name, "costs", {"name": library.name})
    steps, ending, seconds = processes.run(job, LIMIT)
    progress.ended(library.name, seconds, ending)
    failure = None if ending is None else f"{ending.outcome} in {ending.step}: {ending.reason}"
    version = steps.pop("import", None)
    for step in (version, steps.pop("sample", None), steps.pop("tensor", None)):
        if isinstance(step, dict):
            failure, version = failure or step["error"], None
            break
    rows = rows_in(library.name, steps)
    return {"name": library.name, "version": version, "rows": rows, "failure": failure}


def rows_in(name: str, steps: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"what": row.ours, "peer": row.peer, **steps[row.both]}
        for row in rows_of(name)
        if row.both in steps
    ]


# ---- imports, and where this is -------------------------------------------------------------


def imports(progress: processes.Progress) -> list[dict[str, Any]]:
    """The row for `import fastdl`; none without NumPy, with which it is compared."""
    start = perf_counter()
    row = Row("import fastdl", "import numpy", "import/numpy")
    answer = []
    if find_spec("numpy") is not None:
        answer = [{"what": row.ours, "peer": row.peer, **imported(row)}]
    progress.ended("import", perf_counter() - start, None)
    return answer


def imported(row: Row) -> dict[str, Any]:
    """The costs of two imports; the "error" if one of them fails."""
    try:
        for statement in (row.ours, row.peer):
            import_seconds(statement)  # brings the files to memory
        samples = [(import_seconds(row.ours), import_seconds(row.peer)) for _ in range(STARTS)]
    except ImportError as error:
        return {"error": str(error)}
    return judged(compared(samples), row.budget)


def import_seconds(statement: str) -> float:
    command = [sys.executable, "-c", IMPORT.format(statement)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    try:
        return float(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        reason = processes.describe_status(done.returncode, done.stderr)
        raise ImportError(f"{statement}: {reason}") from None


def facts() -> dict:
    empty = timeit.repeat("f(x)", globals={"f": callable, "x": None}, number=10_000, repeat=ROUNDS)
    return {
        "fastdl": fastdl.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "empty_call_ns": statistics.median(empty) * 1e5,
    }


# ---- the table ------------------------------------------------------------------------------

NUMBERS = 33  # columns to the right of the statements
OTHER = ", other array"
NOTES = (
    "x: an array of the library; ndarray: an array of NumPy; tensor: a fastdl.Tensor. Each has six "
    "float32 elements.",
    "other array: the two statements read different arrays.",
    "ratio: the cost of fastdl's statement divided by that of the other (vs), the median over "
    "{rounds} rounds. A round times both statements, one after the other. The line below shows the "
    "quartiles of the ratio: how much it varies.",
    "budget: the highest ratio that fastdl allows itself. held: the upper quartile is within it; "
    "missed: the lower quartile is above it; close: it lies between them.",
    "For scale: an empty call of a C function takes {empty} here.",
)


def as_text(report: dict, columns: int) -> Iterator[str]:
    """Two lines for each row: fastdl's statement and the other; none longer than `columns`."""
    facts = (
        f"fastdl {report['fastdl']}",
        f"CPython {report['python']}",
        report["system"],
        counted(report["cores"], "core") if report["cores"] else "",
        "" if report["load"] is None else f"load {report['load']:.1f}",
    )
    yield from wrapped(", ".join(filter(None, facts)), columns)
    groups: list[tuple[str, list[dict[str, Any]], str | None]] = []
    if report["start"]:
        groups.append(("", report["start"], None))
    for library in report["libraries"]:
        title = f"{library['name']} {library['version'] or ''}".rstrip()
        groups.append((title, library["rows"], library["failure"]))
    for sentence in missing(report):
        yield from wrapped(sentence, columns, "", "  ")
    if not groups:
        return
    rows = [row for _, rows, _ in groups for row in rows if "error" not in row]
    longest = max((len(text) for row in rows for text in statements(row)), default=0)
    room = min(longest, columns - NUMBERS)
    yield f"{'':{room}}      cost  ratio budget"
    for title, rows, failure in groups:
        yield from ("", title) if title else ()
        for row in rows:
            yield from lines(row, room, columns)
        if failure:
            yield from wrapped(f"not measured: {failure}", columns, "  ", "    ")
    yield ""
    for note in NOTES:
        note = note.format(rounds=ROUNDS, empty=cost(report["empty_call_ns"]))
        yield from wrapped(note, columns, "", "  ")


def statements(row: dict) -> tuple[str, str]:
    other = "x" in names_in(row["what"]) and "x" not in names_in(row["peer"])
    return f"  {row['what']}", f"    vs {row['peer']}{OTHER if other else ''}"


def lines(row: dict, room: int, columns: int) -> Iterator[str]:
    if "error" in row:
        yield from wrapped(f"{row['what']}: {row['error']}", columns, "  ", "    ")
        return
    low, high = row["quartiles"]
    budget = f"<= {row['budget']:<5.2g} {row['verdict']}" if "budget" in row else ""
    numbers = (
        (row["ns"], f"{row['ratio']:<5.2f} {budget}"),
        (row["peer_ns"], f"{low:.2f} to {high:.2f}"),
    )
    for statement, (nanoseconds, text) in zip(statements(row), numbers, strict=True):
        if len(statement) > room:
            yield from wrapped(statement, columns, "", "      ")
            statement = ""
        yield f"{statement:<{room}}  {cost(nanoseconds):>8}  {text}".rstrip()


def cost(nanoseconds: float) -> str:
    """Three digits: more would be noise."""
    units = (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1))
    unit, size = next(each for each in units if nanoseconds >= 0.9995 * each[1] or each[1] == 1)
    return f"{nanoseconds / size:.3g} {unit}"
