# SPDX-License-Identifier: Apache-2.0
"""python -m fastdl inspect MODULE:EXPRESSION: what an array exports."""

import argparse
import sys
from functools import partial
from typing import Any

from fastdl._cli import processes
from fastdl._cli.libraries import installed
from fastdl._cli.options import add_limit, add_only, add_output, print_json
from fastdl._cli.processes import Job

SCHEMA = 1  # of the JSON: increases if a released key changes its meaning or is removed

DESCRIPTION = """\
Shows what an array exports to another library: its type and import path, the plan by which
fastdl.from_dlpack imports it, the fields of the managed tensor as exported by the library, and
which installed libraries share it, copy it, or reject it, and why. The expression is evaluated with
the names of the module: torch:ones(3, 4).t() is torch.ones(3, 4).t(). Other names are imported as
modules. Quote the expression for the shell.
"""
EPILOG = """\
The expression is evaluated once to describe the array and once for each consumer, each time in its
own process, so that a crash is reported. --quick predicts the outcome from what fastdl knows of a
consumer, without importing it. The exit status is 1 if the array cannot be imported, 2 if the
expression cannot be evaluated.
"""
#: Steps of the job, for a message.
DOING = {
    "evaluate": "while evaluating the expression",
    "__dlpack__": "while calling __dlpack__",
    "plan": "while calling __dlpack_device__",
    "import": "while importing the array",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "expression", metavar="MODULE:EXPRESSION", help="an array, such as 'torch:ones(3, 4).t()'"
    )
    add_only(parser, "consumers")
    parser.add_argument(
        "--quick", action="store_true", help="predict the outcomes without importing the consumers"
    )
    add_output(parser)
    add_limit(parser)


def run(options: argparse.Namespace) -> int:
    chosen = options.only or installed()
    consumers = [row.name for row in chosen if row.installed and row.is_target]
    missing = [row.name for row in chosen if not row.installed]
    found = examine(options.expression, consumers, options.limit, options.quick, options.quiet)
    if options.json:
        print_json(found)
    elif found["type"] is not None:
        from fastdl._cli import drawing
        from fastdl._cli.screen import Screen

        drawing.show(found, Screen())
    if missing:
        print(f"Not installed: {', '.join(missing)}.", file=sys.stderr)
    if found["error"]:
        print(f"python -m fastdl inspect: {found['error']}", file=sys.stderr)
    return 0 if found["tensor"] else 1 if found["type"] else 2


def examine(
    expression: str, consumers: list[str], limit: float, quick: bool = False, quiet: bool = False
) -> dict[str, Any]:
    """The findings, as dictionaries, lists, texts and numbers: see SCHEMA. "type" is None if the
    expression failed, "tensor" if the object cannot be imported; "error" has the reason."""
    arguments = {"expression": expression, "consumers": consumers}
    steps, errors, ending, seconds = processes.run(Job("array", "array", arguments), limit)
    error = next(iter(errors.values()), "")
    if ending is not None:
        doing = DOING.get(ending.step, f"in step {ending.step!r}")
        error = f"the process {ending.outcome} ({ending.reason}) {doing}"
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "expression": expression,
        "type": steps.get("evaluate"),
        "import_path": steps.get("import_path"),
        "dlpack": steps.get("__dlpack__"),
        "plan": steps.get("plan"),
        "tensor": steps.get("import"),
        "managed": steps.get("managed tensor"),
        "consumers": {name: steps[f"for {name}"] for name in consumers if f"for {name}" in steps},
        "error": error,
    }
    if found["tensor"] and not quick:
        progress = processes.Progress(1 + len(consumers), quiet)
        progress.ended("array", seconds, ending)
        with processes.workers() as pool:
            attempt = partial(attempt_one, expression, limit=limit, progress=progress)
            for name, outcome in zip(consumers, pool.map(attempt, consumers), strict=True):
                found["consumers"][name] = {**found["consumers"].get(name, {}), **outcome}
    return found


def attempt_one(
    expression: str, consumer: str, *, limit: float, progress: processes.Progress
) -> dict[str, str]:
    """The outcome of a conversion to one library."""
    arguments = {"expression": expression, "consumer": consumer}
    steps, errors, ending, seconds = processes.run(Job(consumer, "attempt", arguments), limit)
    progress.ended(consumer, seconds, ending)
    if ending is not None:
        return {"outcome": "crashed", "reason": f"{ending.reason}, in: {ending.step}"}
    if errors:
        return {"outcome": "none", "reason": next(iter(errors.values()))}
    return steps["convert"]
