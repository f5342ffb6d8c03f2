"""The scenarios of tests/gpu on the simulated drivers, where every missing order is a race.

tests/gpu runs the same functions on a GPU.
"""

import pytest

from tests.gpu import scenarios
from tests.gpu.arrays import Library, TabledLibrary
from tests.gpu.backends import GLOBAL, THREAD_LOCAL, Simulated

LIBRARIES = [Library, TabledLibrary]


@pytest.fixture(params=["cuda", "hip"])
def gpu(request):
    backend = Simulated(request.param)
    yield backend
    backend.close()


@pytest.fixture(params=LIBRARIES, ids=lambda library: library.name)
def library(request, gpu):
    return request.param(gpu)


@pytest.fixture(params=LIBRARIES, ids=lambda library: "to-" + library.name)
def consumer(request, gpu, library):
    """The same library, if of the same kind: a table speaks for one."""
    return library if type(library) is request.param else request.param(gpu)


@pytest.mark.parametrize("kind", scenarios.TARGETS)
@pytest.mark.parametrize("blocking", [True, False], ids=["from-blocking", "from-non-blocking"])
def test_export_waits(gpu, library, kind, blocking):
    if kind == "per-thread" and gpu.kind == "hip":
        with pytest.raises(ValueError, match="ROCm has no stream 2"):
            scenarios.export_waits(gpu, library, kind, blocking)
        gpu.finish(gpu.setup)
    else:
        scenarios.export_waits(gpu, library, kind, blocking)


def test_export_unordered(gpu, library):
    scenarios.export_unordered(gpu, library)


def test_import_waits(gpu, library):
    scenarios.import_waits(gpu, library)


def test_import_unordered(gpu, library):
    scenarios.import_unordered(gpu, library)


def test_matrix(gpu, library, consumer):
    scenarios.matrix(gpu, library, consumer)


def test_later_writes(gpu, library):
    scenarios.later_writes(gpu, library)


@pytest.mark.parametrize("record", [True, False], ids=["recorded", "not-recorded"])
def test_recorded_work(gpu, library, record):
    scenarios.recorded_work(gpu, library, record=record)


def test_stream_gone(gpu, library):
    scenarios.stream_gone(gpu, library)


@pytest.mark.parametrize("release", [True, False], ids=["released", "not-released"])
def test_reuse(gpu, library, release):
    scenarios.reuse(gpu, library, release=release)


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL], ids=["global", "thread-local"])
def test_capture_through_table(gpu, mode):
    scenarios.capture_through_table(gpu, TabledLibrary(gpu), mode)


@pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "non-blocking"])
def test_capture_survives(gpu, library, blocking):
    scenarios.capture_survives(gpu, library, blocking)


def test_dropped_on_a_thread(gpu, library):
    scenarios.dropped_on_a_thread(gpu, library)


def test_dropped_by_the_driver(gpu, library):
    scenarios.dropped_by_the_driver(gpu, library)
