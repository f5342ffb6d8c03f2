"""Runs checks of a library in another process, which is restarted when a check crashes it."""

import contextlib
import json
import os
import platform
import queue
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from typing import IO, Any

from fastdl._testing import child
from fastdl._testing.suite import CRASHED, FAILED, MEMORY, SEVERITIES, SKIPPED, all_checks

SCHEMA = 1  # version of the report format: raised when a key changes its meaning, or is removed

HEAP = "free|malloc|corrupt"  # messages of the C library about a corrupted heap
TO_START, TO_ANSWER = 300.0, 120.0  # seconds


class CannotStart(Exception):
    """The adapter, or the library, cannot be imported, or not even installed."""


class Runner:
    """The process of one library. Use as a context manager, or call `close`."""

    def __init__(
        self, adapter: str, python: str = sys.executable, limit: float = TO_ANSWER
    ) -> None:
        self.adapter, self.python, self.limit = adapter, python, limit
        self.child: subprocess.Popen[str] | None = None
        self.lines: queue.Queue[str] = queue.Queue()
        self.ran = 0  # checks in the present process
        self.facts: dict[str, Any] = {}
        self.crashed: set[str] = set()
        self.refused = ""  # why the library cannot be loaded

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def start(self) -> None:
        """CannotStart with the reason if there is no answer."""
        self.output = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - see close
        env = {**child.PERTURBED, **os.environ}
        if self.python == sys.executable:
            env["PYTHONPATH"] = os.pathsep.join(path or os.curdir for path in sys.path)
        self.child = child.start(
            [self.python, "-m", "fastdl._testing.worker", self.adapter],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.output,
            text=True,
        )
        self.ran = 0
        self.lines = queue.Queue()
        pipe = self.child.stdout, self.lines
        threading.Thread(target=self.read, args=pipe, daemon=True).start()
        answer = self.answer(TO_START)
        if answer is None or "error" in answer:
            reason = f"{answer['error']}\n{answer['trace']}" if answer else self.ending(TO_START)
            self.close()
            self.refused = f"{self.adapter} cannot be loaded: {reason}"
            raise CannotStart(self.refused)
        self.facts = answer

    @staticmethod
    def read(answers: IO[str], lines: "queue.Queue[str]") -> None:
        for line in answers:
            lines.put(line)
        lines.put("")

    def answer(self, limit: float) -> "dict[str, Any] | None":
        """The next answer; None if the process ended, or took too long."""
        try:
            line = self.lines.get(timeout=limit)
        except queue.Empty:
            return None
        try:
            return json.loads(line) if line else None
        except ValueError:  # an incomplete line
            return None

    def ending(self, limit: float) -> str:
        """How the process ended; kills it if it is still running."""
        assert self.child is not None
        try:
            code = self.child.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return f"no answer in {limit:g} s"
        self.output.seek(0)
        said = [line.strip() for line in self.output.read().splitlines() if line.strip()]
        last = next((f": {line}" for line in said if "Fatal Python error" not in line), "")
        return f"{child.ending(code)}{last[:200]}"

    def run(self, check: str, mutant: "str | None" = None) -> dict[str, Any]:
        """The result of one check. A crash with a corrupted heap, in a process that has run other
        checks, is repeated in a new process: an earlier check may be the cause."""
        before = all_checks()[check].after
        if before in self.crashed and mutant is None:
            return {"outcome": SKIPPED, "note": f"{before} ends the process", "seconds": 0}
        if self.refused:
            raise CannotStart(self.refused)
        if self.child is None:
            self.start()
        alone = self.ran == 0
        found = self.attempt(check, mutant)
        if found["outcome"] == CRASHED and not alone and re.search(HEAP, found["note"]):
            self.start()
            again = self.attempt(check, mutant)
            if again["outcome"] != CRASHED:
                again["note"] += f" ({found['note']}, in a process that had run others)"
            found = again
        if found["outcome"] == CRASHED:
            self.crashed.add(check)
        return found

    def attempt(self, check: str, mutant: "str | None") -> dict[str, Any]:
        assert self.child is not None and self.child.stdin is not None
        asked = {"check": check, "mutant": mutant, "limit": self.limit}
        try:
            self.child.stdin.write(json.dumps(asked) + "\n")
            self.child.stdin.flush()
            found = self.answer(self.limit + 5)
        except BrokenPipeError:
            found = None
        self.ran += 1
        if found is None:
            found = {"outcome": CRASHED, "note": self.ending(self.limit), "seconds": 0}
            self.close()
        return found

    def close(self) -> None:
        if self.child is not None:
            child.end(self.child)
            for stream in (self.child.stdin, self.child.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):  # unsent data
                        stream.close()
            self.output.close()
            self.child = None


def chosen(patterns: Iterable[str] = ()) -> list[str]:
    """The checks whose name contains one of the patterns; all if there are none."""
    patterns = list(patterns)
    return [name for name in all_checks() if not patterns or any(p in name for p in patterns)]


def report(
    adapter: str,
    *,
    checks: Iterable[str] = (),
    python: str = sys.executable,
    told: Callable[[str, dict[str, Any]], None] = lambda name, result: None,
) -> dict[str, Any]:
    """Runs checks of a library: the report that all formats are rendered from.

    "library": name, title, version, python, platform; "results": for each check its id, section,
    severity, sentence, clause, outcome, note and seconds. `told` is called after each.
    CannotStart if the library cannot be imported.
    """
    results = []
    with Runner(adapter, python) as runner:
        runner.start()
        for name in checks or chosen():
            result = describe(name, runner.run(name))
            told(name, result)
            results.append(result)
        return as_report(adapter, runner.facts, results)


def describe(name: str, result: dict[str, Any]) -> dict[str, Any]:
    """A result together with the facts about its check."""
    one = all_checks()[name]
    return {
        "id": one.id,
        "section": one.section,
        "severity": MEMORY if result["outcome"] == CRASHED else one.severity,
        "sentence": one.sentence,
        "clause": one.clause,
        **result,
    }


def as_report(adapter: str, facts: dict[str, Any], results: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "library": {
            "name": adapter,
            **facts,
            "platform": f"{platform.system()} {platform.machine()}",
        },
        "results": results,
    }


def failures(results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that failed or crashed, the worst first."""
    bad = [result for result in results if result["outcome"] in (CRASHED, FAILED)]
    return sorted(bad, key=lambda r: (SEVERITIES.index(r["severity"]), r["outcome"] != CRASHED))
