# SPDX-License-Identifier: Apache-2.0
"""from_dlpack: its arguments, capsules, and the objects that count as producers."""

import enum
import mmap
import re

import numpy as np
import pytest

import fastdl
from fastdl._protocol import consumer
from tests.support.ctypes_dlpack import IS_COPIED, Managed, capsule_of
from tests.support.headers import every_entry
from tests.support.recorder import array_of, new_type

# ---- copy and device ------------------------------------------------------------------------


def fresh(self, **_):
    return capsule_of((1,), data=bytearray(4))


def test_copy_false_and_a_producer_that_does_not_say_that_it_copies():
    kind = new_type(takes=("stream", "max_version"), export=fresh)
    with pytest.raises(fastdl.CopyRequiredError, match="copied in spite of"):
        fastdl.from_dlpack(kind(), copy=False)
    producer = kind()
    assert not fastdl.from_dlpack(producer).is_copied
    assert len(producer.calls) == 1  # only who forbids copies pays for the question
    empty = new_type(takes=(), export=lambda self, **_: capsule_of((0,), data=bytearray(4)))
    assert fastdl.from_dlpack(empty(), copy=False).shape == (0,)


@pytest.mark.parametrize("error", [ValueError, BufferError, MemoryError])
def test_copy_false_and_a_producer_that_answers_once(error):
    """It may have copied, which nothing proves."""

    def export(self, **_):
        if len(self.calls) > 2:  # the first was about a keyword
            raise error("never again")
        return fresh(self)

    producer = new_type(takes=("stream", "max_version"), export=export)()
    assert fastdl.from_dlpack(producer, copy=False).shape == (1,)
    assert len(producer.calls) == 3


def test_copy_true_and_a_producer_that_has_copied():
    data = bytearray(4)
    producer = new_type(export=lambda self, **_: capsule_of((1,), data=data, flags=IS_COPIED))()
    assert fastdl.from_dlpack(producer, copy=True).data_ptr == fastdl.asarray(data).data_ptr


@pytest.mark.parametrize("device", ["cpu", "cpu:0", (1, 0), fastdl.Device("cpu"), (np.int64(1), 0)])
@pytest.mark.parametrize("copy", [None, False, True])
def test_device_where_it_is_already(device, copy):
    array = array_of()
    tensor = fastdl.from_dlpack(array, device=device, copy=copy)
    assert (tensor.data_ptr == array.ctypes.data) is not bool(copy)
    assert tensor.device == (1, 0)


@pytest.mark.parametrize("source", [array_of(), new_type()(), fastdl.from_dlpack(array_of())])
def test_device_out_of_reach(source):
    # The producer's own exception passes: NumPy before 2.3 raises ValueError.
    with pytest.raises((BufferError, ValueError)) as error:
        fastdl.from_dlpack(source, device="cuda:0")
    assert not isinstance(error.value, fastdl.CopyRequiredError)
    with pytest.raises(fastdl.CopyRequiredError):
        fastdl.from_dlpack(source, device="cuda:0", copy=False)


def test_copy_required_error():
    assert issubclass(fastdl.CopyRequiredError, BufferError)
    assert issubclass(fastdl.CopyRequiredError, ValueError)


# ---- capsules -------------------------------------------------------------------------------


def test_capsules_with_copy_and_device():
    assert fastdl.from_dlpack(capsule_of((2,), data=bytearray(8)), copy=True).is_copied
    assert not fastdl.from_dlpack(capsule_of((2,), data=bytearray(8)), copy=False).is_copied
    assert fastdl.from_dlpack(capsule_of((2,), data=bytearray(8)), device="cpu").shape == (2,)
    managed = Managed((2,), data=bytearray(8))
    with pytest.raises(BufferError):
        fastdl.from_dlpack(managed.capsule(), device="cuda")
    assert managed.deleted == 1


# ---- who is a producer ----------------------------------------------------------------------


@pytest.mark.parametrize("x", [b"abc", bytearray(4), memoryview(b"a")])
def test_a_buffer_is_no_producer_but_asarray_makes_one(x):
    for enter in (fastdl.from_dlpack, consumer.from_dlpack):
        with pytest.raises(TypeError, match=r"pass fastdl\.asarray\(x\)"):
            enter(x)
        with pytest.raises(TypeError, match=r"table: pass numpy\.asarray\(x\)$"):
            enter([1.0])


def closed_map():
    x = mmap.mmap(-1, 1)
    x.close()
    return x


def released_view():
    x = memoryview(b"a")
    x.release()
    return x


@pytest.mark.parametrize("make", [closed_map, released_view])
@pytest.mark.parametrize("enter", [fastdl.from_dlpack, consumer.from_dlpack])
def test_a_buffer_that_cannot_be_had_is_no_producer_either(enter, make):
    with pytest.raises(TypeError, match="expected a DLPack producer or capsule") as caught:
        enter(make())
    assert "asarray" not in str(caught.value)


def test_types_are_named_with_their_module():
    class Mine:
        pass

    name = f"{__name__}.{Mine.__qualname__}"
    for enter in (fastdl.from_dlpack, consumer.from_dlpack):
        with pytest.raises(TypeError, match=f"got '{re.escape(name)}', which has"):
            enter(Mine())
        with pytest.raises(TypeError, match="got 'list', which has"):
            enter([1.0])


def test_none_opts_out_of_numpy():
    class Array(np.ndarray):
        __dlpack__ = None

    with pytest.raises(TypeError, match="expected a DLPack producer"):
        fastdl.from_dlpack(array_of().view(Array))


def test_a_numpy_subclass():
    array = np.arange(4.0).view(type("Array", (np.ndarray,), {}))
    assert fastdl.from_dlpack(array).data_ptr == array.ctypes.data


def test_the_type_goes_before_the_instance():
    producer = new_type()()
    producer.__dlpack__ = None
    assert fastdl.from_dlpack(producer).shape == (3,)


@pytest.mark.parametrize("wrap", [staticmethod, classmethod])
def test_static_and_class_methods(wrap):
    array = array_of()

    def export(*_, max_version=None):
        return array.__dlpack__(max_version=max_version)

    members = {"__dlpack__": wrap(export), "__dlpack_device__": wrap(lambda *_: (1, 0))}
    producer = type("Array", (), members)()
    for _ in range(2):
        assert fastdl.from_dlpack(producer).data_ptr == array.ctypes.data


def test_a_callable_object():
    class Export:
        def __call__(self, **keywords):
            return array_of().__dlpack__(**keywords)

    members = {"__dlpack__": Export(), "__dlpack_device__": lambda self: (1, 0)}
    for _ in range(2):
        assert fastdl.from_dlpack(type("Array", (), members)()).shape == (3,)


# ---- __dlpack_device__ ----------------------------------------------------------------------


class Kind(enum.IntEnum):
    CPU = 1


class PlainKind(enum.Enum):
    CPU = 1

    def __int__(self):
        return 1


@pytest.mark.parametrize(
    "device",
    [(1, 0), [1, 0], (Kind.CPU, 0), (1, None), (np.int32(1), np.int64(0)), (PlainKind.CPU, 0),
     (fastdl.DeviceType.CPU, 0)],
)  # fmt: skip
@every_entry
def test_forms_of_devices(enter, device):
    producer = new_type()(device=device)
    for _ in range(2):
        assert enter(producer).shape == (3,)
    assert producer.calls == [{"max_version": (1, 3)}] * 2
