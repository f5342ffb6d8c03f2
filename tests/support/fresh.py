"""Tests that need an interpreter to themselves."""

import functools
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent.parent


def in_fresh_process(test):
    """Runs a test in a new interpreter.

    What fastdl knows of types has a fixed size and is never forgotten, and the types of other
    tests fill it: a test about that memory has to start with an empty one. The arguments of the
    test must be numbers or strings.
    """

    @functools.wraps(test)
    def run(**arguments):
        code = (
            f"from {test.__module__} import {test.__name__} as test\n"
            f"test.__wrapped__(**{arguments!r})\n"
            f"print('passed')"
        )
        result = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert result.stdout.endswith("passed\n"), f"in its own process:\n{result.stderr}"

    return run
