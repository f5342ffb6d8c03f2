"""fastdl.Tensor as a producer: what `__dlpack__` answers to each argument."""

import functools
import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

import fastdl
from tests.support.c_producers import WORLDS, given
from tests.support.ctypes_dlpack import (
    CUDA_HOST,
    IS_COPIED,
    OPENCL,
    READ_ONLY,
    SUBBYTE_PADDED,
    Managed,
    capsule_of,
    name_of,
    opened,
    shape_in,
    strides_in,
)


@pytest.fixture
def array():
    return np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def tensor(array):
    return fastdl.from_dlpack(array)


@pytest.fixture
def readonly(array):
    array.flags.writeable = False
    return fastdl.from_dlpack(array)


# What must follow the same rules: types in C, with the package and without it.
PRODUCERS = {
    "fastdl.Tensor": fastdl.from_dlpack,
    **{
        f"a type in C, {name}": functools.partial(given, api.Lending)
        for name, api in WORLDS.items()
    },
}


@pytest.fixture(params=PRODUCERS.values(), ids=PRODUCERS)
def exporter(request, array):
    return request.param(array)


@pytest.fixture(params=PRODUCERS.values(), ids=PRODUCERS)
def readonly_exporter(request, array):
    array.flags.writeable = False
    return request.param(array)


# ---- the descriptor -------------------------------------------------------------------------


@pytest.mark.parametrize("max_version", [None, (1, 0), (1, 3)])
def test_descriptor(array, tensor, max_version):
    struct = opened(tensor[:, ::-2].__dlpack__(max_version=max_version))
    described = struct.tensor
    assert described.data == array[:, ::-2].ctypes.data
    assert (described.device_type, described.device_id) == (1, 0)
    assert (described.code, described.bits, described.lanes) == (2, 32, 1)
    assert shape_in(described) == (2, 2)
    assert strides_in(described) == (3, -2)
    assert described.byte_offset == 0
    assert struct.manager_ctx  # one library never frees without it
    assert struct.deleter


def test_versioned_capsules_are_stamped(exporter):
    for asked in [(1, 0), (1, 3), (1, 99), (2, 0)]:
        struct = opened(exporter.__dlpack__(max_version=asked))
        assert (struct.version.major, struct.version.minor) == (1, 3)


@pytest.mark.parametrize("max_version", [None, (1, 3)])
def test_zero_dimensions(max_version):
    struct = opened(fastdl.from_dlpack(np.array(2.5)).__dlpack__(max_version=max_version))
    assert struct.tensor.ndim == 0


@pytest.mark.parametrize("max_version", [None, (1, 3)])
def test_opaque_handles_keep_their_offset(max_version):
    tensor = fastdl.from_dlpack(capsule_of((2,), data=0x40, byte_offset=96, device=(OPENCL, 1)))
    described = opened(tensor.__dlpack__(max_version=max_version)).tensor
    assert (described.data, described.byte_offset) == (0x40, 96)


def test_every_export_is_its_own(tensor):
    one, two = (tensor.__dlpack__(max_version=(1, 0)) for _ in range(2))
    assert one is not two
    assert opened(one).tensor.data == opened(two).tensor.data
    first, second = fastdl.from_dlpack(one), fastdl.from_dlpack(two)
    assert first.tolist() == second.tolist() == tensor.tolist()


# ---- versions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_version", "name"),
    [
        (None, "dltensor"),
        ((0, 8), "dltensor"),
        ((0, 0), "dltensor"),
        ((0, 99), "dltensor"),
        ((1, 0), "dltensor_versioned"),
        ((1, 3), "dltensor_versioned"),
        ((1, 4), "dltensor_versioned"),
        ((2, 0), "dltensor_versioned"),
        ((10**6, 0), "dltensor_versioned"),
        ([1, 0], "dltensor_versioned"),
        ((np.int64(1), np.uint8(0)), "dltensor_versioned"),
    ],
)
def test_max_version(exporter, max_version, name):
    assert name_of(exporter.__dlpack__(max_version=max_version)) == name


@pytest.mark.parametrize(
    "max_version",
    [1, "1.0", (1,), (1, 0, 0), (), (1.0, 0), ("1", "0"), (None, 0), (True, 0), (-1, 0), (1, -1),
     {1: 0, 2: 0}, 1.0],
)  # fmt: skip
def test_max_version_of_other_forms(exporter, max_version):
    with pytest.raises(TypeError, match="max_version"):
        exporter.__dlpack__(max_version=max_version)


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (None, "dltensor"),
        (0, "dltensor"),
        (60, "dltensor"),
        (69, "dltensor"),
        (100, "dltensor_versioned"),
        (110, "dltensor_versioned"),
        (130, "dltensor_versioned"),
        (np.int64(60), "dltensor"),
    ],
)
def test_version_of_the_draft(exporter, version, name):
    assert name_of(exporter.__dlpack__(version=version)) == name


