# SPDX-License-Identifier: Apache-2.0
"""What holds for all tests: no driver of the machine they run on. Those of tests/simulated and
tests/gpu put one there for themselves, and take it away again."""

import contextlib
import gc
import sys
from pathlib import Path

import pytest

from fastdl._devices import driver as device
from tests.interop.peers import NOT_INSTALLED, require
from tests.support import build
from tests.support.frameworks import simulated
from tests.support.memory import machine
from tests.support.simulation import Simulation
from tests.windows import skipped

for _type in (2, 10):
    device.replace_driver(_type, None)

# The same cases in each run, so that no test fails by chance: `nox -s fuzz` is for finding others.
with contextlib.suppress(ModuleNotFoundError):  # the environments of the matrix draw none
    from hypothesis import settings

    settings.register_profile("fastdl", deadline=None, derandomize=True, max_examples=100)
    settings.load_profile("fastdl")


@pytest.fixture(autouse=True, scope="module")
def _little_to_collect():
    """Many tests collect garbage, which looks through all that the libraries loaded so far have
    made. What was there before a module's tests is not looked at again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_driver_call_with_the_gil():
    """Of fastdl, in any test: see the head of src/fastdl/_devices/driver.h."""
    yield
    found = [line for simulation in Simulation.loaded.values() for line in held_calls(simulation)]
    assert not found, "\n".join(found)


@pytest.fixture(params=["cuda", "hip"])
def sim(request):
    """A simulated driver in place of the machine's; `cuda` and `hip`: that one."""
    with simulated(request.param) as sim:
        yield sim


@pytest.fixture
def cuda():
    with simulated("cuda") as sim:
        yield sim


@pytest.fixture
def hip():
    with simulated("hip") as sim:
        yield sim


@pytest.fixture(params=["cuda", "hip"])
def here(request):
    """The same, with the names that its devices have in fastdl."""
    with machine(request.param) as here:
        yield here


@pytest.fixture
def cuda_machine():
    """`here`, for CUDA."""
    with machine("cuda") as here:
        yield here


def held_calls(simulation):
    """And forgets them, so that one test fails for them and not all that follow."""
    found = simulation.gil_violations()
    if found:
        simulation.reset()
    return found


def pytest_configure():
    """The workers of pytest-xdist compile into one folder."""
    build.folder()


INTEROP = Path(__file__).with_name("interop")


def pytest_collection_modifyitems(items):
    for item in items:
        if INTEROP in item.path.parents:
            item.add_marker("library")
        if sys.platform == "win32" and (reason := skipped.reason(item.nodeid)):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_runtest_setup(item):
    for mark in item.iter_markers("library"):
        for name in mark.args:
            require(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Stages of CI run only tests that have the mark, so one that should have it may not skip."""
    report = yield
    marked = item.get_closest_marker("library") or item.get_closest_marker("slow")
    if report.skipped and NOT_INSTALLED in str(report.longrepr) and not marked:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} needs @pytest.mark.library: {report.longrepr}"
    return report if marked else listed(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    return listed((yield))


def listed(report):
    """Of a test or file of tests: it fails if it skips on Windows for a reason not listed."""
    said = str(report.longrepr)
    if sys.platform == "win32" and report.skipped and not skipped.known(report.nodeid, said):
        report.outcome = "failed"
        report.longrepr = f"not in tests/windows/skipped.py: {report.nodeid}: {said}"
    return report
