# SPDX-License-Identifier: Apache-2.0
"""What asarray and convert are told beside the data: `device`, `copy` and `stream`, which mean what
they mean in from_dlpack, whatever interface the data has."""

import re
import sys
from types import ModuleType

import numpy as np
import pytest

import fastdl
from fastdl._bridges import lookup
from fastdl._bridges.bridge import ANYWHERE, COMPACT, COPIED, DEVICE, Bridge
from fastdl._core import tensor as core
from tests.support.frameworks import Interface, Protocol, Table, current_stream
from tests.support.isolate import in_fresh_process
from tests.support.library import Array, libraries
from tests.support.memory import bytes_of, expect_race, values
from tests.support.producers import Given, Producer, new
from tests.support.simulation import read, write


def table_of_tensors():
    """As `quick` of a bridge."""
    return fastdl.exchange_api(fastdl.Tensor)


@pytest.fixture
def library(monkeypatch):
    return libraries(monkeypatch)


class Image:
    """As Pillow's: its data is copied for each look at it."""

    @property
    def __array_interface__(self):
        return {"version": 3, "shape": (6,), "typestr": "|u1", "data": bytes(range(6))}


BYTES = b"abc"


def shared():
    """Data that asarray shares, by each interface: what has it, and its address."""
    found = np.arange(6, dtype="int16")
    address = found.ctypes.data
    return {
        "__dlpack__": (Array(fastdl.from_dlpack(found)), address),
        "numpy": (found, address),
        "tensor": (fastdl.from_dlpack(found), address),
        "buffer": (memoryview(found), address),
        "bytes": (BYTES, fastdl.asarray(BYTES).data_ptr),
        "__array_interface__": (
            type("X", (), {"__array_interface__": found.__array_interface__, "kept": found})(),
            address,
        ),
        "__array__": (
            type("X", (), {"__array__": lambda self, dtype=None, copy=None: found})(),
            address,
        ),
    }


def copied(library):
    """Data that asarray has to copy."""
    reader = library(read=lambda x: core.mark_copied(fastdl.from_dlpack(np.arange(6))))
    return {
        "__array_interface__": Image(),
        "scalar": np.float64(3),
        "reader": reader(None),
        "producer": new(Producer)(Given(flags=2)),
    }


def keep(here, tensor, stream, action=write):
    """Queues a kernel on `tensor` that is known to the producer alone."""
    with here.sim.device(tensor.device.id):
        here.sim.kernel(stream, action(tensor.data_ptr, tensor.nbytes, *([5] * (action is write))))


# ---- asarray: copy --------------------------------------------------------------------------


@pytest.mark.parametrize("keywords", [{"copy": False}, {"device": "cpu"}], ids=str)
@pytest.mark.parametrize("name", shared())
def test_asarray_without_a_copy(name, keywords):
    x, address = shared()[name]
    tensor = fastdl.asarray(x, **keywords)
    assert tensor.data_ptr == address
    assert not tensor.is_copied
    assert tensor.readonly is (x is BYTES)


@pytest.mark.parametrize("name", shared())
def test_asarray_with_a_copy(name):
    x, address = shared()[name]
    tensor = fastdl.asarray(x, copy=True)
    assert tensor.data_ptr != address
    assert tensor.is_copied and not tensor.readonly
    assert tensor.tolist() == fastdl.asarray(x).tolist()


@pytest.mark.parametrize("name", ["__array_interface__", "scalar", "reader", "producer"])
def test_asarray_where_a_copy_is_needed(library, name):
    x = copied(library)[name]
    with pytest.raises(fastdl.CopyRequiredError, match="was copied in spite of"):
        fastdl.asarray(x, copy=False)
    if name != "producer":
        assert not fastdl.asarray(x, copy=True).readonly
        assert fastdl.asarray(x, copy=None).is_copied


def test_asarray_copies_what_its_reader_shared(library):
    inside = np.arange(3)
    x = library(read=lambda x: fastdl.from_dlpack(inside))(None)
    assert fastdl.asarray(x, copy=False).data_ptr == inside.ctypes.data
    assert fastdl.asarray(x, copy=True).data_ptr != inside.ctypes.data


