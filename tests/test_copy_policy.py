"""Which copies `from_dlpack`, `Tensor.to` and `__dlpack__` make, on which streams and in which
memory: what the Python above the copies decides."""

import pytest

import fastdl
from tests.support.ctypes_dlpack import opened
from tests.support.frameworks import (
    Protocol,
    Table,
    capturing,
    current_stream,
    stream_on,
    synchronize,
)
from tests.support.memory import bytes_of, expect_race, values
from tests.support.producers import Producer
from tests.support.simulation import read, write


def on(device, array):
    return fastdl.from_dlpack(array).to(device)


def busy(here, tensor, device=0):
    """Queues a kernel that writes to `tensor`, and records it; its stream."""
    stream = stream_on(here.sim, device, blocking=False)
    with here.sim.device(device):
        here.sim.kernel(stream, write(tensor.data_ptr, tensor.nbytes, 5))
    tensor.record(stream)
    return stream


def look(here, tensor, stream, device=0):
    with here.sim.device(device):
        here.sim.kernel(stream, read(tensor.data_ptr, tensor.nbytes))


class Stream:
    """The default stream object of a library that tells its device, as CuPy's."""

    ptr = 0

    def __init__(self, device):
        self.device_id = device


# ---- whether there is a copy ----------------------------------------------------------------


@pytest.mark.parametrize("place", ["cpu", "device"])
@pytest.mark.parametrize("made", ["copy", "to", "from_dlpack"])
def test_a_copy_of_a_copy_is_another(here, place, made):
    """That a tensor was copied once says nothing of this call."""
    device = here.device if place == "device" else "cpu"
    tensor = on(device, values(6)) if place == "device" else fastdl.from_dlpack(values(6))
    first = {
        "copy": tensor.copy,
        "to": lambda: on(device, values(6)) if place == "device" else tensor.copy(),
        "from_dlpack": lambda: fastdl.from_dlpack(tensor, copy=True),
    }[made]()
    assert first.is_copied
    second = fastdl.from_dlpack(first, copy=True)
    assert second.data_ptr != first.data_ptr
    assert bytes_of(here.sim, second) == values(6).tobytes()
    assert fastdl.from_dlpack(first, copy=False).data_ptr == first.data_ptr


@pytest.mark.parametrize(
    "arguments",
    [
        {"copy": True},
        {"device": "cpu"},
        {"device": "other"},
        {"copy": True, "stream": "stream"},
        {"copy": True, "stream": -1},
    ],
    ids=str,
)
def test_a_type_with_nothing_but_a_table_is_copied_by_fastdl(here, arguments):
    array = here.array(stream=stream_on(here.sim, blocking=False))
    expected = array.write()
    named = {"other": f"{here.device}:1", "stream": stream_on(here.sim, blocking=False)}
    arguments = {name: named.get(value, value) for name, value in arguments.items()}
    if arguments.get("stream") == -1:  # the caller says that all is done
        synchronize(here.sim, array.stream)
        synchronize(here.sim, here.default)
    with current_stream(array.stream):
        tensor = fastdl.from_dlpack(Table(array), **arguments)
    assert tensor.data_ptr != array.pointer and tensor.is_copied
    assert bytes_of(here.sim, tensor) == expected[: tensor.nbytes]


# ---- which stream ---------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["device", "pinned"])
def test_to_where_it_is_orders_the_stream_all_the_same(here, device):
    place = here.device if device == "device" else here.pinned
    tensor = here.tensor(100, "int32", place)
    busy(here, tensor)
    stream = stream_on(here.sim, blocking=False)
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


def test_a_producer_that_cannot_copy_is_asked_for_the_callers_stream(here):
    array = here.array()
    expected = array.write()
    stream = stream_on(here.sim, blocking=False)
    producer = Unable(array)
    tensor = fastdl.from_dlpack(producer, copy=True, stream=stream)
    assert producer.asked == [(stream, "copy"), stream]
    look(here, tensor, stream)
    tensor.record(stream)
    assert bytes_of(here.sim, tensor) == expected[: tensor.nbytes]


def test_a_producer_that_cannot_copy_is_left_alone_with_its_streams(here):
    for wish in ({"copy": True}, {"device": f"{here.device}:1"}):
        producer = Unable(here.array())
        fastdl.from_dlpack(producer, stream=-1, **wish)
        assert producer.asked == [(-1, "copy"), -1]


