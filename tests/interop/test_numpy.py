"""NumPy in particular: subclasses, types without an equal, ml_dtypes, buffers and cycles."""

import ctypes
import gc
import sys
import weakref

import pytest

import fastdl
from fastdl._native import dtype_facts
from fastdl._protocol import consumer as _consumer

from .arrays import FLOAT8, MORE_FLOAT8, sample
from .peers import require

require("numpy")
import numpy as np  # noqa: E402

ENTRIES = pytest.mark.parametrize(
    "from_dlpack", [fastdl.from_dlpack, _consumer.from_dlpack], ids=("compiled", "python")
)


def dies(reference) -> bool:
    gc.collect()
    return reference() is None


# ---- subclasses -----------------------------------------------------------------------------


class Overriding(np.ndarray):
    """Exports something else than its memory, so that it shows who was asked."""

    def __dlpack__(self, **keywords):
        return np.full(2, 9.0).__dlpack__(**keywords)


class OverridingRecords(np.recarray):
    def __dlpack__(self, **keywords):
        return np.full(2, 9.0).__dlpack__(**keywords)


class OldStyle(np.ndarray):
    """Knows no keyword but stream, as NumPy before 2.1."""

    def __dlpack__(self, stream=None):
        return super().__dlpack__(stream=stream)


class OptedOut(np.ndarray):
    __dlpack__ = None


class Plain(np.ndarray):
    pass


@ENTRIES
def test_memmap(from_dlpack, tmp_path):
    mapped = np.memmap(tmp_path / "data", dtype=np.int32, mode="w+", shape=(2, 3))
    mapped[:] = np.arange(6).reshape(2, 3)
    tensor = from_dlpack(mapped)
    assert tensor.data_ptr == mapped.ctypes.data
    tensor.numpy()[1, 2] = 70
    assert mapped[1, 2] == 70
    mapped.flush()
    readonly = np.memmap(tmp_path / "data", dtype=np.int32, mode="r", shape=(2, 3))
    view = from_dlpack(readonly)
    assert view.readonly
    assert view.tolist() == [[0, 1, 2], [3, 4, 70]]


@ENTRIES
@pytest.mark.parametrize(
    "array",
    [
        np.arange(4.0).reshape(2, 2).view(np.matrix),
        np.ma.masked_array([1.0, 2.0]).data,
        np.arange(3).view(Plain),
        np.arange(3).view(np.recarray),
        np.arange(3).view(OldStyle),
    ],
    ids=["matrix", "masked data", "plain subclass", "recarray", "old style"],
)
def test_subclasses_share_their_memory(from_dlpack, array):
    for _ in range(2):
        tensor = from_dlpack(array)
        assert tensor.data_ptr == array.ctypes.data
        assert tensor.tolist() == array.tolist()
        assert type(tensor.numpy()) is np.ndarray


@ENTRIES
@pytest.mark.parametrize("cls", [Overriding, OverridingRecords])
def test_an_overriding_export_is_honoured(from_dlpack, cls):
    for _ in range(2):
        assert from_dlpack(np.zeros(2).view(cls)).tolist() == [9.0, 9.0]


@ENTRIES
def test_opting_out_is_honoured(from_dlpack):
    for _ in range(2):
        with pytest.raises(TypeError, match="expected a DLPack producer"):
            from_dlpack(np.zeros(2).view(OptedOut))


@ENTRIES
@pytest.mark.parametrize("kind", ["legacy", "bare"])
def test_only_arrays_get_numpys_table(from_dlpack, kind):
    """Facts are found by name, tables are not: memory of another type is never read as NumPy's."""

    class ndarray:
        if kind == "legacy":

            def __dlpack__(self, *, stream=None):
                return np.full(2, 5.0).__dlpack__()

            def __dlpack_device__(self):
                return (1, 0)

    ndarray.__module__ = np.ndarray.__module__
    ndarray.__qualname__ = np.ndarray.__qualname__
    if kind == "legacy":
        for _ in range(3):
            assert from_dlpack(ndarray()).tolist() == [5.0, 5.0]
    else:
        with pytest.raises(TypeError, match="expected a DLPack producer"):
            from_dlpack(ndarray())


def test_scalars_are_not_arrays():
    with pytest.raises(TypeError):
        fastdl.from_dlpack(np.float32(1.0))
    assert fastdl.asarray(np.float32(1.5)).item() == 1.5  # by the buffer protocol


# ---- what has no equal in DLPack ------------------------------------------------------------

