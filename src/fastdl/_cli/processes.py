# SPDX-License-Identifier: Apache-2.0
"""Jobs in child processes, which may crash or hang without harm to the command.

A *job* is a list of steps in a child, which logs the start and the result of each step to a file.
So the parent knows in which step a child crashed, and the results up to then.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from fastdl._cli.screen import terminal_width

AT_ONCE = 2  # processes; more would disturb each other's timings
#: Makes libraries print less, and not reserve the memory of a GPU. The user's settings win.
QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "PYTHONWARNINGS": "ignore",
    "PYTHONIOENCODING": "utf-8",
}


class Ending(NamedTuple):
    """The ending of a child that did not finish its steps."""

    outcome: str  # "crashed" or "hung"
    reason: str
    step: str  # the one that did not finish


class Job(NamedTuple):
    """The task of a child: the function `name` of fastdl._cli.probe, with `arguments`."""

    title: str  # for the progress
    name: str
    arguments: dict[str, Any]


def run(job: Job, limit: float) -> tuple[dict[str, Any], dict[str, str], Ending | None, float]:
    """Runs a job: (the results of its steps, the errors of those that raised, how it ended if it
    did not finish, seconds). `limit`: seconds that a step may take."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fastdl-", ignore_cleanup_errors=True) as folder:
        log, output = Path(folder, "log"), Path(folder, "output")
        log.touch()
        command = [sys.executable, "-m", "fastdl._cli.probe", str(log)]
        with output.open("wb") as file:
            status = status_of(command, limit, log, json.dumps(job[1:]), file, subprocess.STDOUT)
        steps, errors, begun, finished = read(log)
        seconds = time.monotonic() - start
        if finished:
            return steps, errors, None, seconds
        if status is None:
            return steps, errors, Ending("hung", f"no answer in {limit:g} s", begun), seconds
        reason = describe_status(status, output.read_text("utf-8", "replace"))
        return steps, errors, Ending("crashed", reason, begun), seconds


def status_of(
    command: list[str], limit: float, watched: Path, stdin: str, stdout: Any, stderr: Any
) -> int | None:
    """The exit status of a command; None if it was killed because `watched`, a file that it writes,
    did not grow for `limit` seconds. The processes that it started are killed with it."""
    env = {**QUIET, "COLUMNS": str(terminal_width()), **os.environ}
    streams = {"stdin": subprocess.PIPE, "stdout": stdout, "stderr": stderr}
    # In a session of its own, so that Ctrl-C reaches only this process.
    child = subprocess.Popen(command, env=env, start_new_session=True, **streams)
    assert child.stdin is not None
    try:
        with contextlib.suppress(BrokenPipeError), child.stdin as file:  # if it crashed at once
            file.write(stdin.encode())
        size, deadline = 0, time.monotonic() + limit
        while time.monotonic() < deadline:
            raise_if_stopped()
            with contextlib.suppress(subprocess.TimeoutExpired):
                return child.wait(0.05)
            if watched.stat().st_size > size:
                size, deadline = watched.stat().st_size, time.monotonic() + limit
        return None
    finally:
        end(child)


def end(child: "subprocess.Popen[Any]") -> None:
    """Kills a process, and those that it started."""
    if sys.platform == "win32":
        subprocess.run(("taskkill", "/f", "/t", "/pid", str(child.pid)), capture_output=True)
        child.kill()
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def raise_if_stopped() -> None:
    """CancelledError if the command was interrupted."""
    if _stopped.is_set():
        raise CancelledError


def read(log: Path) -> tuple[dict[str, Any], dict[str, str], str, bool]:
    """(the results of the steps, the errors, the last step that was begun, whether the job
    finished)."""
    steps: dict[str, Any] = {}
    errors: dict[str, str] = {}
    begun, finished = "start", False
    for line in log.read_text("utf-8", "replace").splitlines():
        try:
            kind, *rest = json.loads(line)
        except ValueError:  # half a line
            continue
        if kind == "begin":
            begun = rest[0]
        elif kind == "result":
            steps[rest[0]] = rest[1]
        elif kind == "error":
            errors[rest[0]] = rest[1]
        else:
            finished = True
    return steps, errors, begun, finished


def describe_status(status: int, output: str = "") -> str:
    """Why a child ended: the signal, or the exit status and its last line of output."""
    if status < 0:
        known = {one.value: one.name for one in signal.Signals}
        return known.get(-status, f"signal {-status}")
    lines = output.strip().splitlines()
    last = f": {lines[-1][:200]}" if lines else ""
    number = hex(status) if status > 255 else status  # Windows: 0xc0000005 is an access violation
    return f"exit status {number}{last}"


class Progress:
    """One line on the standard error for each job that ends."""

    def __init__(self, total: int, quiet: bool = False) -> None:
        self.total, self.done, self.quiet = total, 0, quiet
        self.lock = threading.Lock()
        self.start = time.monotonic()

    def ended(self, title: str, seconds: float, ending: Ending | None) -> None:
        with self.lock:
            self.done += 1
            if self.quiet:
                return
            failure = (
                "" if ending is None else f": {ending.outcome} in {ending.step}, {ending.reason}"
            )
            print(
                f"[{self.done}/{self.total}] {title} {seconds:.1f} s{failure}",
                file=sys.stderr,
                flush=True,
            )


# ---- all of them ----------------------------------------------------------------------------

_stopped = threading.Event()


@contextlib.contextmanager
def workers(at_once: int | None = AT_ONCE) -> Iterator[ThreadPoolExecutor]:
    """Threads that run jobs, `at_once` at a time. An exception in the block, such as
    KeyboardInterrupt, cancels the jobs: each thread kills its child, and reports nothing."""
    _stopped.clear()
    with ThreadPoolExecutor(at_once) as pool:
        try:
            yield pool
        except BaseException:
            _stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
