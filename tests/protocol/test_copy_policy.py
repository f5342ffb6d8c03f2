# SPDX-License-Identifier: Apache-2.0
"""Which copies `from_dlpack`, `Tensor.to` and `__dlpack__` make, on which streams and in which
memory: what the Python above the copies decides."""

import contextlib
from types import SimpleNamespace

import pytest

import fastdl
from tests.support.ctypes_dlpack import opened
from tests.support.frameworks import LendingTable, Plain, Protocol, Table, current_stream
from tests.support.memory import bytes_of, values
from tests.support.producers import (
    Given,
    Lending,
    LendingProducer,
    Producer,
    TabledProducer,
)
from tests.support.simulation import read, write


def busy(here, tensor, device=0):
    """Queues a kernel that writes to `tensor`, and records it; its stream."""
    stream = here.sim.side(device)
    with here.sim.device(device):
        here.sim.kernel(stream, write(tensor.data_ptr, tensor.nbytes, 5))
    tensor.record(stream)
    return stream


def look(here, tensor, stream, device=0):
    with here.sim.device(device):
        here.sim.kernel(stream, read(tensor.data_ptr, tensor.nbytes))


# ---- whether there is a copy ----------------------------------------------------------------


@pytest.mark.parametrize("made", ["copy", "to", "from_dlpack"])
def test_a_copy_of_a_copy_is_another(here, made):
    """That a tensor was copied once says nothing of this call."""
    tensor = fastdl.from_dlpack(values(6))
    first = {
        "copy": tensor.copy,
        "to": lambda: here.holding(values(6)).to("cpu"),
        "from_dlpack": lambda: fastdl.from_dlpack(tensor, copy=True),
    }[made]()
    assert first.is_copied
    second = fastdl.from_dlpack(first, copy=True)
    assert second.data_ptr != first.data_ptr
    assert second.tolist() == values(6).tolist()
    assert fastdl.from_dlpack(first, copy=False).data_ptr == first.data_ptr


def test_pinned_memory_is_copied_to_ordinary_memory(here):
    tensor = here.tensor(100, "int32", here.pinned)
    busy(here, tensor)
    for copy in (tensor.copy(), fastdl.from_dlpack(tensor, copy=True), tensor[::2].contiguous()):
        assert copy.device == "cpu" and copy.is_copied
        assert copy.tobytes() == bytes([5]) * copy.nbytes


@pytest.mark.parametrize("kind", [Table, LendingTable])
def test_a_type_with_nothing_but_a_table_is_copied_to_the_host(here, kind):
    array = here.array(stream=here.sim.side())
    expected = array.write()
    with current_stream(array.stream):
        tensor = fastdl.from_dlpack(kind(array), device="cpu")
    assert tensor.is_copied and tensor.tobytes() == expected


class Both(Protocol):
    """A library with a table, whose `__dlpack__` does more than fastdl can."""

    __dlpack_c_exchange_api__ = Table.__dlpack_c_exchange_api__
    mode = "give"

    def __init__(self, array, other):
        super().__init__(array)
        self.other = other

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if copy or dl_device is not None:
            return self.other.given.capsule()
        raise BufferError("only copies here")


class LendingBoth(Both):
    __dlpack_c_exchange_api__ = LendingTable.__dlpack_c_exchange_api__


@pytest.mark.parametrize("kind", [Both, LendingBoth])
@pytest.mark.parametrize("wish", ["copy", "to the host", "to the other device"])
def test_what_dlpack_does_is_not_taken_from_the_table(here, kind, wish):
    array = here.array()
    place = {"to the host": "pinned", "copy": "device", "to the other device": "device"}[wish]
    other = here.array(device=int(wish == "to the other device"), memory=place)
    device = {"to the host": "cpu", "copy": None}.get(wish, f"{here.device}:1")
    tensor = fastdl.from_dlpack(kind(array, other), device=device, copy=(wish == "copy") or None)
    assert tensor.data_ptr == other.pointer
    assert array.given.handed == (kind is LendingBoth)  # lent, to tell where it is


both = pytest.mark.parametrize("kind", [TabledProducer, LendingProducer])


@both
def test_a_move_from_the_host_is_ready_on_a_stream_of_the_target(here, kind):
    array, stream = here.array(), here.sim.side()
    x = kind(Given(), act=lambda self: array.given.capsule())
    tensor = fastdl.from_dlpack(x, device=f"{here.device}:0", stream=stream)
    assert tensor.data_ptr == array.pointer
    assert [asked[0] for asked in x.asked] == [stream]


@both
def test_a_table_that_refuses_leaves_the_order_to_the_caller(here, kind):
    """After the library has refused to copy to the host."""

    def act(self):
        if self.asked[-1][2] is not None:
            raise BufferError("no copies here")
        return array.given.capsule()

    array = here.array()
    x = kind(array.given, (array.type, array.ordinal), act, mode="fail and raise")
    assert fastdl.from_dlpack(x, device="cpu", stream=-1).is_copied
    assert [asked[0] for asked in x.asked if asked[2] is None] == [-1]


def test_a_table_that_lends_nothing_does_not_say_where_its_data_is():
    with pytest.raises(BufferError, match="without setting an exception"):
        fastdl.from_dlpack(Lending(Given(), "nothing"), stream=94)


@pytest.mark.parametrize("arguments", [{"copy": True}, {"device": "other"}], ids=str)
@pytest.mark.parametrize("stream", [None, "stream", -1])
def test_a_type_with_nothing_but_a_table_is_copied_nowhere_else(here, arguments, stream):
    array = here.array(stream=here.sim.side())
    named = {"other": f"{here.device}:1"}
    arguments = {name: named.get(value, value) for name, value in arguments.items()}
    stream = here.sim.side(int("device" in arguments)) if stream == "stream" else stream
    with current_stream(array.stream), pytest.raises(BufferError, match="host memory only"):
        fastdl.from_dlpack(Table(array), stream=stream, **arguments)


