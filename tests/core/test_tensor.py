# SPDX-License-Identifier: Apache-2.0
"""fastdl.Tensor: the members of the type, one by one."""

import gc
import io  # noqa: F401 - for `eval`
import os  # noqa: F401
import pickle
import weakref

import numpy as np
import pytest

import fastdl
from dlpack_conformance.structs import SLOTS
from fastdl._native import dtype_facts
from tests.support.ctypes_dlpack import (
    CUDA,
    Table,
    address_in,
    capsule_of,
    name_of,
)
from tests.support.isolate import run_isolated


def tensor_of(*shape, dtype=np.float32):
    return fastdl.from_dlpack(np.arange(np.prod(shape, dtype=int), dtype=dtype).reshape(shape))


# ---- description ----------------------------------------------------------------------------


def test_description_of_a_strided_array():
    array = np.zeros((4, 6, 5), np.int16)[::2, :, ::-2]
    tensor = fastdl.from_dlpack(array)
    for name, value in {
        "shape": (2, 6, 3), "strides": (60, 5, -2), "ndim": 3, "size": 36, "itemsize": 2,
        "nbytes": 72, "dtype": fastdl.DType("int16"), "device": fastdl.Device("cpu"),
        "data_ptr": array.__array_interface__["data"][0], "readonly": False, "is_copied": False,
    }.items():  # fmt: skip
        found = getattr(tensor, name)
        assert found == value, name
        assert type(found) is type(value), name
    assert all(type(n) is int for n in tensor.shape + tensor.strides)
    assert tensor.dtype is fastdl.DType("int16") and tensor.device is fastdl.Device("cpu")
    assert tensor_of(2, 3).is_contiguous() is True
    assert f"{fastdl.Tensor.__module__}.{fastdl.Tensor.__qualname__}" == "fastdl.Tensor"


def test_more_types_and_devices_than_are_remembered():
    # Twice, since the second time some are remembered.
    for _ in range(2):
        for lanes in range(1, 1500):
            dtype = fastdl.from_dlpack(capsule_of((1,), (1, 8, lanes), data=bytearray(lanes))).dtype
            assert (dtype.code, dtype.bits, dtype.lanes) == (1, 8, lanes)
        for ordinal in range(-700, 700):
            device = fastdl.from_dlpack(capsule_of((1,), device=(CUDA, ordinal), data=64)).device
            assert (device.type, device.id) == (CUDA, ordinal)


def test_facts_differ_in_each_of_their_numbers():
    triples = [(c, b, n) for c in (0, 1) for b in (8, 16, 32, 64) for n in (1, 2, 256, 65535)]
    tensors = [fastdl.from_dlpack(capsule_of((0,), t, data=None)) for t in triples]
    for _ in range(2):
        found = [(t.dtype.code, t.dtype.bits, t.dtype.lanes) for t in tensors]
        assert found == triples


# ---- Python behaviour -----------------------------------------------------------------------


def test_an_iterator_keeps_the_memory():
    iterator = iter(fastdl.from_dlpack(np.arange(4)))
    gc.collect()
    assert [element.item() for element in iterator] == [0, 1, 2, 3]


def test_weak_references_of_reused_objects():
    # Dead Tensors are kept for reuse: a reference to one must not come back to life.
    first = tensor_of(3)
    reference = weakref.ref(first)
    del first
    second = tensor_of(3)
    assert reference() is None
    assert weakref.ref(second)() is second


ATTRIBUTES = (
    "shape strides ndim size itemsize nbytes dtype device data_ptr readonly is_copied".split()
)


@pytest.mark.parametrize("name", [*ATTRIBUTES, "tolist", "new", "__dlpack_c_exchange_api__"])
def test_attributes_cannot_be_set_or_deleted(name):
    tensor = tensor_of(3)
    with pytest.raises(AttributeError):
        setattr(tensor, name, 1)
    with pytest.raises(AttributeError):
        delattr(tensor, name)


@pytest.mark.parametrize(
    "method", ["__dlpack__", "__dlpack_device__", "__dlpack_info__", "is_contiguous", "copy", "to"]
)
def test_methods_are_documented(method):
    assert getattr(fastdl.Tensor, method).__doc__


