# SPDX-License-Identifier: Apache-2.0
"""The two stream tables: what fastdl asks of producers, and what it grants consumers (faults P7 and
X4), without a driver. With one, test_streams_guide.py runs each cell of the tables.

Producers here are Python objects whose capsules point to memory that does not exist: no test
reads it. The numbers are those of the array API standard.
"""

import numpy as np
import pytest

import fastdl
from fastdl._native import device_facts
from tests.support.ctypes_dlpack import (
    CPU,
    CUDA,
    CUDA_HOST,
    CUDA_MANAGED,
    METAL,
    ONEAPI,
    OPENCL,
    READ_ONLY,
    ROCM,
    ROCM_HOST,
    FakeProducer,
    capsule_of,
    name_of,
    opened,
)
from tests.support.frameworks import IntLike
from tests.support.ids import without_address
from tests.support.producers import Given, Producer

CUDA_LIKE = [CUDA, CUDA_MANAGED]
HOST = [CPU, CUDA_HOST, ROCM_HOST]
NO_NUMBERS = [*(number for number, *_, kind in device_facts() if kind == 3), 99]
HANDLES = [3, 0x7F00_1234_5678, 2**63 - 1]
VERSIONED = {"max_version": (1, 3)}


def imported(kind, stream=None, **descriptor):
    """(tensor, the keywords that its producer was called with)."""
    producer = FakeProducer((kind, 0), **descriptor)
    tensor = fastdl.from_dlpack(producer, stream=stream)
    (keywords,) = producer.calls
    return tensor, keywords


# ---- the consumer: what a producer is asked with --------------------------------------------


def test_the_version_passed():
    assert imported(CUDA)[1]["max_version"] == fastdl.dlpack_version == (1, 3)


@pytest.mark.parametrize("kind", [*CUDA_LIKE, ROCM])
def test_stream_as_an_int_like_object(kind):
    for handle in HANDLES:
        tensor, keywords = imported(kind, IntLike(handle))
        assert keywords == {"stream": handle, "max_version": (1, 3)}
        assert type(keywords["stream"]) is int
        assert tensor.device == (kind, 0)
    assert imported(kind, np.int64(77))[1]["stream"] == 77


NO_INTS = [True, False, 1.0, 0.0, -1.0, "1", b"1", (1,), [1], object(), 1j, np.float32(0)]


@pytest.mark.parametrize("kind", [*CUDA_LIKE, ROCM, CPU, ONEAPI])
@pytest.mark.parametrize("stream", [-2, -(2**70), 2**63, 2**64])
def test_stream_values_that_do_not_exist(kind, stream):
    producer = FakeProducer((kind, 0))
    with pytest.raises(ValueError):
        fastdl.from_dlpack(producer, stream=stream)
    assert producer.calls == []  # refused before the producer hears of it


@pytest.mark.parametrize("kind", [CPU, CUDA, ROCM, ONEAPI])
@pytest.mark.parametrize("stream", NO_INTS, ids=without_address)
def test_streams_that_are_no_ints(kind, stream):
    producer = FakeProducer((kind, 0))
    with pytest.raises(TypeError, match="expected a stream"):
        fastdl.from_dlpack(producer, stream=stream)
    assert producer.calls == []


@pytest.mark.parametrize("kind", NO_NUMBERS)
def test_devices_without_stream_numbers(kind):
    for stream in (None, -1):
        assert imported(kind, stream)[1] == {"max_version": (1, 3)}
    for stream in (0, 1, 4096):
        producer = FakeProducer((kind, 0))
        with pytest.raises(BufferError, match="stream"):
            fastdl.from_dlpack(producer, stream=stream)
        assert producer.calls == []


def test_a_capsule_takes_no_stream():
    for stream in (-1, 0, 1, True):
        capsule = capsule_of((1,), device=(CUDA, 0))
        with pytest.raises(TypeError, match="no stream with a capsule"):
            fastdl.from_dlpack(capsule, stream=stream)
        assert name_of(capsule) == "dltensor_versioned"  # not consumed


# ---- the consumer: devices announced and delivered ------------------------------------------


