"""fastdl.DType: names, numbers and sizes of element types."""

import copy
import ctypes
import pickle

import ml_dtypes
import numpy as np
import pytest

import fastdl
from fastdl._core.tensor import dtype_facts

# DLDataTypeCode of DLPack 1.3, typed in from the specification.
INT, UINT, FLOAT, OPAQUE, BFLOAT, COMPLEX, BOOL = range(7)
NARROW = {
    "float8_e3m4": (7, 8),
    "float8_e4m3": (8, 8),
    "float8_e4m3b11fnuz": (9, 8),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8),
    "float6_e2m3fn": (15, 6),
    "float6_e3m2fn": (16, 6),
    "float4_e2m1fn": (17, 4),
}
CODES = {
    **{f"int{bits}": (INT, bits) for bits in (1, 2, 4, 8, 16, 32, 64, 128)},
    **{f"uint{bits}": (UINT, bits) for bits in (1, 2, 4, 8, 16, 32, 64, 128)},
    **{f"float{bits}": (FLOAT, bits) for bits in (16, 32, 64, 128)},
    "bfloat16": (BFLOAT, 16),
    **{f"complex{bits}": (COMPLEX, bits) for bits in (32, 64, 128)},
    "bool": (BOOL, 8),
    **NARROW,
}
# What struct and memoryview call them in native size, and NumPy: 64 bits are C's long where that
# has so many, as on Linux.
LONG = ctypes.sizeof(ctypes.c_long) == 8
FORMATS = {
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
    "int64": "l" if LONG else "q", "uint64": "L" if LONG else "Q", "float16": "e",
    "float32": "f", "float64": "d", "bool": "?", "complex64": "Zf", "complex128": "Zd",
}  # fmt: skip


def test_the_table_of_the_core():
    rows = {name: (code, bits) for name, code, bits, _ in dtype_facts()}
    assert rows == CODES
    assert len(dtype_facts()) == len(CODES)


def test_the_formats_of_the_core():
    assert {name: form for name, _, _, form in dtype_facts() if form} == FORMATS


