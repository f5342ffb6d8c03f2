# SPDX-License-Identifier: Apache-2.0
"""The checks of the suite over each of fastdl's paths: tests/support/paths.py.

All in this process, as coverage sees only what runs in it: a crash ends the test, whose name says
where.
"""

import gc
import re
from functools import cache

import pytest

from dlpack_conformance.checks.hostile import FAULTS
from dlpack_conformance.outcomes import PASSED, SECTIONS, SKIPPED
from dlpack_conformance.suite import Library, all_checks
from dlpack_conformance.worker import run
from tests.support.paths import COMPILERS, PATHS

#: Why a check may have nothing to look at.
NOTHING = re.compile(
    "the adapter has no|it has no such case|it reads no tables|the function is NULL|"
    "takes no (copy|device)|a table gives versioned tensors only|copy=False is not passed on|"
    "what it takes is a Tensor"
)

#: What a check may leave to a library, and a path does not do.
LESS = re.compile("refused: |taken, but not readable|copies$|cannot be written to")

#: What it must not do, or cannot.
LAWFUL = re.compile(
    "cannot (say|express)|is read-only|CopyRequired|copy=True|"
    "that takes stream only, .*copy=False|can make only after fastdl_import|element size"
)

#: What fastdl describes as it is: whoever reads it may know more.
TAKEN = {"code-unknown", "device-unknown"}

#: What it says of a description that it refuses.
WORDS = {
    "ndim-": "dimensions outside 0 to 64",
    "shape-null": "NULL shape",
    "dimension": "a negative dimension",
    "size-": "more bytes than",
    "stride": "strides that reach",
    "address-": "an address or byte_offset",
    "data-null": "NULL data",
    "offset-": "an address or byte_offset",
    "bits-": "element size",
    "lanes-four": "element size",
    "device-": "device type that is not positive",
}


@cache
def library(path):
    made = Library(PATHS[path](), path)
    gc.freeze()  # as in a process of the suite: checks collect garbage often
    return made


def results(path, section):
    lib = library(path)
    unasked = getattr(lib.source, "unasked", ())
    return {
        name: run(check, lib)
        for name, check in all_checks().items()
        if check.section == section and name not in unasked
    }


def is_wrong(name, path, outcome, note, **more):
    cases = [case for case in note.split("; ") if LESS.match(case) and not LAWFUL.search(case)]
    if outcome == PASSED and cases and not name.startswith("hostile."):
        return name not in getattr(library(path).source, "refuses", ()) and not NOTHING.search(note)
    return outcome != PASSED and not (outcome == SKIPPED and NOTHING.search(note))


#: Those of compiled modules are slow to build.
CASES = [
    pytest.param(path, marks=pytest.mark.slow if path.endswith((*COMPILERS,)) else ())
    for path in PATHS
]


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("path", CASES)
def test_path(path, section):
    found = results(path, section)
    wrong = {name: one["note"] for name, one in found.items() if is_wrong(name, path, **one)}
    assert wrong.keys() == library(path).deviations.keys() & found.keys(), wrong
    for name in FAULTS.keys() - TAKEN if section == "hostile" else ():
        one = found[f"hostile.{name}"]
        words = next((words for start, words in WORDS.items() if name.startswith(start)), "")
        if one["outcome"] == PASSED:
            assert re.match(f"refused: BufferError: .*{words}", one["note"]), (name, one)