@pytest.mark.parametrize("x", [b"abc", np.zeros(1), Given().capsule()], ids=["b", "n", "c"])
@pytest.mark.parametrize("copy", [1, 0, "yes", np.bool_(True), 1.0])
def test_copy_is_a_bool_or_none(x, copy):
    enters = [fastdl.asarray, lambda x, copy: fastdl.convert(x, fastdl.Tensor, copy=copy)]
    for enter in enters if type(x) is bytes else [*enters, fastdl.from_dlpack]:
        with pytest.raises(TypeError, match="expected copy=None, True or False, got"):
            enter(x, copy=copy)


def test_asarray_of_a_capsule_with_keywords():
    assert fastdl.asarray(Given().capsule(), copy=True).is_copied
    assert fastdl.asarray(Given().capsule(), device="cpu").shape == (2, 3)


@pytest.mark.library("pyarrow")
@pytest.mark.parametrize("keywords", [{"device": "cpu"}, {"copy": True}, {"copy": False}], ids=str)
def test_missing_values_are_counted_whatever_is_asked_for(keywords):
    import pyarrow as pa

    with pytest.raises(BufferError, match=r"missing values \(2 in all\)"):
        fastdl.asarray(pa.array([1, None, None]), **keywords)


@pytest.mark.parametrize("x", [[1, 2], 3, "text"], ids=str)
def test_what_is_no_array_is_none_with_keywords(x):
    with pytest.raises(TypeError, match="expected a tensor, an array or a buffer, got"):
        fastdl.asarray(x, copy=True, device="cpu")


# ---- asarray: device ------------------------------------------------------------------------


@pytest.mark.parametrize("name", shared())
def test_asarray_to_a_device(here, name):
    x, _ = shared()[name]
    with pytest.raises(BufferError, match=f"host memory only; .*device='{here.device}:0'"):
        fastdl.asarray(x, device=here.device)
    with pytest.raises(fastdl.CopyRequiredError, match="needs a copy to be on .*, and copy=False"):
        fastdl.asarray(x, device=here.device, copy=False)


def test_asarray_to_the_host(here):
    for x, expected in sources(here):
        with current_stream(getattr(getattr(x, "array", None), "stream", here.default)):
            tensor = fastdl.asarray(x, device="cpu")
        assert tensor.device == "cpu" and tensor.is_copied
        assert tensor.tobytes() == expected


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_the_cuda_array_interface_is_moved(cuda_machine, device):
    source = cuda_machine.holding(values(6))
    stream = cuda_machine.sim.side()
    source.release(stream)
    tensor = fastdl.asarray(Interface(source, stream=stream), device=device)
    assert (tensor.data_ptr == source.data_ptr) is (device == "cuda:0")
    assert bytes_of(cuda_machine.sim, tensor) == values(6).tobytes()


def test_the_cuda_array_interface_has_no_copies(cuda_machine):
    source = cuda_machine.holding(values(6))
    with pytest.raises(BufferError, match="cannot be copied to cuda:0: .*host memory only"):
        fastdl.asarray(Interface(source, stream=1), device="cuda:0", copy=True)


# ---- convert: device ------------------------------------------------------------------------


def sources(here, device=0):
    """Device data, six numbers of four bytes, by each interface: what has it, and its bytes."""
    stream = here.sim.side(device)
    for kind in (Protocol, Table):
        found = here.array(device=device, stream=stream)
        yield kind(found), found.write()
    place = f"{here.device}:{device}"
    yield here.holding(values(6), place), values(6).tobytes()
    if here.kind == "cuda":
        tensor = here.tensor(6, "int32", place)
        tensor.__dlpack__(stream=stream, max_version=(1, 3))
        keep(here, tensor, stream)
        tensor.record(stream)
        yield Interface(tensor, stream=stream), bytes([5]) * tensor.nbytes


@pytest.mark.parametrize("like", [np.ndarray, np, np.zeros(1), fastdl.Tensor])
def test_to_the_host(here, like):
    for device in (0, 1):
        for x, expected in sources(here, device):
            with current_stream(getattr(getattr(x, "array", None), "stream", here.default)):
                result = fastdl.convert(x, like, device="cpu")
            assert fastdl.asarray(result).tobytes() == expected
            assert fastdl.asarray(result).device == "cpu"


