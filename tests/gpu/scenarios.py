# SPDX-License-Identifier: Apache-2.0
"""What must hold wherever tensors cross between streams, and what fails without fastdl's part.

Each is a test of a backend (backends.py) and of libraries (arrays.py, peers.py), so the same code
runs on the simulation and on a GPU. Every claim that something waits has a control beside it, in
which the order is left out: there the old bytes must be seen, or the claim proves nothing.

A module with such a class has the fixtures `gpu`, a backend; `library`, one of the libraries that
are tried there; and `producer` and `consumer`, one of those and of the ones that can be only that.
"""

import gc
import threading
from contextlib import nullcontext

import pytest

import fastdl
from tests.gpu.arrays import Library, TabledLibrary
from tests.gpu.backends import GLOBAL, NEW, OLD, OTHER, SIZE, THREAD_LOCAL
from tests.support.consumer import deleter_of, taken


def fixtures(libraries, consumers, producers):
    """The fixtures `library`, `producer` and `consumer` over these classes."""

    @pytest.fixture(params=libraries, ids=lambda library: library.name)
    def library(request, gpu):
        return request.param(gpu)

    @pytest.fixture(params=producers, ids=lambda library: library.name)
    def producer(request, gpu):
        return request.param(gpu)

    @pytest.fixture(params=consumers, ids=lambda library: "to-" + library.name)
    def consumer(request, gpu, producer):
        """The same library, if of the same kind: a table speaks for one."""
        return producer if type(producer) is request.param else request.param(gpu)

    return library, producer, consumer


#: Kinds of streams that may be asked for; "per-thread" has CUDA alone.
TARGETS = ("none", "default", "per-thread", "blocking", "non-blocking")


def target(gpu, kind):
    """The streams that work may be exported for: (what is passed, what is used)."""
    if kind in ("none", "default"):
        return (None if kind == "none" else gpu.default_stream), gpu.default_stream
    if kind == "per-thread":
        return 2, 2
    stream = gpu.stream(blocking=kind == "blocking")
    return stream, stream


def arrived(gpu, library, source):
    """(array, tensor) of a library that works on `source`, imported for that stream. Nothing is in
    flight."""
    array = library.make(OLD)
    with library.using(source), fastdl.use_stream(gpu.device, source):
        return array, fastdl.from_dlpack(array)  # by the table, if there is one


def exchanged(gpu, library, source, used, ordered, *, imported_for, passed):
    """Imports what is pending on `source`, exports it for `passed`, and looks on `used`."""
    place, array = gpu.place(), library.make(OLD)
    pointer = library.pointer(array)
    with gpu.hold(source) as latch:
        gpu.fill(source, pointer, NEW)
        with library.using(source):
            tensor = fastdl.from_dlpack(array, stream=imported_for)
        capsule = tensor.__dlpack__(stream=passed, max_version=(1, 3))
        look = gpu.look(used, pointer, place)
        gpu.judge(look, latch, ordered)
    gpu.saw(look, NEW if ordered else OLD, ordered)
    gpu.finish(source)
    del capsule


def handed_on(gpu, library, source, worker, array, tensor, ordered, record=False):
    """Exports a tensor, while its library works on `source`, after more was queued on `worker`."""
    used, place, pointer = gpu.stream(), gpu.place(), library.pointer(array)
    with gpu.hold(worker) as latch:
        gpu.fill(worker, pointer, NEW)
        if record:
            tensor.record(worker)
        with library.using(source):
            exported = tensor.__dlpack__(stream=used, max_version=(1, 3))
        look = gpu.look(used, pointer, place)
        gpu.judge(look, latch, ordered)
    gpu.saw(look, NEW if ordered else OLD, ordered)
    gpu.finish(worker)
    del exported


def read_while_released(gpu, library, source, held, release, next_owner):
    """A consumer still reads when the tensors `held` are dropped and the memory is written to anew
    on `source`, where `next_owner` says who has it then. `release` is what makes that safe."""
    reader, place, pointer = gpu.stream(), gpu.place(), held[-1].data_ptr
    exported = held[-1].__dlpack__(stream=reader, max_version=(1, 3))
    with gpu.hold(reader) as latch:
        look = gpu.look(reader, pointer, place)
        del exported
        if release and not library.asked_at_export:
            gpu.open_soon(latch)  # the host waits for `reader` below
        if release:
            with library.using(source):
                held[-1].release(reader)
        held.clear()
        kept = next_owner(pointer)
        gpu.fill(source, pointer, OTHER)
        if not release or library.asked_at_export:
            gpu.judge(gpu.mark(source), latch, release)
    gpu.saw(look, OLD if release else OTHER, release)
    del kept


