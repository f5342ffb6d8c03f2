"""from_dlpack: its arguments, capsules, and the objects that count as producers."""

import enum
import mmap
import re
import types

import numpy as np
import pytest

import fastdl
from fastdl._protocol import consumer
from tests.support.ctypes_dlpack import IS_COPIED, READ_ONLY, Managed, capsule_of, name_of, opened
from tests.support.fresh import in_fresh_process
from tests.support.recorder import Recorder, array_of, new_type

# ---- copy and device ------------------------------------------------------------------------


def test_copy_true_is_made_here():
    producer = new_type()()
    tensor = fastdl.from_dlpack(producer, copy=True)
    assert tensor.is_copied and not tensor.readonly
    assert tensor.data_ptr != producer.array.ctypes.data
    assert tensor.data_ptr % 256 == 0
    assert tensor.tolist() == producer.array.tolist()


def test_copy_true_of_read_only_data_is_writable():
    array = array_of()
    array.flags.writeable = False
    for source in (array, new_type()(array), fastdl.from_dlpack(array)):
        assert not fastdl.from_dlpack(source, copy=True).readonly


@pytest.mark.parametrize("copy", [None, False])
def test_without_a_copy_memory_is_shared(copy):
    array = array_of()
    for source in (array, new_type()(array), fastdl.from_dlpack(array)):
        tensor = fastdl.from_dlpack(source, copy=copy)
        assert tensor.data_ptr == array.ctypes.data
        assert not tensor.is_copied


def test_copy_false_and_a_producer_that_copies_anyway():
    producer = new_type(
        export=lambda self, **_: capsule_of((1,), data=bytearray(4), flags=IS_COPIED)
    )()
    with pytest.raises(fastdl.CopyRequiredError, match="copied by its producer"):
        fastdl.from_dlpack(producer, copy=False)
    assert fastdl.from_dlpack(producer).is_copied


def fresh(self, **_):
    return capsule_of((1,), data=bytearray(4))


def test_copy_false_and_a_producer_that_does_not_say_that_it_copies():
    kind = new_type(takes=("stream", "max_version"), export=fresh)
    with pytest.raises(fastdl.CopyRequiredError, match="copied by its producer"):
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


@pytest.mark.parametrize("copy", [0, 1, "no", np.True_, 1.0])
def test_copy_is_a_bool(copy):
    with pytest.raises(TypeError, match="copy=None, True or False"):
        fastdl.from_dlpack(array_of(), copy=copy)


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


@pytest.mark.parametrize("device", ["gpu", "cuda:x"])
def test_device_names_that_are_none(device):
    with pytest.raises(ValueError, match="expected a device"):
        fastdl.from_dlpack(array_of(), device=device)


@pytest.mark.parametrize("device", [1, 1.0, [1, 0], object()])
def test_devices_of_other_types(device):
    with pytest.raises(TypeError, match="expected a device"):
        fastdl.from_dlpack(array_of(), device=device)


def test_copy_required_error():
    assert issubclass(fastdl.CopyRequiredError, BufferError)
    assert issubclass(fastdl.CopyRequiredError, ValueError)
    for kind in (BufferError, ValueError, fastdl.CopyRequiredError):
        with pytest.raises(kind):
            fastdl.from_dlpack(array_of(), device="cuda", copy=False)


def test_arguments_by_keyword_only():
    with pytest.raises(TypeError):
        fastdl.from_dlpack(array_of(), "cpu")
    with pytest.raises(TypeError):
        fastdl.from_dlpack(x=array_of())
    with pytest.raises(TypeError):
        fastdl.from_dlpack()
    with pytest.raises(TypeError):
        fastdl.from_dlpack(array_of(), order="C")


# ---- capsules -------------------------------------------------------------------------------


@pytest.mark.parametrize("versioned", [True, False])
def test_capsules_are_consumed(versioned):
    managed = Managed((2,), data=bytearray(8), versioned=versioned)
    capsule = managed.capsule()
    tensor = fastdl.from_dlpack(capsule)
    assert name_of(capsule) == ("used_dltensor_versioned" if versioned else "used_dltensor")
    assert not tensor.readonly
    with pytest.raises(ValueError, match="consumed already"):
        fastdl.from_dlpack(capsule)


