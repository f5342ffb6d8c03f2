# SPDX-License-Identifier: Apache-2.0
"""What takes a stream takes it as an object, and means the stream that the object stands for.

Each use is a function of a backend, a library of arrays.py, `number`, a stream, and `passed`, what
fastdl is given for it: an object for the same stream, or in the control for another one. Nothing
but fastdl's reading of `passed` orders the work on `number`, so with the right object the new bytes
are seen there and with the wrong one the old.

`number` may be a default stream, which nothing may hold (see README.md). Where it must be held it
waits for a stream that is, which lets non-blocking streams pass.
"""

from contextlib import contextmanager, nullcontext
from functools import partial

import fastdl
from tests.gpu.backends import NEW, OLD, OTHER
from tests.gpu.scenarios import arrived


@contextmanager
def held(gpu, number):
    """Holds `number` by way of another stream. What was queued before goes on."""
    front = gpu.stream()
    with gpu.hold(front) as latch:
        gpu.driver.order(front, number)
        yield latch
    gpu.finish(front)


def imported(gpu, library, number, passed, ordered, scoped=False):
    """from_dlpack(stream=), or with it within use_stream(): the data is ready there."""
    source, place, array = gpu.stream(), gpu.place(), library.make(OLD)
    scope = fastdl.use_stream(gpu.device, passed) if scoped else nullcontext()
    with gpu.hold(source) as latch:
        gpu.fill(source, library.pointer(array), NEW)
        with library.using(source), scope:
            tensor = fastdl.from_dlpack(array, stream=None if scoped else passed)
        look = gpu.look(number, library.pointer(array), place)
        gpu.judge(look, latch, ordered)
    gpu.saw(look, NEW if ordered else OLD, ordered)
    gpu.finish(source)
    del tensor


def recorded(gpu, library, number, passed, ordered):
    """Tensor.record(): who gets the tensor next waits for what is queued there."""
    source, consumer, place = gpu.stream(), gpu.stream(), gpu.place()
    array, tensor = arrived(gpu, library, source)
    with held(gpu, number) as latch:
        gpu.fill(number, library.pointer(array), NEW)
        tensor.record(passed)
        with library.using(source):
            exported = tensor.__dlpack__(stream=consumer, max_version=(1, 3))
        look = gpu.look(consumer, library.pointer(array), place)
        gpu.judge(look, latch, ordered)
    gpu.saw(look, NEW if ordered else OLD, ordered)
    gpu.finish(number)
    del exported


def released(gpu, library, number, passed, ordered):
    """Tensor.release(): the producer's stream, or the host, waits for what reads there."""
    source, place = gpu.stream(), gpu.place()
    array, tensor = arrived(gpu, library, source)
    pointer = library.pointer(array)
    with held(gpu, number) as latch:
        look = gpu.look(number, pointer, place)
        if ordered and not library.asked_at_export:
            gpu.open_soon(latch)
        with library.using(source):
            tensor.release(passed)
        gpu.fill(source, pointer, OTHER)
        mark = gpu.mark(source)
        if library.asked_at_export or not ordered:
            gpu.judge(mark, latch, ordered)
    gpu.saw(look, OLD if ordered else OTHER, ordered)
    del tensor


def copied(gpu, library, number, passed, ordered):
    """Tensor.to(stream=): the copy runs there, after what is queued there."""
    source, array = gpu.stream(), library.make(OLD)
    with library.using(source):
        tensor = fastdl.from_dlpack(array, stream=-1)  # no edge orders anything
    with held(gpu, number) as latch:
        gpu.fill(number, library.pointer(array), NEW)
        if ordered:
            gpu.open_soon(latch)
        with library.using(source):
            copy = tensor.to("cpu", stream=passed)
        assert set(bytes(memoryview(copy))) == {NEW if ordered else OLD}
    gpu.finish(number)
    gpu.raced(not ordered)


USES = {
    "from_dlpack": imported,
    "use_stream": partial(imported, scoped=True),
    "record": recorded,
    "release": released,
    "to": copied,
}


def stream_object(gpu, library, use, stream, number):
    """`stream`: an object for the stream `number`. The control passes one that is not."""
    USES[use](gpu, library, number, stream, True)
    USES[use](gpu, library, number, gpu.stream(), False)
    gpu.finish(number)
