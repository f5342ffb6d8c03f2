# SPDX-License-Identifier: Apache-2.0
"""What `processes.py` runs in a fresh process: `python -m benchmarks.worker JOB OPTIONS`."""

import json
import sys
from functools import partial
from importlib import import_module


def c_and_python(name: str, rounds: int) -> dict:
    """group -> subject -> samples, or group -> why it could not be measured."""
    from benchmarks.timing import interleave

    groups = {}
    for group, making in import_module(f"benchmarks.{name}").GROUPS.items():
        try:
            c, python = making()
        except ImportError as error:
            groups[f"c/{group}"] = groups[f"python/{group}"] = str(error)
            continue
        if c:
            groups[f"c/{group}"] = interleave(c, rounds)
        if python:
            groups[f"python/{group}"] = interleave(python, rounds)
    return groups


def copies(rounds: int) -> dict:
    from benchmarks.copies import argument, arguments, layouts, loops_only, method
    from benchmarks.timing import interleave

    groups = {}
    for name, array in layouts().items():
        groups[f"copy/{name}"] = interleave(loops_only(array), rounds)
        groups[f"method/{name}"] = interleave(method(array), rounds)
    for name, (array, function) in arguments().items():
        groups[f"argument/{name}"] = interleave(argument(array, function), rounds)
    return groups


def bindings(rounds: int) -> dict:
    """group -> subject -> samples."""
    from benchmarks.bindings import groups
    from benchmarks.timing import interleave

    return {group: interleave(found, rounds) for group, found in groups().items()}


JOBS = {
    **{name: partial(c_and_python, name) for name in "exchanges conversions calls methods".split()},
    "bindings": bindings,
    "copies": copies,
}

if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]](**json.loads(sys.argv[2]))))