def test_capsules_with_copy_and_device():
    assert fastdl.from_dlpack(capsule_of((2,), data=bytearray(8)), copy=True).is_copied
    assert not fastdl.from_dlpack(capsule_of((2,), data=bytearray(8)), copy=False).is_copied
    assert fastdl.from_dlpack(capsule_of((2,), data=bytearray(8)), device="cpu").shape == (2,)
    managed = Managed((2,), data=bytearray(8))
    with pytest.raises(BufferError):
        fastdl.from_dlpack(managed.capsule(), device="cuda")
    assert managed.deleted == 1


@pytest.mark.parametrize("arguments", [{"copy": 1}, {"device": "gpu"}, {"stream": 1}])
def test_wrong_arguments_leave_a_capsule_untouched(arguments):
    managed = Managed((2,), data=bytearray(8))
    capsule = managed.capsule()
    with pytest.raises((TypeError, ValueError)):
        fastdl.from_dlpack(capsule, **arguments)
    assert name_of(capsule) == "dltensor_versioned"
    assert managed.deleted == 0


@pytest.mark.parametrize("major", [0, 2, 2**32 - 1])
def test_another_major_version(major):
    managed = Managed((2,), version=(major, 0), ndim=-7)
    with pytest.raises(BufferError, match="DLPack 1"):
        fastdl.from_dlpack(managed.capsule())
    assert managed.deleted == 1


@pytest.mark.parametrize("minor", [0, 2, 4, 99])
def test_any_minor_version(minor):
    assert fastdl.from_dlpack(capsule_of((2,), version=(1, minor))).shape == (2,)


def test_unknown_flags_are_not_passed_on():
    tensor = fastdl.from_dlpack(capsule_of((2,), data=bytearray(8), flags=0xF0 | READ_ONLY))
    assert tensor.readonly
    assert opened(tensor.__dlpack__(max_version=(1, 3))).flags == READ_ONLY


@pytest.mark.parametrize("answer", [None, 1, array_of(), object()])
def test_a_producer_that_returns_no_capsule(answer):
    with pytest.raises(TypeError, match="must return a PyCapsule"):
        fastdl.from_dlpack(new_type(export=lambda self, **_: answer)())


def test_a_producer_that_returns_a_consumed_capsule():
    capsule = capsule_of((2,), data=bytearray(8))
    fastdl.from_dlpack(capsule)
    with pytest.raises(ValueError, match="consumed already"):
        fastdl.from_dlpack(new_type(export=lambda self, **_: capsule)())


# ---- who is a producer ----------------------------------------------------------------------


@pytest.mark.parametrize("x", [None, 1, "abc", b"abc", [1.0], {}, object(), int, memoryview(b"a")])
def test_other_objects(x):
    with pytest.raises(TypeError, match="expected a DLPack producer or capsule"):
        fastdl.from_dlpack(x)


@pytest.mark.parametrize("x", [b"abc", bytearray(4), memoryview(b"a")])
def test_a_buffer_is_no_producer_but_asarray_makes_one(x):
    for enter in (fastdl.from_dlpack, consumer.from_dlpack):
        with pytest.raises(TypeError, match=r"fastdl\.asarray\(\.\.\.\)"):
            enter(x)
        with pytest.raises(TypeError) as caught:
            enter([1.0])
        assert "asarray" not in str(caught.value)


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


def test_none_opts_out():
    cls = new_type(__dlpack__=None)
    for _ in range(2):
        with pytest.raises(TypeError, match="expected a DLPack producer"):
            fastdl.from_dlpack(cls())


def test_none_opts_out_of_numpy():
    class Array(np.ndarray):
        __dlpack__ = None

    with pytest.raises(TypeError, match="expected a DLPack producer"):
        fastdl.from_dlpack(array_of().view(Array))