FOREIGN = {
    "swapped": np.arange(3, dtype=np.dtype("i4").newbyteorder()),
    "swapped float": np.arange(3, dtype=np.dtype("f8").newbyteorder()),
    "datetime": np.array(["2021-05-27"], dtype="M8[D]"),
    "timedelta": np.array([1], dtype="m8[s]"),
    "object": np.array([None, 1]),
    "structured": np.zeros(3, dtype=[("a", "i4"), ("b", "f4")]),
    "string": np.array(["a", "bc"]),
    "bytes": np.array([b"a"]),
    "void": np.zeros(2, "V4"),
    "long double": np.zeros(2, np.longdouble),
    "complex long double": np.zeros(2, np.clongdouble),
    "variable string": np.array(["a"], dtype=np.dtypes.StringDType()),
}


@ENTRIES
@pytest.mark.parametrize("kind", FOREIGN)
def test_types_without_an_equal_are_refused(from_dlpack, kind):
    if kind.endswith("long double") and np.dtype(np.longdouble) == np.dtype(np.float64):
        pytest.skip("long double is double here")
    for _ in range(2):
        with pytest.raises(BufferError):
            from_dlpack(FOREIGN[kind])


@ENTRIES
def test_strides_of_half_elements_are_refused(from_dlpack):
    field = np.zeros(5, dtype=[("number", "i4"), ("letter", "i1")])["number"]
    assert field.strides == (5,)
    with pytest.raises(BufferError, match="strides"):
        from_dlpack(field)
    assert from_dlpack(field[:1]).tolist() == [0]  # one element: its stride says nothing


@ENTRIES
@pytest.mark.parametrize(
    "name", ["byte", "short", "intc", "long", "longlong", "intp", "uintc", "ulong", "ulonglong"]
)
def test_every_integer_of_c(from_dlpack, name):
    array = np.array([1, 2], dtype=getattr(np, name))
    tensor = from_dlpack(array)
    assert tensor.dtype.bits == 8 * array.itemsize
    assert tensor.dtype.name == array.dtype.name
    assert tensor.tolist() == [1, 2]


# ---- flags and geometry ---------------------------------------------------------------------


@ENTRIES
def test_readonly_arrays(from_dlpack):
    array = np.arange(3.0)
    array.flags.writeable = False
    tensor = from_dlpack(array)
    assert tensor.readonly
    assert not tensor.numpy().flags.writeable
    assert not np.from_dlpack(tensor).flags.writeable
    assert not np.asarray(tensor).flags.writeable
    with pytest.raises(BufferError):
        tensor.__dlpack__()


@ENTRIES
def test_broadcast_arrays(from_dlpack):
    array = np.broadcast_to(np.arange(3.0), (1000, 1000, 3))
    tensor = from_dlpack(array)
    assert tensor.strides == (0, 0, 1)
    assert tensor.readonly
    assert tensor.nbytes == array.nbytes
    assert np.array_equal(tensor.numpy(), array)


@ENTRIES
@pytest.mark.parametrize("ndim", [0, 1, 32, 63, 64])
def test_every_rank_of_numpy(from_dlpack, ndim):
    array = np.full((1,) * ndim, 7.0)
    tensor = from_dlpack(array)
    assert tensor.ndim == ndim
    assert np.from_dlpack(tensor).shape == array.shape
    assert tensor.numpy().sum() == 7.0


@ENTRIES
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0, 2), (2**20, 0, 2**20)])
def test_no_elements(from_dlpack, shape):
    array = np.lib.stride_tricks.as_strided(np.zeros(1), shape, (8,) * len(shape))
    tensor = from_dlpack(array)
    assert tensor.shape == shape
    assert tensor.numpy().shape == shape
    assert np.from_dlpack(tensor).shape == shape


@ENTRIES
def test_memory_that_is_not_aligned_to_elements(from_dlpack):
    array = np.frombuffer(b"\0" + np.arange(3.0).tobytes(), np.float64, offset=1)
    tensor = from_dlpack(array)
    assert tensor.data_ptr == array.ctypes.data
    assert tensor.tolist() == [0.0, 1.0, 2.0]
    assert tensor.numpy().tolist() == [0.0, 1.0, 2.0]
    assert tensor.copy().tolist() == [0.0, 1.0, 2.0]


# ---- ml_dtypes ------------------------------------------------------------------------------

SUB_BYTE = tuple(name for name, _, bits, _ in dtype_facts() if 1 < bits < 8)
NARROW = ("bfloat16", *FLOAT8, *MORE_FLOAT8, *SUB_BYTE)


@ENTRIES
@pytest.mark.parametrize("name", NARROW)
def test_types_of_ml_dtypes_in_and_out(from_dlpack, name):
    require("ml_dtypes")
    import ml_dtypes

    array = np.array(sample(name), dtype=getattr(ml_dtypes, name))
    tensor = from_dlpack(array)
    assert tensor.dtype == fastdl.DType(name)
    assert tensor.data_ptr == array.ctypes.data
    assert tensor.nbytes == array.nbytes
    assert tensor.tolist() == sample(name)
    out = tensor.numpy()
    assert out.dtype == array.dtype
    assert out.ctypes.data == array.ctypes.data
    assert out.tobytes() == array.tobytes()
    with pytest.raises(BufferError, match="numpy()"):
        memoryview(tensor)


