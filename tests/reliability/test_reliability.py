# SPDX-License-Identifier: Apache-2.0
"""The checks of tests/reliability, a few times each: `nox -s reliability` runs them in full."""

import os
import sys
import sysconfig

import pytest

from tests.reliability import checks
from tests.reliability.__main__ import run

CASES = {
    name: pytest.mark.parametrize("case", check.cases) for name, check in checks.CHECKS.items()
}


@CASES["deleters"]
def test_deleters(case):
    checks.deleters(case, 4000)


@CASES["races"]
def test_races(case):
    checks.races(case, 200)


@CASES["exits"]
def test_exits(case):
    checks.exits(case, 2)


@CASES["forks"]
def test_forks(case):
    if case == "busy threads" and "FASTDL_SANITIZE" in os.environ:
        pytest.skip("GCC 12's libasan forks while other threads hold its allocator's locks")
    assert run("forks", case, 4) == (4, "")


# Without a GIL, CPython frees another list's items when a new list gets no memory for its own:
# python/cpython#152125. The other operations make no list that has items from the start.
MAKES_LISTS = {"tolist", "tolist, 128 bits"}
# What needs no memory but from Python, or from NumPy's own cache.
NO_MALLOC = {
    *("capsule, refused", "properties", "new dtype", "repr", "buffer", "numpy"),
    *("reshape, refused", "view, refused", "tolist", "tolist, 128 bits", "item, lanes", "contains"),
}


@pytest.mark.slow
@CASES["memory"]
@pytest.mark.parametrize("injector", ["python", "malloc"])
def test_memory(case, injector):
    """Faults M1 and M11: MemoryError, the deleter once, no reference kept."""
    if injector == "malloc" and "FASTDL_SANITIZE" in os.environ:
        pytest.skip("a sanitizer owns malloc itself")
    without_a_gil = sysconfig.get_config_var("Py_GIL_DISABLED")
    if injector == "python" and case in MAKES_LISTS and without_a_gil:
        pytest.skip("CPython without a GIL corrupts its memory there")
    reached = checks.sweep(case, injector)
    assert reached > 0 or (injector == "malloc" and case in NO_MALLOC)


@CASES["acts"]
def test_acts(case, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", None)
    checks.acts(case, 2 * len(checks.BY_NAME))


@pytest.mark.skipif("FASTDL_SANITIZE" in os.environ, reason="what is freed is kept for a while")
@CASES["growth"]
def test_growth(case):
    checks.growth(case, 20_000)


def test_a_fault_fails_the_command(monkeypatch):
    done, said = run("deleters", "no such path", 1)
    assert done == 0 and "KeyError: 'no such path'" in said
