# SPDX-License-Identifier: Apache-2.0
"""Runs checks of a library in another process, which is restarted when a check crashes it."""

import contextlib
import json
import os
import platform
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from typing import IO, Any

from dlpack_conformance import crashes
from dlpack_conformance.outcomes import (
    BAD,
    CRASHED,
    DEVIATES,
    INVALID,
    MEMORY,
    SEVERITIES,
    SKIPPED,
    TIMED_OUT,
)
from dlpack_conformance.suite import all_checks

SCHEMA = 1  # version of the report format: raised when a key changes its meaning, or is removed

HEAP = "free|malloc|corrupt"  # messages of the C library about a corrupted heap
TO_START, TO_ANSWER = 300.0, 120.0  # seconds

#: Makes libraries print less, and not reserve the memory of a GPU; overwrites freed memory, and
#: ends the process when Python's is freed without the GIL. The user's settings take precedence.
SURROUNDINGS = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "PYTHONWARNINGS": "ignore",
    "PYTHONIOENCODING": "utf-8",
    "MALLOC_PERTURB_": "165",
    "PYTHONMALLOC": "debug",
}


class CannotStart(Exception):
    """The library cannot be imported, or not even installed; or its adapter cannot be used."""


class NoSuchCheck(LookupError):
    """A text that is in no check's name."""