class Mover:
    """As `move` of a bridge: the library copies on a stream of its own, which its exports know."""

    def __init__(self, here):
        self.here, self.given = here, []

    def __call__(self, x, device):
        here, cls = self.here, Array if isinstance(x, np.ndarray | fastdl.Tensor) else type(x)
        found = fastdl.asarray(x, device="cpu").numpy()
        stream = here.sim.side(device.id)
        array = here.array(
            device=device.id, stream=stream, shape=found.shape, dtype=found.dtype.name
        )
        here.sim.poke(array.pointer, found.tobytes())
        with here.sim.device(device.id):
            here.sim.kernel(stream, write(array.pointer, array.nbytes, 256))  # adds 0
        self.given.append(type(x))
        return cls(fastdl.from_dlpack(Protocol(array)))


class Copying(Array):
    """Its library copies on its device, where `here` has it."""

    def __init__(self, here):
        super().__init__(here.holding(values(6)))
        self.copy, self.copies = Mover(here), []

    def __dlpack__(self, *, copy=None, **keywords):
        if not copy:
            return super().__dlpack__(**keywords)
        self.copies.append(self.copy(self.tensor, self.tensor.device).tensor)
        return self.copies[-1].__dlpack__(**keywords)


@pytest.mark.parametrize(
    "facts", [{}, {"strides": COMPACT, "readonly": COPIED}, {"quick": table_of_tensors}]
)
@pytest.mark.parametrize("source", ["buffer", "numpy", "reversed", "big-endian", "tensor", "image"])
def test_to_a_device(here, library, source, facts):
    host = values(6)
    x = {
        "buffer": memoryview(host),
        "numpy": host,
        "reversed": host[::-1].copy()[::-1],
        "big-endian": host.astype(">i4"),
        "tensor": fastdl.from_dlpack(host),
        "image": Image(),
    }[source]
    cls = library(devices=ANYWHERE, move=Mover(here), **facts)
    for number in (0, 1):
        device = f"{here.device}:{number}"
        result = fastdl.asarray(fastdl.convert(x, cls, device=device))
        assert result.device == device
        expected = bytes(range(6)) if source == "image" else host.tobytes()
        assert bytes_of(here.sim, result) == expected


def test_from_device_to_device(here, library):
    cls = library(devices=ANYWHERE, move=Mover(here))
    for x, expected in sources(here):
        with current_stream(getattr(getattr(x, "array", None), "stream", here.default)):
            tensor = fastdl.asarray(fastdl.convert(x, cls, device=f"{here.device}:1"))
        assert tensor.device == f"{here.device}:1"
        assert bytes_of(here.sim, tensor) == expected


def test_a_library_of_device_memory_gets_an_array(here, library):
    """From the host, where it has no objects; elsewhere one of its own."""
    move = Mover(here)
    cls = library(devices=DEVICE, move=move)
    fastdl.convert(b"abc", cls, device=here.device)
    fastdl.convert(here.holding(values(6)), cls, device=f"{here.device}:1")
    tensor = fastdl.asarray(fastdl.convert(values(6), cls, device=here.device, copy=True))
    assert tensor.device == here.device  # the move is the copy
    assert move.given == [np.ndarray, cls, np.ndarray]


@pytest.mark.parametrize("given", ["numpy", "capsule"])
def test_a_library_that_does_not_move(here, library, given):
    def refuse(x, device):
        raise AssertionError("not compiled with CUDA")

    x = values(6) if given == "numpy" else fastdl.from_dlpack(values(6)).__dlpack__()
    with pytest.raises(BufferError, match="refused it .AssertionError: not compiled") as caught:
        fastdl.convert(x, library(devices=ANYWHERE, move=refuse), device=here.device)
    assert isinstance(caught.value.__cause__, AssertionError)
    with pytest.raises(BufferError, match="on cpu:0 cannot be copied to .*host memory only"):
        fastdl.convert(values(6), library(devices=ANYWHERE), device=here.device)


def test_a_library_that_narrows_what_it_moves(here, library):
    def narrowed(x, device):
        return Mover(here)(
            Array(fastdl.from_dlpack(fastdl.asarray(x).numpy().astype("f4"))), device
        )

    cls = library(devices=ANYWHERE, move=narrowed)
    with pytest.raises(BufferError, match="Fakelib turns it into float32 on "):
        fastdl.convert(np.arange(3.0), cls, device=here.device)
    fastdl.convert(np.arange(3, dtype="f4"), cls, device=here.device)


def test_a_library_that_moves_elsewhere(here, library):
    cls = library(devices=ANYWHERE, move=lambda x, device: x)
    with pytest.raises(BufferError, match="turns it into int32 on cpu:0"):
        fastdl.convert(values(6), cls, device=here.device)
    there = here.holding(values(6))  # where a move would change nothing
    with pytest.raises(BufferError, match="cannot be copied to"):
        fastdl.convert(there, cls, device=here.device, copy=True)