# ---- repr -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (fastdl.asarray(b"\0"), "[0], shape=(1,), dtype=uint8, device=cpu:0, readonly"),
        (capsule_of((2, 3), data=0x40, device=(CUDA, 1)),
         "shape=(2, 3), dtype=float32, device=cuda:1"),  # reads nothing
        (capsule_of((2,), (77, 24, 3), data=0x40), "shape=(2,), dtype=opaque77_24x3, device=cpu:0"),
        (np.array([1.5, -2.0], np.float32), "[1.5, -2.], shape=(2,), dtype=float32"),
        (np.array(3, np.int8), "3, shape=(), dtype=int8"),
        (np.array([[True, False]]), "[[True, False]], shape=(1, 2), dtype=bool"),
        (np.array([1 + 2j]), "[1.+2.j], shape=(1,), dtype=complex128"),
        (np.array([np.nan, -np.inf]), "[nan, -inf], shape=(2,), dtype=float64"),
        (np.zeros((2, 0), np.uint8), "shape=(2, 0), dtype=uint8"),
        (np.arange(7), "[0, 1, 2, ..., 4, 5, 6], shape=(7,), dtype=int64"),
        (np.arange(6)[::-1], "[5, 4, 3, 2, 1, 0], shape=(6,), dtype=int64"),
    ],
)  # fmt: skip
def test_repr(array, text):
    text += ", device=cpu:0" * (type(array) is np.ndarray)
    assert repr(fastdl.from_dlpack(array)) == f"fastdl.Tensor({text})"


def test_repr_of_large_tensors_is_short():
    text = repr(fastdl.from_dlpack(np.zeros((1000, 1000))))
    assert len(text) < 400
    assert "shape=(1000, 1000)" in text


# ---- copies ---------------------------------------------------------------------------------


def test_copies_of_large_transposes():
    array = np.arange(67 * 129, dtype=np.int32).reshape(67, 129)
    np.testing.assert_array_equal(fastdl.from_dlpack(array.T).copy().numpy(), array.T)


@pytest.mark.parametrize("size", [1, 15, 16, 17, 4095, 4096, 4097, 100_003])
def test_copies_of_every_size(size):
    # Small ones keep the GIL, and large ones do not.
    array = np.arange(size, dtype=np.int32)[::-1]
    copied = fastdl.from_dlpack(array).copy()
    assert copied.is_contiguous()
    np.testing.assert_array_equal(copied.numpy(), array)


@pytest.mark.parametrize("device", ["cpu", "cpu:0", (1, 0), fastdl.Device("cpu")])
def test_to_device_is_to(device):
    tensor = tensor_of(3)
    assert tensor.to(device) is tensor
    assert tensor.to_device(device) is tensor
    assert tensor.to_device(device, stream=None) is tensor
    with pytest.raises(BufferError, match="cuda:0"):
        tensor.to_device("cuda:0")
    for wrong in (lambda: tensor.to_device(device=device), lambda: tensor.to_device(device, None)):
        with pytest.raises(TypeError, match="positional"):
            wrong()


