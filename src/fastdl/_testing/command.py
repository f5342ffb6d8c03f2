"""The command line: python -m fastdl.testing run | scoreboard | pairs | mutants | list."""

import argparse
import datetime
import platform
import sys
from pathlib import Path
from typing import Any

from fastdl._testing import json_rows, releases, reports, runner
from fastdl._testing.suite import SECTIONS, all_checks

#: The adapters of the kit.
LIBRARIES = (
    *("fastdl", "numpy", "torch", "jax", "tensorflow", "paddle", "mlx", "dpnp", "pyarrow"),
    *("tvm_ffi", "array_api_strict", "warp", "cuda.core", "onnxruntime"),
)


def main(arguments: "list[str] | None" = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fastdl.testing",
        description="Checks array libraries against DLPack. As tests: pytest --dlpack=LIBRARY.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    run = commands.add_parser("run", help="run the checks of libraries, and write reports")
    run.add_argument(
        "adapters",
        nargs="+",
        metavar="library",
        help="an included adapter, or your own: a module, or module:object",
    )
    add_selection(run)
    run.add_argument(
        "--release",
        metavar="SPEC",
        type=releases.parse,
        help="releases of the library, each in an environment of its own: "
        "'warp-lang==1.18.0,1.19.0'",
    )
    run.set_defaults(run=run_libraries)

    board = commands.add_parser("scoreboard", help="run the checks of all included libraries")
    board.add_argument("adapters", nargs="*", metavar="library", help="only these")
    board.add_argument("--output", type=Path, help="a file of JSON, which the documentation shows")
    add_selection(board)
    board.set_defaults(run=scoreboard)

    pairs = commands.add_parser("pairs", help="every producer with every consumer")
    pairs.add_argument("adapters", nargs="*", metavar="library", help="only these")
    pairs.add_argument("--output", type=Path, help="a file of JSON")
    pairs.add_argument("--picture", type=Path, help="a file .svg or .png; needs matplotlib")
    pairs.set_defaults(run=every_pair)

    mutants = commands.add_parser("mutants", help="check the checks, on broken libraries")
    mutants.add_argument("check", nargs="*", help="only checks with one of these in their name")
    mutants.set_defaults(run=check_checks)

    listing = commands.add_parser("list", help="print the checks")
    listing.add_argument("check", nargs="*", help="only checks with one of these in their name")
    listing.set_defaults(run=list_checks)

    chosen = parser.parse_args(arguments)
    return chosen.run(chosen)


def add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-k", dest="checks", action="append", default=[], metavar="TEXT", help="part of a name"
    )
    parser.add_argument(
        "--report",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="FILE.html, .json or .md; can be repeated",
    )


class Progress:
    """One character for each check, like pytest."""

    MARKS = {"passed": ".", "failed": "F", "crashed": "C", "deviates": "d", "n/a": "s"}

    def __init__(self, title: str) -> None:
        print(f"{title} ", end="", file=sys.stderr, flush=True)

    def __call__(self, name: str, result: dict[str, Any]) -> None:
        print(self.MARKS[result["outcome"]], end="", file=sys.stderr, flush=True)


def measured(name: str, checks: list[str], python: str = sys.executable) -> dict[str, Any]:
    try:
        return runner.report(name, checks=runner.chosen(checks), python=python, told=Progress(name))
    finally:
        print(file=sys.stderr)


def run_libraries(chosen: argparse.Namespace) -> int:
    made = []
    try:
        if chosen.release:
            made = releases.measure(chosen.adapters[0], chosen.release, chosen.checks, measured)
            print("\n".join(releases.changes(made)))
        else:
            for name in chosen.adapters:
                made.append(measured(name, chosen.checks))
                print(f"\n{reports.title(made[-1])}\n")
                print("\n".join(reports.summary(made[-1])))
    except runner.CannotStart as error:
        print(f"python -m fastdl.testing: {error}", file=sys.stderr)
        return 2
    for path in chosen.report:
        reports.write(made, path)
    return int(any(runner.failures(report["results"]) for report in made))


def scoreboard(chosen: argparse.Namespace) -> int:
    """Exits with 0 if all could be run: failed checks are not an error of this command."""
    made, absent = [], []
    for name in chosen.adapters or LIBRARIES:
        try:
            made.append(measured(name, chosen.checks))
        except runner.CannotStart as error:
            absent.append(f"{name}: {str(error).splitlines()[0]}")
    print(reports.as_markdown(made))
    if absent:
        print("not run:", *absent, sep="\n  ", file=sys.stderr)
    if chosen.output:
        board = {
            "date": datetime.date.today().isoformat(),
            "python": platform.python_version(),
            "reports": [reports.compact(report) for report in made],
        }
        chosen.output.write_text(json_rows.dumps(board) + "\n", "utf-8")
    for path in chosen.report:
        reports.write(made, path)
    return int(bool(absent))


def every_pair(chosen: argparse.Namespace) -> int:
    from fastdl._testing import pairs

    found = pairs.measure(chosen.adapters or list(LIBRARIES))
    print("\n".join(pairs.lines(found)))
    if chosen.output:
        chosen.output.write_text(pairs.as_json(found), "utf-8")
    if chosen.picture:
        pairs.draw(found, chosen.picture)
    return 0


def check_checks(chosen: argparse.Namespace) -> int:
    from fastdl._testing import mutants

    names = runner.chosen(chosen.check)
    killed, survivors, red = mutants.run(names, Progress("mutants"))
    print(file=sys.stderr)
    print(f"{len(killed)} of {len(names)} mutants are detected")
    if survivors:
        print("not detected:", *survivors, sep="\n  ")
    if red:
        print("failing on the reference library:", *red, sep="\n  ")
    return int(bool(red or survivors))


def list_checks(chosen: argparse.Namespace) -> int:
    names = runner.chosen(chosen.check)
    for section, words in SECTIONS.items():
        rows = [check for name, check in all_checks().items() if name in names]
        rows = [check for check in rows if check.section == section]
        if rows:
            print(f"\n{section}: {words}")
        for check in rows:
            print(
                f"  {check.id} ({check.severity})\n    {check.sentence}\n    from: {check.clause}"
            )
    return 0
