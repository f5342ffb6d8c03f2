# SPDX-License-Identifier: Apache-2.0
"""fastdl.DType: names, numbers and sizes of element types."""

import copy
import ctypes
import pickle

import ml_dtypes
import numpy as np
import pytest

import fastdl
from fastdl._native import dtype_facts
from tests.support.comparing import Theirs, are_equal
from tests.support.dlpack_h import enumerators

# DLDataTypeCode of DLPack 1.3, typed in from the specification, and the code that followed it.
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
    "bcomplex32": (18, 32),
}
# What struct and memoryview call them in native size, and NumPy: a long's letter where C has two
# types of the same size. Windows has a long of 32 bits.
LONG = ctypes.sizeof(ctypes.c_long) == 8
FORMATS = {
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "float16": "e", "float32": "f",
    "float64": "d", "bool": "?", "complex64": "Zf", "complex128": "Zd",
    **dict(zip(("int32", "uint32", "int64", "uint64"), "iIlL" if LONG else "lLqQ", strict=True)),
}  # fmt: skip


def test_the_table_of_the_core():
    rows = {name: (code, bits) for name, code, bits, _ in dtype_facts()}
    assert rows == CODES, "dtypes.c differs from the specification as typed in here"
    assert len(dtype_facts()) == len(CODES)


def test_the_codes_are_those_of_dlpack_h():
    codes = {code for _, code, _, _ in dtype_facts()} | {OPAQUE}
    others = codes ^ set(enumerators("DLDataTypeCode").values())
    assert others == set(), "dlpack.h and dtypes.c differ in these codes"


@pytest.mark.parametrize("name", [name for name in CODES if name != "float128"])
def test_python_has_numbers_for_each_type(name):
    """The row in dtypes.c says how a narrow float is built."""
    assert len(fastdl.empty(8, name).tolist()) == 8


def test_a_named_type_stays_one_object_however_many_others_there_are():
    before = fastdl.DType("int8")
    for bits in range(1, 256):
        for code in (40, 41):
            assert fastdl.DType(code, bits).bits == bits
    assert fastdl.DType("int8") is before is fastdl.DType(0, 8)


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


def test_ml_dtypes_has_all_narrow_floats():
    missing = [name for name in [*NARROW, "bfloat16"] if not hasattr(ml_dtypes, name)]
    assert missing == [], "tests compare the values of narrow floats with those of ml_dtypes"


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
    assert dtype is fastdl.DType(*numbers) is fastdl.DType(numbers)


# ---- Python behaviour -----------------------------------------------------------------------


def test_is_no_tuple():
    """NumPy reads a tuple as another kind of dtype, and never asks it for one."""
    dtype = fastdl.DType("float32")
    assert not isinstance(dtype, tuple)
    with pytest.raises(TypeError):
        iter(dtype)


#: Forms of float32 that need no library but NumPy; torch's and JAX's are in tests/interop.
FLOAT32 = [
    "float32", "float32x1", "f4", "<f4", "=f4", np.float32, np.dtype("f4"),
    np.zeros(1, "f4").dtype, (2, 32), (2, 32, 1), (np.uint8(2), np.int64(32)),
    fastdl.DType("float32"),
]  # fmt: skip


@pytest.mark.parametrize("form", FLOAT32, ids=repr)
def test_equals_what_it_can_be_made_from(form):
    tensor = fastdl.empty(3, form)
    assert tensor.dtype is fastdl.DType(form) is fastdl.DType("float32")
    assert are_equal(tensor.dtype, form)
    assert not are_equal(fastdl.DType("float64"), form)


@pytest.mark.parametrize(
    "other", [None, "nonsense", "float", 2, object(), (2,), np.dtype("O"), np.dtype(">f4"), [2, 32]]
)
def test_differs_from_the_rest(other):
    assert not are_equal(fastdl.DType("float32"), other)


def test_hashes_as_its_name():
    for name in [*CODES, "float32x4"]:
        dtype = fastdl.DType(name)
        assert hash(dtype) == hash(name)
        assert {name: 1}[dtype] == 1 and {dtype: 1}[name] == 1
    unknown = fastdl.DType(77, 24, 3)
    assert len({unknown, fastdl.DType(77, 24, 3), fastdl.DType(77, 24)}) == 2


# ---- dtypes of others -----------------------------------------------------------------------


def numpy_scalars(module):
    return {
        cls
        for cls in vars(module).values()
        if isinstance(cls, type) and issubclass(cls, np.generic)
    }


@pytest.mark.parametrize("cls", sorted(numpy_scalars(np), key=repr), ids=repr)
def test_scalar_types_of_numpy(cls):
    """Each is what an array of it is, or refused as that is."""
    try:
        array = np.zeros(1, cls)
        expected = fastdl.from_dlpack(array).dtype
    except (BufferError, TypeError, DeprecationWarning):  # of abstract types
        with pytest.raises((TypeError, ValueError, DeprecationWarning)):
            fastdl.DType(cls)
    else:
        assert fastdl.DType(cls) == fastdl.DType(array.dtype) == expected
        assert fastdl.DType(array.dtype.str) == expected


@pytest.mark.parametrize("cls", sorted(numpy_scalars(ml_dtypes), key=repr), ids=repr)
def test_scalar_types_of_ml_dtypes(cls):
    assert fastdl.DType(cls).name == cls.__name__
    assert fastdl.DType(np.dtype(cls)) == fastdl.DType(cls)