def test_the_device_id_of_managed_memory_may_differ():
    producer = FakeProducer((CUDA_MANAGED, 1), (CUDA_MANAGED, 0))
    tensor = fastdl.from_dlpack(producer, stream=-1)
    assert tensor.device == (CUDA_MANAGED, 0)


def test_host_data_is_read_after_learning_on_a_device():
    producer = FakeProducer((CUDA, 0))
    fastdl.from_dlpack(producer)
    producer.advertised = producer.delivered = (CPU, 0)
    producer.descriptor["data"] = bytearray(24)
    assert fastdl.from_dlpack(producer).tolist() == [[0.0] * 3] * 2
    assert "stream" not in producer.calls[-1]


# ---- the producer: what a consumer is granted -----------------------------------------------


# The compiled front of the method serves the second itself.
forms = pytest.mark.parametrize("form", [{}, VERSIONED], ids=["legacy", "versioned"])


def accepted(tensor, stream, form=VERSIONED):
    capsule = tensor.__dlpack__(stream=stream, **form)
    return opened(capsule).tensor.device_type == tensor.device.type


@pytest.mark.parametrize(
    ("kind", "imported_on", "stream"),
    [
        *((kind, None, stream) for kind in CUDA_LIKE for stream in (None, -1, 1)),
        *((kind, 1, stream) for kind in CUDA_LIKE for stream in (None, -1, 1)),
        *((kind, -1, s) for kind in CUDA_LIKE for s in (None, -1, 1, 2, *HANDLES)),
        *((kind, 4096, -1) for kind in CUDA_LIKE),
        *((kind, 2, -1) for kind in CUDA_LIKE),
        *((ROCM, None, stream) for stream in (None, -1, 0)),
        *((ROCM, 0, stream) for stream in (None, -1, 0)),
        *((ROCM, -1, stream) for stream in (None, -1, 0, *HANDLES)),
        (ROCM, 4096, -1),
        *((kind, None, stream) for kind in [*HOST, *NO_NUMBERS] for stream in (None, -1)),
        # Table 1.3: a wait on that stream for pending work, of which this memory has none. Only
        # plain CPU memory refuses stream numbers.
        *((CUDA_HOST, None, stream) for stream in (1, 4096)),
        (ROCM_HOST, None, 4096),
    ],
)
@forms
def test_streams_granted(kind, imported_on, stream, form):
    assert accepted(imported(kind, imported_on)[0], stream, form)


@pytest.mark.parametrize(
    ("kind", "imported_on", "stream"),
    [
        *((kind, None, stream) for kind in CUDA_LIKE for stream in (2, *HANDLES)),
        *((kind, 4096, s) for kind in CUDA_LIKE for s in (None, 1, 2, 4096)),
        *((kind, 2, s) for kind in CUDA_LIKE for s in (None, 1, 2)),
        *((ROCM, None, stream) for stream in HANDLES),
        *((ROCM, 4096, stream) for stream in (None, 0, 4096)),
        *((kind, None, stream) for kind in NO_NUMBERS for stream in (0, 1, 4096)),
    ],
)
def test_orders_that_need_a_driver_are_refused(kind, imported_on, stream):
    tensor, _ = imported(kind, imported_on)
    with pytest.raises(BufferError, match="stream"):
        tensor.__dlpack__(stream=stream, max_version=(1, 3))


@pytest.mark.parametrize("kind", [*CUDA_LIKE, ROCM, CPU])
@pytest.mark.parametrize("stream", [-2, 2**63, 2**64, 2**100])
@pytest.mark.parametrize("imported_on", [None, -1])
@forms
def test_stream_values_that_are_refused(kind, stream, imported_on, form):
    tensor, _ = imported(kind, imported_on)
    with pytest.raises(ValueError):
        tensor.__dlpack__(stream=stream, **form)


@pytest.mark.parametrize("kind", [CPU, CUDA_HOST, CUDA, ROCM, ONEAPI])
@pytest.mark.parametrize("stream", NO_INTS, ids=without_address)
@forms
def test_exports_refuse_streams_that_are_no_ints(kind, stream, form):
    with pytest.raises(TypeError, match="expected a stream"):
        imported(kind)[0].__dlpack__(stream=stream, **form)