def both(name, yes, no):
    return pytest.mark.parametrize(name, [True, False], ids=[yes, no])


class Scenarios:
    # ---- the handshake ----------------------------------------------------------------------

    @pytest.mark.parametrize("kind", TARGETS)
    @both("blocking", "from-blocking", "from-non-blocking")
    def test_export_waits(self, gpu, library, kind, blocking):
        """Work that was pending at import is waited for by whatever stream asks at export."""
        source = gpu.stream(blocking)
        passed, used = target(gpu, kind)
        refused = pytest.raises(ValueError, match="ROCm has no stream 2")
        with refused if kind == "per-thread" and gpu.kind == "hip" else nullcontext():
            exchanged(gpu, library, source, used, True, imported_for=source, passed=passed)

    @both("imported", "at-import", "at-export")
    def test_unordered(self, gpu, library, imported):
        """The control: with stream=-1 nobody waits, be it at the export, or at the import and then
        for what was made of it."""
        source, used = gpu.stream(), gpu.stream()
        imported_for, passed = (-1, used) if imported else (source, -1)
        exchanged(gpu, library, source, used, False, imported_for=imported_for, passed=passed)

    def test_import_waits(self, gpu, library):
        """The stream of an import waits, be it named or the work stream of the thread."""
        for name in (True, False):
            source, used, place = gpu.stream(), gpu.stream(), gpu.place()
            array = library.make(OLD)
            pointer = library.pointer(array)
            with gpu.hold(source) as latch:
                gpu.fill(source, pointer, NEW)
                with library.using(source), fastdl.use_stream(gpu.device, used):
                    tensor = fastdl.from_dlpack(array, **({"stream": used} if name else {}))
                look = gpu.look(used, pointer, place)
                gpu.waits(look, latch)
            gpu.saw(look, NEW)
            del tensor

    @both("ordered", "ordered", "unordered")
    def test_matrix(self, gpu, producer, consumer, ordered):
        refused = pytest.raises((BufferError, AttributeError), match="__cuda_array_interface__")
        none = gpu.kind == "hip" and (producer.cuda_alone or consumer.cuda_alone)
        with refused if none else nullcontext():
            (self.ordered if ordered else self.unordered)(gpu, producer, consumer)

    def ordered(self, gpu, producer, consumer):
        """From one library through fastdl to another, each on a stream of its own; the consumer
        then writes, unless it must not, and a third stream is to see that."""
        first, second, third = gpu.stream(), gpu.stream(), gpu.stream()
        place, after = gpu.place(), gpu.place()
        array = producer.make(OLD)
        pointer = producer.pointer(array)
        with gpu.hold(first) as latch:
            array = producer.write(array, first, NEW)
            tensor = producer.give(array, first)
            if consumer.waits_on_host:
                gpu.open_soon(latch)
            with producer.using(first), consumer.using(second):
                taken = consumer.take(tensor)
            assert consumer.pointer(taken) == pointer  # no copy on the way
            look = gpu.look(second, pointer, place)
            if not consumer.waits_on_host:
                gpu.waits(look, latch)
            if not tensor.readonly:
                gpu.fill(second, pointer, OTHER)
                tensor.record(second)
            exported = tensor.__dlpack__(stream=third, max_version=(1, 3))
            last = gpu.look(third, pointer, after)
        assert last.value() == (NEW if tensor.readonly else OTHER)
        gpu.saw(look, NEW)
        del exported

    def unordered(self, gpu, producer, consumer):
        """The control: what was imported without order reaches every consumer too early."""
        first, second, place = gpu.stream(), gpu.stream(), gpu.place()
        array = producer.make(OLD)
        pointer = producer.pointer(array)
        with gpu.hold(first) as latch:
            array = producer.write(array, first, NEW)
            tensor = producer.give_unordered(array, first)
            with producer.using(first), consumer.using(second):
                taken = consumer.take(tensor)
            assert consumer.pointer(taken) == pointer
            look = gpu.look(second, pointer, place)
            gpu.overtakes(look, latch)
        gpu.saw(look, OLD, False)
        gpu.finish(first)

    # ---- more work --------------------------------------------------------------------------

    def test_later_writes(self, gpu, library):
        """What the producer queues after the import is waited for at export if it has a table,
        whose current stream fastdl asks for. Otherwise nobody can know of it: see
        docs/streams.md."""
        source = gpu.stream()
        array, tensor = arrived(gpu, library, source)
        handed_on(gpu, library, source, source, array, tensor, library.asked_at_export)

    @both("record", "recorded", "not-recorded")
    def test_recorded_work(self, gpu, library, record):
        """Work that fastdl cannot see is waited for if it is recorded, and only then."""
        source, worker = gpu.stream(), gpu.stream()
        array, tensor = arrived(gpu, library, source)
        exported = tensor.__dlpack__(stream=worker, max_version=(1, 3))
        handed_on(gpu, library, source, worker, array, tensor, record, record=record)
        del exported

    def test_stream_gone(self, gpu):
        """An edge outlives the stream that it was recorded on, and the next stream that gets its
        handle is another one."""
        plain, used, place = Library(gpu), gpu.stream(), gpu.place()
        source = gpu.driver.made("cuStreamCreate", 1)
        array = plain.make(OLD)
        pointer = plain.pointer(array)
        with gpu.hold(source) as latch:
            gpu.fill(source, pointer, NEW)
            with plain.using(source):
                tensor = fastdl.from_dlpack(array, stream=source)
            gpu.driver.ok("cuStreamDestroy_v2", source)  # its work goes on
            recycled = gpu.stream()  # the same handle, on the simulation
            exported = tensor.__dlpack__(stream=recycled, max_version=(1, 3))
            again = tensor.__dlpack__(stream=used, max_version=(1, 3))
            look = gpu.look(recycled, pointer, place)
            gpu.waits(look, latch)
        gpu.saw(look, NEW)
        del exported, again

    # ---- memory that is used again ----------------------------------------------------------

    @both("release", "released", "not-released")
    def test_reuse(self, gpu, library, release):
        """By the library itself, whose array it still is."""
        source = gpu.stream()
        array, tensor = arrived(gpu, library, source)
        held = [tensor]
        del tensor
        read_while_released(gpu, library, source, held, release, lambda pointer: array)

    @both("release", "released", "not-released")
    def test_pool_reuse(self, gpu, library, release):
        """The same with the library's own pool: the array and the tensor are dropped, and the pool
        gives their memory to the next array of the stream they were made for."""
        source = gpu.stream()
        array = library.allocate(source)
        gpu.fill(source, library.pointer(array), OLD)
        gpu.finish(source)
        with library.using(source), fastdl.use_stream(gpu.device, source):
            held = [array, fastdl.from_dlpack(array)]
        del array

        def of_the_pool(pointer):
            again = library.allocate(source)
            assert library.pointer(again) == pointer, "the pool gave other memory: no proof"
            return again

        read_while_released(gpu, library, source, held, release, of_the_pool)

    # ---- copies -----------------------------------------------------------------------------

    @both("ordered", "ordered", "unordered")
    def test_copy_to_host(self, gpu, library, ordered):
        """A copy to the host waits there for what was pending; the control has the old bytes."""
        source, used = gpu.stream(), gpu.stream()
        array = library.make(OLD)
        with gpu.hold(source) as latch:
            gpu.fill(source, library.pointer(array), NEW)
            with library.using(source):
                tensor = fastdl.from_dlpack(array, stream=source if ordered else -1)
            if ordered:
                gpu.open_soon(latch)
            with library.using(source):
                copy = tensor.to("cpu", stream=used)
            seen = set(bytes(memoryview(copy)))
        gpu.finish(source)
        assert seen == {NEW if ordered else OLD}
        gpu.raced(not ordered)

    # ---- captures ---------------------------------------------------------------------------

    @pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL], ids=["global", "thread-local"])
    def test_capture_and_replay(self, gpu, library, mode):
        """Import and export inside a capture, on the stream that captures; then the graph runs,
        with other data each time. Streams outside of the capture are refused, and do it no
        harm."""
        stream, outside, place = gpu.stream(), gpu.stream(), gpu.place()
        array = library.make(OLD)
        pointer, seen = library.pointer(array), gpu.memory(OTHER)
        gpu.begin_capture(stream, mode)
        with library.using(stream), fastdl.use_stream(gpu.device, stream):
            tensor = fastdl.from_dlpack(array)
            exported = tensor.__dlpack__(stream=stream, max_version=(1, 3))
            unordered = tensor.__dlpack__(stream=-1, max_version=(1, 3))
            with pytest.raises(BufferError, match="capture"):
                tensor.__dlpack__(stream=outside, max_version=(1, 3))
        gpu.driver.copy(seen, pointer, SIZE, stream)
        graph = gpu.end_capture(stream)
        for value in (NEW, OTHER):
            gpu.fill(gpu.setup, pointer, value)
            gpu.finish(gpu.setup)
            if gpu.replay(graph, stream):
                assert gpu.look(stream, seen, place).value() == value
        gpu.destroy_graph(graph)
        gpu.raced(False)
        del exported, unordered

    @both("blocking", "blocking", "non-blocking")
    def test_capture_survives(self, gpu, library, blocking):
        """Inside a capture, what cannot be ordered is refused, and the capture goes on: work from
        before it that still runs, the default stream beside a blocking one, and a wait of the
        host."""
        source, stream = gpu.stream(), gpu.stream(blocking)
        array = library.make(OLD)
        with gpu.hold(source):
            gpu.fill(source, library.pointer(array), NEW)
            with library.using(source):
                tensor = fastdl.from_dlpack(array, stream=source)
                gpu.begin_capture(stream, THREAD_LOCAL)
                with pytest.raises(BufferError, match="graph is being captured"):
                    tensor.__dlpack__(stream=stream, max_version=(1, 3))
                if blocking and gpu.kind == "cuda":
                    with pytest.raises(BufferError, match="graph is being captured"):
                        tensor.__dlpack__(max_version=(1, 3))
            unordered = tensor.__dlpack__(stream=-1, max_version=(1, 3))
            graph = gpu.end_capture(stream)
        gpu.destroy_graph(graph)
        gpu.finish(source)
        gpu.raced(False)
        del unordered

    # ---- the end of tensors -----------------------------------------------------------------

    @both("foreign", "foreign", "of-python")
    def test_dropped_on_a_thread(self, gpu, library, foreign):
        """The last reference goes on a thread that has no current device, and may not be Python's:
        a consumer in C++ has threads of its own. The library gets its memory back, and not
        before."""
        before, source = library.in_use(), gpu.stream()
        box = list(arrived(gpu, library, source))
        held = taken(box[1]) if foreign else None
        del box[: 2 if foreign else 1]  # of the array itself, and the tensor
        gc.collect()
        assert library.in_use() > before
        if foreign:
            held.release("thread")
        else:
            thread = threading.Thread(target=box.clear)
            thread.start()
            thread.join()
            gc.collect()
        assert library.in_use() == before
        gpu.raced(False)

    @pytest.mark.parametrize("kind", [Library, TabledLibrary], ids=lambda kind: kind.name)
    def test_dropped_by_the_driver(self, gpu, kind):
        """The last reference goes in a callback of the driver, where its functions must not be
        called and where Python has no thread: a consumer in C++ may well do that."""
        source, caller, library = gpu.stream(), gpu.stream(), kind(gpu)
        array, tensor = arrived(gpu, library, source)
        deleter, argument = deleter_of(taken(tensor))
        del tensor
        gc.collect()
        assert array.deleted() == [0]
        gpu.driver.ok("cuLaunchHostFunc", caller, deleter, argument)
        gpu.finish(caller)
        assert array.deleted() == [1]
        gpu.raced(False)

    # ---- what fastdl leaves behind ----------------------------------------------------------

    def test_leaves_nothing_current(self, gpu, library):
        """On a thread that never used the device, nothing is current after an import and an
        export, whatever the producer did meanwhile."""
        source, used, array = gpu.stream(), gpu.stream(), library.make(OLD)
        seen = []

        def body():
            seen.append(gpu.current_context())
            with library.using(source):
                seen.append(gpu.current_context())
                tensor = fastdl.from_dlpack(array, stream=source)
                tensor.record(used)
                tensor.__dlpack__(stream=used, max_version=(1, 3))
                seen.append(gpu.current_context())

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        assert len(seen) == 3, "the thread failed"
        assert seen[1] == seen[2]
        assert gpu.kind == "hip" or seen[0] is None
        gpu.raced(False)