def test_what_the_producer_moves_is_not_moved_again(here, library):
    class Moving(Array):
        calls = 0

        def __dlpack__(self, *, dl_device=None, stream=None, max_version=None):
            keywords = {"stream": stream, "max_version": max_version}
            self.calls += 1
            moved = Mover(here)(self.tensor, fastdl.Device(dl_device))
            return moved.__dlpack__(**keywords)

    move = Mover(here)
    cls = library(devices=ANYWHERE, move=move)
    for copy in (None, True):
        x = Moving(fastdl.from_dlpack(values(6)))
        tensor = fastdl.convert(x, cls, device=here.device, copy=copy).tensor
        assert (tensor.device, x.calls, move.given) == (fastdl.Device(here.device), 1, [])
        assert bytes_of(here.sim, tensor) == values(6).tobytes()


def there_and_elsewhere(here, library):
    """(type, an object of it, its device, another device)."""
    cls = library(devices=ANYWHERE, move=Mover(here))
    yield cls, cls(fastdl.from_dlpack(values(6))), "cpu", here.device
    yield cls, cls(here.holding(values(6))), here.device, "cpu"


def test_an_object_that_is_there_is_returned_itself(here, library):
    for cls, x, device, other in there_and_elsewhere(here, library):
        for _ in range(2):
            assert fastdl.convert(x, cls, device=device) is x
            assert fastdl.convert(x, cls, device=device, copy=False) is x
        with pytest.raises(fastdl.CopyRequiredError, match=f"needs a copy to be on {other}"):
            fastdl.convert(x, cls, device=other, copy=False)
        if device == "cpu":
            assert fastdl.convert(x, cls, device=device, copy=True) is not x
        assert fastdl.asarray(fastdl.convert(x, cls, device=other)).device == other
    unknown = with_importer(Protocol)
    x = unknown(here.array())
    assert fastdl.convert(x, unknown, device=here.device) is x


def test_a_tensor_of_fastdl_that_is_elsewhere(here):
    x, there = fastdl.from_dlpack(values(6)), here.holding(values(6))
    assert fastdl.convert(x, fastdl.Tensor, device="cpu") is x
    assert fastdl.convert(there, x, device="cpu").tolist() == x.tolist()


@pytest.mark.parametrize("x", [np.array(["a date"]), np.zeros(2, ">f4"), np.ma.array([1], mask=1)])
def test_an_object_that_only_its_library_can_read_is_there(x):
    assert fastdl.convert(x, np.ndarray, device="cpu") is x


def with_importer(kind):
    """A type of a library that fastdl does not know, with which it can make objects."""
    return type("Own", (kind,), {"from_dlpack": staticmethod(lambda tensor: tensor)})


@pytest.mark.parametrize("x", ["numpy", "bytes", "device"])
def test_a_library_that_has_no_such_device(here, library, x):
    on_device = here.tensor(2, "int8")
    x = {"numpy": np.zeros(2), "bytes": b"ab", "device": on_device}[x]
    allocations = here.allocations
    for like in (np, library()):
        with pytest.raises(BufferError, match=r"holds host memory only, got device='\w+:0'"):
            fastdl.convert(x, like, device=here.device)
    with pytest.raises(BufferError, match="holds device memory only, got device='cpu:0'"):
        fastdl.convert(x, library(devices=DEVICE), device="cpu")
    assert here.allocations == allocations


def test_nothing_is_moved_in_vain(here, library):
    for x in (here.tensor(), Protocol(here.array()), np.zeros(3), b"abc", np.zeros(2, ">f4")):
        lines, other = here.calls("line"), f"{here.device}:1"
        with pytest.raises(fastdl.CopyRequiredError, match=f"needs a copy to be on {other}"):
            fastdl.convert(x, library(devices=ANYWHERE), device=other, copy=False)
        assert here.calls("line") == lines


