"""fastdl.Device and fastdl.DeviceType: names and numbers of devices."""

import copy
import enum
import pickle

import pytest

import fastdl
from fastdl._core.tensor import device_facts
from fastdl._protocol import consumer
from tests.support.ctypes_dlpack import FakeProducer, capsule_of

# DLDeviceType of DLPack 1.3, typed in from the specification.
NUMBERS = {
    "cpu": 1, "cuda": 2, "cuda_host": 3, "opencl": 4, "vulkan": 7, "metal": 8, "vpi": 9,
    "rocm": 10, "rocm_host": 11, "ext_dev": 12, "cuda_managed": 13, "oneapi": 14, "webgpu": 15,
    "hexagon": 16, "maia": 17, "trn": 18,
}  # fmt: skip
HOST = {"cpu", "cuda_host", "rocm_host"}
# Where `data` is an address that byte_offset may be added to (design 6.6).
ADDRESSES = HOST | {"cuda", "cuda_managed", "rocm", "oneapi"}
STREAMS = {"cuda": 1, "cuda_host": 1, "cuda_managed": 1, "rocm": 2, "rocm_host": 2}


def test_the_table_of_the_core():
    rows = {row[1]: row for row in device_facts()}
    assert {name: row[0] for name, row in rows.items()} == NUMBERS
    assert {name for name, row in rows.items() if row[2]} == HOST
    assert {name for name, row in rows.items() if row[3]} == ADDRESSES
    assert {name: row[4] for name, row in rows.items() if row[4] in (1, 2)} == STREAMS
    assert {name for name, row in rows.items() if row[4] == 0} == {"cpu"}


def test_device_types():
    assert issubclass(fastdl.DeviceType, enum.IntEnum)
    assert {member.name.lower(): int(member) for member in fastdl.DeviceType} == NUMBERS
    assert fastdl.DeviceType.CUDA_MANAGED == 13


@pytest.mark.parametrize(("name", "number"), NUMBERS.items())
def test_names_and_numbers(name, number):
    device = fastdl.Device(name)
    assert device == (number, 0)
    assert type(device.type) is fastdl.DeviceType
    assert type(device.id) is int
    assert str(device) == f"{name}:0"
    assert repr(device) == f"Device('{name}:0')"
    assert device.is_host is (name in HOST)


@pytest.mark.parametrize(("name", "number"), NUMBERS.items())
@pytest.mark.parametrize("ordinal", [0, 1, 17, 2**31 - 1])
def test_every_form_is_one_device(name, number, ordinal):
    ordinal = 0 if name == "cpu" else ordinal  # there is one CPU
    device = fastdl.Device(f"{name}:{ordinal}")
    assert device == (number, ordinal)
    assert fastdl.Device((number, ordinal)) == device
    assert fastdl.Device(number, ordinal) == device
    assert fastdl.Device((fastdl.DeviceType(number), ordinal)) == device
    assert fastdl.Device(device) is device
    assert fastdl.from_dlpack(capsule_of((1,), device=(number, ordinal))).device == device


def test_a_device_type_is_its_first_device():
    assert fastdl.Device(fastdl.DeviceType.ROCM) == (10, 0)


WRONG_HOSTS = ["cpu:1", (1, 3), (1, -1), (fastdl.DeviceType.CPU, 2)]


@pytest.mark.parametrize("asked", WRONG_HOSTS)
def test_a_cpu_that_is_asked_for_has_id_0(asked):
    """There is one host, so who asks for another means something else: a NUMA node, a device."""
    for request in (
        fastdl.Device,
        lambda device: fastdl.empty(2, device=device),
        lambda device: fastdl.asarray(b"ab").to(device),
        lambda device: fastdl.from_dlpack(fastdl.asarray(b"ab"), device=device),
        lambda device: consumer.from_dlpack(fastdl.asarray(b"ab"), device=device),
        lambda device: fastdl.use_stream(device, 1),
    ):
        with pytest.raises(ValueError, match=r"one CPU, 'cpu' or \(1, 0\), got"):
            request(asked)
    with pytest.raises(ValueError, match="one CPU"):
        fastdl.Device(1, 7)


