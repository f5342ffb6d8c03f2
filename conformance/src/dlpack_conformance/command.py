"""The command line: python -m dlpack_conformance run | scoreboard | pairs | list."""

import argparse
import datetime
import os
import platform
import sys
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

from dlpack_conformance import json_rows, pairs, releases, reports, runner
from dlpack_conformance.suite import BAD, OUTCOMES, SECTIONS, SKIPPED, all_checks

#: The adapters that are included.
LIBRARIES = (
    *("fastdl", "numpy", "torch", "jax", "tensorflow", "paddle", "mlx", "dpnp", "pyarrow"),
    *("tvm_ffi", "array_api_strict", "warp", "cuda.core", "onnxruntime", "drjit", "nanoarrow"),
)


def main(arguments: "list[str] | None" = None) -> int:
    """The exit status: 2 if nothing was checked, or not all that was asked for; 130 after
    Ctrl-C."""
    try:
        status = answer(arguments)
        sys.stdout.flush()
    except (runner.CannotStart, runner.NoSuchCheck) as error:
        return complain(str(error))
    except KeyboardInterrupt:
        complain("interrupted")
        return 130
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            return complain(str(error))
        with open(os.devnull, "w") as nowhere:  # for the flush at exit
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return 1
    return status


def complain(text: str) -> int:
    print(f"python -m dlpack_conformance: {text}", file=sys.stderr)
    return 2


def answer(arguments: "list[str] | None") -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dlpack_conformance",
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
    board.add_argument(
        "--output",
        type=reports.place(".json"),
        metavar="FILE",
        help="a file .json, which the documentation shows",
    )
    add_selection(board)
    board.set_defaults(run=scoreboard)

    grid = commands.add_parser("pairs", help="every producer with every consumer")
    grid.add_argument("adapters", nargs="*", metavar="library", help="only these")
    grid.add_argument("--output", type=reports.place(".json"), metavar="FILE", help="a file .json")
    grid.add_argument(
        "--picture", type=picture, metavar="FILE", help="a file .svg or .png; needs matplotlib"
    )
    add_limit(grid, "a pair, or the import of a library,", 90)
    grid.set_defaults(run=every_pair)

    listing = commands.add_parser("list", help="print the checks")
    listing.add_argument("check", nargs="*", help="only checks with one of these in their name")
    listing.set_defaults(run=list_checks)

    chosen = parser.parse_args(arguments)
    if getattr(chosen, "release", None) and len(chosen.adapters) > 1:
        parser.error("expected one library with --release")
    return chosen.run(chosen)


def picture(text: str) -> Path:
    """For argparse: a picture that can be drawn and written."""
    if find_spec("matplotlib") is None:
        raise argparse.ArgumentTypeError("a picture needs matplotlib: pip install matplotlib")
    return reports.place(".svg", ".png")(text)


def add_limit(parser: argparse.ArgumentParser, what: str, default: float) -> None:
    parser.add_argument(
        "--limit",
        type=seconds,
        default=default,
        metavar="SECONDS",
        help=f"for how long {what} may give no answer; default: %(default)g",
    )


def seconds(text: str) -> float:
    found = float(text)
    if not 0 < found < 1e6:
        raise ValueError(text)
    return found


def add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-k", dest="checks", action="append", default=[], metavar="TEXT", help="part of a name"
    )
    parser.add_argument(
        "--report",
        action="append",
        default=[],
        type=reports.report_path,
        metavar="FILE",
        help="FILE.html, .json or .md; can be repeated",
    )
    add_limit(parser, "a check", runner.TO_ANSWER)


class Progress:
    """One character for each check, like pytest."""

    MARKS = dict(zip(OUTCOMES, "CTFd.s", strict=True))

    def __init__(self, title: str) -> None:
        print(f"{title} ", end="", file=sys.stderr, flush=True)

    def __call__(self, name: str, result: dict[str, Any]) -> None:
        print(self.MARKS[result["outcome"]], end="", file=sys.stderr, flush=True)


class Run:
    """Reports that are made one after the other, as far as that is possible."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        self.chosen, self.checks = chosen, runner.chosen(chosen.checks)
        self.made: list[dict[str, Any]] = []
        self.absent: list[str] = []
        self.interrupted = False

    def add(self, name: str, requirement: "str | None" = None) -> None:
        """The report on a library, or on a release of it."""
        try:
            if requirement is None:
                found = self.measured(name)
            else:
                found = releases.measure(requirement, partial(self.measured, name))
        except runner.CannotStart as error:
            self.absent.append(str(error))
        except KeyboardInterrupt:
            self.interrupted = True
        else:
            self.made.append(found)
            self.interrupted = found["interrupted"]

    def measured(self, name: str, python: str = sys.executable) -> dict[str, Any]:
        told, limit = Progress(name), self.chosen.limit
        try:
            return runner.report(name, checks=self.checks, python=python, limit=limit, told=told)
        finally:
            print(file=sys.stderr)

    def end(self, status: int) -> int:
        """Writes what there is; the exit status."""
        for text in self.absent:
            complain(text)
        for path in self.chosen.report if self.made else ():
            reports.write(self.made, path)
        return 130 if self.interrupted else status


def run_libraries(chosen: argparse.Namespace) -> int:
    run = Run(chosen)
    for name, requirement in product(chosen.adapters, chosen.release or [None]):
        if not run.interrupted:
            run.add(name, requirement)
    for report in run.made if not chosen.release else ():
        print(f"\n{reports.title(report)}\n")
        print("\n".join(reports.summary(report)))
    if chosen.release:
        print("\n".join(releases.changes(run.made)))
    outcomes = {result["outcome"] for report in run.made for result in report["results"]}
    if run.made and outcomes <= {SKIPPED}:
        run.absent.append("nothing was checked: no check is applicable")
    return run.end(2 if run.absent else int(bool(outcomes & {*BAD})))


def scoreboard(chosen: argparse.Namespace) -> int:
    """Exits with 0 if all could be run: failed checks are not an error of this command."""
    run = Run(chosen)
    for name in chosen.adapters or LIBRARIES:
        if not run.interrupted:
            run.add(name)
    print(reports.as_markdown(run.made))
    if chosen.output:
        board = {
            "date": datetime.date.today().isoformat(),
            "python": platform.python_version(),
            "reports": [reports.compact(report) for report in run.made],
        }
        chosen.output.write_text(json_rows.dumps(board) + "\n", "utf-8")
    return run.end(int(bool(run.absent)))


def every_pair(chosen: argparse.Namespace) -> int:
    found = pairs.measure(chosen.adapters or list(LIBRARIES), chosen.limit)
    print("\n".join(pairs.lines(found)))
    if chosen.output:
        chosen.output.write_text(pairs.as_json(found), "utf-8")
    if chosen.picture:
        pairs.draw(found, chosen.picture)
    if found["interrupted"]:
        return 130
    return 0 if found["libraries"] else complain("none of these libraries can be loaded")


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