def test_a_copy_on_a_device_is_its_own_librarys(here, library):
    """Also where the library of the result needs one."""
    cls, frozen = library(devices=ANYWHERE), library(devices=ANYWHERE, readonly=COPIED)
    x = Copying(here)
    assert fastdl.convert(x, cls, copy=True).tensor.data_ptr == x.copies[0].data_ptr

    class ArrayImpl(Copying):  # exports without flags what never changes
        __module__ = "jaxlib.of_the_tests"

        def __dlpack__(self, *, stream=None, copy=None):
            return super().__dlpack__(stream=stream, copy=copy)

    ArrayImpl.__qualname__ = "ArrayImpl"
    never = ArrayImpl(here)
    tensor = fastdl.convert(never, frozen).tensor
    assert tensor.data_ptr == never.copies[0].data_ptr and not tensor.readonly
    with pytest.raises(BufferError, match="cannot be copied to .*host memory only"):
        fastdl.convert(here.tensor(), cls, copy=True)
    with pytest.raises(BufferError, match="by its own library, nor by fastdl"):
        fastdl.convert(cls(here.tensor()), library(devices=ANYWHERE), copy=True)


def test_words_that_are_no_device(library):
    for x in (np.zeros(1), b"a", [1]):
        if type(x) is not list:
            with pytest.raises(BufferError, match="to vulkan:0"):
                fastdl.asarray(x, device="vulkan")
            with pytest.raises(ValueError, match="cdua"):
                fastdl.asarray(x, device="cdua")
        with pytest.raises(ValueError, match="cdua"):
            fastdl.convert(x, np, device="cdua")
        with pytest.raises(TypeError, match="device"):
            fastdl.convert(x, np, device=3.5)
    with pytest.raises(BufferError, match="ndarray' cannot be converted to .* vulkan:0"):
        fastdl.convert(np.zeros(1), library(devices=ANYWHERE), device="vulkan")


# ---- convert: stream ------------------------------------------------------------------------


def on_the_host(library):
    found = values(6)
    never = type("ArrayImpl", (Array,), {"__module__": "jaxlib.of_the_tests"})
    return {
        "numpy": found,
        "subclass": type("Own", (np.ndarray,), {})(6, "i4", found),
        "bytes": found.tobytes(),
        "tensor": fastdl.from_dlpack(found),
        "producer": Array(fastdl.from_dlpack(found)),
        "never changes": never(fastdl.from_dlpack(found)),
        "reader": library(read=lambda x: fastdl.from_dlpack(found))(None),
        "big-endian": found.astype(">i4"),
        "scalar": np.int32(1),
    }


@pytest.mark.parametrize("name", on_the_host(lambda **facts: lambda x: x))
def test_host_data_has_no_stream(library, name):
    """Converted, returned itself, and copied alike."""
    x = on_the_host(library)[name]
    expected = fastdl.asarray(fastdl.convert(x, fastdl.Tensor)).tobytes()
    for like in (library(), fastdl.Tensor, np.ndarray, library(strides=COMPACT)):
        for keywords in ({}, {"copy": True}, {"device": "cpu"}, {"device": "cpu", "copy": True}):
            for stream in (1, 7):
                with pytest.raises(ValueError, match="no streams: expected stream=None or -1"):
                    fastdl.convert(x, like, stream=stream, **keywords)
            with pytest.raises(TypeError, match="expected a stream as an int, None"):
                fastdl.convert(x, like, stream="7", **keywords)
            result = fastdl.convert(x, like, stream=-1, **keywords)
            result = getattr(result, "tensor", result)
            if fastdl.convert(x, like) is x and "copy" not in keywords:
                assert result is x
            else:
                assert fastdl.asarray(result).tobytes() == expected


@pytest.mark.parametrize(
    ("device", "stream", "error", "words"),
    [
        ((10, 0), 1, ValueError, "ROCm has no stream 1"),
        ((10, 0), 2, ValueError, "ROCm has no stream 2"),
        ((7, 0), 5, BufferError, "DLPack has no stream numbers for vulkan:0"),
    ],
)
@pytest.mark.parametrize("keywords", [{}, {"copy": True}], ids=str)
def test_a_stream_that_the_device_has_not(library, device, stream, error, words, keywords):
    """About an argument of the caller, so without words on what is converted."""
    memory = bytearray(8)
    address = fastdl.asarray(memory).data_ptr
    x = fastdl.from_pointer(address, (8,), "uint8", device=device, owner=memory)
    with pytest.raises(error, match=f"^{words}"):
        fastdl.convert(x, library(devices="anywhere"), stream=stream, **keywords)


def test_a_capsule_has_no_stream():
    with pytest.raises(TypeError, match="expected no stream with a capsule"):
        fastdl.convert(Given().capsule(), np.ndarray, stream=1)


