# SPDX-License-Identifier: Apache-2.0
"""Runs code that may kill its process, or needs one to itself, in another one."""

import functools
import os
import signal
import subprocess
import sys
import textwrap


def run_python(*arguments, env=None, timeout=300, **options):
    """A fresh interpreter with this one's import path, `env` beside its environment and `options`
    of subprocess.run: how it ended, and what it printed."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, **(env or {})},
        encoding="utf-8",
        errors="replace",
        timeout=timeout,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )


def run_isolated(code, **options):
    """Runs `code` in a fresh interpreter; returns what it printed.

    AssertionError, with the whole output, if the process does not end well.
    """
    child = run_python("-W", "error", "-c", textwrap.dedent(code), **{"timeout": 120, **options})
    assert child.returncode == 0, describe(child)
    assert child.stderr == "", child.stderr
    return child.stdout


def signal_name(number):
    """SIGSEGV, say; some signals have only a number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def describe(child):
    """How a child ended, and the last of what it said."""
    status = child.returncode
    ended = f"it died of {signal_name(-status)}" if status < 0 else f"it ended with status {status}"
    return f"{ended}\n{child.stdout[-8000:]}\n{child.stderr[-8000:]}"


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