@pytest.mark.parametrize("stream", [None, -1])
def test_a_producer_that_cannot_copy_to_the_host_is_asked_where_its_data_is(here, stream):
    array = here.array()
    expected = array.write()
    if stream == -1:  # the caller says that all is done
        synchronize(here.sim, here.default)
    producer = Unable(array)
    tensor = fastdl.from_dlpack(producer, device="cpu", stream=stream)
    assert producer.asked == [(None, "copy"), here.default if stream is None else -1]
    assert bytes_of(here.sim, tensor) == expected


def test_the_stream_of_another_device_is_not_the_producers(here):
    """It is that of the target: the data is made ready on the default stream of its own."""
    producer = Unable(here.array())
    stream = stream_on(here.sim, 1, blocking=False)
    tensor = fastdl.from_dlpack(producer, device=f"{here.device}:1", stream=stream)
    assert producer.asked == [(stream, "copy"), here.default]
    look(here, tensor, stream, device=1)
    tensor.record(stream)


def test_a_copy_for_who_orders_by_other_means_is_done(here):
    """stream=-1: nobody could name a stream on which the result would be ready."""
    tensor = on(here.device, values(100))
    bystander = stream_on(here.sim, 1, blocking=False)
    for result in (
        fastdl.from_dlpack(tensor, device=f"{here.device}:1", stream=-1),
        tensor.to(f"{here.device}:1", stream=-1),
    ):
        look(here, result, bystander, device=1)
        result.record(bystander)


def test_a_copy_that_nobody_waits_for_is_seen(here):
    tensor = on(here.device, values(100))
    result = fastdl.from_dlpack(tensor, device=f"{here.device}:1")
    bystander = stream_on(here.sim, 1, blocking=False)
    look(here, result, bystander, device=1)
    result.record(bystander)
    expect_race(here.sim)


@pytest.mark.parametrize("place", ["cpu", "pinned"])
def test_streams_for_copies_to_the_host_are_those_of_the_source(here, place):
    target = here.pinned if place == "pinned" else "cpu"
    tensor = here.tensor(100, "int32", f"{here.device}:1")
    busy(here, tensor, device=1)
    assert bytes_of(here.sim, tensor.to(target, stream=Stream(1))) == bytes([5]) * 400
    with pytest.raises(ValueError, match="default stream of device 0"):
        tensor.to(target, stream=Stream(0))


# ---- captures -------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["export", "from_dlpack", "to pinned"])
def test_a_copy_that_must_be_waited_for_leaves_nothing_in_the_graph(here, way):
    """It would write to memory that is gone, with each launch."""
    stream = stream_on(here.sim, blocking=False)
    tensor, pinned = on(here.device, values(10)), fastdl.Device(here.pinned).__dlpack_device__()
    functions = {
        "export": lambda: tensor.__dlpack__(copy=True, stream=-1, max_version=(1, 3)),
        "from_dlpack": lambda: fastdl.from_dlpack(tensor, copy=True, stream=-1),
        "to pinned": lambda: tensor.__dlpack__(copy=True, dl_device=pinned),
    }
    copies = here.calls("line")
    with (
        fastdl.use_stream(here.device, stream),
        capturing(here.sim, stream),
        pytest.raises(BufferError, match="a graph is being captured"),
    ):
        functions[way]()
    assert here.calls("line") == copies


# ---- the interface before DLPack ------------------------------------------------------------


def test_an_empty_array_may_point_anywhere(cuda_machine):
    class Empty:
        __cuda_array_interface__ = {
            "shape": (0, 3),
            "typestr": "<f4",
            "data": (0x1234, False),
            "version": 3,
        }

    tensor = fastdl.asarray(Empty())
    assert (tensor.shape, tensor.device) == ((0, 3), (2, 0))


@pytest.mark.parametrize("stream", [0, -1, 2**63, 2**70, True, "1"])
def test_a_stream_that_the_interface_does_not_know(cuda_machine, stream):
    tensor = cuda_machine.tensor(3)

    class Wrong:
        __cuda_array_interface__ = tensor.__cuda_array_interface__ | {"stream": stream}

    with pytest.raises(BufferError, match="a stream as None, 1, 2 or a handle"):
        fastdl.asarray(Wrong())
    del tensor  # which the traceback may keep for longer than the test


def test_a_copied_capsule_is_not_copied_again():
    class Copying(Producer):
        def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
            return fastdl.from_dlpack(values(6)).__dlpack__(copy=True, max_version=max_version)

    capsule = Copying(None).__dlpack__(max_version=(1, 3))
    address = opened(capsule).tensor.data
    assert fastdl.from_dlpack(capsule, copy=True).data_ptr == address
