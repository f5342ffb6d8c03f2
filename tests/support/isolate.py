"""Runs code that may kill its process, or needs one to itself, in another one."""

import functools
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


def in_fresh_process(test):
    """Runs a test in a new interpreter.

    What fastdl knows of types has a fixed size and is never forgotten, and the types of other
    tests fill it: a test about that memory has to start with an empty one. The arguments of the
    test must be numbers or strings.
    """

    @functools.wraps(test)
    def run(**arguments):
        run_isolated(f"""
            from {test.__module__} import {test.__name__} as test
            test.__wrapped__(**{arguments!r})
        """)

    return run
