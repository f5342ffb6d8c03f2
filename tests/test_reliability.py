"""The checks of tests/reliability, a few times each: `nox -s reliability` runs them in full. And
that they can fail."""

import os
import sys
import sysconfig

import pytest

from tests.reliability import checks, coverage
from tests.reliability.__main__ import run
from tests.support.build import ROOT
from tests.support.isolate import run_isolated

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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
@CASES["forks"]
def test_forks(case):
    if case == "busy threads" and "FASTDL_SANITIZE" in os.environ:
        pytest.skip("GCC 12's libasan forks while other threads hold its allocator's locks")
    assert run("forks", case, 4) == (4, "")


@CASES["acts"]
def test_acts(case, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", None)
    checks.acts(case, 2 * len(checks.BY_NAME))


@pytest.mark.skipif("FASTDL_SANITIZE" in os.environ, reason="what is freed is kept for a while")
@CASES["growth"]
def test_growth(case):
    checks.growth(case, 20_000)


# ---- they can fail --------------------------------------------------------------------------


def test_a_race_with_two_winners_is_seen():
    with pytest.raises(AssertionError):
        checks.races("", 100, enter=lambda capsule: capsule)


@pytest.mark.skipif("FASTDL_SANITIZE" in os.environ, reason="see above")
@pytest.mark.parametrize(
    ("leak", "said"),
    [
        ("kept = []; step = lambda: kept.append(object())", "blocks of Python's more"),
        ("import ctypes; step = lambda: ctypes.CDLL(None).malloc(1024)", "bytes more"),
    ],
)
def test_growth_is_seen(leak, said):
    with pytest.raises(AssertionError, match=said):
        run_isolated(
            f"{leak}\nfrom tests.reliability.checks import growth\ngrowth('', 30_000, step)"
        )


@pytest.mark.parametrize("ending", ["import os; os._exit(1)", "print(1)", "import os; os.abort()"])
def test_an_exit_that_goes_wrong_is_seen(ending, monkeypatch):
    monkeypatch.setitem(checks.EXITS, "wrong", ending)
    with pytest.raises(AssertionError):
        checks.exits("wrong", 1)


@pytest.mark.skipif(sysconfig.get_config_var("Py_GIL_DISABLED"), reason="a CPython without a GIL")
def test_a_deleter_that_waits_for_the_gil_is_seen():
    """It would wait for ever: what is deleted while the GIL is kept needs no Python."""
    code = """
        import faulthandler
        faulthandler.dump_traceback_later(3, exit=True)
        from tests.reliability.checks import consumer, floats, from_table
        consumer.delete_on_threads([from_table(floats())], 1, True)
    """
    with pytest.raises(AssertionError, match="Timeout"):
        run_isolated(code)


def test_a_fault_fails_the_command(monkeypatch):
    done, said = run("deleters", "no such path", 1)
    assert done == 0 and "KeyError: 'no such path'" in said


# ---- the lines that no test executes ----------------------------------------------------------


def lines_of(file):
    """As unreached.txt names them."""
    function = ""
    for line in (ROOT / file).read_text().splitlines() if (ROOT / file).exists() else ():
        function = coverage.function([line], 1, file) or function
        yield file, function, line.strip()


def test_the_lines_of_unreached_txt_are_there():
    listed = {*coverage.reasons()}
    there = {line for file in {file for file, *_ in listed} for line in lines_of(file)}
    assert listed - there == set()
