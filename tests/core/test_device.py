# SPDX-License-Identifier: Apache-2.0
"""fastdl.Device and fastdl.DeviceType: names and numbers of devices."""

import copy
import enum
import pickle
import sys
from types import SimpleNamespace

import pytest

import fastdl
from fastdl._native import device_facts
from fastdl._protocol import consumer
from tests.support.comparing import Theirs, are_equal
from tests.support.ctypes_dlpack import FakeProducer, capsule_of
from tests.support.dlpack_h import enumerators
from tests.support.isolate import run_isolated
from tests.support.named import named

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
    assert {name: row[0] for name, row in rows.items()} == NUMBERS, "fastdl.h differs"
    assert {name for name, row in rows.items() if row[2]} == HOST
    assert {name for name, row in rows.items() if row[3]} == ADDRESSES
    assert {name: row[4] for name, row in rows.items() if row[4] in (1, 2)} == STREAMS
    assert {name for name, row in rows.items() if row[4] == 0} == {"cpu"}


def test_the_numbers_are_those_of_dlpack_h():
    others = {row[0] for row in device_facts()} ^ set(enumerators("DLDeviceType").values())
    assert others == set(), "dlpack.h and fastdl.h differ in these numbers"


def test_device_types():
    assert issubclass(fastdl.DeviceType, enum.IntEnum)
    assert {member.name.lower(): int(member) for member in fastdl.DeviceType} == NUMBERS


def test_device_types_are_loaded_when_they_are_first_used():
    """What was imported before is used as the class that takes its place."""
    run_isolated("""
        import sys
        import fastdl
        from fastdl import DeviceType
        assert fastdl.Device("cuda:1") == (2, 1) and "enum" not in sys.modules
        repr(fastdl.empty(3).device)
        assert "enum" not in sys.modules
        assert fastdl.Device("rocm").type is DeviceType.ROCM
        assert fastdl.DeviceType is type(DeviceType.CPU)

        import copy, enum, pickle
        assert issubclass(DeviceType, enum.IntEnum) and isinstance(DeviceType, enum.EnumMeta)
        assert DeviceType == fastdl.DeviceType == DeviceType
        assert {DeviceType: 1}[fastdl.DeviceType] == 1
        assert DeviceType(2) is DeviceType["CUDA"] is fastdl.DeviceType.CUDA
        assert [*DeviceType] == [*fastdl.DeviceType] and len(DeviceType) == len([*DeviceType])
        assert DeviceType.CPU in DeviceType and isinstance(DeviceType.CPU, DeviceType)
        assert repr(DeviceType) == repr(fastdl.DeviceType) and dir(DeviceType)
        assert DeviceType | None == fastdl.DeviceType | None
        assert pickle.loads(pickle.dumps(DeviceType)) is fastdl.DeviceType
        assert copy.copy(DeviceType) is copy.deepcopy(DeviceType) is fastdl.DeviceType
        assert fastdl.Device(DeviceType.CUDA) == "cuda"
    """)


@pytest.mark.parametrize("use", ["DeviceType.CPU", "DeviceType(1)", "Device((1, 0)).type"])
def test_the_first_use_of_device_types(use):
    run_isolated(f"""
        import fastdl
        assert fastdl.{use} is fastdl.DeviceType.CPU
        import pickle
        assert type(fastdl.DeviceType.CPU) is fastdl.DeviceType
        assert pickle.loads(pickle.dumps(fastdl.DeviceType.CPU)) is fastdl.DeviceType.CPU
    """)


def test_help_documents_every_public_name():
    run_isolated("""
        import pydoc
        import fastdl
        text = pydoc.plain(pydoc.render_doc(fastdl))
        assert "class DeviceType(enum.IntEnum)" in text
        assert all(name in text for name in fastdl.__all__ if name != "__version__")
    """)


