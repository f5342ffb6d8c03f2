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
from fastdl.cli.budgets import BUDGETS
from fastdl.cli.expression import evaluate
from fastdl.cli.libraries import LIBRARIES, Library, installed
from fastdl.cli.rows import OTHERS, ROWS, Row
from fastdl.cli.timing import ROUNDS, compared, interleave, names_in, subject

SECONDS = 60  # that a library may take
STARTS = 7  # of an interpreter, to time an import


def add_arguments(parser) -> None:
    parser.add_argument("libraries", metavar="LIBRARY", nargs="*", help="those to measure (all)")
    parser.add_argument("--json", action="store_true", help="print JSON, with costs in nanoseconds")


def run(options) -> int:
    here = {library.name: library for library in installed()}
    for name in options.libraries:
        if name not in here:
            print(f"expected some of {', '.join(here)}, got {name}", file=sys.stderr)
            return 2
    names = options.libraries or [*here]
    report = {
        **facts(),
        "start": imports(),
        "libraries": {name: in_child(name) for name in names},
    }
    print(json.dumps(report, indent=1) if options.json else "\n".join(as_text(report)))
    return 0


def progress(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)


# ---- one library, in a process of its own ---------------------------------------------------


def in_child(name: str) -> dict:
    """What `measure` returns, of a fresh process; or why there is no answer."""
    progress(f"{name} ... ")
    start = perf_counter()
    command = [sys.executable, "-m", "fastdl.cli.bench", name]
    try:
        answer = answer_of(subprocess.run(command, capture_output=True, text=True, timeout=SECONDS))
    except subprocess.TimeoutExpired:
        answer = {"failure": f"no answer in {SECONDS} seconds"}
    progress(f"{answer.get('failure', f'{perf_counter() - start:.1f} s')}\n")
    return answer


def answer_of(done) -> dict:
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return {"failure": f"ended with status {done.returncode}: {last}".rstrip(": ")}


def measure(library: Library) -> dict:
    """The version of a library and its rows, or {"failure": the reason}."""
    try:
        x = evaluate(library.sample)
        names = {"fastdl": fastdl, "x": x, "tensor": fastdl.asarray(x).copy()}
    except Exception as error:
        return {"failure": summary(error)}
    if find_spec("numpy") is not None:
        import numpy

        names["ndarray"] = numpy.arange(6, dtype="float32")
    rows = [
        row_of(row, names)
        for row in ROWS.get(library.name, OTHERS)
        if all(name in names or find_spec(name) for name in names_in(f"({row.ours}, {row.peer})"))
    ]
    return {"version": library.version, "rows": rows}


def row_of(row: Row, names: dict[str, Any]) -> dict:
    try:
        samples = interleave(subject(row.ours, names), subject(row.peer, names))
    except Exception as error:
        return {"what": row.ours, "peer": row.peer, "failure": summary(error)}
    return judged(compared(row.ours, row.peer, samples), row.budget)


def judged(row: dict, budget: str) -> dict:
    """The row with its budget, if there is one. In the noise there is no verdict."""
    if budget:
        limit, (low, high) = BUDGETS[budget], row["quartiles"]
        verdict = "held" if high <= limit else "missed" if low > limit else "close"
        row |= {"budget": limit, "verdict": verdict}
    return row


def summary(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


# ---- imports, and where this is -------------------------------------------------------------


def imports() -> list[dict]:
    """A row on the import of fastdl; none where there is no NumPy to compare it with."""
    if find_spec("numpy") is None:
        return []
    progress("import fastdl ... ")
    start = perf_counter()
    modules = ("fastdl", "numpy")
    for name in modules:
        import_seconds(name)  # brings the files to memory
    samples = [(import_seconds(modules[0]), import_seconds(modules[1])) for _ in range(STARTS)]
    progress(f"{perf_counter() - start:.1f} s\n")
    return [judged(compared("import fastdl", "import numpy", samples), "import/numpy")]


def import_seconds(module: str) -> float:
    program = "from time import perf_counter as now; start = now(); import {}; print(now() - start)"
    command = [sys.executable, "-c", program.format(module)]
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
    for name, library in report["libraries"].items():
        lines.append(f"{name} {library.get('version', '')}".rstrip())
        if "failure" in library:
            lines.append(f"  not measured: {library['failure']}")
        lines += map(cells, library.get("rows", ()))
    table = [line for line in lines if isinstance(line, tuple)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in lines:
        yield line if isinstance(line, str) else aligned(line, widths)
    yield NOTES.format(rounds=ROUNDS, empty=cost(report["empty_call_ns"])).rstrip()


def cells(row: dict) -> tuple[str, ...] | str:
    if "failure" in row:
        return f"  {row['what']}: {row['failure']}"
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


if __name__ == "__main__":
    (library,) = (known for known in LIBRARIES if known.name == sys.argv[1])
    print(json.dumps(measure(library)))