def test_a_numpy_subclass_that_overrides_the_export_means_it():
    class Array(np.ndarray):
        def __dlpack__(self, **keywords):
            raise BufferError("not this one")

    with pytest.raises(BufferError, match="not this one"):
        fastdl.from_dlpack(array_of().view(Array))


def test_a_numpy_subclass():
    array = np.arange(4.0).view(type("Array", (np.ndarray,), {}))
    assert fastdl.from_dlpack(array).data_ptr == array.ctypes.data


def test_an_instance_attribute():
    array = array_of()
    proxy = types.SimpleNamespace(
        __dlpack__=array.__dlpack__, __dlpack_device__=array.__dlpack_device__
    )
    for _ in range(2):
        assert fastdl.from_dlpack(proxy).data_ptr == array.ctypes.data


def test_a_proxy_with_getattr():
    class Proxy:
        def __init__(self, target):
            self.__dict__["target"] = target

        def __getattr__(self, name):
            return getattr(self.target, name)

    arrays = [array_of(), array_of(5)]
    for array in arrays:
        assert fastdl.from_dlpack(Proxy(array)).data_ptr == array.ctypes.data
    with pytest.raises(TypeError, match="expected a DLPack producer"):
        fastdl.from_dlpack(Proxy(object()))


def test_the_type_goes_before_the_instance():
    producer = new_type()()
    producer.__dlpack__ = None
    assert fastdl.from_dlpack(producer).shape == (3,)


def test_a_class_is_not_its_instances():
    with pytest.raises(TypeError):
        fastdl.from_dlpack(Recorder)


@pytest.mark.parametrize("wrap", [staticmethod, classmethod])
def test_static_and_class_methods(wrap):
    array = array_of()

    def export(*_, max_version=None):
        return array.__dlpack__(max_version=max_version)

    members = {"__dlpack__": wrap(export), "__dlpack_device__": wrap(lambda *_: (1, 0))}
    producer = type("Array", (), members)()
    for _ in range(2):
        assert fastdl.from_dlpack(producer).data_ptr == array.ctypes.data


def test_a_property():
    array = array_of()

    class Array:
        @property
        def __dlpack__(self):
            return array.__dlpack__

        @property
        def __dlpack_device__(self):
            return array.__dlpack_device__

    producer = Array()
    for _ in range(2):
        assert fastdl.from_dlpack(producer).data_ptr == array.ctypes.data


def test_a_callable_object():
    class Export:
        def __call__(self, **keywords):
            return array_of().__dlpack__(**keywords)

    members = {"__dlpack__": Export(), "__dlpack_device__": lambda self: (1, 0)}
    for _ in range(2):
        assert fastdl.from_dlpack(type("Array", (), members)()).shape == (3,)


def test_no_dlpack_device():
    cls = type("Array", (), {"__dlpack__": lambda self, **_: array_of().__dlpack__()})
    for _ in range(2):
        with pytest.raises(TypeError, match="__dlpack_device__"):
            fastdl.from_dlpack(cls())


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
def test_forms_of_devices(device):
    producer = new_type()(device=device)
    for _ in range(2):
        assert fastdl.from_dlpack(producer).shape == (3,)
    assert producer.calls == [{"max_version": (1, 3)}] * 2


@pytest.mark.parametrize(
    "device",
    [None, 1, (1,), (1, 0, 0), "cpu", ("cpu", 0), (None, 0), (1, "x"), {}, object(), (1, 2**40),
     (2**40, 0), fastdl.Device("cpu")],
)  # fmt: skip
def test_malformed_devices(device):
    producer = new_type()(device=device)
    for _ in range(2):
        with pytest.raises(TypeError, match="from __dlpack_device__"):
            fastdl.from_dlpack(producer)
    assert producer.calls == []


@in_fresh_process
def test_a_malformed_device_after_learning():
    producer = new_type()()
    fastdl.from_dlpack(producer)
    for device in (None, (1,), ("cpu", 0)):
        producer.device = device
        with pytest.raises(TypeError, match="from __dlpack_device__"):
            fastdl.from_dlpack(producer)
    assert len(producer.calls) == 1