@pytest.mark.parametrize(("name", "numbers"), CODES.items())
def test_names_and_numbers(name, numbers):
    dtype = fastdl.DType(name)
    assert dtype == (*numbers, 1)
    assert dtype is fastdl.DType(*numbers)
    assert (dtype.code, dtype.bits, dtype.lanes) == (*numbers, 1)
    assert dtype.name == str(dtype) == name
    assert repr(dtype) == f"DType({name!r})"
    assert dtype.itemsize == max(1, numbers[1] // 8)
    assert dtype.format == FORMATS.get(name)
    assert fastdl.DType(dtype) is dtype


@pytest.mark.parametrize(
    "name", [n for n in CODES if isinstance(getattr(np, n, None), type) and n != "float128"]
)
def test_numpy_agrees(name):
    dtype = np.dtype(name)
    assert fastdl.from_dlpack(np.zeros(1, dtype)).dtype.name == name
    assert fastdl.DType(name).itemsize == dtype.itemsize


@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_numpys(name):
    array = np.zeros(1, name)
    assert array.itemsize == fastdl.DType(name).itemsize
    assert memoryview(array).format == fastdl.DType(name).format


@pytest.mark.parametrize("name", [n for n in CODES if hasattr(ml_dtypes, n)])
def test_ml_dtypes_agrees(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    tensor = fastdl.from_dlpack(np.zeros(2, dtype))
    assert tensor.dtype == fastdl.DType(name)
    assert tensor.itemsize == dtype.itemsize
    assert tensor.nbytes == 2 * dtype.itemsize
    assert tensor.numpy().dtype == dtype


def test_ml_dtypes_has_all_narrow_floats():
    assert all(hasattr(ml_dtypes, name) for name in [*NARROW, "bfloat16"])


@pytest.mark.parametrize(
    "dtype",
    [">f4", ">i8", "S3", "U2", "V4", "M8[s]", "m8[us]", "O", "g", "G", [("a", "i4")], "V0"],
)
@pytest.mark.parametrize("shape", [(), (2,)])
def test_numpy_types_that_dlpack_has_not(dtype, shape):
    with pytest.raises(BufferError, match="no type"):
        fastdl.from_dlpack(np.zeros(shape, dtype))


# ---- lanes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "numbers", "itemsize"),
    [
        ("float32x4", (2, 32, 4), 16),
        ("uint8x3", (1, 8, 3), 3),
        ("float4_e2m1fnx2", (17, 4, 2), 1),
        ("int4x3", (0, 4, 3), 2),
        ("uint1x8", (1, 1, 8), 1),
        ("uint1x9", (1, 1, 9), 2),
        ("float6_e3m2fnx4", (16, 6, 4), 3),
        ("float64x65535", (2, 64, 65535), 524280),
    ],
)
def test_lanes(name, numbers, itemsize):
    dtype = fastdl.DType(name)
    assert dtype == numbers
    assert dtype.name == name
    assert dtype.itemsize == itemsize
    assert dtype is fastdl.DType(*numbers)


def test_one_lane_has_no_suffix():
    assert fastdl.DType("float32x1").name == "float32"
    assert fastdl.DType("float32x1") is fastdl.DType("float32")


# ---- Python behaviour -----------------------------------------------------------------------


def test_is_a_tuple():
    dtype = fastdl.DType("float32")
    assert isinstance(dtype, tuple)
    assert dtype == (2, 32, 1)
    assert hash(dtype) == hash((2, 32, 1))
    assert dtype != (2, 64, 1)
    code, bits, lanes = dtype
    assert (code, bits, lanes) == (2, 32, 1)
    with pytest.raises(AttributeError):
        dtype.code = 0
    with pytest.raises(AttributeError):
        dtype.other = 0


@pytest.mark.parametrize("name", ["float32", "bfloat16x2", "uint1"])
def test_pickles_and_copies(name):
    dtype = fastdl.DType(name)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        loaded = pickle.loads(pickle.dumps(dtype, protocol))
        assert type(loaded) is fastdl.DType and loaded == dtype
    assert copy.copy(dtype) == copy.deepcopy(dtype) == dtype


def test_unknown_types_pickle():
    dtype = fastdl.DType(77, 24, 3)
    assert pickle.loads(pickle.dumps(dtype)) == dtype


@pytest.mark.parametrize(
    ("numbers", "name", "itemsize"),
    [
        ((18, 32, 1), "opaque18_32", 4),
        ((3, 64, 1), "opaque3_64", 8),
        ((99, 7, 3), "opaque99_7x3", 3),
    ],
)
def test_unknown_types(numbers, name, itemsize):
    dtype = fastdl.DType(*numbers)
    assert dtype == numbers
    assert str(dtype) == name
    assert dtype.itemsize == itemsize
    assert dtype.format is None


# ---- errors ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "", "float", "Float32", " float32", "f4", "float33", "float32x", "float32x0", "float32x-1",
        "float32x65536", "xfloat32", "float32x4x4", "float32x 4", "object", "int", "opaque3_64",
    ],
)  # fmt: skip
def test_names_that_are_none(name):
    with pytest.raises(ValueError, match="expected a dtype name"):
        fastdl.DType(name)


@pytest.mark.parametrize("lanes", ["٤", "²", "04", "1_0"])
def test_lanes_are_plain_digits(lanes):
    with pytest.raises(ValueError, match="expected a dtype name"):
        fastdl.DType(f"float32x{lanes}")


@pytest.mark.parametrize("value", [None, 2, 2.0, b"float32", [2, 32, 1], object()])
def test_values_that_are_no_dtypes(value):
    with pytest.raises(TypeError, match="expected a dtype"):
        fastdl.DType(value)


def test_a_tuple_is_a_dtype():
    # The message of the TypeError offers (code, bits, lanes), as Device takes (type, id).
    assert fastdl.DType((2, 32, 4)) == fastdl.DType("float32x4")


@pytest.mark.parametrize(
    "numbers", [(2.5, 32, 1), ("2", 32, 1), (2, "32", 1), (2, 32, 1.5), (2, 32, "1"), (True, 8, 1)]
)
def test_numbers_are_ints(numbers):
    with pytest.raises(TypeError):
        fastdl.DType(*numbers)


@pytest.mark.parametrize(
    "numbers",
    [(-1, 32, 1), (256, 32, 1), (2, -1, 1), (2, 0, 1), (2, 256, 1), (2, 32, 0), (2, 32, 65536)],
)
def test_numbers_fit_their_fields(numbers):
    with pytest.raises(ValueError):
        fastdl.DType(*numbers)