@pytest.mark.parametrize("case", ["shared", "table", "copied", "moved"])
def test_the_result_is_ready_on_the_stream(here, library, case):
    """Its kernels there come after the producer's, and after the copies."""
    facts = {"quick": table_of_tensors} if case == "table" else {}
    cls = library(devices=ANYWHERE, move=Mover(here), **facts)
    keywords = {"copied": {"copy": True}, "moved": {"device": f"{here.device}:1"}}.get(case, {})
    number = int(case == "moved")
    for x, _ in sources(here):
        x = Copying(here) if case == "copied" else x
        stream = here.sim.side(number)
        with current_stream(getattr(getattr(x, "array", None), "stream", here.default)):
            result = fastdl.convert(x, cls, stream=stream, **keywords)
        tensor = fastdl.asarray(result) if case == "moved" else getattr(result, "tensor", result)
        keep(here, tensor, stream, read)
        tensor.record(stream)


def test_without_the_stream_it_is_not_ready(cuda_machine, library):
    """What the test above would see."""
    x, _ = next(sources(cuda_machine))
    tensor = fastdl.convert(x, library(devices=ANYWHERE)).tensor
    keep(cuda_machine, tensor, cuda_machine.sim.side(), read)
    expect_race(cuda_machine.sim)


def test_an_object_that_is_returned_itself_is_ready_on_the_stream(here, library):
    for kind in (Protocol, Table):
        stream = here.sim.side()
        array = here.array(stream=here.sim.side())
        cls = with_importer(kind)
        x = cls(array)
        array.write()
        with current_stream(array.stream):
            assert fastdl.convert(x, cls, stream=stream) is x
        array.read(stream)
    cls = library(devices=ANYWHERE)
    tensor = here.tensor(6, "int32")
    busy, stream = (here.sim.side() for _ in range(2))
    keep(here, tensor, busy)
    tensor.record(busy)
    x = cls(tensor)
    assert fastdl.convert(x, cls, stream=stream, device=here.device) is x
    keep(here, tensor, stream, read)
    tensor.record(stream)


def test_what_is_moved_for_a_caller_that_orders_all_work_is_there(here, library):
    """Nobody could name a stream on which the result would be ready."""
    cls = library(devices=ANYWHERE, move=Mover(here))
    result = fastdl.convert(values(6), cls, device=here.device, stream=-1)
    keep(here, fastdl.from_dlpack(result, stream=-1), here.sim.side(), read)
    here.sim.finish(here.default)


def test_the_caller_orders_all_work(here, library):
    for x, _ in sources(here):
        if isinstance(x, Interface):
            continue  # which names a stream that has to be waited for
        waits = here.calls("order")
        fastdl.convert(x, library(devices=ANYWHERE), stream=-1)
        assert here.calls("order") == waits


def test_streams_that_a_device_does_not_have(cuda_machine, library):
    cls = library(devices=ANYWHERE)
    tensor = cuda_machine.tensor(3, "int32")
    for x in (tensor, Interface(tensor, stream=1), cls(tensor)):
        with pytest.raises(TypeError, match="expected a stream as an int"):
            fastdl.convert(x, cls, stream="7")
        with pytest.raises(ValueError, match=r"a stream handle from 0 to 2\*\*63 - 1, or -1"):
            fastdl.convert(x, cls, stream=2**64)
        with pytest.raises(ValueError, match="data on cpu:0 has no streams"):
            fastdl.convert(x, cls, stream=7, device="cpu")


# ---- capsules, which can be read once -------------------------------------------------------


@pytest.mark.parametrize("call", ["from_dlpack", "asarray", "convert"])
def test_a_capsule_is_not_moved_where_that_is_forbidden(here, library, call):
    cls = library(devices=ANYWHERE)
    calls = {
        "from_dlpack": fastdl.from_dlpack,
        "asarray": fastdl.asarray,
        "convert": lambda x, **keywords: fastdl.convert(x, cls, **keywords),
    }
    source = here.holding(values(6))
    lines = here.calls("line")
    with pytest.raises(fastdl.CopyRequiredError, match="needs a copy to be on cpu:0"):
        calls[call](source.__dlpack__(max_version=(1, 3)), device="cpu", copy=False)
    assert here.calls("line") == lines
    result = calls[call](source.__dlpack__(max_version=(1, 3)), device=here.device, copy=False)
    assert fastdl.asarray(result).data_ptr == source.data_ptr
    moved = calls[call](source.__dlpack__(max_version=(1, 3)), device="cpu")
    assert fastdl.asarray(moved).tolist() == values(6).tolist()