@pytest.mark.parametrize("name", NARROW)
def test_copies_and_views_of_ml_dtypes(name):
    require("ml_dtypes")
    import ml_dtypes

    array = np.array([sample(name)] * 2, dtype=getattr(ml_dtypes, name))
    tensor = fastdl.from_dlpack(array)
    assert tensor.copy().numpy().tobytes() == array.tobytes()
    assert tensor[:, ::2].numpy().tobytes() == array[:, ::2].tobytes()
    assert tensor[1, 2].item() == sample(name)[2]
    assert fastdl.from_dlpack(array.T, copy=True).numpy().tobytes() == array.T.tobytes()
    assert fastdl.from_dlpack(tensor.__dlpack__(max_version=(1, 0))).tolist() == [sample(name)] * 2


@pytest.mark.parametrize("name", SUB_BYTE)
def test_elements_with_a_byte_each_are_not_put_into_legacy_capsules(name):
    """NumPy gives an element of 4 bits a byte, which only a flag can say: without it a consumer
    reads the bytes as packed, and gets other values."""
    require("ml_dtypes")
    import ml_dtypes

    tensor = fastdl.from_dlpack(np.array(sample(name), dtype=getattr(ml_dtypes, name)))
    with pytest.raises(BufferError):
        tensor.__dlpack__()
    versioned = tensor.__dlpack__(max_version=(1, 3))
    assert fastdl.from_dlpack(versioned).tolist() == sample(name)


