"""Runs test files in a process of their own, and reports a crash as what it is."""

import os
import signal
import subprocess
import sys
from pathlib import Path

CASES = Path(__file__).parent / "cases"
PEER_VARIABLE = "FASTDL_TEST_PEER"
TIMEOUT = 600  # seconds; the slowest peer takes 20


def run_python(
    *arguments: str, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess:
    """A fresh interpreter with this one's search path; output is captured as text."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "PYTHONFAULTHANDLER": "1", **environment},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=TIMEOUT,
    )


def run_cases(*files: str, peer: str = "", **environment: str) -> None:
    """Runs files of cases/ with pytest in one child; AssertionError with its output if one fails.

    `peer` is what cases.peer_under_test() finds there; `environment` is added to the child's.
    """
    child = run_python(
        *("-m", "pytest", "-v", "--tb=short", "-W", "error", "-p", "no:cacheprovider"),
        *(str(CASES / file) for file in files),
        **{PEER_VARIABLE: peer, **environment},
    )
    assert child.returncode == 0, describe(child)


def particular(library: str) -> list[str]:
    """Files of cases/ with what is particular to a library: its name and one word. The long
    torch_compile.py is run by itself."""
    paths = [path for path in sorted(CASES.glob("*.py")) if path.stem != "torch_compile"]
    name = library.replace(".", "_")
    return [path.name for path in paths if path.stem.rpartition("_")[0] == name]


def signal_name(number: int) -> str:
    """SIGSEGV, say; some signals have only a number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def describe(child: subprocess.CompletedProcess) -> str:
    """How a child ended, and the last of what it said."""
    status = child.returncode
    ended = f"it died of {signal_name(-status)}" if status < 0 else f"it ended with status {status}"
    return f"{ended}\n{child.stdout[-8000:]}\n{child.stderr[-8000:]}"
