"""The scenarios as test methods, for a class of tests that says where they run.

A module with such a class has the fixtures `gpu`, a backend; `library`, one of the libraries that
are tried there; and `producer` and `consumer`, one of those and of the ones that can be only that.
"""

import pytest

from tests.gpu import scenarios
from tests.gpu.arrays import Library, TabledLibrary
from tests.gpu.backends import GLOBAL, THREAD_LOCAL


class Scenarios:
    @pytest.fixture
    def plain(self, gpu):
        return Library(gpu)

    @pytest.fixture
    def table(self, gpu):
        return TabledLibrary(gpu)

    @pytest.mark.parametrize("kind", scenarios.TARGETS)
    @pytest.mark.parametrize("blocking", [True, False], ids=["from-blocking", "from-non-blocking"])
    def test_export_waits(self, gpu, library, kind, blocking):
        if kind == "per-thread" and gpu.kind == "hip":
            with pytest.raises(ValueError, match="ROCm has no stream 2"):
                scenarios.export_waits(gpu, library, kind, blocking)
        else:
            scenarios.export_waits(gpu, library, kind, blocking)

    def test_export_unordered(self, gpu, library):
        scenarios.export_unordered(gpu, library)

    def test_import_waits(self, gpu, library):
        scenarios.import_waits(gpu, library)

    def test_import_unordered(self, gpu, library):
        scenarios.import_unordered(gpu, library)

    @pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
    def test_matrix(self, gpu, producer, consumer, ordered):
        scenario = scenarios.matrix if ordered else scenarios.matrix_unordered
        if gpu.kind == "hip" and (producer.cuda_alone or consumer.cuda_alone):
            with pytest.raises((BufferError, AttributeError), match="__cuda_array_interface__"):
                scenario(gpu, producer, consumer)
        else:
            scenario(gpu, producer, consumer)

    def test_later_writes(self, gpu, library):
        scenarios.later_writes(gpu, library)

    @pytest.mark.parametrize("record", [True, False], ids=["recorded", "not-recorded"])
    def test_recorded_work(self, gpu, library, record):
        scenarios.recorded_work(gpu, library, record=record)

    def test_stream_gone(self, gpu, plain):
        scenarios.stream_gone(gpu, plain)

    @pytest.mark.parametrize("release", [True, False], ids=["released", "not-released"])
    def test_reuse(self, gpu, library, release):
        scenarios.reuse(gpu, library, release=release)

    @pytest.mark.parametrize("release", [True, False], ids=["released", "not-released"])
    def test_pool_reuse(self, gpu, library, release):
        scenarios.pool_reuse(gpu, library, release=release)

    @pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
    def test_copy_to_host(self, gpu, library, ordered):
        scenarios.copy_to_host(gpu, library, ordered=ordered)

    @pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL], ids=["global", "thread-local"])
    def test_capture_and_replay(self, gpu, library, mode):
        scenarios.capture_and_replay(gpu, library, mode)

    @pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "non-blocking"])
    def test_capture_survives(self, gpu, library, blocking):
        scenarios.capture_survives(gpu, library, blocking)

    def test_dropped_on_a_thread(self, gpu, library):
        scenarios.dropped_on_a_thread(gpu, library)

    def test_dropped_on_a_foreign_thread(self, gpu, library):
        scenarios.dropped_on_a_foreign_thread(gpu, library)

    def test_dropped_by_the_driver(self, gpu, plain):
        scenarios.dropped_by_the_driver(gpu, plain)

    def test_dropped_by_the_driver_from_a_table(self, gpu, table):
        scenarios.dropped_by_the_driver(gpu, table)

    def test_leaves_nothing_current(self, gpu, library):
        scenarios.leaves_nothing_current(gpu, library)