@pytest.mark.parametrize("version", [70, 80, 99, 131, 140, 200, 10**30])
def test_versions_that_are_not_spoken(exporter, version):
    with pytest.raises(BufferError, match="expected version"):
        exporter.__dlpack__(version=version)


@pytest.mark.parametrize("version", ["60", 60.0, (1, 0), True, b""])
def test_versions_of_other_types(exporter, version):
    with pytest.raises(TypeError, match="version"):
        exporter.__dlpack__(version=version)


def test_both_versions(exporter):
    with pytest.raises(TypeError, match="max_version or version"):
        exporter.__dlpack__(max_version=(1, 0), version=100)
    assert name_of(exporter.__dlpack__(max_version=None, version=100)) == "dltensor_versioned"


# ---- read-only ------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{"max_version": (1, 0)}, {"version": 100}])
def test_versioned_capsules_say_read_only(readonly, tensor, arguments):
    assert opened(readonly.__dlpack__(**arguments)).flags == READ_ONLY
    assert opened(readonly[1:].__dlpack__(**arguments)).flags == READ_ONLY


@pytest.mark.parametrize(
    "arguments", [{}, {"max_version": (0, 8)}, {"version": 60}, {"dl_device": (1, 0)}]
)
def test_legacy_capsules_refuse_read_only(readonly_exporter, arguments):
    with pytest.raises(BufferError, match="read-only"):
        readonly_exporter.__dlpack__(**arguments)


@pytest.mark.parametrize("arguments", [{}, {"max_version": (0, 8)}, {"version": 60}])
def test_a_copy_of_read_only_memory_may_be_legacy(array, readonly_exporter, arguments):
    capsule = readonly_exporter.__dlpack__(copy=True, **arguments)
    assert name_of(capsule) == "dltensor"
    copied = fastdl.from_dlpack(capsule)
    assert not copied.readonly
    assert copied.tolist() == array.tolist()


# ---- other flags ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        (0, 0),
        (READ_ONLY, READ_ONLY),
        (IS_COPIED, 0),
        (SUBBYTE_PADDED, SUBBYTE_PADDED),
        (2**63 | 2**40 | 8, 0),
        (2**64 - 1, READ_ONLY | SUBBYTE_PADDED),
    ],
)
def test_flags_passed_on(flags, kept):
    tensor = fastdl.from_dlpack(capsule_of((2,), (0, 4, 1), data=bytearray(2), flags=flags))
    assert opened(tensor.__dlpack__(max_version=(1, 3))).flags == kept
    assert opened(fastdl.from_dlpack(tensor).__dlpack__(max_version=(1, 3))).flags == kept


def test_padded_elements_refuse_the_legacy_form():
    # Without the flag a consumer takes the elements for packed, and reads other values.
    padded = fastdl.from_dlpack(np.arange(4).astype(ml_dtypes.int4))
    with pytest.raises(BufferError):
        padded.__dlpack__()
    with pytest.raises(BufferError):
        padded.__dlpack__(version=60)


def test_padding_of_whole_bytes_is_no_reason_to_refuse():
    tensor = fastdl.from_dlpack(capsule_of((2,), data=bytearray(8), flags=SUBBYTE_PADDED))
    assert name_of(tensor.__dlpack__()) == "dltensor"


# ---- copy -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dl_device", [None, (1, 0)])
def test_copy_true(array, tensor, dl_device):
    capsule = tensor[:, ::2].__dlpack__(copy=True, max_version=(1, 0), dl_device=dl_device)
    struct = opened(capsule)
    assert struct.flags == IS_COPIED
    assert struct.tensor.data % 256 == 0
    assert strides_in(struct.tensor) == (2, 1)
    copied = fastdl.from_dlpack(capsule)
    copied.numpy()[:] = -1
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_copy_true_of_read_only_memory_is_writable(readonly_exporter):
    assert opened(readonly_exporter.__dlpack__(copy=True, max_version=(1, 0))).flags == IS_COPIED


@pytest.mark.parametrize("copy", [None, False])
def test_without_a_copy(array, exporter, copy):
    struct = opened(exporter.__dlpack__(copy=copy, max_version=(1, 0)))
    assert struct.tensor.data == array.ctypes.data
    assert struct.flags == 0


@pytest.mark.parametrize("copy", [0, 1, "yes", np.False_, 1.0])
def test_copy_is_a_bool(exporter, copy):
    with pytest.raises(TypeError, match="copy"):
        exporter.__dlpack__(copy=copy)


# ---- dl_device ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dl_device", [(1, 0), [1, 0], (fastdl.DeviceType.CPU, 0), fastdl.Device("cpu"), (np.int8(1), 0)]
)
@pytest.mark.parametrize("copy", [None, False])
def test_dl_device_where_it_is(array, exporter, dl_device, copy):
    capsule = exporter.__dlpack__(dl_device=dl_device, copy=copy, max_version=(1, 0))
    assert opened(capsule).tensor.data == array.ctypes.data


