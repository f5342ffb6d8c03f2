# SPDX-License-Identifier: Apache-2.0
"""A process that has libraries: python -m dlpack_conformance.worker

It reads a line of JSON for each question, a method of Worker and its arguments, and answers with
one. What crashes this process has no answer, which tells the parent process what it was: see
runner.py.
"""

import faulthandler
import gc
import json
import os
import platform
import select
import signal
import sys
import time
import traceback
import warnings
from typing import Any

from dlpack_conformance import crashes, pairs
from dlpack_conformance.loading import TRIAL, WrongAdapter, doubts, load
from dlpack_conformance.outcomes import (
    CRASHED,
    DATA,
    DEVIATES,
    DEVIATION,
    ERROR,
    FAILED,
    MEMORY,
    PASSED,
    SKIPPED,
    TIMED_OUT,
)
from dlpack_conformance.suite import (
    Allowed,
    Check,
    Failed,
    Library,
    NotApplicable,
    all_checks,
    told,
)

TO_TRY = 120.0  # seconds for the first array


def run(check: Check, lib: Library) -> dict[str, Any]:
    """The result of a check: outcome, note and seconds."""
    start = time.perf_counter()
    outcome, note, severity = PASSED, "", check.severity
    is_rule = severity in (MEMORY, DATA, ERROR)
    try:
        note = check.function(lib) or ""
    except Allowed as error:
        note = str(error)
    except NotApplicable as error:
        outcome, note = SKIPPED, str(error)
    except Failed as error:
        outcome, note = FAILED, str(error)
        if is_rule and error.severity:
            severity = error.severity
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        severity = ERROR if is_rule else severity  # whatever the check looks for
        outcome, note = FAILED, f"{told(error)} (in {os.path.basename(where.filename)})"
    if outcome == FAILED and (check.severity == DEVIATION or check.id in lib.deviations):
        outcome = DEVIATES
        if check.id in lib.deviations:
            note = f"{note}. {lib.deviations[check.id]}"
    gc.collect()
    found = {"outcome": outcome, "note": note, "seconds": round(time.perf_counter() - start, 4)}
    return found if severity == check.severity else {**found, "severity": severity}


def run_forked(check: Check, lib: Library, limit: float) -> dict[str, Any]:
    """The same in a forked child, whose crash or hang is the result."""
    said = crashes.Said(2)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with os.fdopen(writer, "w") as file:
            json.dump(run(check, lib), file)
        os._exit(0)  # some libraries crash at exit, which is unrelated to the checks
    os.close(writer)
    with os.fdopen(reader) as file:
        ended = select.select([file], [], [], limit)[0]
        if not ended:
            os.kill(child, signal.SIGKILL)
        text = file.read()
    _, status = os.waitpid(child, 0)
    if text:
        return json.loads(text)
    if not ended:
        return {"outcome": TIMED_OUT, "note": crashes.no_answer(limit), "seconds": limit}
    note = f"{crashes.ending(os.waitstatus_to_exitcode(status))}{said.words()}"
    return {"outcome": CRASHED, "note": note, "seconds": 0}


def result_of(check: Check, lib: Library, limit: float) -> dict[str, Any]:
    """The result in a child, if the library survives a fork."""
    if hasattr(os, "fork") and lib.forks:
        return run_forked(check, lib, limit)
    return run(check, lib)


class Worker:
    """The libraries of this process, and what it answers."""

    def __init__(self) -> None:
        self.libraries: dict[str, Library] = {}
        self.checks = all_checks()

    def load(self, name: str, alone: bool) -> dict[str, Any]:
        """The facts about a library, or why it cannot be checked. It is tried if it is to be the
        only one of this process: others may not survive a fork."""
        try:
            lib = load(name)
            tried = result_of(TRIAL, lib, TO_TRY) if alone else {"outcome": SKIPPED}
            if tried["outcome"] not in (PASSED, SKIPPED):
                raise WrongAdapter(tried["note"])
        except BaseException as error:
            wrong = isinstance(error, WrongAdapter)
            return {
                "error": str(error) if wrong else told(error),
                "trace": "" if wrong else traceback.format_exc(limit=-3),
            }
        self.libraries[name] = lib
        gc.collect()
        gc.freeze()  # GC passes scan only the objects of the checks, not the library
        return {
            "title": lib.title,
            "version": lib.version(),
            "python": platform.python_version(),
            "doubts": [*doubts(lib.source)],
        }

    def check(self, name: str, check: str, limit: float) -> dict[str, Any]:
        try:
            return result_of(self.checks[check], self.libraries[name], limit)
        except BaseException as error:
            return {"outcome": FAILED, "note": told(error), "seconds": 0}

    def pair(self, producer: str, consumer: str) -> dict[str, Any]:
        found = pairs.outcome(self.libraries[producer], self.libraries[consumer])
        gc.collect()
        return found


def main() -> None:
    # Output of the library must not be read as an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    faulthandler.enable()
    warnings.simplefilter("ignore")
    worker = Worker()
    for line in sys.stdin:
        method, *arguments = json.loads(line)
        print(json.dumps(getattr(worker, method)(*arguments)), file=answers, flush=True)
    os._exit(0)  # some libraries crash at exit, which is unrelated to the checks


if __name__ == "__main__":
    main()