@pytest.mark.parametrize(
    ("mode", "error"),
    [
        ("give and raise", None),  # in passing
        ("fail and raise", LookupError),
        ("fail and interrupt", KeyboardInterrupt),
        ("give and interrupt", KeyboardInterrupt),
    ],
)
def test_a_table_that_fails_to_tell_where_its_data_is(mode, error):
    """It is taken all the same, unless the user interrupts."""
    given = Given()
    with contextlib.nullcontext() if error is None else pytest.raises(error):
        assert fastdl.from_dlpack(Lending(given, mode), device="cpu").size == 6
    assert (given.handed, given.deleted) == {None: (2, 1), LookupError: (0, 0)}.get(
        error, (int(mode.startswith("give")), 0)
    )


# ---- which stream ---------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["device", "pinned"])
def test_to_where_it_is_orders_the_stream_all_the_same(here, device):
    place = here.device if device == "device" else here.pinned
    tensor = here.tensor(100, "int32", place)
    busy(here, tensor)
    stream = here.sim.side()
    assert tensor.to(place, stream=stream) is tensor
    look(here, tensor, stream)
    tensor.record(stream)


@pytest.mark.parametrize("stream", [None, -1])
def test_to_where_it_is_orders_nothing_for_nobody(here, stream):
    tensor = here.tensor(100, "int32")
    busy(here, tensor)
    waits = here.calls("order")
    assert tensor.to(here.device, stream=stream) is tensor
    assert here.calls("order") == waits


class Unable(Protocol):
    """Cannot copy, and says so."""

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if copy or dl_device is not None:
            self.asked.append((stream, "copy"))
            raise BufferError("no copies here")
        return super().__dlpack__(stream=stream, max_version=max_version)


class OnlyCopies(Protocol):
    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if not copy:
            raise BufferError("only copies here")
        return super().__dlpack__(stream=stream, max_version=max_version)


def test_a_producer_of_copies_alone_is_believed(here):
    assert fastdl.from_dlpack(OnlyCopies(here.array()), copy=True).is_copied


class Shares(Plain):
    """Serves every device that can read managed memory, without a copy unless one is required."""

    def __init__(self, array, other, copies):
        super().__init__(array)
        self.pointers = [array.pointer, other.pointer if copies else array.pointer]

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        pointer, device = self.pointers[bool(copy)], dl_device or self.device
        return Given(device=device, data=pointer, owner=self, shape=(6,)).capsule()


@pytest.mark.parametrize("places", [("managed", "device"), ("device", "managed")])
@pytest.mark.parametrize("copies", [True, False])
def test_managed_memory_may_be_shared_with_a_device(cuda_machine, places, copies):
    """What is at the same address is no copy, whatever device is asked for."""
    here, (memory, other) = cuda_machine, places
    array, target = here.array(memory=memory), here.array(memory=other)
    producer = Shares(array, target, copies)
    device = (target.type, target.ordinal)
    if copies:
        tensor = fastdl.from_dlpack(producer, device=device, copy=True)
        assert (tensor.data_ptr, tensor.is_copied) == (target.pointer, True)
    else:
        with pytest.raises(BufferError, match="in spite of copy=True"):
            fastdl.from_dlpack(producer, device=device, copy=True)
    tensor = fastdl.from_dlpack(producer, device=device)
    assert (tensor.data_ptr, tensor.is_copied) == (array.pointer, False)
    assert tensor.device == device


def test_a_producer_that_cannot_copy_is_asked_once(here):
    """For what nobody else does, and so for the caller's stream alone."""
    for number, wish in enumerate(({"copy": True}, {"device": f"{here.device}:1"})):
        for stream in (here.sim.side(number), -1):
            producer = Unable(here.array())
            with pytest.raises(BufferError, match="by its own library, nor by fastdl") as caught:
                fastdl.from_dlpack(producer, stream=stream, **wish)
            assert producer.asked == [(stream, "copy")]
            assert "no copies here" in str(caught.value.__cause__)


@pytest.mark.parametrize("stream", [None, -1])
def test_a_producer_that_cannot_copy_to_the_host_is_asked_where_its_data_is(here, stream):
    array = here.array()
    expected = array.write()
    if stream == -1:  # the caller says that all is done
        here.sim.finish(here.default)
    producer = Unable(array)
    tensor = fastdl.from_dlpack(producer, device="cpu", stream=stream)
    assert producer.asked == [(None, "copy"), here.default if stream is None else -1]
    assert bytes_of(here.sim, tensor) == expected


def test_streams_for_copies_to_the_host_are_those_of_the_source(here):
    tensor = here.tensor(100, "int32", f"{here.device}:1")
    busy(here, tensor, device=1)
    assert (
        tensor.to("cpu", stream=SimpleNamespace(ptr=0, device_id=1)).tobytes() == bytes([5]) * 400
    )
    with pytest.raises(ValueError, match="default stream of device 0"):
        tensor.to("cpu", stream=SimpleNamespace(ptr=0, device_id=0))


def test_a_copied_capsule_is_not_copied_again():
    class Copying(Producer):
        def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
            return fastdl.from_dlpack(values(6)).__dlpack__(copy=True, max_version=max_version)

    capsule = Copying(None).__dlpack__(max_version=(1, 3))
    address = opened(capsule).tensor.data
    assert fastdl.from_dlpack(capsule, copy=True).data_ptr == address
