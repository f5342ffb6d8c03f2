# SPDX-License-Identifier: Apache-2.0
"""tolist, item, repr and numpy: the numbers in a tensor, against ml_dtypes, NumPy and a model."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastdl
from fastdl import DType
from fastdl._native import dtype_facts
from tests.support.ctypes_dlpack import SUBBYTE_PADDED, capsule_of

OF_ML_DTYPES = {n: (code, bits) for n, code, bits, _ in dtype_facts() if hasattr(ml_dtypes, n)}
FLOATS = {n: c for n, c in OF_ML_DTYPES.items() if "float" in n}
INTS = {n: c for n, c in OF_ML_DTYPES.items() if "int" in n}  # of 1 bit: since ml_dtypes 0.6
NARROW = {**{n: c for n, c in FLOATS.items() if c[1] < 8}, **INTS}


def patterns(bits):
    """Every pattern of up to 16 bits, one a byte or two."""
    return np.arange(2**bits, dtype=np.uint8 if bits <= 8 else np.uint16)


def reference(name, bits):
    """What ml_dtypes says that each pattern of a type means, as float64 or Python ints."""
    values = patterns(bits)
    if name.startswith("int"):  # ml_dtypes stores them sign-extended
        values = np.where(values >> (bits - 1), values | (0xFF << bits) & 0xFF, values)
    values = values.astype(patterns(bits).dtype).view(getattr(ml_dtypes, name))
    return [int(v) for v in values] if "int" in name else [float(v) for v in values]


def identical(ours, theirs):
    """Equal as numbers, with NaN equal to NaN and zeros told apart by sign."""
    if isinstance(theirs, tuple):
        return (
            type(ours) is tuple and len(ours) == len(theirs) and all(map(identical, ours, theirs))
        )
    if isinstance(theirs, complex):
        return type(ours) is complex and identical(
            (ours.real, ours.imag), (theirs.real, theirs.imag)
        )
    if type(ours) is not type(theirs):
        return False
    if isinstance(theirs, float):
        if math.isnan(theirs):
            return math.isnan(ours)
        return ours == theirs and math.copysign(1, ours) == math.copysign(1, theirs)
    return ours == theirs


def assert_identical(ours, theirs):
    assert len(ours) == len(theirs)
    wrong = [
        (i, a, b) for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if not identical(a, b)
    ]
    assert not wrong


# ---- every bit pattern ----------------------------------------------------------------------


@pytest.mark.parametrize(("name", "numbers"), (FLOATS | INTS).items())
def test_every_pattern_of_a_narrow_type(name, numbers):
    code, bits = numbers
    data = bytearray(patterns(bits).tobytes())
    capsule = capsule_of((2**bits,), (code, bits, 1), data=data, flags=SUBBYTE_PADDED)
    assert_identical(fastdl.from_dlpack(capsule).tolist(), reference(name, bits))


def test_every_pattern_of_float16():
    array = patterns(16).view(np.float16)
    assert_identical(fastdl.from_dlpack(array).tolist(), array.tolist())


# ---- whole-byte types -----------------------------------------------------------------------

WHOLE_INTS = [f"{kind}int{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)]
EXTREMES = {
    **{name: [int(np.iinfo(name).min), int(np.iinfo(name).max), 0, 1] for name in WHOLE_INTS},
    "float16": [0.0, -0.0, 65504.0, 6e-8, math.inf, -math.inf, math.nan],
    "float32": [0.0, -0.0, 3.4028234663852886e38, 1e-45, math.inf, -math.inf, math.nan],
    "float64": [0.0, -0.0, 1.7976931348623157e308, 5e-324, math.inf, -math.inf, math.nan],
    "complex64": [0j, complex(-0.0, 1), complex(math.nan, -math.inf), 1.5 - 2.5j],
    "complex128": [0j, complex(-0.0, 1), complex(math.nan, -math.inf), 1.1 - 2.2j],
    "bool": [True, False],
}


@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("shift", range(8))
def test_extremes_at_any_address(name, shift):
    array = np.array(EXTREMES[name], name)
    data = bytearray(b"\xff" * shift + array.tobytes())
    dtype = fastdl.DType(name)
    capsule = capsule_of((len(array),), dtype, data=memoryview(data)[shift:])
    tensor = fastdl.from_dlpack(capsule)
    assert tensor.data_ptr % 8 == (fastdl.asarray(data).data_ptr + shift) % 8
    assert_identical(tensor.tolist(), array.tolist())
    assert_identical([one.item() for one in tensor], array.tolist())
    assert_identical(tensor[::-1].copy().tolist(), array[::-1].tolist())
    assert tensor.numpy().tobytes() == array.tobytes()


def of_128_bits(*values):
    signed = min(values) < 0
    return b"".join(value.to_bytes(16, "little", signed=signed) for value in values), [*values]


HALVES = np.array([1.5, -0.0, math.inf, -2.5, math.nan, 6e-8], np.float16)


@pytest.mark.parametrize(
    ("dtype", "data", "values"),
    [
        # Any byte but 0 is true, as in NumPy; True + True of a byte 255 would be 510.
        ((6, 8, 1), bytes([0, 2, 255]), [False, True, True]),
        ((0, 128, 1), *of_128_bits(0, 1, 2**127 - 1, -(2**127), -1)),
        ((1, 128, 1), *of_128_bits(0, 1, 2**127, 2**128 - 1)),
        ((5, 32, 1), HALVES.tobytes(),
         [complex(a, b) for a, b in HALVES.astype(float).reshape(3, 2)]),
        ((18, 32, 1), bytes.fromhex("c03f 0080 807f c0bf"),
         [complex(1.5, -0.0), complex(math.inf, -1.5)]),
    ],
    ids=["bool", "int128", "uint128", "complex32", "bcomplex32"],
)  # fmt: skip
def test_types_that_numpy_has_otherwise_or_not(dtype, data, values):
    capsule = capsule_of((len(values),), dtype, data=bytearray(data))
    assert_identical(fastdl.from_dlpack(capsule).tolist(), values)


@pytest.mark.parametrize("dtype", [(2, 128, 1), (98, 32, 1), (3, 64, 1), (99, 7, 3)])
def test_types_without_numbers(dtype):
    tensor = fastdl.from_dlpack(capsule_of((1,), dtype, data=bytearray(16)))
    with pytest.raises(TypeError, match="cannot be expressed in Python"):
        tensor.tolist()
    with pytest.raises(TypeError, match="cannot be expressed in Python"):
        tensor.item()
    assert str(tensor.dtype) in repr(tensor)


# ---- lanes, packed and padded ---------------------------------------------------------------


def laid_out(values, bits, lanes, padded):
    """Patterns as bytes: `lanes` of them make an element, low bits first, padded or packed."""
    elements = [values[i : i + lanes] for i in range(0, len(values), lanes)]
    step = -(-bits * lanes // 8) * 8 if padded else bits * lanes
    whole = 0
    for i, element in enumerate(elements):
        for k, value in enumerate(element):
            whole |= value << (i * step + k * bits)
    return bytearray(whole.to_bytes(-(-len(elements) * step // 8) + 1, "little"))


@st.composite
def narrow_tensors(draw):
    """(tensor, its elements by the model) of a type below 8 bits."""
    name = draw(st.sampled_from(sorted(NARROW)))
    code, bits = NARROW[name]
    lanes = draw(st.sampled_from([1, 1, 2, 2, 3, 4, 5, 8, 9]))
    padded = draw(st.booleans())
    size = draw(st.integers(0, 17))
    values = draw(
        st.lists(st.integers(0, 2**bits - 1), min_size=size * lanes, max_size=size * lanes)
    )
    tensor = fastdl.from_dlpack(
        capsule_of(
            (size,),
            (code, bits, lanes),
            data=laid_out(values, bits, lanes, padded),
            flags=SUBBYTE_PADDED if padded else 0,
        )
    )
    table = reference(name, bits)
    numbers = [table[value] for value in values]
    if lanes > 1:
        numbers = [tuple(numbers[i * lanes : (i + 1) * lanes]) for i in range(size)]
    return tensor, numbers


@given(narrow_tensors())
def test_narrow_elements(case):
    tensor, numbers = case
    copied = tensor.copy()
    assert (copied.dtype, copied.nbytes) == (tensor.dtype, tensor.nbytes)
    for one in (tensor, copied):
        assert_identical(one.tolist(), numbers)
    if tensor.size == 1:
        assert identical(tensor.item(), numbers[0])
    array, lanes = tensor.numpy(), tensor.dtype.lanes
    assert array.shape == (tensor.shape if lanes == 1 else (*tensor.shape, lanes))
    kind = int if "int" in tensor.dtype.name else float
    flat = [kind(value) for value in array.ravel()]
    assert_identical(flat, [n for e in numbers for n in (e if lanes > 1 else (e,))])


@pytest.mark.parametrize(
    ("dtype", "data", "numbers"),
    [
        ("int4", [0x21, 0xF8], [1, 2, -8, -1]),
        ("uint4", [0x21, 0xF8], [1, 2, 8, 15]),
        ("uint1", [0b00000101], [1, 0, 1, 0]),
        ("int4x2", [0x21, 0xF8], [(1, 2), (-8, -1)]),
        ("uint1x2", [0b1001], [(1, 0), (0, 1)]),
        ("float4_e2m1fn", [0x21, 0xF8], [0.5, 1.0, -0.0, -6.0]),
        ("float4_e2m1fnx2", [0x21, 0xF8], [(0.5, 1.0), (-0.0, -6.0)]),
        ("float6_e2m3fn", [0b01001000, 0b0000], [1.0, 0.125]),
        ("float32x2", list(np.array([1.5, 2, 3, 4], "f4").tobytes()), [(1.5, 2.0), (3.0, 4.0)]),
        ("boolx3", [0, 1, 1], [(False, True, True)]),
    ],
)
def test_layouts_by_hand(dtype, data, numbers):
    capsule = capsule_of((len(numbers),), fastdl.DType(dtype), data=bytearray(data))
    assert_identical(fastdl.from_dlpack(capsule).tolist(), numbers)


def test_strided_lanes():
    data = bytearray(np.arange(24, dtype=np.int16).tobytes())
    tensor = fastdl.from_dlpack(capsule_of((4, 3), (0, 16, 2), data=data))
    expected = np.arange(24, dtype=np.int16).reshape(4, 3, 2)
    assert tensor[::-2, 1:].tolist() == [
        [tuple(e) for e in row] for row in expected[::-2, 1:].tolist()
    ]
    np.testing.assert_array_equal(tensor[::-2, 1:].numpy(), expected[::-2, 1:])


PADDING = [0x0F, 0xFF, 0xF1, 0x01, 0x08, 0xF8, 0x71, 0x3F]


@pytest.mark.parametrize(
    "name",
    ["int2", "int4", "uint2", "uint4", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"],
)
def test_padding_is_no_part_of_the_values(name):
    """ml_dtypes reads the bits beside narrow floating elements, which may be anything."""
    code, bits, _ = DType(name).__dlpack_data_type__()
    data = bytearray(PADDING)
    tensor = fastdl.from_dlpack(
        capsule_of((2, 4), (code, bits, 1), data=data, flags=SUBBYTE_PADDED)
    )
    clean = fastdl.from_dlpack(
        capsule_of(
            (2, 4),
            (code, bits, 1),
            data=bytearray(byte & ((1 << bits) - 1) for byte in PADDING),
            flags=SUBBYTE_PADDED,
        )
    )
    array = tensor.numpy()
    assert tensor.tolist() == clean.tolist()
    np.testing.assert_array_equal(array.astype(float), np.array(tensor.tolist(), float))
    np.testing.assert_array_equal(fastdl.convert(tensor[1:], np.ndarray), array[1:])
    if not name.startswith("float"):
        assert array.ctypes.data == tensor.data_ptr
        return
    with pytest.raises(ValueError, match="copy"):
        np.asarray(tensor, copy=False)
    with pytest.raises(fastdl.CopyRequiredError):
        fastdl.convert(tensor, np.ndarray, copy=False)


def test_padding_as_ml_dtypes_has_it_is_shared():
    for name in ("int4", "uint4", "float4_e2m1fn"):
        array = np.arange(6).astype(getattr(ml_dtypes, name))
        tensor = fastdl.from_dlpack(array)
        assert np.shares_memory(tensor.numpy(), array)
        assert np.shares_memory(fastdl.convert(tensor, np.ndarray, copy=False), array)


def test_large_packed_tensors():
    data = bytearray(np.random.default_rng(1).integers(0, 256, 25_000, np.uint8).tobytes())
    tensor = fastdl.from_dlpack(capsule_of((50_000,), (1, 4, 1), data=data))
    expected = [n for byte in data for n in (byte & 15, byte >> 4)]
    assert tensor.tolist() == expected


# ---- shapes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "nested"),
    [
        (np.array(5), 5),
        (np.zeros((0,)), []),
        (np.zeros((2, 0)), [[], []]),
        (np.zeros((0, 2)), []),
        (np.arange(6).reshape(1, 2, 3), [[[0, 1, 2], [3, 4, 5]]]),
        (np.arange(6).reshape(2, 3).T, [[0, 3], [1, 4], [2, 5]]),
        (np.broadcast_to(np.arange(2), (2, 2)), [[0, 1], [0, 1]]),
    ],
)
def test_nesting(array, nested):
    assert fastdl.from_dlpack(array).tolist() == nested


def test_tolist_of_64_dimensions():
    value = fastdl.from_dlpack(np.full((1,) * 64, 7)).tolist()
    for _ in range(64):
        assert len(value) == 1
        value = value[0]
    assert value == 7


def test_item_takes_no_arguments():
    with pytest.raises(TypeError):
        fastdl.from_dlpack(np.zeros(3)).item(0)


@pytest.mark.parametrize("kind", [3, 11])
def test_pinned_memory_is_read(kind):
    data = bytearray(np.array([1.5, 2.5], np.float32).tobytes())
    tensor = fastdl.from_dlpack(capsule_of((2,), data=data, device=(kind, 0)))
    assert tensor.tolist() == [1.5, 2.5]
    assert tensor.numpy().tolist() == [1.5, 2.5]


# ---- repr of narrow and vector types --------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "size", "data", "start"),
    [
        ("int4", 3, [0x21, 0x08], "[1, 2, -8], "),
        ("int4", 16, [0] * 8, "shape=(16,)"),  # packed elements cannot be cut into views
        ("float4_e2m1fnx2", 2, [0x21, 0xF8], "[(0.5, 1.0), (-0.0, -6.0)], "),
        ("bfloat16", 2, [0x80, 0x3F, 0x00, 0xC0], "[1., -2.], "),
        ("complex64", 1, [*np.array([1 - 2.5j], "c8").tobytes()], "[1.-2.5j], "),
        ("float64", 2, [*np.array([1e10, np.nan]).tobytes()], "[1.e+10, nan], "),
    ],
)
def test_repr(dtype, size, data, start):
    capsule = capsule_of((size,), fastdl.DType(dtype), data=bytearray(data))
    assert repr(fastdl.from_dlpack(capsule)).startswith(f"fastdl.Tensor({start}")


# ---- NumPy ----------------------------------------------------------------------------------


def test_packed_data_is_not_shared_with_numpy():
    tensor = fastdl.from_dlpack(capsule_of((2,), (0, 4, 1), data=bytearray([0x21])))
    tensor.numpy()[0] = 5
    assert tensor.tolist() == [1, 2]
    with pytest.raises(ValueError, match="copy"):
        np.asarray(tensor, copy=False)


@pytest.mark.parametrize("dtype", [(2, 128, 1), (0, 128, 1), (98, 32, 1), (99, 7, 3), (99, 4, 2)])
def test_types_that_numpy_has_not(dtype):
    tensor = fastdl.from_dlpack(capsule_of((1,), dtype, data=bytearray(16)))
    with pytest.raises(TypeError, match="neither NumPy nor ml_dtypes"):
        tensor.numpy()
