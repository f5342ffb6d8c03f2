"""Runs code that may kill its process in another one."""

import os
import subprocess
import sys
import textwrap


def run_isolated(code, *, env=None, timeout=120):
    """Runs `code` in a fresh interpreter with this one's import path; returns what it printed.

    AssertionError, with the whole output, if the process does not end well.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(env or {})}
    result = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "error", "-c", textwrap.dedent(code)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert result.returncode == 0, (
        f"the process ended with {result.returncode}\n{result.stdout}\n{result.stderr}"
    )
    assert result.stderr == "", result.stderr
    return result.stdout