@pytest.mark.parametrize("name", CODES)
def test_numpy_takes_it(name):
    dtype = fastdl.DType(name)
    try:
        expected = np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        expected = None
    if expected is None or name == "float128":  # a long double is something else
        with pytest.raises(TypeError, match="neither NumPy nor ml_dtypes has a type for"):
            _ = dtype.dtype
        with pytest.raises(TypeError):  # before NumPy 2.3 in words of its own
            np.dtype(dtype)
        return
    assert np.dtype(dtype) == dtype.dtype == dtype.__numpy_dtype__ == expected
    assert np.zeros(3, dtype).dtype == np.result_type(dtype) == expected
    assert fastdl.DType(np.dtype(dtype)) is dtype


def test_numpy_promotes_it():
    assert np.result_type(fastdl.DType("float32"), np.float64) == np.float64
    assert np.result_type(fastdl.DType("int8"), np.zeros(2, "i4")) == np.int32
    assert np.can_cast(fastdl.DType("int8"), fastdl.DType("int16"))
    assert np.issubdtype(fastdl.DType("int8"), np.integer)


def test_lanes_are_a_dimension_to_numpy():
    dtype = fastdl.DType("float32x4")
    assert np.dtype(dtype) == np.dtype(("f4", (4,)))
    assert np.zeros(3, dtype).shape == (3, 4)
    assert fastdl.DType(np.dtype(dtype)) is dtype
    assert dtype == np.dtype(("f4", (4,)))
    with pytest.raises(TypeError):
        np.dtype(fastdl.DType("int4x2"))
    for subarray in (("f4", (2, 2)), ("f4", (70000,)), ("O", (2,))):
        with pytest.raises(ValueError):
            fastdl.DType(np.dtype(subarray))


def test_a_dtype_of_ml_dtypes_name():
    """It counts which module a type is from, and what that calls it."""

    class Mine(np.void):
        pass

    for module in ("ml_dtypes", "mine"):
        Mine.__module__, Mine.__name__ = module, "bfloat15"
        with pytest.raises(ValueError, match="expected a dtype of native numbers"):
            fastdl.DType(np.dtype((Mine, 2)))


def test_the_exchange_of_dtypes():
    for name, (code, bits) in CODES.items():
        assert fastdl.DType(name).__dlpack_data_type__() == (code, bits, 1)
        assert fastdl.DType(Theirs(code, bits, 1)) == name
        assert fastdl.DType(name) == Theirs(code, bits, 1)
    assert fastdl.empty(2, Theirs(4, 16, 1)).dtype == "bfloat16"
    assert fastdl.DType("uint8x3").__dlpack_data_type__() == (1, 8, 3)
    with pytest.raises(ValueError, match="bits of a dtype"):
        fastdl.DType(Theirs(2, 256, 1))
    with pytest.raises(TypeError):
        fastdl.DType(Theirs("2", 32, 1))
    with pytest.raises(TypeError):
        fastdl.DType(Theirs)  # the class


def test_an_error_of_a_protocol_passes():
    class Broken:
        def __dlpack_data_type__(self):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fastdl.DType(Broken())


@pytest.mark.parametrize("name", ["float32", "bfloat16x2", "uint1"])
def test_pickles_and_copies(name):
    dtype = fastdl.DType(name)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(dtype, protocol)) is dtype
    assert copy.copy(dtype) is copy.deepcopy(dtype) is dtype


@pytest.mark.parametrize(
    ("numbers", "name", "itemsize"),
    [
        ((19, 32, 1), "opaque19_32", 4),
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
    assert pickle.loads(pickle.dumps(dtype)) == dtype


# ---- errors ---------------------------------------------------------------------------------


REFUSED = {
    (ValueError, "expected the name of a dtype"): [
        "", "float", "Float32", " float32", "f3", "f16", "c32", "float33", "float32x", "float32x0",
        "float32x-1", "float32x65536", "xfloat32", "float32x4x4", "float32x 4", "object", "int",
        "opaque3_64", "float32x٤", "float32x²", "float32x04", "float32x1_0",
    ],
    (TypeError, "expected a dtype"): [
        None, 2, 2.0, b"float32", [2, 32, 1], object(), float, int, np.ndarray, np.zeros(2), fastdl,
    ],
    (ValueError, "expected a dtype of native numbers"): [
        np.dtype(x) for x in (">f4", "O", "S3", "U2", "V4", "M8[s]", [("a", "i4")],
                              [("a", "f4", 2)], *(["g", "G"] if np.dtype("g").itemsize > 8 else []))
    ],
    (TypeError, "."): [
        (2.5, 32, 1), ("2", 32, 1), (2, "32", 1), (2, 32, 1.5), (2, 32, "1"), (True, 8, 1),
    ],
    (ValueError, "."): [
        (-1, 32, 1), (256, 32, 1), (2, -1, 1), (2, 0, 1), (2, 256, 1), (2, 32, 0), (2, 32, 65536),
    ],
}  # fmt: skip
#: Misspelt names, and the one that is suggested.
MEANT = {
    "flaot32": "'float32'", "Float32": "'float32'", "bfloat": "'bfloat16'",
    "float8e4m3fn": "'float8_e4m3fn'", "unit8": "'uint8'", "float": "'float32' or 'float64'",
    "half": "'float16'", "bool_": "'bool'",
}  # fmt: skip


@pytest.mark.parametrize(
    ("error", "words", "value"),
    [
        *((*kind, value) for kind, values in REFUSED.items() for value in values),
        *((ValueError, rf"got '{x}': did you mean {meant}\?$", x) for x, meant in MEANT.items()),
        (ValueError, "such as 'float32', got 'strawberry'$", "strawberry"),
    ],
)
def test_what_is_no_dtype(error, words, value):
    with pytest.raises(error, match=words):
        fastdl.DType(*value) if isinstance(value, tuple) else fastdl.DType(value)


def test_one_byte_has_no_byte_order():
    assert fastdl.DType(">i1") == "int8"