MADE_BY = r"fastdl\.from_dlpack\(x\) .* fastdl\.asarray\(x\)"
CASTS = r"does not convert values; .* numpy\.from_dlpack\(tensor\)\.astype\(\.\.\.\)"
NO_DEVICE = r"^expected (a device such as|a device as|the one CPU).*(?<!f)$"
REFUSED = [
    *((lambda t, x=x: bool(fastdl.from_dlpack(x)), TypeError, "truth value")
      for x in (np.zeros(0), np.ones(1), np.array(True), np.ones(3))),
    *((lambda t, order=order: t.is_contiguous(order), ValueError, "order 'C' or 'F'")
      for order in ("c", "A", "", None, 0)),
    *((lambda t, x=x, method=method: getattr(t, method)(x), TypeError, CASTS)
      for method in ("to", "to_device")
      for x in ("float32", "<f4", np.float32, np.dtype("float32"), fastdl.DType("float32"))),
    *((lambda t, x=x: t.to(x), error, NO_DEVICE) for x, error in [
        ("gpu:1", ValueError), ("float33", ValueError), (None, TypeError), ((1, 2), ValueError),
        ((0, 8, 1), TypeError)]),
    (lambda t: fastdl.Tensor(), TypeError, MADE_BY),
    (lambda t: fastdl.Tensor(np.zeros(3), dtype="float32"), TypeError, MADE_BY),
    (lambda t: type(t)((2, 3)), TypeError, MADE_BY),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_what_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call(tensor_of(3, dtype=np.int32))


def test_to_host_memory_of_another_kind():
    pinned = fastdl.from_dlpack(capsule_of((2,), device=(3, 0)))
    assert pinned.to("cpu") is pinned


def test_to_the_device_of_another_tensor():
    # In a process where few devices were seen, so that this one is remembered.
    run_isolated(
        """
        import pytest
        import fastdl
        from tests.support.ctypes_dlpack import CUDA, capsule_of

        tensor = fastdl.empty(3)
        elsewhere = fastdl.from_dlpack(capsule_of((1,), device=(CUDA, 3), data=64)).device
        assert tensor.to(fastdl.empty(1).device) is tensor
        with pytest.raises(BufferError, match="cuda:3"):
            tensor.to(elsewhere)
        with pytest.raises(BufferError, match="cuda:3"):
            fastdl.from_dlpack(tensor, device=elsewhere)
        """
    )


def test_to_takes_streams_by_keyword_only():
    tensor = tensor_of(3)
    assert tensor.to("cpu", stream=-1) is tensor
    with pytest.raises(ValueError, match="stream"):
        tensor.to("cpu", stream=7)
    with pytest.raises(TypeError):
        tensor.to("cpu", -1)


# ---- NumPy ----------------------------------------------------------------------------------


def test_numpy_shares_memory_and_keeps_it():
    array = np.arange(6.0).reshape(2, 3)
    result = fastdl.from_dlpack(array[:, ::-1]).numpy()
    assert type(result) is np.ndarray
    result[0, 0] = 99
    assert array[0, 2] == 99
    assert result.strides == array[:, ::-1].strides


@pytest.mark.parametrize("name", [row[0] for row in dtype_facts() if row[3] is not None])
def test_numpy_has_the_type_that_its_name_means(name):
    result = fastdl.empty((2, 3), name).numpy()
    assert result.dtype is np.dtype(name)
    assert result.shape == (2, 3)
    assert result.flags.c_contiguous and result.flags.aligned and result.flags.writeable


def test_numpy_keeps_the_tensor():
    tensor = tensor_of(3)
    reference = weakref.ref(tensor)
    array = tensor.numpy()
    assert array.base is tensor
    del tensor
    gc.collect()
    assert array.tolist() == [0, 1, 2]
    del array
    assert reference() is None


def test_numpy_is_read_only_where_the_tensor_is():
    result = fastdl.asarray(b"abc").numpy()
    assert not result.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        result.flags.writeable = True


def test_array_protocol():
    tensor = tensor_of(2, 2, dtype=np.int32)
    assert np.shares_memory(np.asarray(tensor), tensor.numpy())
    assert np.asarray(tensor, dtype=np.float64).dtype == np.float64
    assert not np.shares_memory(np.array(tensor, copy=True), tensor.numpy())


@pytest.mark.parametrize(("device", "advises"), [((2, 0), True), ((10, 0), True), ((14, 0), False)])
@pytest.mark.parametrize("read", [fastdl.Tensor.numpy, fastdl.encode, pickle.dumps])
def test_to_cpu_is_advised_where_fastdl_can_copy(read, device, advises):
    tensor = fastdl.from_dlpack(capsule_of((1,), device=device))
    with pytest.raises((BufferError, TypeError), match="its own library") as caught:
        read(tensor)
    assert ("to('cpu')" in str(caught.value)) == advises


# ---- DLPack attributes ----------------------------------------------------------------------


@pytest.mark.parametrize("device", [(1, 0), (2, 3), (3, 0), (4, 1), (13, 0), (14, 2), (99, 7)])
def test_dlpack_device(device):
    answer = fastdl.from_dlpack(capsule_of((1,), device=device)).__dlpack_device__()
    assert answer == device
    assert type(answer) is tuple
    assert all(type(part) is int for part in answer)


def test_exchange_table_attributes_are_one_table():
    capsule = fastdl.Tensor.__dlpack_c_exchange_api__
    address = fastdl.Tensor.__c_dlpack_exchange_api__
    assert name_of(capsule) == "dlpack_exchange_api"
    assert type(address) is int
    assert address_in(capsule) == address
    table = Table.from_address(address)
    assert (table.version.major, table.version.minor) == (1, 3)
    assert table.prev_api is None
    assert all(getattr(table, slot) for slot in SLOTS)
    assert tensor_of(1).__dlpack_c_exchange_api__ is capsule


# ---- what it lacks --------------------------------------------------------------------------

#: What people write, and the line that does it: for x, a tensor of two dimensions.
ABSENT = {
    "astype": ("x.numpy().astype(dtype)", {"dtype": "'int8'"}),
    "clone": ("x.copy()", {}),
    "cpu": ("x.to('cpu')", {}),
    "cuda": ("fastdl.convert(x, torch.Tensor, device='cuda:0')", None),  # needs a GPU
    "save": ("numpy.save(file, x.numpy())", {"file": "io.BytesIO()"}),
    "sum": ("x.numpy().sum()", {}),
    "tofile": ("x.numpy().tofile(file)", {"file": "os.devnull"}),
    "transpose": ("x.permute(...), or x.mT", None),  # takes the order
}


@pytest.mark.parametrize(("name", "advice"), ABSENT.items(), ids=ABSENT)
def test_attributes_of_other_tensors_are_absent(name, advice):
    line, names = advice
    x = fastdl.from_dlpack(np.eye(2))
    for owner in (x, fastdl.Tensor):
        assert not hasattr(owner, name)
        with pytest.raises(AttributeError, match="no attribute") as caught:
            getattr(owner, name)
        assert f"write {line}" in str(caught.value)
    assert name not in dir(x)
    if names is not None:
        space = {"x": x, "numpy": np, "fastdl": fastdl}
        values = {key: eval(value) for key, value in names.items()}
        eval(line, space | values)