def test_dl_device_of_pinned_memory():
    # Memory that the CPU reads as it is, and is still said to be what it is.
    tensor = fastdl.from_dlpack(capsule_of((2,), data=bytearray(8), device=(CUDA_HOST, 0)))
    struct = opened(tensor.__dlpack__(dl_device=(1, 0), max_version=(1, 0)))
    assert struct.tensor.device_type == CUDA_HOST


@pytest.mark.parametrize("dl_device", [(2, 0), (10, 0), (14, 3), (99, 0), (3, 0)])
def test_dl_device_out_of_reach(exporter, dl_device):
    why = "cannot be copied to.* (has no .* driver|fastdl copies)"
    with pytest.raises(BufferError, match=why):
        exporter.__dlpack__(dl_device=dl_device)
    with pytest.raises(BufferError, match=why):
        exporter.__dlpack__(dl_device=dl_device, copy=True)
    with pytest.raises(fastdl.CopyRequiredError):
        exporter.__dlpack__(dl_device=dl_device, copy=False)


@pytest.mark.parametrize("dl_device", [(1, 1), [1, -1], (fastdl.DeviceType.CPU, 2)])
def test_dl_device_of_a_host_that_is_not_there(exporter, dl_device):
    with pytest.raises(BufferError, match=r"one CPU, 'cpu' or \(1, 0\)"):
        exporter.__dlpack__(dl_device=dl_device)


@pytest.mark.parametrize("dl_device", [1, "cpu", (1,), (1, 0, 0), (), ("cpu", 0), (1, None), 1.5])
def test_dl_device_of_other_forms(exporter, dl_device):
    with pytest.raises(TypeError):
        exporter.__dlpack__(dl_device=dl_device)


# ---- the call -------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(None,), ((1, 0),), (-1,), (None, (1, 0))])
def test_positional_arguments(exporter, arguments):
    with pytest.raises(TypeError, match="positional"):
        exporter.__dlpack__(*arguments)


def test_unknown_keywords(exporter):
    with pytest.raises(TypeError, match="unexpected keyword"):
        exporter.__dlpack__(device=None)


def test_unbound(tensor):
    capsule = fastdl.Tensor.__dlpack__(tensor, max_version=(1, 0))
    assert name_of(capsule) == "dltensor_versioned"
    with pytest.raises(TypeError):
        fastdl.Tensor.__dlpack__(1)


def test_all_defaults_given(exporter):
    capsule = exporter.__dlpack__(
        stream=None, max_version=None, dl_device=None, copy=None, version=None
    )
    assert name_of(capsule) == "dltensor"


def test_the_newest_error_wins_over_nothing(exporter):
    # Wrong arguments are refused before any memory is copied.
    with pytest.raises(TypeError):
        exporter.__dlpack__(copy=True, max_version=1)
    with pytest.raises(ValueError):
        exporter.__dlpack__(copy=True, stream=5)


# ---- lifetime -------------------------------------------------------------------------------


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_a_capsule_keeps_the_memory(max_version):
    managed = Managed((2,), data=bytearray(8))
    tensor = fastdl.from_dlpack(managed.capsule())
    capsule = tensor.__dlpack__(max_version=max_version)
    del tensor
    gc.collect()
    assert managed.deleted == 0
    del capsule
    assert managed.deleted == 1


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_a_consumed_capsule_leaves_the_memory_to_its_consumer(max_version):
    managed = Managed((2,), data=bytearray(8))
    capsule = fastdl.from_dlpack(managed.capsule()).__dlpack__(max_version=max_version)
    again = fastdl.from_dlpack(capsule)
    del capsule
    gc.collect()
    assert managed.deleted == 0
    assert again.tolist() == [0.0, 0.0]
    del again
    assert managed.deleted == 1


@pytest.mark.parametrize("copy", [None, True])
def test_numpy_as_consumer(array, copy):
    reference = weakref.ref(array)
    tensor = fastdl.from_dlpack(array)
    result = np.from_dlpack(tensor, copy=copy)
    assert result.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert np.shares_memory(result, reference()) is not bool(copy)
    assert result.flags.writeable


def test_numpy_as_consumer_of_read_only_memory(readonly):
    result = np.from_dlpack(readonly)
    assert not result.flags.writeable
    with pytest.raises(BufferError):
        np.from_dlpack(readonly, device="cpu").__dlpack__()


@pytest.mark.parametrize("asked", [{"max_version": (1, 0)}, {"version": 100}])
def test_packed_elements_are_for_those_who_know_them(asked):
    """DLPack has had words for them since 1.1; others take each for a byte (mpi4py does)."""
    packed = fastdl.empty(8, "int4")
    with pytest.raises(BufferError, match=r"packed.*since version 1\.1.*encode\(x\)\[1\]"):
        packed.__dlpack__(**asked)
    assert fastdl.empty(8, "int4x2").__dlpack__(**asked)  # of whole bytes
    assert fastdl.from_dlpack(packed.__dlpack__(max_version=(1, 1))).dtype == "int4"
    assert fastdl.from_dlpack(packed.__dlpack__(version=110)).dtype == "int4"
    assert fastdl.from_dlpack(packed.__dlpack__()).dtype == "int4"
