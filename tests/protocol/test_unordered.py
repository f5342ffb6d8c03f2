# SPDX-License-Identifier: Apache-2.0
"""Libraries whose `__dlpack__` takes `stream` and ignores it: their data is never called ready."""

import pytest

import fastdl
from fastdl._devices import driver
from fastdl._protocol import consumer
from tests.support.frameworks import Array, Plain, Table, current_stream, given_back, simulated
from tests.support.headers import every_world
from tests.support.producers import CPU, CUDA, Given, Lending, Producer, Tabled

LIBRARIES = [
    ("cuda.core._memory._buffer", "Buffer"),
    ("nanobind", "nb_ndarray"),
    ("tvm_ffi.core", "Tensor"),
]
libraries = pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library[0])
# tvm-ffi is asked for a capsule before it says where its data is: see test_quick_imports.py.
told_first = pytest.mark.parametrize("library", LIBRARIES[:2], ids=lambda library: library[0])
REFUSED = r"ignores `stream`, so its pending work is not ordered: .*stream=-1"


def ignoring(library, base=Plain):
    """A type of that library."""
    module, name = library
    return type(name, (base,), {"__module__": module, "__qualname__": name})


@told_first
@pytest.mark.parametrize("enter", [fastdl.from_dlpack, consumer.from_dlpack])
@pytest.mark.parametrize("given", ["nothing", "default", "handle"])
def test_its_data_is_on_no_stream(here, library, enter, given):
    """Neither on that which the caller names nor on the work stream."""
    working = here.sim.side()
    array = here.array(stream=working)
    array.write()
    number = {"default": here.default, "handle": here.sim.side(blocking=True)}.get(given)
    producer = ignoring(library)(array)
    with pytest.raises(BufferError, match=REFUSED):
        enter(producer) if number is None else enter(producer, stream=number)
    assert producer.asked == []  # nothing is exported
    with fastdl.use_stream(here.device, working), pytest.raises(BufferError, match=REFUSED):
        enter(producer)  # nobody knows that this is the one


@libraries
def test_the_caller_orders_it(here, library):
    array = here.array(stream=here.sim.side())
    expected = array.write()
    tensor = fastdl.from_dlpack(ignoring(library)(array), stream=-1)
    assert driver.is_callers(tensor)
    assert driver.edges(tensor) == 0
    here.sim.finish(array.stream)
    assert tensor.to("cpu").numpy().tobytes() == expected


@told_first
def test_its_data_is_not_copied_before_it_is_there(here, library):
    array = here.array(stream=here.sim.side())
    expected = array.write()

    class Unable(Plain):
        def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
            if dl_device is not None or copy:
                raise BufferError("no copies here")
            return super().__dlpack__(stream=stream, max_version=max_version)

    producer = ignoring(library, Unable)(array)
    for wish in ({"device": "cpu"}, {"copy": True}):
        with pytest.raises(BufferError, match=REFUSED):
            fastdl.from_dlpack(producer, **wish)
    here.sim.finish(array.stream)
    tensor = fastdl.from_dlpack(producer, stream=-1, device="cpu")
    here.sim.run()
    assert here.sim.peek(tensor.data_ptr, tensor.nbytes) == expected


class WithTable(Table, Plain):
    """Its `__dlpack__` ignores the stream, and copies nothing; its table tells it."""

    __dlpack_c_exchange_api__ = Table.__dlpack_c_exchange_api__

    def __init__(self, array):
        Plain.__init__(self, array)
        self.array, self.mode = array, "give"

    @property
    def managed(self):
        fields = {"data": self.array.pointer, "device": (self.array.type, self.array.ordinal)}
        return Given(owner=self.array, **fields)

    @managed.setter
    def managed(self, given):
        """Another for each export."""

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if dl_device is not None or copy:
            raise BufferError("no copies here")
        return super().__dlpack__(stream=stream, max_version=max_version)


@pytest.mark.parametrize("wish", ["nothing", "stream", "cpu"])
def test_a_table_tells_what_such_a_library_ignores(here, wish):
    stream = here.sim.side()
    array = here.array(stream=here.sim.side())
    expected = array.write()
    wishes = {
        "stream": {"stream": stream},
        "cpu": {"device": "cpu"},
    }
    producer = ignoring(("tvm_ffi.core", "Tensor"), WithTable)(array)
    with current_stream(array.stream):
        tensor = fastdl.from_dlpack(producer, **wishes.get(wish, {}))
    here.sim.run()
    assert here.sim.peek(tensor.data_ptr, tensor.nbytes) == expected


STREAMLESS = ("cuda.core._memoryview", "StridedMemoryView")


@pytest.mark.parametrize("enter", [fastdl.from_dlpack, consumer.from_dlpack])
@pytest.mark.parametrize("wish", ["nothing", "stream", "default", "cpu", "other", "copy"])
def test_a_table_without_a_stream_orders_nothing(here, enter, wish):
    """Its NULL is not the default stream, where nobody may have written the data."""
    array = here.array(stream=here.sim.side())
    array.write()
    wishes = {
        "stream": {"stream": here.sim.side(blocking=True)},
        "default": {"stream": here.default},
        "cpu": {"device": "cpu"},
        "other": {"device": f"{here.device}:1"},
        "copy": {"copy": True},
    }
    with pytest.raises(BufferError, match=REFUSED):
        enter(ignoring(STREAMLESS, WithTable)(array), **wishes.get(wish, {}))


def test_the_caller_orders_what_a_table_without_a_stream_gives(here):
    array = here.array(stream=here.sim.side())
    expected = array.write()
    tensor = fastdl.from_dlpack(ignoring(STREAMLESS, WithTable)(array), stream=-1)
    assert driver.is_callers(tensor)
    assert driver.edges(tensor) == 0
    here.sim.finish(array.stream)
    assert tensor.to("cpu").numpy().tobytes() == expected
    user = here.sim.side()
    array.read(user)
    tensor.release(user)  # the host waits: there is no stream of the library's to wait
    array.write(here.sim.side())


@every_world
@pytest.mark.parametrize("base", [Tabled, Lending])
def test_the_header_refuses_a_table_without_a_stream(api, base):
    kind = ignoring(STREAMLESS, base)
    for enter in (api.borrow, api.own):
        given = Given(device=CUDA)
        with pytest.raises(BufferError, match=REFUSED):
            enter(kind(given))
        assert given.deleted == (base is Tabled or enter == api.own)  # what is lent stays there
    assert api.borrow(kind(Given()))["shape"] == (2, 3)


@told_first
@pytest.mark.parametrize("memory", ["host", "pinned"])
def test_host_memory_has_no_streams(library, memory):
    if memory == "host":
        fastdl.from_dlpack(ignoring(library, Producer)(Given()))
        return
    with simulated("cuda") as sim:
        array = Array(sim, memory="pinned")
        tensor = fastdl.from_dlpack(ignoring(library)(array))
        del tensor
        given_back(array)


@every_world
@libraries
def test_the_header_refuses_it_too(api, library):
    kind = ignoring(library, Producer)
    given = Given(device=CUDA)
    for enter in (api.borrow, api.own):
        with pytest.raises(BufferError, match=REFUSED):
            enter(kind(given, CUDA))
    assert given.deleted == given.handed
    assert api.borrow(kind(Given(), CPU))["shape"] == (2, 3)
