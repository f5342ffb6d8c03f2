"""The scenarios of tests/gpu on the simulated drivers, where every missing order is a race.

tests/gpu/test_hardware.py runs the same on a GPU.
"""

import pytest

from tests.gpu.arrays import Library, TabledLibrary
from tests.gpu.backends import Simulated
from tests.gpu.cases import Scenarios

LIBRARIES = [Library, TabledLibrary]


@pytest.fixture(params=["cuda", "hip"])
def gpu(request):
    backend = Simulated(request.param)
    yield backend
    backend.close()


@pytest.fixture
def plain(gpu):
    return Library(gpu)


@pytest.fixture
def table(gpu):
    return TabledLibrary(gpu)


@pytest.fixture(params=LIBRARIES, ids=lambda library: library.name)
def library(request, gpu):
    return request.param(gpu)


@pytest.fixture(params=LIBRARIES, ids=lambda library: "to-" + library.name)
def consumer(request, gpu, library):
    """The same library, if of the same kind: a table speaks for one."""
    return library if type(library) is request.param else request.param(gpu)


class TestSimulated(Scenarios):
    """Those of cases.py."""