@pytest.mark.parametrize(("name", "number"), NUMBERS.items())
def test_names_and_numbers(name, number):
    device = fastdl.Device(name)
    assert device == (number, 0)
    assert device is fastdl.Device(fastdl.DeviceType(number))
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


def test_is_no_tuple():
    device = fastdl.Device("cuda:3")
    assert not isinstance(device, tuple)
    with pytest.raises(TypeError):
        iter(device)


def test_the_first_device_of_a_type_stays_one_object_however_many_others_there_are():
    before = fastdl.Device(1, 0)
    for number in range(300):
        assert fastdl.Device(2, number).id == number
    assert fastdl.Device("cpu") is before is fastdl.Device(1, 0) is fastdl.empty(3).device


#: Forms of one device; torch's and JAX's are in tests/interop.
CUDA_0 = [
    "cuda",
    "cuda:0",
    (2, 0),
    fastdl.DeviceType.CUDA,
    (fastdl.DeviceType.CUDA, 0),
    Theirs(2, 0),
]


@pytest.mark.parametrize("form", CUDA_0, ids=repr)
def test_equals_what_it_can_be_made_from(form):
    device = fastdl.Device("cuda:0")
    assert fastdl.Device(form) is device
    assert are_equal(device, form)
    assert not are_equal(fastdl.Device("cuda:1"), form)


@pytest.mark.parametrize(
    "other", [None, "gpu", "cuda:x", "cpu:1", 2, (2,), [2, 0], (1, 5), object()]
)
def test_differs_from_the_rest(other):
    assert not are_equal(fastdl.Device("cuda"), other)
    assert not are_equal(fastdl.Device("cpu"), other)


def test_hashes_as_its_full_name():
    for name in NUMBERS:
        device = fastdl.Device(name)
        assert hash(device) == hash(f"{name}:0")
        assert {f"{name}:0": 1}[device] == 1
    assert len({fastdl.Device((99, 2)), fastdl.Device((99, 2)), fastdl.Device((99, 3))}) == 2


def test_the_exchange_of_devices():
    for number in NUMBERS.values():
        device = fastdl.Device((number, 0))
        assert device.__dlpack_device__() == (number, 0)
        assert [type(n) for n in device.__dlpack_device__()] == [int, int]
        assert fastdl.Device(Theirs(number, 0)) is device
    assert fastdl.empty(2, device=Theirs(1, 0)).device == "cpu"
    assert fastdl.Device(Theirs(1, 5)) == "cpu"  # a report, not a request
    with pytest.raises(TypeError):
        fastdl.Device(Theirs)  # the class
    with pytest.raises(TypeError):
        fastdl.Device(Theirs("cpu", 0))


def made(*args, **members):
    """An object of a library that cannot run here, as far as fastdl reads it."""
    return named(*args, **members)()


def of_torch(kind, index):
    return made("device", "torch", type=kind, index=index)


def of_jax(platform, version):
    client = made("Client", "jaxlib._jax", platform_version=version)
    more = {"id": 7, "local_hardware_id": 2}
    return made("Device", "jaxlib._jax", platform=platform, client=client, **more)


OF_CUPY = made("Device", "cupy.cuda.device", id=1)
OF_TVM = made("Device", "tvm_ffi.core", dlpack_device_type=lambda self: 10, index=2)
NOT_IN_DLPACK = "expected a device known to DLPack, got "


