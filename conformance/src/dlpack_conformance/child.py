"""Processes in which other libraries run, which may crash or hang."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

#: Makes libraries print less, and not reserve the memory of a GPU. The user's settings take
#: precedence.
SURROUNDINGS = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "PYTHONWARNINGS": "ignore",
    "PYTHONIOENCODING": "utf-8",
}
#: Overwrites freed memory, and ends the process when Python's is freed without the GIL.
PERTURBED = {**SURROUNDINGS, "MALLOC_PERTURB_": "165", "PYTHONMALLOC": "debug"}

TICK = 0.05  # seconds


def start(command: list[str], **more: Any) -> "subprocess.Popen[Any]":
    """A process in a session of its own: Ctrl-C reaches only this process, which calls `end`."""
    return subprocess.Popen(command, start_new_session=True, **more)


def end(child: "subprocess.Popen[Any]") -> None:
    """Kills a process of `start`, and those that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
    child.wait()


@contextlib.contextmanager
def running(command: list[str], **more: Any) -> "Iterator[subprocess.Popen[Any]]":
    """A process that does not outlive the block."""
    child = start(command, **more)
    try:
        yield child
    finally:
        end(child)


def await_end(
    child: "subprocess.Popen[Any]", log: Path, limit: float, tick: Callable[[], None] = lambda: None
) -> "int | None":
    """The exit status of a process; None if `log`, a file that it writes, did not grow for `limit`
    seconds. `tick` is called meanwhile, and may raise."""
    size, since = -1, time.monotonic()
    while time.monotonic() - since < limit:
        tick()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(TICK)
        now = log.stat().st_size if log.exists() else 0
        if now != size:
            size, since = now, time.monotonic()
    return None


def ending(status: int) -> str:
    """How a process ended."""
    died = f"the process died of {signal_name(-status)}"
    return died if status < 0 else f"the process ended with status {status}"


def signal_name(number: int) -> str:
    """SIGSEGV, say; some signals have only a number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
