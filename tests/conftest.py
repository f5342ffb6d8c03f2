"""What holds for all tests: no driver of the machine they run on. Those of tests/simulated and
tests/gpu put one there for themselves, and take it away again."""

import gc

import pytest

from fastdl._devices import driver as device
from tests.support import build
from tests.support.simulation import Simulation

for _type in (2, 10):
    device.replace_driver(_type, None)


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


def held_calls(simulation):
    """And forgets them, so that one test fails for them and not all that follow."""
    found = simulation.gil_violations()
    if found:
        simulation.reset()
    return found


def pytest_configure():
    """The workers of pytest-xdist compile into one folder."""
    build.folder()