# ---- libraries by name ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["numpy", "numpy.ndarray", np.str_("numpy"), "fastdl", "fastdl.Tensor"]
)
@pytest.mark.parametrize(
    "keywords", [{}, {"copy": True}, {"device": "cpu"}, {"stream": -1}], ids=str
)
def test_a_library_by_its_name(name, keywords):
    cls = np.ndarray if "numpy" in name else fastdl.Tensor
    for x in (b"abc", fastdl.asarray(b"abc"), np.array([97, 98, 99], "u1")):
        result = fastdl.convert(x, name, **keywords)
        assert type(result) is cls
        assert (result is x) is (type(x) is cls and "copy" not in keywords)
        assert result.tolist() == [97, 98, 99]


def test_a_type_among_several(library, monkeypatch):
    """By the name of its library, the first is meant."""
    monkeypatch.setitem(sys.modules, "fakelib1", ModuleType("fakelib1"))
    library(make=lambda tensor, like: ("made", like.__name__))
    for name in ("fakelib1", "fakelib1.Array"):
        assert fastdl.convert(b"abc", name) == ("made", "fakelib1")
    with pytest.raises(ValueError, match="fakelib1.Arra"):
        fastdl.convert(b"abc", "fakelib1.Arra")


@pytest.mark.parametrize("package", sorted(set(lookup.LIBRARIES) - {"jaxlib"}))
def test_the_names_are_those_that_its_users_write(package):
    """Those of real libraries that are not installed cannot be imported, and are found all the
    same."""
    for bridge in lookup.load(package).BRIDGES:
        assert lookup.bridge_of_name(bridge.name) is bridge
    assert lookup.bridge_of_name(package) is lookup.load(package).BRIDGES[0]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("tourch", ": did you mean 'torch'?"),
        ("torch.tensor", ": did you mean 'torch.Tensor'?"),
        ("Jax.Array", ": did you mean 'jax.Array'?"),
        ("", ""),
        ("sys", ""),
        ("some text", ""),
        ("numpy.ndarray.T", ": did you mean 'numpy.ndarray'?"),
        ("jax.numpy", ": did you mean 'jax'?"),
        ("tf", ": did you mean 'tensorflow'?"),
        ("PyTorch", ": did you mean 'torch'?"),
    ],
)
def test_names_of_no_library(name, hint):
    for keywords in ({}, {"copy": True}):
        with pytest.raises(ValueError, match="expected the name of a tensor library") as caught:
            fastdl.convert(b"abc", name, **keywords)
        known = ": pass one of .*, numpy.ndarray, .*, torch.Tensor, .*"
        assert re.search(f", got {name!r}{re.escape(hint) or known}$", str(caught.value))


def test_a_library_that_is_not_installed(library):
    library()
    for name in ("fakelib1", "fakelib1.Array"):
        words = f"expected an installed library, got '{name}': Fakelib is not installed. Install it"
        with pytest.raises(ModuleNotFoundError, match=words) as caught:
            fastdl.convert(b"abc", name)
        assert caught.value.name == "fakelib1"
        assert str(caught.value.__cause__) == "No module named 'fakelib1'"


def test_a_library_that_lacks_a_module(library, monkeypatch, tmp_path):
    """Its own error passes: it is there, and something else is not."""
    library()
    (tmp_path / "fakelib1.py").write_text("import what_fakelib1_needs")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "fakelib1", raising=False)
    with pytest.raises(ModuleNotFoundError, match="^No module named 'what_fakelib1_needs'$"):
        fastdl.convert(b"abc", "fakelib1")


@in_fresh_process
def test_a_library_that_is_named_is_imported():
    assert "colorsys" not in sys.modules
    bridge = Bridge("colorsys.Array", title="", classes=(), make=lambda tensor, like: like)
    file = ModuleType("fastdl._bridges.colorsys")
    file.BRIDGES = (bridge,)
    sys.modules[file.__name__] = file
    lookup.LIBRARIES["colorsys"] = "colorsys"
    assert fastdl.convert(b"abc", "colorsys") is sys.modules["colorsys"]