class Process:
    """A process that answers questions, each with a line of JSON. It is started by a question, and
    in a session of its own, so Ctrl-C reaches only this process, which calls `close`."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.child: subprocess.Popen[str] | None = None
        self.asked = 0  # since it was started

    def start(self) -> "subprocess.Popen[str]":
        self.output = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - see close
        path = [os.path.abspath(folder) for folder in sys.path]
        self.child = child = subprocess.Popen(
            self.command,
            env={**SURROUNDINGS, **os.environ, "PYTHONPATH": os.pathsep.join(path)},
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.output,
            text=True,
        )
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self.read, args=(child.stdout, self.lines), daemon=True).start()
        self.asked = 0
        return child

    @staticmethod
    def read(answers: IO[str], lines: "queue.Queue[str]") -> None:
        with contextlib.suppress(ValueError):  # it was closed
            for line in answers:
                lines.put(line)
        lines.put("")

    def ask(self, limit: float, *question: Any) -> "dict[str, Any] | None":
        """The answer; None if the process ended, or takes too long."""
        child = self.child or self.start()
        self.asked += 1
        try:
            print(json.dumps(question), file=child.stdin, flush=True)
            return json.loads(self.lines.get(timeout=limit))
        except (BrokenPipeError, queue.Empty, ValueError):  # ValueError: an incomplete line
            return None

    def close(self, limit: float = 0.0) -> tuple[str, str]:
        """Kills it, and what it started. How it ended, as an outcome and a note: by itself, or not
        within `limit`."""
        child, self.child = self.child, None
        if child is None:
            return "", ""
        try:
            code = child.wait(timeout=1 if limit else 0)
        except subprocess.TimeoutExpired:
            ended = TIMED_OUT, crashes.no_answer(limit)
        else:
            self.output.seek(0)
            ended = CRASHED, f"{crashes.ending(code)}{crashes.last_words(self.output.read())}"
        if sys.platform == "win32":
            subprocess.run(("taskkill", "/f", "/t", "/pid", str(child.pid)), capture_output=True)
            child.kill()
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        for stream in (child.stdin, child.stdout, self.output):
            if stream is not None:
                with contextlib.suppress(OSError):  # unsent data
                    stream.close()
        return ended


WORKER = ("-m", "dlpack_conformance.worker")


class Runner:
    """The process of one library. Use as a context manager, or call `close`."""

    def __init__(self, adapter: str, limit: float = TO_ANSWER) -> None:
        self.adapter, self.limit = adapter, limit
        self.process = Process([sys.executable, *WORKER])
        self.facts: dict[str, Any] = {}
        self.ended: dict[str, str] = {}  # checks that crashed, or did not end: how
        self.refused = ""  # why the library cannot be loaded

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self.process.close()

    def start(self) -> None:
        """CannotStart with the reason if the library cannot be loaded."""
        answer = self.process.ask(TO_START, "load", self.adapter, True)
        if answer is None or "error" in answer:
            ended = self.process.close(TO_START)
            reason = "\n".join(answer.values()) if answer else ended[1]
            self.refused = f"{self.adapter} cannot be loaded: {reason}".rstrip()
            raise CannotStart(self.refused)
        self.facts = answer

    def run(self, check: str) -> dict[str, Any]:
        """The result of one check. A crash with a corrupted heap, in a process that has run other
        checks, is repeated in a new process: an earlier check may be the cause."""
        before = all_checks()[check].after
        if before in self.ended:
            return {"outcome": SKIPPED, "note": f"{before} {self.ended[before]}", "seconds": 0}
        if self.refused:
            raise CannotStart(self.refused)
        found = self.attempt(check)
        alone = self.process.asked == 2  # the library, and this check
        if found["outcome"] == CRASHED and not alone and re.search(HEAP, found["note"]):
            again = self.attempt(check)
            if again["outcome"] != CRASHED:
                again["note"] += f" ({found['note']}, in a process that had run others)"
            found = again
        if found["outcome"] in (CRASHED, TIMED_OUT):
            self.ended[check] = found["outcome"]
        return found

    def attempt(self, check: str) -> dict[str, Any]:
        if self.process.child is None:
            self.start()
        found = self.process.ask(self.limit + 5, "check", self.adapter, check, self.limit)
        if found is None:
            outcome, note = self.process.close(self.limit)
            found = {"outcome": outcome, "note": note, "seconds": 0}
        return found


def chosen(patterns: Iterable[str] = ()) -> list[str]:
    """The checks whose name contains one of the patterns; all if there are none. NoSuchCheck if a
    pattern is in no name."""
    names, patterns = [*all_checks()], [*patterns]
    for pattern in patterns:
        if not any(pattern in name for name in names):
            raise NoSuchCheck(f"no check has {pattern!r} in its name")
    return [name for name in names if not patterns or any(p in name for p in patterns)]


def report(
    adapter: str,
    *,
    checks: "Iterable[str] | None" = None,
    limit: float = TO_ANSWER,
    told: Callable[[str, dict[str, Any]], None] = lambda name, result: None,
) -> dict[str, Any]:
    """Runs checks of a library, by default all: the report that all formats are rendered from.

    "library": name, title, version, python, platform, doubts about the adapter; "results": for each
    check its id, section, severity, sentence, clause, outcome, note and seconds; "interrupted":
    whether Ctrl-C ended it before the last check. `told` is called after each.
    CannotStart if the library cannot be imported.
    """
    results: list[dict[str, Any]] = []
    interrupted = False
    with Runner(adapter, limit) as runner:
        try:
            runner.start()
            for name in chosen() if checks is None else checks:
                result = describe(name, runner.run(name))
                told(name, result)
                results.append(result)
        except KeyboardInterrupt:
            interrupted = True
        return as_report(adapter, runner.facts, results, interrupted)


def describe(name: str, result: dict[str, Any]) -> dict[str, Any]:
    """A result together with the facts about its check."""
    one = all_checks()[name]
    found = {"severity": one.severity, **result}
    if one.severity == INVALID and found["outcome"] in BAD:
        found["outcome"] = DEVIATES  # the standard leaves even a crash to the library
    elif found["outcome"] == CRASHED:
        found["severity"] = MEMORY
    facts = {"id": one.id, "section": one.section, "severity": one.severity}
    return {**facts, "sentence": one.sentence, "clause": one.clause, **found}


def as_report(
    adapter: str, facts: dict[str, Any], results: list[dict[str, Any]], interrupted: bool = False
) -> dict[str, Any]:
    system = f"{platform.system()} {platform.machine()}"
    return {
        "schema": SCHEMA,
        "interrupted": interrupted,
        "library": {"name": adapter, **facts, "platform": system},
        "results": results,
    }


def failures(results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that failed, crashed or did not end, the worst first."""
    bad = [result for result in results if result["outcome"] in BAD]
    return sorted(bad, key=lambda r: (SEVERITIES.index(r["severity"]), r["outcome"] != CRASHED))
