"""A process that runs checks of one library in turn:

python -m dlpack_conformance.worker ADAPTER [FOLDER ...]

The folders are where an adapter is looked for last: a library is the one that is installed here.
It reads one line of JSON for each check, and answers with one. A check that crashes this process
has no answer, which tells the parent process which one it was: see runner.py.
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

from dlpack_conformance import crashes
from dlpack_conformance.child import ending
from dlpack_conformance.loading import TRIAL, WrongAdapter, doubts, load
from dlpack_conformance.suite import (
    CRASHED,
    DEVIATES,
    DEVIATION,
    ERROR,
    FAILED,
    PASSED,
    SEVERITIES,
    SKIPPED,
    TIMED_OUT,
    Check,
    Failed,
    Library,
    NotApplicable,
    Refused,
    all_checks,
    told,
)

TO_TRY = 120.0  # seconds for the first array


def run(check: Check, lib: Library) -> dict[str, Any]:
    """The result of a check: outcome, note and seconds."""
    start = time.perf_counter()
    outcome, note, severity = PASSED, "", check.severity
    of_exception = max(severity, ERROR, key=SEVERITIES.index)  # whatever the check looks for
    try:
        note = check.function(lib) or ""
    except NotApplicable as error:
        outcome, note = SKIPPED, str(error)
    except Failed as error:
        outcome, note = FAILED, str(error)
        if isinstance(error, Refused):
            severity = of_exception
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        severity = of_exception
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
    note = f"{ending(os.waitstatus_to_exitcode(status))}{said.words()}"
    return {"outcome": CRASHED, "note": note, "seconds": 0}


def result_of(check: Check, lib: Library, limit: float) -> dict[str, Any]:
    """The result in a child, if the library survives a fork."""
    if hasattr(os, "fork") and lib.forks:
        return run_forked(check, lib, limit)
    return run(check, lib)


def main() -> None:
    # Output of the library must not be read as an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    faulthandler.enable()
    warnings.simplefilter("ignore")

    def answer(**fields: Any) -> None:
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    name, *folders = sys.argv[1:]
    sys.path += folders
    try:
        lib = load(name)
        checks = all_checks()
        tried = result_of(TRIAL, lib, TO_TRY)
        if tried["outcome"] not in (PASSED, SKIPPED):
            raise WrongAdapter(tried["note"])
    except BaseException as error:
        wrong = isinstance(error, WrongAdapter)
        answer(
            error=str(error) if wrong else told(error),
            trace="" if wrong else traceback.format_exc(limit=-3),
        )
        os._exit(1)
    gc.collect()
    gc.freeze()  # GC passes scan only the objects of the checks, not the library
    answer(
        title=lib.title,
        version=lib.version(),
        python=platform.python_version(),
        doubts=[*doubts(lib.source)],
    )
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            found = result_of(checks[asked["check"]], lib, asked["limit"])
        except BaseException as error:
            found = {"outcome": FAILED, "note": told(error), "seconds": 0}
        answer(**found)
    answers.flush()
    os._exit(0)  # some libraries crash at exit, which is unrelated to the checks


if __name__ == "__main__":
    main()
