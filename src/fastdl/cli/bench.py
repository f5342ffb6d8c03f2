"""python -m fastdl bench: what exchanges cost here, compared with what libraries offer themselves.

A row is two Python statements, which are also what is shown. Each library is measured in a process
of its own.
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
from fastdl.cli import processes
from fastdl.cli.costs import Row, judged, rows_of
from fastdl.cli.libraries import Library, installed
from fastdl.cli.options import add_only, add_quiet
from fastdl.cli.timing import ROUNDS, compared

LIMIT = 60.0  # seconds that a library may take for one step
STARTS = 7  # of an interpreter, to time an import


def add_arguments(parser) -> None:
    add_only(parser, "libraries to measure")
    parser.add_argument("--json", action="store_true", help="print JSON, with costs in nanoseconds")
    add_quiet(parser)


def run(options) -> int:
    chosen = options.only or installed()
    chosen = [library for library in chosen if library.installed]
    progress = processes.Progress(1 + len(chosen), options.quiet)
    report = {
        **facts(),
        "start": imports(progress),
        "libraries": [costs_of(library, progress) for library in chosen],
    }
    print(json.dumps(report, indent=1) if options.json else "\n".join(as_text(report)))
    return 0


def costs_of(library: Library, progress: processes.Progress) -> dict[str, Any]:
    """The rows of a library, up to the one at which it died or hung: that is the "failure"."""
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
    """A row on the import of fastdl; none where there is no NumPy to compare it with."""
    start = perf_counter()
    row = Row("import fastdl", "import numpy", "import/numpy")
    answer = []
    if find_spec("numpy") is not None:
        for statement in (row.ours, row.peer):
            import_seconds(statement)  # brings the files to memory
        samples = [(import_seconds(row.ours), import_seconds(row.peer)) for _ in range(STARTS)]
        answer = [{"what": row.ours, "peer": row.peer, **judged(compared(samples), row.budget)}]
    progress.ended("import", perf_counter() - start, None)
    return answer


def import_seconds(statement: str) -> float:
    program = "from time import perf_counter as now; start = now(); {}; print(now() - start)"
    command = [sys.executable, "-c", program.format(statement)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


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

HEAD = ("", "fastdl", "compared with", "", "ratio", "quartiles", "budget", "")
NUMBERS = (1, 3)  # the columns to align at the right
NOTES = """
x: an array of the library; ndarray: of NumPy; tensor: a fastdl.Tensor; each of six float32.
A ratio is the median of {rounds} rounds, in each of which both sides ran. The quartiles show the
noise: a budget between them is "close". An empty call of a C function takes {empty} here.
"""


def as_text(report: dict) -> Iterator[str]:
    load = "" if report["load"] is None else f", load {report['load']:.1f}"
    yield (
        f"fastdl {report['fastdl']}, CPython {report['python']}, {report['system']}, "
        f"{report['cores']} cores{load}"
    )
    lines: list = [HEAD, *map(cells, report["start"])]
    for library in report["libraries"]:
        lines.append(f"{library['name']} {library['version'] or ''}".rstrip())
        lines += map(cells, library["rows"])
        if library["failure"]:
            lines.append(f"  not measured: {library['failure']}")
    table = [line for line in lines if isinstance(line, tuple)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in lines:
        yield line if isinstance(line, str) else aligned(line, widths)
    yield NOTES.format(rounds=ROUNDS, empty=cost(report["empty_call_ns"])).rstrip()


def cells(row: dict) -> tuple[str, ...] | str:
    if "error" in row:
        return f"  {row['what']}: {row['error']}"
    low, high = row["quartiles"]
    return (
        f"  {row['what']}",
        cost(row["ns"]),
        row["peer"],
        cost(row["peer_ns"]),
        f"{row['ratio']:.2f}",
        f"({low:.2f} to {high:.2f})",
        f"<= {row['budget']:.2g}" if "budget" in row else "",
        row.get("verdict", ""),
    )


def aligned(line: tuple[str, ...], widths: list[int]) -> str:
    sides = (">" if column in NUMBERS else "<" for column in range(len(line)))
    return "  ".join(f"{c:{s}{w}}" for c, s, w in zip(line, sides, widths, strict=True)).rstrip()


def cost(nanoseconds: float) -> str:
    for unit, size in (("ms", 1e6), ("us", 1e3), ("ns", 1)):
        if nanoseconds >= 10 * size or unit == "ns":
            break
    return f"{nanoseconds / size:.{0 if nanoseconds >= 1000 * size else 1}f} {unit}"
