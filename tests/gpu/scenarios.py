"""What must hold wherever tensors cross between streams, and what fails without fastdl's part.

Each is a function of a backend (backends.py) and of libraries (arrays.py, peers.py), so the same
code runs on the simulation and on a GPU. Every claim that something waits has a control beside it,
in which the order is left out: there the old bytes must be seen, or the claim proves nothing.
"""

import gc
import threading

import pytest

import fastdl
from tests.gpu.arrays import Taken, on_a_foreign_thread
from tests.gpu.backends import NEW, OLD, OTHER, SIZE, THREAD_LOCAL


def target(gpu, kind):
    """The streams that work may be exported for: (what is passed, what is used)."""
    if kind in ("none", "default"):
        return (None if kind == "none" else gpu.default_stream), gpu.default_stream
    if kind == "per-thread":
        return 2, 2
    stream = gpu.stream(blocking=kind == "blocking")
    return stream, stream


#: Kinds of streams that may be asked for; "per-thread" has CUDA alone.
TARGETS = ("none", "default", "per-thread", "blocking", "non-blocking")


def arrived(gpu, library, source):
    """(array, tensor) of a library that works on `source`, imported for that stream. Nothing is in
    flight."""
    array = library.make(OLD)
    with library.using(source), fastdl.use_stream(gpu.device, source):
        return array, fastdl.from_dlpack(array)  # by the table, if there is one


# ---- the handshake --------------------------------------------------------------------------


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
        if ordered:
            gpu.waits(look, latch)
        else:
            gpu.overtakes(look, latch)
            assert look.value() == OLD
    assert look.value() == (NEW if ordered else OLD)
    (gpu.no_race if ordered else gpu.race)()
    gpu.finish(source)
    del capsule


def export_waits(gpu, library, kind, blocking):
    """Work that was pending at import is waited for by whatever stream asks at export."""
    source = gpu.stream(blocking)
    passed, used = target(gpu, kind)
    exchanged(gpu, library, source, used, True, imported_for=source, passed=passed)


def export_unordered(gpu, library):
    """The control: with stream=-1 nobody waits."""
    source, used = gpu.stream(), gpu.stream()
    exchanged(gpu, library, source, used, False, imported_for=source, passed=-1)


def import_waits(gpu, library):
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
        assert look.value() == NEW
        gpu.no_race()
        del tensor


def import_unordered(gpu, library):
    """The control: an import with stream=-1, and what was made of it, wait for nothing."""
    source, used = gpu.stream(), gpu.stream()
    exchanged(gpu, library, source, used, False, imported_for=-1, passed=used)


def matrix(gpu, producer, consumer):
    """From one library through fastdl to another, each on a stream of its own; the consumer then
    writes, unless it must not, and a third stream is to see that."""
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
    assert look.value() == NEW
    assert last.value() == (NEW if tensor.readonly else OTHER)
    gpu.no_race()
    del exported


def matrix_unordered(gpu, producer, consumer):
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
        assert look.value() == OLD
    gpu.race()
    gpu.finish(first)


# ---- more work ------------------------------------------------------------------------------


def later_writes(gpu, library):
    """What the producer queues after the import is waited for at export if it has a table, whose
    current stream fastdl asks for. Otherwise nobody can know of it: see docs/streams.md."""
    source, used, place = gpu.stream(), gpu.stream(), gpu.place()
    array, tensor = arrived(gpu, library, source)
    pointer = library.pointer(array)
    with gpu.hold(source) as latch:
        gpu.fill(source, pointer, NEW)
        with library.using(source):
            exported = tensor.__dlpack__(stream=used, max_version=(1, 3))
        look = gpu.look(used, pointer, place)
        if library.asked_at_export:
            gpu.waits(look, latch)
        else:
            gpu.overtakes(look, latch)
            assert look.value() == OLD
    if library.asked_at_export:
        assert look.value() == NEW
        gpu.no_race()
    else:
        gpu.race()
    gpu.finish(source)
    del exported


def recorded_work(gpu, library, *, record):
    """Work that fastdl cannot see is waited for if it is recorded, and only then."""
    source, worker, used, place = gpu.stream(), gpu.stream(), gpu.stream(), gpu.place()
    array, tensor = arrived(gpu, library, source)
    pointer = library.pointer(array)
    exported = tensor.__dlpack__(stream=worker, max_version=(1, 3))
    with gpu.hold(worker) as latch:
        gpu.fill(worker, pointer, NEW)
        if record:
            tensor.record(worker)
        with library.using(source):
            again = tensor.__dlpack__(stream=used, max_version=(1, 3))
        look = gpu.look(used, pointer, place)
        if record:
            gpu.waits(look, latch)
        else:
            gpu.overtakes(look, latch)
            assert look.value() == OLD
    if record:
        assert look.value() == NEW
        gpu.no_race()
    else:
        gpu.race()
    gpu.finish(worker)
    del exported, again


def stream_gone(gpu, library):
    """An edge outlives the stream that it was recorded on, and the next stream that gets its
    handle is another one."""
    used, place = gpu.stream(), gpu.place()
    source = gpu.driver.made("cuStreamCreate", 1)
    array = library.make(OLD)
    pointer = library.pointer(array)
    with gpu.hold(source) as latch:
        gpu.fill(source, pointer, NEW)
        with library.using(source):
            tensor = fastdl.from_dlpack(array, stream=source)
        gpu.driver.ok("cuStreamDestroy_v2", source)  # its work goes on
        recycled = gpu.stream()  # the same handle, on the simulation
        exported = tensor.__dlpack__(stream=recycled, max_version=(1, 3))
        again = tensor.__dlpack__(stream=used, max_version=(1, 3))
        look = gpu.look(recycled, pointer, place)
        gpu.waits(look, latch)
    assert look.value() == NEW
    gpu.no_race()
    del exported, again


