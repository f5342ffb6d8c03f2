# SPDX-License-Identifier: Apache-2.0
"""python -m fastdl doctor: the installed libraries, how their arrays are imported, and what that
costs."""

import argparse
import time
from typing import Any

from fastdl._cli import defects, environment, libraries, processes
from fastdl._cli.libraries import Library
from fastdl._cli.options import add_limit, add_only, add_output, print_json
from fastdl._cli.processes import Job

SCHEMA = 1  # of the JSON: increases if a released key changes its meaning or is removed

DESCRIPTION = """\
Examines the installed tensor libraries, each in its own process: the import path of their arrays
(exchange table, bridge, buffer, or __dlpack__ and its keywords), the cost of an import, known
defects of the installed versions, drivers, and other packages named fastdl. A library that crashes
or hangs is a line of the report.
"""
EPILOG = """\
Costs are the best of several short runs while another process may be running: accurate to about
20 %. The exit status is 0 unless fastdl itself is unusable (1) or the arguments are wrong (2): a
library that fails is a finding, not an error. --json has ~ for your home folder: look through it,
and attach it to a bug report.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_only(parser, "libraries to examine")
    add_output(parser)
    add_limit(parser)


def run(options: argparse.Namespace) -> int:
    chosen = options.only or libraries.installed()
    report = examine(chosen, options.limit, quiet=options.quiet)
    if options.json:
        print_json(report)
    else:
        from fastdl._cli import report as text
        from fastdl._cli.screen import Screen

        text.show(report, Screen())
    return 0


# ---- examining ------------------------------------------------------------------------------


def examine(chosen: list[Library], limit: float, *, quiet: bool = False) -> dict[str, Any]:
    """The report, of dictionaries, lists, texts and numbers: see SCHEMA."""
    start = time.monotonic()
    found = [library for library in chosen if library.installed]
    progress = processes.Progress(len(found) + 1, quiet)
    with processes.workers() as pool:
        devices = pool.submit(examine_devices, limit, progress)
        rows = list(pool.map(lambda library: examine_library(library, limit, progress), found))
        report = {
            "schema": SCHEMA,
            "fastdl": environment.fastdl_facts(),
            "python": environment.python_facts(),
            "platform": environment.platform_facts(),
            "clashes": environment.name_clashes(),
            "devices": devices.result(),
            "libraries": rows,
            "not_installed": [library.name for library in chosen if not library.installed],
        }
    report["seconds"] = round(time.monotonic() - start, 1)
    return report


def examine_library(library: Library, limit: float, progress: processes.Progress) -> dict[str, Any]:
    """The facts about one library. "outcome" is "works", "fails", "crashed" or "hung"; unknown
    facts are None."""
    job = Job(library.name, "library", {"name": library.name, "sample": library.sample})
    steps, errors, ending, seconds = processes.run(job, limit)
    progress.ended(library.name, seconds, ending)
    outcome, reason = "works", ""
    if ending is not None:
        outcome, reason = ending.outcome, f"{ending.reason}, in: {ending.step}"
    elif errors:
        outcome, reason = "fails", ": ".join(next(iter(errors.items())))
    version = environment.version_of(library) or steps.get("version") or ""
    return {
        "name": library.name,
        "version": version,
        "sample": library.sample,
        "outcome": outcome,
        "reason": reason,
        "import_path": steps.get("import_path"),
        "dlpack": steps.get("__dlpack__"),
        "tensor": steps.get("tensor"),
        "import_ns": steps.get("cost"),
        "numpy_ns": steps.get("yardstick"),
        "defects": defects.of(library.name, version),
        "seconds": round(seconds, 1),
    }


def examine_devices(limit: float, progress: processes.Progress) -> list[dict[str, Any]]:
    steps, errors, ending, seconds = processes.run(Job("drivers", "devices", {}), limit)
    progress.ended("drivers", seconds, ending)
    rows = []
    for title in ("CUDA", "ROCm"):
        reason = f"{ending.outcome}: {ending.reason}" if ending else "no answer"
        missing = {"found": False, "reason": errors.get(title, reason)}
        rows.append({"title": title, **steps.get(title, missing)})
    return rows