@pytest.mark.parametrize(
    ("device", "hip", "expected"),
    [
        (of_torch("cpu", None), None, "cpu"),
        (of_torch("cpu", 1), None, ValueError("one CPU")),
        (of_torch("cuda", None), None, "cuda:0"),
        (of_torch("cuda", 3), None, "cuda:3"),
        (of_torch("cuda", 3), "6.2", "rocm:3"),
        (of_torch("xpu", 1), None, "oneapi:1"),
        (of_torch("mps", 0), None, "metal:0"),
        (of_torch("meta", None), None, ValueError(NOT_IN_DLPACK + "torch's 'meta'")),
        (of_jax("cpu", "<unknown>"), None, "cpu"),
        (of_jax("gpu", "PJRT C API\ncuda 12080"), None, "cuda:2"),
        (of_jax("gpu", "PJRT C API\nrocm 60200"), None, "rocm:2"),
        (of_jax("tpu", "PJRT C API\nTFRT TPU v4"), None, ValueError(NOT_IN_DLPACK + "JAX's")),
        (OF_CUPY, None, "cuda:1"),
        (OF_CUPY, "6.2", "rocm:1"),
        (made("Device", "cuda.core._device", device_id=1), None, "cuda:1"),
        (OF_TVM, None, "rocm:2"),
    ],
)
def test_those_of_libraries(monkeypatch, device, hip, expected):
    torch = SimpleNamespace(version=SimpleNamespace(hip=hip))
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=SimpleNamespace(is_hip=hip is not None)))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    if isinstance(expected, ValueError):
        with pytest.raises(ValueError, match=str(expected)):
            fastdl.Device(device)
    else:
        assert fastdl.Device(device) == expected


@pytest.mark.parametrize("value", ["cpu", "cuda:3", (99, 2), (2, -1)])
def test_pickles_and_copies(value):
    device = fastdl.Device(value)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(device, protocol)) is device
    assert copy.copy(device) is copy.deepcopy(device) is device


@pytest.mark.parametrize("number", [5, 6, max(NUMBERS.values()) + 1, 1000, 2**31 - 1])
def test_unknown_devices_are_carried_along(number):
    device = fastdl.Device((number, 2))
    assert device == (number, 2)
    assert type(device.type) is int
    assert not device.is_host
    assert str(device) == f"device type {number}:2"
    assert repr(device) == f"Device({number}, 2)"


# ---- errors ---------------------------------------------------------------------------------


REFUSED = {
    (ValueError, "expected a device"): [
        "", "gpu", "CPU", "cpu ", " cpu", "cuda:", "cuda:-1", "cuda:x", "cuda:1:2", ":0", "cuda 0",
        "cuda:1.0", "cuda:+1", "cuda:1_0", "device type 5:0", f"cuda:{2**31}", f"cuda:{10**30}",
        "cuda:٣", "cuda:²",
    ],
    (TypeError, "expected a device"): [
        None, 1, 2.0, b"cpu", [1, 0], (), (1,), (1, 0, 0), {"type": 1}, object(),
        fastdl.empty(2),  # which has the method; who passes it has confused two arguments
    ],
    (TypeError, "expected an int as device"):
        [("cpu", 0), (1.0, 0), (2, 1.5), (2, None), (True, 0), (2, "0")],
    (ValueError, "32 bits"): [(2**31, 0), (2, 2**31), (-(2**31) - 1, 0), (2, -(2**63))],
}  # fmt: skip
#: Misspelt names, and the one that is suggested.
MEANT = {"gpu:1": "'cuda' or 'rocm'", "CUDA:0": "'cuda'", "cuad": "'cuda'", "hip": "'rocm'",
         "xpu:0": "'oneapi'", "mps": "'metal'"}  # fmt: skip


@pytest.mark.parametrize(
    ("error", "words", "value"),
    [
        *((*kind, value) for kind, values in REFUSED.items() for value in values),
        *((ValueError, rf"got '{x}': did you mean {meant}\?$", x) for x, meant in MEANT.items()),
        *((ValueError, f"'cpu' or 'cuda:0', got '{x}'$", x) for x in ("strawberry", "cuda:x")),
    ],
)
def test_what_is_no_device(error, words, value):
    with pytest.raises(error, match=words):
        fastdl.Device(value)
    with pytest.raises(error, match=words):
        fastdl.empty(2, device=value)
    if isinstance(value, tuple) and len(value) == 2 and value[1] is not None:
        with pytest.raises(error, match=words):  # as a second argument, None is none
            fastdl.Device(*value)