@pytest.mark.library("torch", "jax", "mlx", "pyarrow", "tvm_ffi")
@in_fresh_process
def test_what_a_name_makes_is_what_the_type_makes():
    """The library is imported by the name alone, before anything is known of it."""
    x = np.arange(4, dtype="float32")
    for package in ("torch", "jax", "mlx", "pyarrow", "tvm_ffi"):
        assert package not in sys.modules
        for bridge in lookup.load(package).BRIDGES:
            result = fastdl.convert(x, bridge.name)
            module, _, cls = bridge.name.rpartition(".")
            again = fastdl.convert(x, getattr(sys.modules[module], cls))
            assert type(again) is type(result)
            shared = [fastdl.asarray(y).data_ptr == x.ctypes.data for y in (result, again)]
            assert shared[0] is shared[1]
            assert fastdl.convert(result, bridge.name) is result


# ---- casts, which are left to the libraries -------------------------------------------------


@pytest.mark.parametrize(("dtype", "takes"), [("bfloat16", "float32"), ("float8_e5m2", "float16")])
def test_the_line_that_casts_without_ml_dtypes(library, monkeypatch, dtype, takes):
    """NumPy has neither type then, and the line must not lead to an error."""
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(BufferError, match=f"has no {dtype}. Convert the elements to") as caught:
        fastdl.convert(fastdl.empty(3, dtype), library(dtypes={takes}))
    assert str(caught.value).endswith(f"first: fastdl.convert(x, torch.Tensor).to(torch.{takes})")
    with pytest.raises(
        ValueError, match=r"does not change element types: .*torch.Tensor\).to\(torch.bfloat16"
    ):
        fastdl.convert(b"abc", "bfloat16")
    with pytest.raises(BufferError, match="to int8 first, in the library that made them$"):
        fastdl.convert(fastdl.empty(4, "int4"), library(dtypes={"int8"}))


@pytest.mark.parametrize(
    ("kind", "dtype", "takes", "end"),
    [
        ("cuda", "float32", "float64", ": fastdl.convert(x, torch.Tensor).to(torch.float64)"),
        ("cuda", "int4", "int8", ", in the library that made them"),  # torch has no int4
        ("opencl", "float32", "float64", ", in the library that made them"),  # nor this device
    ],
)
def test_the_line_that_casts_on_a_device(library, kind, dtype, takes, end):
    device, dtype = fastdl.Device(kind).__dlpack_device__(), fastdl.DType(dtype)
    given = Given(dtype=dtype.__dlpack_data_type__(), shape=(2,), strides=(1,), device=device)
    with pytest.raises(BufferError, match=f"to {takes} first{re.escape(end)}$"):
        fastdl.convert(
            fastdl.from_dlpack(given.capsule()), library(dtypes={takes}, devices=ANYWHERE)
        )


def test_an_element_type_is_no_argument():
    with pytest.raises(TypeError, match="unexpected keyword argument 'dtype'"):
        fastdl.convert(np.ones(3), np, dtype=np.float32)
    with pytest.raises(ValueError, match=r"got 'cuda:1': .*device='cuda:1'"):
        fastdl.convert(fastdl.empty(4), "cuda:1")
    with pytest.raises(ValueError, match="got 'float32x4': convert does not change element types$"):
        fastdl.convert(np.ones(3), "float32x4")


def test_what_is_there_is_only_asked_where(cuda_machine, library):
    """It need not be something that can be exported, and no stream waits for it."""

    class Sparse:
        asked = 0

        def __dlpack_device__(self):
            self.asked += 1
            return 2, 0

        def __dlpack__(self, **keywords):
            raise BufferError("sparse")

    cls = library(base=Sparse, devices=ANYWHERE)
    x = cls()
    assert fastdl.convert(x, cls, device="cuda:0") is x
    assert fastdl.convert(x, cls, device="cuda:0", stream=-1) is x
    assert fastdl.convert(x, cls, stream=-1) is x
    assert x.asked == 2
    text = np.array(["a"])
    assert fastdl.convert(text, np, stream=-1) is text


def test_what_a_stream_raises_passes(cuda_machine):
    class Stream:
        def __cuda_stream__(self):
            raise RuntimeError("mine")

    tensor = cuda_machine.tensor(3)
    with pytest.raises(RuntimeError, match="^mine$"):
        fastdl.convert(tensor, np.ndarray, device="cpu", stream=Stream())
    with pytest.raises(RuntimeError, match="^mine$"):
        fastdl.convert(np.zeros(3), np.ndarray, stream=Stream())