@pytest.mark.parametrize("ordinal", [1, -1, 2**31 - 1])
def test_ids_of_cpus_in_descriptions_are_normalised(ordinal):
    """A producer that numbers its hosts still means the one there is."""
    assert fastdl.from_dlpack(capsule_of((1,), device=(1, ordinal))).device == (1, 0)
    producer = FakeProducer((1, ordinal), data=bytearray(24))
    for from_dlpack in (fastdl.from_dlpack, consumer.from_dlpack):
        assert from_dlpack(producer).device == (1, 0)
        assert from_dlpack(producer, device="cpu").device == (1, 0)


def test_is_a_tuple():
    device = fastdl.Device("cuda:3")
    assert isinstance(device, tuple)
    assert device == (2, 3)
    assert hash(device) == hash((2, 3))
    kind, ordinal = device
    assert (kind, ordinal) == (fastdl.DeviceType.CUDA, 3)
    with pytest.raises(AttributeError):
        device.id = 4
    with pytest.raises(AttributeError):
        device.other = 4


@pytest.mark.parametrize("value", ["cpu", "cuda:3", (99, 2), (2, -1)])
def test_pickles_and_copies(value):
    device = fastdl.Device(value)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        loaded = pickle.loads(pickle.dumps(device, protocol))
        assert type(loaded) is fastdl.Device and loaded == device
        assert type(loaded.type) is type(device.type)
    assert copy.copy(device) == copy.deepcopy(device) == device


@pytest.mark.parametrize("number", [5, 6, 19, 1000, 2**31 - 1])
def test_unknown_devices_are_carried_along(number):
    device = fastdl.Device((number, 2))
    assert device == (number, 2)
    assert type(device.type) is int
    assert not device.is_host
    assert str(device) == f"device type {number}:2"
    assert repr(device) == f"Device({number}, 2)"


# ---- errors ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "", "gpu", "CPU", "cpu ", " cpu", "cuda:", "cuda:-1", "cuda:x", "cuda:1:2", ":0", "cuda 0",
        "cuda:1.0", "cuda:+1", "cuda:1_0", "device type 5:0", f"cuda:{2**31}", f"cuda:{10**30}",
    ],
)  # fmt: skip
def test_texts_that_name_none(text):
    with pytest.raises(ValueError, match="expected a device"):
        fastdl.Device(text)


@pytest.mark.parametrize("ordinal", ["٣", "²"])
def test_ids_are_plain_digits(ordinal):
    with pytest.raises(ValueError, match="expected a device"):
        fastdl.Device(f"cuda:{ordinal}")


@pytest.mark.parametrize(
    "value", [None, 1, 2.0, b"cpu", [1, 0], (), (1,), (1, 0, 0), {"type": 1}, object()]
)
def test_values_that_are_no_devices(value):
    with pytest.raises(TypeError, match="expected a device"):
        fastdl.Device(value)


@pytest.mark.parametrize("pair", [("cpu", 0), (1.0, 0), (2, 1.5), (2, None), (True, 0), (2, "0")])
def test_pairs_of_other_things(pair):
    with pytest.raises(TypeError, match="expected an int as device"):
        fastdl.Device(pair)


@pytest.mark.parametrize("pair", [(2**31, 0), (2, 2**31), (-(2**31) - 1, 0), (2, -(2**63))])
def test_numbers_of_more_than_32_bits(pair):
    with pytest.raises(ValueError, match="32 bits"):
        fastdl.Device(pair)


@pytest.mark.parametrize("pair", [("cpu", 0), (1.0, 0), (2, 1.5), (True, 0), (2, "0")])
def test_two_arguments_are_checked_as_a_pair_is(pair):
    with pytest.raises(TypeError):
        fastdl.Device(*pair)


def test_two_arguments_of_more_than_32_bits():
    with pytest.raises(ValueError):
        fastdl.Device(2, 2**31)
