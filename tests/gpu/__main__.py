"""Everything that needs a GPU, with one command, and a report of what came of it.

    python -m tests.gpu [--output FOLDER] [--groups NAME ...] [-- ARGUMENTS OF PYTEST]

Asks the driver and the libraries what fastdl believes of them (tests/simulated/beliefs.py), runs
the tests of tests/gpu, and measures. Each group runs in a process of its own, one after the other.
A crash, a hang, or an error after which the device answers nothing else costs one item: the group
goes on in a new process. gpu.md and gpu.json, in docs/ or FOLDER, are written anew with each
outcome, so they are complete up to the moment at which the run ends, however it ends; gpu.log has
what the processes wrote.

Ends with 1 if something failed, was refuted or was not reached, and with 2, before anything is
written, where there is no GPU. A budget that is missed is marked in the page, and nothing more,
since a machine that others share may be to blame. Libraries that are missing are a line in the
report. See docs/contributing.md.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import replace
from pathlib import Path

from tests.gpu.child import BROKEN, NO_GPU
from tests.gpu.groups import GROUPS, chosen
from tests.gpu.journal import Reader
from tests.gpu.report import INTERRUPTED, NO_TIME, OVER, Report

ROOT = Path(__file__).resolve().parents[2]
MINUTES = 8.0
TRIES = 16  # processes for one group
BEGINNING = 90  # seconds in which the first item must begin, since libraries are slow to load
ENDING = 20  # seconds for the end of a process
POLL = 0.02

ENVIRONMENT = {
    "CUDA_MODULE_LOADING": "EAGER",  # loading a kernel late waits for the device
    "CUDA_DEVICE_MAX_CONNECTIONS": "32",  # fewer streams share a queue, and wait for each other
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # others need memory too
    "PYTHONUNBUFFERED": "1",
}


class Run:
    """All groups, one after the other, into one report."""

    def __init__(self, options):
        self.options = options
        self.report = Report(options.groups, options.output, options.dry_run)
        self.deadline = time.monotonic() + 60 * options.minutes
        self.environment = environment(options)
        self.process = self.log = None

    def all(self):
        """The code that the command ends with."""
        for group in self.options.groups:
            entry, start = self.report.groups[group.name], time.monotonic()
            if start > self.deadline:
                entry["end"] = NO_TIME
                continue
            code = self.group(group)
            entry["seconds"] = time.monotonic() - start
            if group.kind == "machine":
                if code == NO_GPU:
                    return NO_GPU
                print(f"the report: {self.options.output / 'gpu.md'}", flush=True)
            self.report.write()
            print(f"{entry['seconds']:6.1f} s  {group.name}: {entry['end']}", flush=True)
        self.report.finish()
        self.report.write()
        return int(self.report.failed())

    def group(self, group):
        """Its processes: one, and another whenever an item took one with it."""
        entry = self.report.groups[group.name]
        end = min(self.deadline, time.monotonic() + group.whole)
        for _ in range(TRIES):
            code, item = self.one_process(group, end)
            if entry["end"] == OVER and code != 0:
                entry["end"] = f"over, but then {how_it_ended(code)}"
            if entry["end"] or code == NO_GPU:
                return code
            if item is None:
                entry["end"] = f"could not begin or end: {how_it_ended(code)} (see gpu.log)"
                return code
        entry["end"] = f"given up: {TRIES} processes were lost"
        return code

    def one_process(self, group, end):
        """(its code, the item that it was lost with). Runs until it ends, or must be killed."""
        item, limit = None, time.monotonic() + BEGINNING
        with self.process_of(group) as (process, reader):
            while True:
                code = process.poll()  # before what it wrote is read
                for event in reader.events():
                    if event["event"] == "begin":
                        item, limit = event["name"], time.monotonic() + group.limit
                    if event["event"] in ("outcome", "broken"):
                        item, limit = None, time.monotonic() + BEGINNING
                    if event["event"] == "done":
                        limit = time.monotonic() + ENDING
                    self.report.add(event)
                    if group.kind != "machine":
                        self.report.write()
                if code is not None:
                    break
                now = time.monotonic()
                if now > end:
                    why = NO_TIME if end == self.deadline else "its time was up"
                    self.report.groups[group.name]["end"] = why
                    return None, None
                if now > limit:
                    break
                time.sleep(POLL)
        if code == BROKEN:
            return code, "any"
        if item is not None and item not in self.report.groups[group.name]["items"]:
            hung = f"no end after {group.limit:g} s"
            found = ("hung", hung) if code is None else ("crashed", how_it_ended(code))
            self.report.lost(group.name, item, *found)
        return code, item

    @contextlib.contextmanager
    def process_of(self, group):
        """(process, reader of its events); killed, with what it started, if it is still there."""
        entry = self.report.groups[group.name]
        with tempfile.TemporaryDirectory() as folder, self.log_file() as log:
            journal = Path(folder, "journal")
            reader = Reader(journal)
            command = [sys.executable, "-X", "faulthandler", "-m", "tests.gpu.child", group.name]
            command += [
                group.limit,
                journal,
                self.options.driver,
                json.dumps(list(entry["items"])),
            ]
            process = subprocess.Popen(
                [*map(str, command), *self.options.pytest],
                cwd=ROOT,
                env=self.environment,
                stdout=None if group.kind == "machine" else log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=os.name == "posix",
            )
            try:
                yield process, reader
            finally:
                kill(process)
                for event in reader.events():  # written meanwhile
                    self.report.add(event)
                reader.file.close()

    def log_file(self):
        if not self.report.facts:  # nothing is written before there is a GPU
            return contextlib.nullcontext(None)
        return (self.options.output / "gpu.log").open("a", encoding="utf-8")


def kill(process):
    """The process and all that it started, unless it has ended by itself."""
    if process.poll() is None:
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def how_it_ended(code):
    if code is None:
        return "it hung"
    if code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
    return f"code {code}"


# ---- options --------------------------------------------------------------------------------


def environment(options):
    """Of the processes. What the caller has set wins."""
    path = [options.unpacked, ROOT, os.environ.get("PYTHONPATH")]
    found = {
        **ENVIRONMENT,
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(part) for part in path if part),
    }
    if options.dry_run:
        from tests.support.simulation import library_path

        options.driver = library_path("cuda")
        found["FASTDL_GPU_DRY_RUN"] = "1"
        found["LD_LIBRARY_PATH"] = str(options.driver.parent)
        found["FASTDL_TEST_BUILD"] = str(options.driver.parents[1])
    return found


def unpacked(path, folder):
    """The fastdl of a wheel, in `folder`, so that none need be installed. `path`: the wheel, or a
    folder with one for this Python. ValueError if there is none."""
    tag = f"-cp{sys.version_info[0]}{sys.version_info[1]}-"
    wheels = [path] if path.is_file() else sorted(path.glob("fastdlpack-*.whl"))
    fitting = [wheel for wheel in wheels if tag in wheel.name]
    if not fitting:
        raise ValueError(f"expected a wheel of fastdlpack with {tag} in its name, got {path}")
    with zipfile.ZipFile(fitting[-1]) as wheel:
        wheel.extractall(folder)
    return folder


def parsed(arguments, folder):
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--output", type=Path, help="default: docs/, or build/gpu/ in a dry run")
    parser.add_argument(
        "--groups", nargs="+", default=["*"], metavar="NAME",
        help=f"patterns of groups, of {', '.join(GROUPS)}; default: all",
    )  # fmt: skip
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help=f"for the whole; default: {MINUTES:g}"
    )
    parser.add_argument("--limit", type=float, help="seconds for each item, in place of its own")
    parser.add_argument("--wheel", type=Path, help="fastdl's, or a folder that has it")
    parser.add_argument("--dry-run", action="store_true", help="on the simulated driver")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    options = parser.parse_args(arguments)
    options.driver, options.unpacked = "libcuda.so.1", None
    output = options.output or ROOT / ("build/gpu" if options.dry_run else "docs")
    options.output = output.resolve()
    try:
        options.groups = chosen(options.groups)
        if options.wheel is not None:
            options.unpacked = unpacked(options.wheel, folder)
    except ValueError as error:
        parser.error(str(error))
    if options.limit is not None:
        options.groups = [replace(group, limit=options.limit) for group in options.groups]
    return options


def interrupt(number, frame):
    raise KeyboardInterrupt


def main(arguments=None):
    signal.signal(signal.SIGTERM, interrupt)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(parsed(arguments, folder))
        try:
            return run.all()
        except KeyboardInterrupt:
            if run.report.facts:
                run.report.state = INTERRUPTED
                run.report.write()
            print("interrupted", flush=True)
            return 130


if __name__ == "__main__":
    sys.exit(main())
