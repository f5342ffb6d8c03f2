# SPDX-License-Identifier: Apache-2.0
"""The command line: python -m dlpack_conformance run | pairs | list."""

import argparse
import json
import os
import sys
from typing import Any

from dlpack_conformance import pairs, reports, runner
from dlpack_conformance.outcomes import BAD, OUTCOMES, SECTIONS, SKIPPED
from dlpack_conformance.suite import all_checks

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
        nargs="*",
        metavar="library",
        default=LIBRARIES,
        help="an included adapter, by default all; or your own: a module, or module:object",
    )
    add_selection(run)
    run.set_defaults(run=run_libraries)

    grid = commands.add_parser("pairs", help="every producer with every consumer")
    grid.add_argument(
        "adapters", nargs="*", metavar="library", default=LIBRARIES, help="only these"
    )
    grid.add_argument("--output", type=reports.place(".json"), metavar="FILE", help="a file .json")
    add_limit(grid, "a pair, or the import of a library,", 90)
    grid.set_defaults(run=every_pair)

    listing = commands.add_parser("list", help="print the checks")
    listing.add_argument("check", nargs="*", help="only checks with one of these in their name")
    listing.set_defaults(run=list_checks)

    chosen = parser.parse_args(arguments)
    return chosen.run(chosen)


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


def run_libraries(chosen: argparse.Namespace) -> int:
    checks, interrupted = runner.chosen(chosen.checks), False
    made: list[dict[str, Any]] = []
    wrong: list[str] = []
    for name in chosen.adapters:
        told = Progress(name)
        try:
            made.append(runner.report(name, checks=checks, limit=chosen.limit, told=told))
            interrupted = made[-1]["interrupted"]
        except runner.CannotStart as error:
            wrong.append(str(error))
        except KeyboardInterrupt:
            interrupted = True
        print(file=sys.stderr)
        if interrupted:
            break
    for report in made:
        print(f"\n{reports.title(report)}\n")
        print("\n".join(reports.summary(report)))
    outcomes = {result["outcome"] for report in made for result in report["results"]}
    if made and outcomes <= {SKIPPED}:
        wrong.append("nothing was checked: no check is applicable")
    for text in wrong:
        complain(text)
    for path in chosen.report if made else ():
        reports.write(made, path)
    return 130 if interrupted else 2 if wrong else int(bool(outcomes & {*BAD}))


def every_pair(chosen: argparse.Namespace) -> int:
    found = pairs.measure(chosen.adapters, chosen.limit)
    print("\n".join(pairs.lines(found)))
    if chosen.output:
        chosen.output.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
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