@pytest.mark.parametrize("kind", [CUDA, *HOST])
@pytest.mark.parametrize("stream", [True, 1.0, "1", -2, 2**63, 2**70], ids=str)
def test_a_request_for_the_cpu_takes_no_other_stream(kind, stream):
    tensor, _ = imported(kind, data=bytearray(24))
    for more in ({}, {"copy": True}):
        with pytest.raises(TypeError if isinstance(stream, bool | float | str) else ValueError):
            tensor.__dlpack__(stream=stream, dl_device=(1, 0), **more)
    if kind == CPU:
        with pytest.raises(ValueError, match="cpu:0 has no streams"):
            tensor.__dlpack__(stream=1, dl_device=(1, 0))


@pytest.mark.parametrize("kind", [*CUDA_LIKE, ROCM])
def test_the_order_passes_to_views(kind):
    assert accepted(imported(kind, -1)[0][1:], 4096)
    with pytest.raises(BufferError, match="stream"):
        imported(kind, 4096)[0][0, 0].__dlpack__(stream=None)


def through_capsule(tensor):
    return fastdl.from_dlpack(tensor.__dlpack__(stream=-1, max_version=(1, 3)))


@pytest.mark.parametrize("kind", [*CUDA_LIKE, ROCM])
@pytest.mark.parametrize("again", [fastdl.from_dlpack, fastdl.asarray, through_capsule])
def test_a_re_import_does_not_make_memory_ready(kind, again):
    # Ready on stream 4096, which nobody has waited for: no import can change that.
    tensor, _ = imported(kind, 4096)
    with pytest.raises(BufferError, match="stream"):
        again(tensor).__dlpack__(stream=None)
    with pytest.raises(BufferError, match="stream"):
        tensor.__dlpack__(stream=None)


@pytest.mark.parametrize("kind", [*CUDA_LIKE, ROCM])
def test_a_re_import_leaves_the_first_tensor_as_it_was(kind):
    # The caller takes over the order of the new tensor, not of the one it came from.
    tensor, _ = imported(kind, -1)
    assert accepted(fastdl.from_dlpack(tensor), 4096)
    assert accepted(tensor, 4096)
    tensor, _ = imported(kind)
    fastdl.from_dlpack(tensor, stream=-1)
    with pytest.raises(BufferError, match="stream"):
        tensor.__dlpack__(stream=4096)


# ---- what a tensor on a device can and cannot do --------------------------------------------


# Also of types from the future, which are a name and nothing more (faults X1 and X3).
@pytest.fixture(
    params=[
        *((kind, 0) for kind in (CUDA, CUDA_MANAGED, ROCM, ONEAPI, OPENCL, METAL, 99)),
        *((999, 3), (2**31 - 1, -7)),
    ]
)
def device(request):
    return request.param


@pytest.mark.parametrize(
    "operation",
    [
        lambda tensor: tensor.numpy(),
        lambda tensor: tensor.tolist(),
        lambda tensor: tensor[0, 0].item(),
        lambda tensor: tensor.copy(),
        lambda tensor: tensor.to("cpu"),
        lambda tensor: memoryview(tensor),
        lambda tensor: np.asarray(tensor),
        lambda tensor: fastdl.from_dlpack(tensor, copy=True),
        lambda tensor: fastdl.from_dlpack(tensor, device="cpu"),
        lambda tensor: tensor.__dlpack__(copy=True),
        lambda tensor: tensor.__dlpack__(dl_device=(1, 0)),
    ],
    ids="numpy tolist item copy to memoryview asarray copy=True device=cpu export-copy "
    "export-cpu".split(),
)
def test_what_reads_device_memory_is_refused(device, operation):
    given = Given(device=device, data=8)  # kills whoever follows it
    tensor = fastdl.from_dlpack(Producer(given, device))
    with pytest.raises(BufferError) as error:
        operation(tensor)
    assert str(tensor.device) in str(error.value)
    del tensor, error
    given.assert_released()