@pytest.mark.parametrize("name", ["bfloat16", *FLOAT8])
def test_every_value_of_a_narrow_float(name):
    require("ml_dtypes")
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, name))
    bits = np.arange(2 ** (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}")
    values = fastdl.from_dlpack(bits.view(dtype)).tolist()
    with np.errstate(invalid="ignore"):  # signalling NaNs
        expected = bits.view(dtype).astype(np.float64)
    assert np.array_equal(np.array(values), expected, equal_nan=True)


# ---- NumPy's protocols ----------------------------------------------------------------------


def test_asarray_shares_and_array_copies():
    array = np.arange(6.0).reshape(2, 3)
    tensor = fastdl.from_dlpack(array)
    assert np.asarray(tensor).ctypes.data == array.ctypes.data
    assert np.array(tensor, copy=False).ctypes.data == array.ctypes.data
    copy = np.array(tensor, copy=True)
    assert copy.ctypes.data != array.ctypes.data
    assert copy.tolist() == array.tolist()
    assert copy.flags.writeable


def test_the_arguments_of_numpys_from_dlpack():
    array = np.arange(6.0).reshape(2, 3)[:, ::2]
    tensor = fastdl.from_dlpack(array)
    for keywords in ({"device": "cpu"}, {"copy": False}, {"device": "cpu", "copy": None}):
        assert np.from_dlpack(tensor, **keywords).ctypes.data == array.ctypes.data
    copy = np.from_dlpack(tensor, copy=True)
    assert not np.may_share_memory(copy, array)
    assert copy.tolist() == array.tolist()
    array.flags.writeable = False
    assert np.from_dlpack(fastdl.from_dlpack(array), copy=True).flags.writeable


def test_asarray_converts():
    tensor = fastdl.from_dlpack(np.arange(3.0))
    converted = np.asarray(tensor, dtype=np.int16)
    assert converted.dtype == np.int16
    assert converted.tolist() == [0, 1, 2]
    with pytest.raises(ValueError):
        np.array(tensor, dtype=np.int16, copy=False)
    assert np.array(tensor, dtype=np.float64, copy=False).tolist() == [0.0, 1.0, 2.0]


def test_asarray_of_types_without_a_buffer_format():
    require("ml_dtypes")
    import ml_dtypes

    array = np.array([1.0, 2.0], dtype=ml_dtypes.bfloat16)
    assert np.asarray(fastdl.from_dlpack(array)).dtype == array.dtype


def test_arithmetic_of_numpy_accepts_tensors():
    tensor = fastdl.from_dlpack(np.arange(3.0))
    assert np.add(tensor, 1).tolist() == [1.0, 2.0, 3.0]
    assert np.stack([tensor, tensor]).shape == (2, 3)


@pytest.mark.parametrize("dtype", ["?", "b", "B", "h", "H", "i", "I", "q", "Q", "e", "f", "d"])
def test_the_buffer_protocol_both_ways(dtype):
    array = np.array([[1, 0, 1], [0, 1, 1]], dtype=dtype)
    tensor = fastdl.from_dlpack(array)
    view = memoryview(tensor)
    assert view.format == np.dtype(array.dtype.name).char  # of two names of one type, NumPy's own
    assert (view.shape, view.strides) == (array.shape, array.strides)
    assert np.asarray(view).tolist() == array.tolist()
    assert np.frombuffer(tensor, dtype).tolist() == array.ravel().tolist()
    back = fastdl.asarray(view)
    assert (back.data_ptr, back.dtype, back.shape) == (tensor.data_ptr, tensor.dtype, tensor.shape)


def test_complex_numbers_through_the_buffer_protocol():
    array = np.array([1 + 2j, -3j], np.complex64)
    tensor = fastdl.from_dlpack(array)
    assert memoryview(tensor).format == "Zf"
    assert np.asarray(memoryview(tensor)).tolist() == array.tolist()


def test_buffers_of_strided_tensors():
    array = np.arange(24.0).reshape(4, 6)[::-1, ::2]
    tensor = fastdl.from_dlpack(array)
    assert np.asarray(memoryview(tensor)).tolist() == array.tolist()
    with pytest.raises(BufferError, match="contiguous"):
        np.frombuffer(tensor)


def test_writable_buffers():
    array = np.zeros(3, np.int32)
    tensor = fastdl.from_dlpack(array)
    memoryview(tensor)[1] = 5
    ctypes.c_int32.from_buffer(tensor).value = 4
    assert array.tolist() == [4, 5, 0]
    array.flags.writeable = False
    with pytest.raises((BufferError, TypeError)):
        ctypes.c_int32.from_buffer(fastdl.from_dlpack(array))


def test_a_tensor_lives_as_long_as_a_buffer_of_it():
    array = np.arange(3.0)
    alive = weakref.ref(array)
    view = memoryview(fastdl.from_dlpack(array))
    del array
    assert not dies(alive)
    assert view.tolist() == [0.0, 1.0, 2.0]
    view.release()
    assert dies(alive)


# ---- lifetime -------------------------------------------------------------------------------


@ENTRIES
def test_an_import_holds_one_reference(from_dlpack):
    array = np.arange(3.0)
    before = sys.getrefcount(array)
    tensor = from_dlpack(array)
    views = [tensor[1:], tensor.numpy(), tensor.__dlpack__(), np.from_dlpack(tensor)]
    assert sys.getrefcount(array) == before + 1
    del tensor
    assert sys.getrefcount(array) == before + 1
    views.clear()
    assert sys.getrefcount(array) == before


@ENTRIES
def test_failed_imports_hold_no_reference(from_dlpack):
    array = FOREIGN["datetime"].copy()
    before = sys.getrefcount(array)
    for _ in range(10):
        with pytest.raises(BufferError):
            from_dlpack(array)
    assert sys.getrefcount(array) == before


class Member(np.ndarray):
    """An array that can hold other objects, and so be part of a cycle."""


def cycle(link):
    array = np.arange(3.0).view(Member)
    array.other = link(array)
    return weakref.ref(array)


CYCLES = {
    "tensor": fastdl.from_dlpack,
    "view of the tensor": lambda x: fastdl.from_dlpack(x)[1:],
    "tensor in a list": lambda x: [fastdl.from_dlpack(x)],
    "buffer of the tensor": lambda x: memoryview(fastdl.from_dlpack(x)),
}


@pytest.mark.parametrize("link", CYCLES)
def test_cycles_of_an_array_and_its_tensor_are_collected(link):
    gc.collect()
    assert dies(cycle(CYCLES[link]))


def test_cycles_through_two_tensors_are_collected():
    first, second = (np.arange(3.0).view(Member) for _ in range(2))
    first.other, second.other = fastdl.from_dlpack(second), fastdl.from_dlpack(first)
    references = weakref.ref(first), weakref.ref(second)
    del first, second
    assert all(map(dies, references))


def test_a_tensor_outside_a_cycle_keeps_it_alive():
    array = np.arange(3.0).view(Member)
    array.other = array  # a cycle without the Tensor
    alive = weakref.ref(array)
    tensor = fastdl.from_dlpack(array)
    del array
    assert not dies(alive)
    assert tensor.tolist() == [0.0, 1.0, 2.0]
    del tensor
    assert dies(alive)


def test_resize_is_refused_while_a_tensor_lives():
    array = np.arange(3.0)
    tensor = fastdl.from_dlpack(array)
    with pytest.raises(ValueError, match="resize"):
        array.resize(1000)
    assert tensor.tolist() == [0.0, 1.0, 2.0]
