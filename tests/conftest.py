"""What holds for all tests: no driver of the machine they run on. Those of tests/simulated and
tests/gpu put one there for themselves, and take it away again."""

import gc

import pytest

from fastdl._devices import driver as device
from tests.support import build

for _type in (2, 10):
    device.replace_driver(_type, None)


@pytest.fixture(autouse=True, scope="module")
def _little_to_collect():
    """Many tests collect garbage, which looks through all that the libraries loaded so far have
    made. What was there before a module's tests is not looked at again."""
    gc.collect()
    gc.freeze()


def pytest_configure():
    """The workers of pytest-xdist compile into one folder."""
    build.folder()