# ---- memory that is used again --------------------------------------------------------------


def reuse(gpu, library, *, release):
    """A consumer on `reader` still reads when the tensor is dropped and the producer, on `source`,
    writes to the memory anew, as a pool of memory would. `release` is what makes that safe."""
    source, reader, place = gpu.stream(), gpu.stream(), gpu.place()
    array, tensor = arrived(gpu, library, source)
    pointer = library.pointer(array)
    exported = tensor.__dlpack__(stream=reader, max_version=(1, 3))
    with gpu.hold(reader) as latch:
        look = gpu.look(reader, pointer, place)
        del exported
        with library.using(source):
            if release and not library.asked_at_export:
                gpu.open_soon(latch)  # the host waits for `reader` below
            if release:
                tensor.release(reader)
        del tensor
        overwrite(gpu, library, source, pointer, latch, release)
    judge_reuse(gpu, look, release)


def overwrite(gpu, library, source, pointer, latch, release):
    """What the next owner of the memory does while the reader is held up."""
    gpu.fill(source, pointer, OTHER)
    mark = gpu.mark(source)
    if not release:
        gpu.overtakes(mark, latch)
    elif library.asked_at_export:
        gpu.waits(mark, latch)


def judge_reuse(gpu, look, release):
    """The reader has seen its own bytes, if it was waited for."""
    assert look.value() == (OLD if release else OTHER)
    if release:
        gpu.no_race()
    else:
        gpu.race()


def pool_reuse(gpu, library, *, release):
    """The same with the library's own pool: the array and the tensor are dropped, and the pool
    gives their memory to the next array of the stream they were made for."""
    source, reader, place = gpu.stream(), gpu.stream(), gpu.place()
    array = library.allocate(source)
    pointer = library.pointer(array)
    gpu.fill(source, pointer, OLD)
    gpu.finish(source)
    with library.using(source), fastdl.use_stream(gpu.device, source):
        tensor = fastdl.from_dlpack(array)
    exported = tensor.__dlpack__(stream=reader, max_version=(1, 3))
    with gpu.hold(reader) as latch:
        look = gpu.look(reader, pointer, place)
        del exported
        if release:
            if not library.asked_at_export:
                gpu.open_soon(latch)
            with library.using(source):
                tensor.release(reader)
        del array, tensor
        again = library.allocate(source)
        assert library.pointer(again) == pointer, "the pool gave other memory: no proof"
        overwrite(gpu, library, source, pointer, latch, release)
    judge_reuse(gpu, look, release)


# ---- copies ---------------------------------------------------------------------------------


def copy_to_host(gpu, library, *, ordered):
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
    if ordered:
        gpu.no_race()
    else:
        gpu.race()


# ---- captures -------------------------------------------------------------------------------


def capture_and_replay(gpu, library, mode):
    """Import and export inside a capture, on the stream that captures; then the graph runs, with
    other data each time. Streams outside of the capture are refused, and do it no harm."""
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
    gpu.no_race()
    del exported, unordered


def capture_survives(gpu, library, blocking):
    """Inside a capture, what cannot be ordered is refused, and the capture goes on: work from
    before it that still runs, the default stream beside a blocking one, and a wait of the host."""
    source, stream = gpu.stream(), gpu.stream(blocking)
    array = library.make(OLD)
    pointer = library.pointer(array)
    with gpu.hold(source):
        gpu.fill(source, pointer, NEW)
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
    gpu.no_race()
    del unordered


# ---- the end of tensors ---------------------------------------------------------------------


def dropped_on_a_thread(gpu, library):
    """The last reference goes on a thread that has no current device: the library gets its memory
    back, and not before."""
    before, source = library.in_use(), gpu.stream()
    box = list(arrived(gpu, library, source))
    del box[0]  # the array itself
    gc.collect()
    assert library.in_use() > before
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert library.in_use() == before
    gpu.no_race()


def dropped_on_a_foreign_thread(gpu, library):
    """The last reference goes on a thread that is not Python's and has no current device: a
    consumer in C++ has threads of its own."""
    before, source = library.in_use(), gpu.stream()
    array, tensor = arrived(gpu, library, source)
    deleter, argument = Taken(tensor).give()
    del array, tensor
    gc.collect()
    assert library.in_use() > before
    on_a_foreign_thread(deleter, argument)
    assert library.in_use() == before
    gpu.no_race()


def dropped_by_the_driver(gpu, library):
    """The last reference goes in a callback of the driver, where its functions must not be called
    and where Python has no thread: a consumer in C++ may well do that."""
    source, caller = gpu.stream(), gpu.stream()
    array, tensor = arrived(gpu, library, source)
    deleter, argument = Taken(tensor).give()
    del tensor
    gc.collect()
    assert array.deleted() == [0]
    gpu.driver.ok("cuLaunchHostFunc", caller, deleter, argument)
    gpu.finish(caller)
    assert array.deleted() == [1]
    gpu.no_race()


# ---- what fastdl leaves behind --------------------------------------------------------------


def leaves_nothing_current(gpu, library):
    """On a thread that never used the device, nothing is current after an import and an export,
    whatever the producer did meanwhile."""
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
    gpu.no_race()