def test_what_needs_no_memory_works(device):
    tensor = fastdl.from_dlpack(capsule_of((2, 3), device=device))
    assert tensor.shape == (2, 3)
    assert tensor[1:, ::-1].shape == (1, 3)
    assert repr(tensor).startswith("fastdl.Tensor(shape=(2, 3), dtype=float32, device=")
    assert tensor.to(tensor.device) is tensor
    assert tensor.__dlpack_device__() == tensor.device == device


def test_copies_that_are_forbidden_and_needed(device):
    tensor = fastdl.from_dlpack(FakeProducer(device))
    with pytest.raises(fastdl.CopyRequiredError):
        fastdl.from_dlpack(tensor, device="cpu", copy=False)
    # The host can read managed memory, after a wait for which there is no driver here.
    managed = tensor.device.type == CUDA_MANAGED
    with pytest.raises(BufferError if managed else fastdl.CopyRequiredError):
        tensor.__dlpack__(dl_device=(1, 0), copy=False)


def test_a_producer_can_copy_to_the_host():
    class Copying(FakeProducer):
        def __dlpack__(self, **keywords):
            if keywords.get("dl_device") == (1, 0):
                self.calls.append(keywords)
                return capsule_of((2,), data=bytearray(8), flags=2)
            return super().__dlpack__(**keywords)

    producer = Copying((CUDA, 0))
    tensor = fastdl.from_dlpack(producer, device="cpu")
    assert tensor.tolist() == [0.0, 0.0]
    assert tensor.is_copied
    (keywords,) = producer.calls
    assert keywords == {"max_version": (1, 3), "dl_device": (1, 0)}


def test_a_producer_can_copy_on_its_device():
    class Copying(FakeProducer):
        def __dlpack__(self, **keywords):
            self.calls.append(keywords)
            return capsule_of((2,), device=(CUDA, 0), flags=2 if keywords.get("copy") else 0)

    producer = Copying((CUDA, 0))
    assert fastdl.from_dlpack(producer, copy=True).is_copied
    assert producer.calls == [{"max_version": (1, 3), "copy": True, "stream": 1}]


# ---- __cuda_array_interface__ ---------------------------------------------------------------


@pytest.mark.parametrize("kind", CUDA_LIKE)
def test_cuda_array_interface(kind):
    tensor, _ = imported(kind, shape=(2, 3), strides=(6, 2), data=0x7000, byte_offset=8)
    assert tensor.__cuda_array_interface__ == {
        "shape": (2, 3),
        "typestr": "<f4",
        "data": (0x7008, False),
        "strides": (24, 8),
        "version": 3,
        "stream": 1,
    }
    # None: the consumer need not synchronise. "For zero-size arrays, use 0 here."
    changed = imported(kind, -1, shape=(0, 3), data=0x7000, flags=READ_ONLY)[0]
    interface = changed.__cuda_array_interface__
    assert (interface["stream"], interface["data"]) == (None, (0, True))


def test_cuda_array_interface_is_for_cuda():
    for kind in (CPU, CUDA_HOST, ROCM, ONEAPI):
        tensor, _ = imported(kind)
        assert not hasattr(tensor, "__cuda_array_interface__")


@pytest.mark.parametrize(
    "name",
    "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 bool complex64 "
    "complex128".split(),
)
def test_cuda_array_interface_type(name):
    tensor, _ = imported(CUDA, dtype=fastdl.DType(name))
    assert tensor.__cuda_array_interface__["typestr"] == np.dtype(name).str


@pytest.mark.parametrize("dtype", [(4, 16, 1), (10, 8, 1), (2, 32, 2), (0, 4, 1), (99, 8, 1)])
def test_cuda_array_interface_of_other_types(dtype):
    assert not hasattr(imported(CUDA, dtype=dtype)[0], "__cuda_array_interface__")


@pytest.mark.parametrize("stream", [2, 4096])
def test_cuda_array_interface_without_a_driver(stream):
    tensor, _ = imported(CUDA, stream)
    with pytest.raises((AttributeError, BufferError)):
        _ = tensor.__cuda_array_interface__
