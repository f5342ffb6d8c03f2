"""Everything that needs a GPU, with one command, and a page of what came of it.

    python -m tests.gpu [--output FOLDER] [-- ARGUMENTS OF PYTEST]

Runs the tests of tests/gpu, asks the driver what fastdl believes of drivers
(tests/simulated/conformance.py), measures, and writes gpu.md and gpu.json to docs/, or to FOLDER.
Ends with 1 if something failed, and with 2, before anything is written, where there is no GPU. What
could not be measured has failed; a budget that is missed is marked in the page, and nothing more,
since a machine that others share may be to blame.

Libraries that are missing are skipped. `nox -s gpu` installs them first.
"""

import argparse
import ctypes
import importlib.metadata
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

import pytest

import fastdl
from tests.gpu import measure
from tests.gpu.backends import Hardware

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CONFORMANCE = ROOT / "tests" / "simulated" / "conformance.py"
LIBRARIES = (
    *("numpy", "torch", "cupy-cuda12x", "cupy-cuda13x", "jax", "numba-cuda", "cuda-core"),
    "apache-tvm-ffi",
)


def facts(gpu):
    """The machine, as far as it bears on the results."""
    name, version = ctypes.create_string_buffer(256), ctypes.c_int()
    gpu.driver.named("cuDeviceGetName", name, len(name), 0)
    gpu.driver.named("cuDriverGetVersion", version)
    answer = {
        "GPU": name.value.decode(),
        "driver": kernel_driver(),
        "CUDA of the driver": f"{version.value // 1000}.{version.value % 1000 // 10}",
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "Python": sys.version.split()[0],
        "fastdl": fastdl.__version__,
    }
    for library in LIBRARIES:
        try:
            answer[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return answer


def kernel_driver():
    """Its version, such as 580.65.06."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"
    except FileNotFoundError:
        return "unknown"


class Results:
    """A plugin of pytest: what became of each test."""

    def __init__(self):
        self.outcomes = {}

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.rpartition("::")[2].removeprefix("test_")
        if report.failed:
            text = report.longreprtext.strip().splitlines()
            self.outcomes[name] = f"failed: {text[-1] if text else ''}"
        elif report.skipped:
            self.outcomes[name] = f"skipped: {report.longrepr[2].removeprefix('Skipped: ')}"
        elif report.when == "call":
            self.outcomes.setdefault(name, "passed")

    def failed(self):
        return any(outcome.startswith("failed") for outcome in self.outcomes.values())


def run_tests(arguments):
    """As CI does, but a warning of a library that came with the machine is no failure."""
    results = Results()
    code = pytest.main([str(HERE), "-W", "default", *arguments], plugins=[results])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        sys.exit(f"pytest ended with {code!r}")
    return results


def conformance():
    """What the driver answered: the report of conformance.py, or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "answers.json")
        command = [sys.executable, str(CONFORMANCE), "--json", str(report)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if report.exists():
            return json.loads(report.read_text())
        return {"failure": (done.stderr or done.stdout).strip()[-500:], "checks": []}


# ---- the page -------------------------------------------------------------------------------


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


def number(value):
    return "" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def verdict(row):
    """The budget of a row, and whether it is held."""
    if row.target is None:
        return ""
    limit = f"{'≤' if row.unit == 'ns' else '≥'} {row.target:g}"
    return limit + {True: " held", False: " MISSED", None: ""}[row.held]


def measured(rows):
    return [
        [row.what, found(row), f"{row.peer} {number(row.theirs)} {row.unit}" if row.theirs is not
         None else row.peer, number(row.ratio), verdict(row)]
        for row in rows
    ]  # fmt: skip


def found(row):
    if row.failure:
        return f"failed: {row.failure}"
    if row.missing:
        return f"skipped: {row.missing}"
    return f"{number(row.ours)} {row.unit}"


def page(report):
    """gpu.md."""
    outcomes, answers = report["tests"], report["conformance"]
    counts = {word: sum(o.startswith(word) for o in outcomes.values())
              for word in ("passed", "failed", "skipped")}  # fmt: skip
    wrong = [row for row in answers["checks"] if not row["ok"]]
    text = "# On a GPU\n\nWritten by `python -m tests.gpu`; all answers are in `gpu.json`.\n\n"
    text += table(["", ""], report["facts"].items())
    text += "\n## Measured\n\n"
    for group, rows in report["measured"].items():
        rows = [measure.Row(**row) for row in rows]
        head = ["", "fastdl", "beside it", "ratio", "budget"]
        text += f"### {group}\n\n" + table(head, measured(rows)) + "\n"
    text += "## The driver's answers\n\n"
    text += answers.get("failure") or f"{len(answers['checks'])} answers, {len(wrong)} unexpected."
    text += "\n\n"
    if wrong:
        rows = [[row["topic"], row["name"], row["expected"], row["got"]] for row in wrong]
        text += table(["topic", "check", "expected", "got"], rows) + "\n"
    text += "## Tests\n\n" + ", ".join(f"{count} {word}" for word, count in counts.items())
    text += ".\n\n" + table(["test", "outcome"], outcomes.items())
    return text


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--output", type=Path, default=ROOT / "docs", help="default: docs/")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest")
    options = parser.parse_args()
    try:
        gpu = Hardware()
    except RuntimeError as reason:
        print(f"nothing to run: {reason}")
        return 2
    about = facts(gpu)
    gpu.close()
    results = run_tests(options.pytest)
    gpu = Hardware()
    rows = measure.all_rows(gpu)
    gpu.close()
    report = {
        "facts": about,
        "measured": {group: [asdict(row) for row in found] for group, found in rows.items()},
        "conformance": conformance(),
        "tests": results.outcomes,
    }
    options.output.mkdir(exist_ok=True)
    (options.output / "gpu.json").write_text(json.dumps(report, indent=1) + "\n")
    (options.output / "gpu.md").write_text(page(report))
    print(f"written: {options.output / 'gpu.md'}")
    answers = report["conformance"]
    wrong = "failure" in answers or not all(row["ok"] for row in answers["checks"])
    unmeasured = any(row.failure for group in rows.values() for row in group)
    return int(wrong or unmeasured or results.failed())


if __name__ == "__main__":
    sys.exit(main())
