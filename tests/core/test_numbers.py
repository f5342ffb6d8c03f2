# SPDX-License-Identifier: Apache-2.0
"""A Tensor where Python expects a number or a container: int, float, index, in, ==, bytes, iter."""

import array
import cmath
import math
import operator
import struct
import sys
from fractions import Fraction
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fastdl
from fastdl._native import dtype_facts
from tests.support.ctypes_dlpack import CUDA, capsule_of

INTEGERS = [f"{kind}int{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)]
REALS = ["float16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
NARROW_INTEGERS = ["int2", "int4", "uint2", "uint4"]
NARROW_FLOATS = [
    row[0] for row in dtype_facts() if "float" in row[0] and hasattr(ml_dtypes, row[0])
]
NAMES = ["bool", *INTEGERS, *REALS, *COMPLEX, *NARROW_INTEGERS, *NARROW_FLOATS]


def numpy_dtype(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def tensor_of(values, dtype=None):
    return fastdl.from_dlpack(np.array(values, dtype))


def same(ours, theirs):
    """Equal and of one type, with NaN equal to NaN and zeros told apart."""
    return type(ours) is type(theirs) and repr(ours) == repr(theirs)


# ---- one number -----------------------------------------------------------------------------


@st.composite
def one_element(draw):
    """An array of one element of any type, of any value that the type has."""
    name = draw(st.sampled_from(NAMES))
    dtype, shape = numpy_dtype(name), draw(st.sampled_from([(), (1,), (1, 1)]))
    if name in NARROW_INTEGERS:
        limits = ml_dtypes.iinfo(dtype)
        return np.full(shape, draw(st.integers(limits.min, limits.max)), dtype)
    data = bytearray(draw(st.binary(min_size=dtype.itemsize, max_size=dtype.itemsize)))
    data[-1] &= {"bool": 1, "float6": 63, "float4": 15}.get(name.split("_")[0], 255)
    return np.frombuffer(data, dtype).reshape(shape)


def outcome(function, *arguments):
    try:
        return function(*arguments)
    except (ValueError, OverflowError) as error:  # int() of NaN and infinity
        return type(error)


@given(one_element())
@example(np.array(2**53 + 1))
@example(np.array(2**64 - 1, np.uint64))
@example(np.array(np.nan))
@example(np.array(np.inf, np.float32))
@example(np.array(-0.0))
def test_numbers_agree_with_numpys(given_array):
    tensor, scalar = fastdl.from_dlpack(given_array), given_array.reshape(())
    kind = tensor.dtype.name.rstrip("0123456789")
    if kind == "complex":
        assert same(complex(tensor), complex(scalar))
        for convert in (int, float):
            with pytest.raises(TypeError, match=r"item\(\)"):
                convert(tensor)
        return
    with np.errstate(all="ignore"):
        assert same(float(tensor), float(scalar))
        assert same(complex(tensor), complex(float(scalar)))
        assert same(outcome(int, tensor), outcome(int, scalar.item()))
    if given_array.dtype.isbuiltin == 1:
        assert same(tensor.item(), scalar.item())
    if kind in ("int", "uint") and given_array.ndim == 0:
        assert same(operator.index(tensor), int(scalar))


@given(
    hnp.arrays(
        st.sampled_from([np.dtype(name) for name in ["bool", *INTEGERS, *REALS, *COMPLEX]]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
    )
)
def test_lists_agree_with_numpys(given_array):
    assert repr(fastdl.from_dlpack(given_array).tolist()) == repr(given_array.tolist())
    assert repr(fastdl.from_dlpack(given_array.T).tolist()) == repr(given_array.T.tolist())


CONVERSIONS = [int, float, complex, operator.index, round, math.floor, math.ceil, math.trunc]
WHOLE = [np.array(value, name) for name in INTEGERS for value in (0, 1, 55, 9, 10, 32, 127)]


@pytest.mark.parametrize("convert", CONVERSIONS)
def test_conversions_agree_with_pythons(convert):
    """Memory is not read as text, where 55 is the digit 7 and 9, 10 and 32 are blanks, nor are
    integers rounded by way of floats."""
    for whole in (*WHOLE, np.array(2**60 + 1)):
        assert same(convert(fastdl.from_dlpack(whole)), convert(whole.item()))
    if convert is operator.index:
        for name in ("int4", "uint4"):
            packed = capsule_of((), fastdl.DType(name), data=bytearray([0xF3]))
            assert convert(tensor_of(3, numpy_dtype(name))) == 3
            assert convert(fastdl.from_dlpack(packed)) == 3
    else:
        assert same(convert(tensor_of(2.5)), convert(2.5))
    if convert is round:
        assert same(round(tensor_of(2.345), 2), round(2.345, 2))
        assert same(round(tensor_of(12345), -2), 12300)


def contains_one(tensor):
    return 1 in tensor


class Many:  # as torch's
    def item(self):
        raise RuntimeError("a Tensor with 2 elements cannot be converted to Scalar")


def refused():
    """Each with a fresh tensor: what is asked of it, the tensor, and words of the TypeError."""
    lanes, opaque = (capsule_of((), x, data=bytearray(8)) for x in ((0, 32, 2), (3, 64, 1)))
    for x in (True, 1.0, [1], [[1]], 1j):
        yield [operator.index], np.array(x), r"integer.*without dimensions.*item\(\)"
    for shape in [(0,), (2,), (1, 2), (3, 0)]:
        yield CONVERSIONS, np.ones(shape, np.int32), r"item\(\)"
    yield CONVERSIONS, lanes, r"int32x2.*item\(\)"
    yield CONVERSIONS, opaque, "opaque3_64"
    yield (
        [c for c in CONVERSIONS if c not in (complex, operator.index)],
        np.array(1 + 2j),
        (r"complex128.*item\(\)"),
    )
    yield [contains_one], capsule_of((2,), (3, 64, 1), data=bytearray(16)), "cannot be expressed"


def test_what_is_no_number():
    for calls, source, words in refused():
        tensor = fastdl.from_dlpack(source)
        for call in calls:
            with pytest.raises(TypeError, match=words):
                call(tensor)
    tensor = fastdl.from_dlpack(capsule_of((), (0, 64, 1), data=0x40, device=(CUDA, 0)))
    for call in (*CONVERSIONS, bytes, contains_one):
        with pytest.raises(BufferError, match="cuda:0"):
            call(tensor)


@pytest.mark.parametrize(
    "value",
    ["1", b"1", None, [1], (1,), object(), np.array([1, 2]), tensor_of([1, 2]), np.str_("1"),
     SimpleNamespace(item=5), Many()],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_in_takes_one_number(value):
    with pytest.raises(TypeError, match="expected a number"):
        value in tensor_of([1, 2])  # noqa: B015


def test_tensors_as_indices():
    two = tensor_of(2)
    assert [10, 20, 30, 40][two] == 30
    assert list(range(two)) == [0, 1]
    assert tensor_of([5, 6, 7])[two].item() == 7
    assert tensor_of([5, 6, 7])[:two].tolist() == [5, 6]
    assert hex(tensor_of(255, np.uint8)) == "0xff"
    with pytest.raises(TypeError):
        [10, 20][tensor_of([1])]


def test_formats():
    assert f"{tensor_of(1.25):.1f}" == f"{1.25:.1f}"
    assert f"{tensor_of([255]):#x}" == "0xff"
    assert f"{tensor_of(1 + 2j):.1f}" == "1.0+2.0j"
    assert f"{tensor_of([1, 2])}" == str(tensor_of([1, 2]))
    assert "%.2f %d" % (tensor_of(1.5), tensor_of(7)) == "1.50 7"  # noqa: UP031
    with pytest.raises(TypeError, match=r"item\(\)"):
        f"{tensor_of([1.0, 2.0]):.2f}"
    with pytest.raises(ValueError):
        f"{tensor_of(1.5):d}"


def test_the_rest_of_python_gets_numbers():
    tensor = tensor_of([1.5, 55.0, -2.0])
    assert struct.pack("3d", *tensor) == struct.pack("3d", 1.5, 55.0, -2.0)
    assert array.array("d", tensor) == array.array("d", [1.5, 55.0, -2.0])
    assert math.fsum(tensor) == 54.5
    assert math.sqrt(tensor[1]) == math.sqrt(55.0)
    assert cmath.sqrt(tensor[2]) == cmath.sqrt(-2)
    assert max(tensor, key=float).item() == 55.0


@pytest.mark.parametrize("name", [*INTEGERS, *REALS, *COMPLEX])
def test_numpy_gets_numbers(name):
    given_array = np.array([55, 1, 9], name)
    tensor = fastdl.from_dlpack(given_array)
    assert np.dtype(name).type(tensor[0]) == given_array[0]
    for joined in (np.array(list(tensor)), np.asarray([*tensor]), np.stack(tensor)):
        assert joined.dtype == given_array.dtype
        assert joined.tolist() == given_array.tolist()
    filled = np.zeros(3, name)
    filled[1] = tensor[0]
    assert filled.tolist() == [0, 55, 0]


def test_bools_do_not_become_numpys_by_accident():
    """bool(tensor) is refused; so is an array made of several."""
    tensor = tensor_of([True, False])
    with pytest.raises((TypeError, ValueError)):
        np.array(list(tensor))
    assert np.array(tensor).tolist() == [True, False]


# ---- bytes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0)])
def test_bytes_are_the_memory(name, shape):
    """Also those of an integer, of which Python would make as many zeros as it says."""
    given_array = np.ones(shape, numpy_dtype(name))
    for view in (given_array, np.stack([given_array] * 6)[::-1][::2]):
        assert bytes(fastdl.from_dlpack(view)) == view.tobytes()


# ---- in -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_in_compares_values(name):
    if name == "float8_e8m0fnu":
        values, missing = [1.0, 4.0], 3
    else:
        values, missing = [0, 1], 3
    tensor = tensor_of(values, numpy_dtype(name))
    assert all(value in tensor for value in values)
    assert missing not in tensor
    assert tensor[1] in tensor
    assert np.float32(values[1]) in tensor
    assert np.array([values[1]]) in tensor


def test_in_compares_as_python_does():
    tensor = tensor_of([[0.5, 2.0], [math.nan, -0.0]])
    assert Fraction(1, 2) in tensor
    assert 2 in tensor and 0 in tensor and (2 + 0j) in tensor
    assert math.nan not in tensor
    assert 0.1 not in tensor_of([0.1], np.float32)  # 0.1 is no float32
    assert np.float32(0.1) in tensor_of([0.1], np.float32)
    assert np.float32(0.1) not in tensor_of([0.1])  # nor is it rounded on the other side
    assert True in tensor_of([1, 0])
    assert 2**53 + 1 not in tensor_of([2.0**53])
    assert 5 in tensor_of(5) and 5 not in tensor_of([], np.int32)
    assert 5 not in fastdl.from_dlpack(np.zeros((2**40, 0)))  # without a look at each row
    strided = fastdl.from_dlpack(np.arange(24).reshape(2, 3, 4).T[::-1, ::2])
    assert 9 in strided and 5 not in strided


def test_in_compares_vectors_whole():
    data = bytearray(np.array([1.5, 2, 3, 4], np.float32).tobytes())
    tensor = fastdl.from_dlpack(capsule_of((2,), (2, 32, 2), data=data))
    assert (1.5, 2) in tensor
    assert tensor[1] in tensor
    assert (2, 3) not in tensor
    with pytest.raises(TypeError, match="float32x2"):
        1.5 in tensor  # noqa: B015 - the comparison is the test


# ---- == -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        1,
        "cpu",
        [1],
        (1, 2),
        np.array([1, 2]),
        np.int64(1),
        pytest.param(object(), id="object"),  # its repr would differ from process to process
        tensor_of([1, 2]),
        NotImplemented,
    ],
    ids=lambda other: type(other).__name__,
)
def test_equality_of_values_is_refused(other):
    tensor = tensor_of([1, 2])
    for compare in (operator.eq, operator.ne):
        with pytest.raises(TypeError, match=r"array_equal\(.*numpy\(\)"):
            compare(tensor, other)
    with pytest.raises(TypeError, match=type(other).__name__):
        tensor == other  # noqa: B015


def test_equality_by_identity():
    tensor = tensor_of([1, 2])
    assert (tensor == tensor) is True
    assert (tensor != tensor) is False
    assert (tensor == None) is False  # noqa: E711
    assert (tensor != None) is True  # noqa: E711
    assert (None == tensor) is False  # noqa: E711, SIM300
    for compare in (operator.lt, operator.le, operator.gt, operator.ge):
        with pytest.raises(TypeError, match="not supported between"):
            compare(tensor, None)
    array = np.array([1, 2])  # NumPy on the left compares values
    assert (array == tensor).all()
    assert np.array_equal(tensor, array)
    np.testing.assert_array_equal(tensor, array)


BINARY = [
    operator.add, operator.sub, operator.mul, operator.matmul, operator.truediv, operator.floordiv,
    operator.mod, operator.pow, operator.lshift, operator.rshift, operator.and_, operator.or_,
    operator.xor, operator.lt, operator.le, operator.gt, operator.ge, divmod,
]  # fmt: skip
REFUSAL = r"no operator '.+', since fastdl moves tensors .* numpy\.from_dlpack\(tensor\)"


@pytest.mark.parametrize("operate", BINARY)
@pytest.mark.parametrize("values", [3, [1, 2]], ids=["number", "array"])
def test_operators_say_what_to_do(operate, values):
    tensor = tensor_of(values)
    for other in (tensor, 1, 1.5, 1j, True):
        for operands in ((tensor, other), (other, tensor)):
            with pytest.raises(TypeError, match=REFUSAL):
                operate(*operands)


def test_other_operators_say_what_to_do():
    tensor = tensor_of(3)
    for operate in (operator.neg, operator.pos, operator.invert, abs):
        with pytest.raises(TypeError, match=REFUSAL):
            operate(tensor)
    with pytest.raises(TypeError, match=REFUSAL):
        tensor += 1
    for operands in ((tensor, 2, 5), (2, tensor, 5), (2, 3, tensor)):
        with pytest.raises(TypeError, match=REFUSAL):
            pow(*operands)


@pytest.mark.parametrize("operate", BINARY)
@pytest.mark.parametrize(
    "other", [np.array([[1, 2], [3, 4]]), np.int64(2), np.float64(2)], ids=repr
)
def test_operators_of_numpy_compute_as_before(operate, other):
    """A Tensor is what NumPy can read, on both sides."""
    array = np.array([[5, 6], [7, 8]])
    tensor = fastdl.from_dlpack(array)
    for sides in ((array, other), (other, array)):
        try:
            expected = operate(*sides)
        except (TypeError, ValueError):  # NumPy has no << of floats, nor @ of numbers
            expected = None
        ours = [tensor if side is array else side for side in sides]
        if expected is None:
            with pytest.raises((TypeError, ValueError)):
                operate(*ours)
        else:
            np.testing.assert_array_equal(operate(*ours), expected)
            assert type(operate(*ours)) is type(expected)


def test_operators_in_place_of_numpy_compute_as_before():
    array, tensor = np.array([1, 2]), fastdl.from_dlpack(np.array([10, 20]))
    array += tensor
    assert array.tolist() == [11, 22]
    tensor += array
    assert type(tensor) is np.ndarray and tensor.tolist() == [21, 42]


def test_another_type_may_give_operators_a_meaning():
    class Other:
        def __radd__(self, other):
            return "added to", other

        __rmul__ = __gt__ = __radd__

    tensor, other = tensor_of(3), Other()
    assert tensor + other == tensor * other == (tensor < other) == ("added to", tensor)
    for operate in (operator.sub, operator.le):
        with pytest.raises(TypeError, match="'fastdl.Tensor' and 'Other'"):
            operate(tensor, other)


def test_sequences_are_joined_and_repeated_as_before():
    three, text = tensor_of(3), fastdl.asarray(b"abc")
    assert [1, 2] * three == three * [1, 2] == [1, 2, 1, 2, 1, 2]
    assert "ab" * three == three * "ab" == "ababab"
    assert b"x" + text == b"xabc"
    assert bytearray(b"x") + text == b"xabc"
    assert f"{three}" == "%s" % three  # noqa: UP031
    for operand in ([1], "a", (1,)):
        with pytest.raises(TypeError):
            operand + three


def test_no_attributes_promise_operators():
    for name in ("__add__", "__radd__", "__iadd__", "__neg__", "__pow__", "__setitem__"):
        assert not hasattr(fastdl.Tensor, name)


@pytest.mark.parametrize("key", [0, slice(None), Ellipsis, "x", (0, 0)], ids=repr)
def test_assignment_says_what_to_do(key):
    tensor = tensor_of([1, 2])
    with pytest.raises(TypeError, match=r"no assignment: .* tensor\.numpy\(\)"):
        tensor[key] = 1
    with pytest.raises(TypeError, match="cannot be deleted"):
        del tensor[key]
    assert tensor.tolist() == [1, 2]


def test_containers_find_tensors_by_identity():
    tensors = [tensor_of([1, 2]) for _ in range(300)]
    assert tensors[0] in tensors
    assert [None, tensors[5]].index(tensors[5]) == 1
    assert [tensors[0], 1] == [tensors[0], 1]
    assert len(set(tensors)) == 300
    table = {tensor: i for i, tensor in enumerate(tensors)}
    assert all(table[tensor] == i for i, tensor in enumerate(tensors))
    assert tensor_of([1, 2]) not in table
    assert all(hash(tensor) == object.__hash__(tensor) for tensor in tensors)
    with pytest.raises(TypeError, match="array_equal"):
        tensors[1] in tensors[:1]  # noqa: B015


# ---- iteration ------------------------------------------------------------------------------


def test_iteration_keeps_no_reference():
    tensor = tensor_of([[1, 2], [3, 4]])
    objects = tensor, type(iter(tensor)), fastdl.Tensor
    before = [sys.getrefcount(x) for x in objects]
    for _ in range(100):
        for row in tensor:
            list(row)
        next(iter(tensor))
        list(reversed(tensor))
    del row
    assert [sys.getrefcount(x) for x in objects] == before


def test_iterators():
    tensor = tensor_of([1, 2, 3])
    iterator = iter(tensor)
    assert iter(iterator) is iterator
    assert operator.length_hint(iterator) == 3
    assert [int(element) for element in iterator] == [1, 2, 3]
    assert list(iterator) == []
    assert [int(element) for element in reversed(tensor)] == [3, 2, 1]
    for iterate in (iter, reversed, list):
        with pytest.raises(TypeError, match="at least one dimension"):
            iterate(tensor_of(1))
    packed = fastdl.from_dlpack(capsule_of((2,), (0, 4, 1), data=bytearray([0x21])))
    with pytest.raises(BufferError, match="share bytes"):
        list(packed)
