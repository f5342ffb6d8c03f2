# SPDX-License-Identifier: Apache-2.0
"""fastdl::tensor and fastdl::owned in functions of nanobind and pybind11: one set of functions,
compiled for both."""

import contextlib
import gc
import os
import re
import sys
import textwrap
import tracemalloc
import types
import weakref
from array import array as floats

import ml_dtypes
import numpy as np
import pytest

import fastdl
from tests.support.cxx import binding
from tests.support.isolate import run_isolated
from tests.support.producers import CPU, CUDA, Given, Producer, Tabled, hostile, raises
from tests.support.threads import together

pytestmark = pytest.mark.slow

LIBRARIES = ("nanobind", "pybind11")

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]


@pytest.fixture(scope="module", params=LIBRARIES)
def library(request):
    return request.param


#: Of test_clang.py, which has these tests run once more.
COMPILER = tuple(os.environ.get("FASTDL_CASTERS_BY", "").split())


@pytest.fixture(scope="module")
def casters(library):
    flags = ("-O0",) if COMPILER else ()
    return binding(f"casters_{library}", library, None, *flags, compiler=COMPILER)


def readonly(array):
    array.setflags(write=False)
    return array


def on_device(device, **fields):
    """A producer of six float32 there; nobody may look at its memory."""
    return Producer(Given(device=device, **fields), device=device)


ONE = np.ones(6, "float32")
MATRIX = np.ones((2, 3), "float32")


# ---- arguments ----


@pytest.mark.parametrize("name", DTYPES)
def test_element_type(casters, name):
    """Each function takes its own type of all, and says what it expected of the others."""
    for dtype in DTYPES:
        array = np.zeros(5, dtype)
        if dtype == name:
            assert getattr(casters, name)(array) == 5
        else:
            with pytest.raises(TypeError, match=f"^x: expected {name}, got {dtype}: convert it"):
                getattr(casters, name)(array)


def test_any_element_type(casters):
    for array in (np.zeros(5, "int16"), np.zeros(5, ml_dtypes.bfloat16), readonly(np.zeros(5))):
        assert casters.anything(array) == 5


def aligned(offset):
    """Float32 memory that begins so many elements behind a multiple of 64 bytes."""
    memory = np.zeros(64, "float32")
    first = -memory.ctypes.data // 4 % 16
    return memory[first + offset :][:6]


# function: (what it takes, [what it refuses, the exception, what that says])
CONSTRAINTS = {
    "writable_float32": (ONE, readonly(ONE.copy()), BufferError, "a writable tensor, got a read-o"),
    "writable": (np.ones(6, "int8"), readonly(ONE.copy()), BufferError, "a writable tensor, got"),
    "float32_or_int32": (readonly(ONE.copy()), np.ones(6), TypeError, "float32 or int32, got floa"),
    "writable_float32_or_int32": (ONE, readonly(ONE.copy()), BufferError, "a writable tensor"),
    "ndim0": (np.array(1.0), ONE, ValueError, "0 dimensions, got 1: reshape it"),
    "ndim2": (MATRIX, ONE, ValueError, "2 dimensions, got 1: reshape it"),
    "shape_none": (np.array(1.0), ONE, ValueError, "0 dimensions, got 1"),
    "shape_any_3": (MATRIX, MATRIX.T, ValueError, r"shape \(any, 3\), got \(3, 2\)"),
    "c_contiguous": (MATRIX, MATRIX.T, BufferError, "a row-major contiguous layout, got strides"),
    "f_contiguous": (MATRIX.T, MATRIX, BufferError, "a column-major contiguous layout"),
    "contiguous": (MATRIX.T, MATRIX[:, ::2], BufferError, "a contiguous layout, in either order"),
    "inner_contiguous": (MATRIX[:, :2], MATRIX[:, ::2], BufferError, "a last dimension of stride"),
    "aligned64": (
        aligned(0),
        aligned(1),
        BufferError,
        "data aligned to 64 bytes, got an address 4",
    ),
    "cpu": (ONE, on_device(CUDA), BufferError, "host memory, got cuda:0: move it first"),
    "anything": (ONE, on_device(CUDA), BufferError, "host memory, got cuda:0: move it first"),
    "cuda": (on_device(CUDA), ONE, BufferError, "cuda, got cpu:0: move it first"),
    "oneapi": (on_device((14, 1)), on_device(CUDA), BufferError, "oneapi, got cuda:0: move it"),
    "all_at_once": (on_device(CUDA), MATRIX.T, ValueError, r"shape \(2, 3\), got \(3, 2\)"),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraint(casters, name):
    good, bad, error, message = CONSTRAINTS[name]
    function = getattr(casters, name)
    if isinstance(good, Producer):
        good = on_device(good.device)  # what a producer gives is gone once it was taken
    assert function(good) == getattr(good, "size", 6)
    if isinstance(bad, Producer):
        bad = on_device(bad.device)
    with pytest.raises(error, match=f"^x: expected {message}.* \\(x is an? .* tensor of shape"):
        function(bad)


@pytest.mark.parametrize("name", ["ndim2", "shape_any_3"])
def test_matrix_constraints_take_any_matrix_of_that_form(casters, name):
    assert getattr(casters, name)(np.ones((7, 3))[::-2]) == 12


def test_any_device(casters):
    for device in (CUDA, (10, 1), (14, 0)):
        assert casters.any_device(on_device(device)) == 6
    assert casters.any_device(ONE) == 6


def test_the_handle_tells_everything(casters):
    array = readonly(np.arange(24.0).reshape(4, 6))[::-2, 1::3]
    code = 2 | 64 << 8 | 1 << 16
    expected = (code, 2, 4, [2, 2], [-12, 3], True, CPU, array.ctypes.data, np.ndarray)
    assert tuple(casters.facts(array)) == expected
    given = Given(device=(2, 3), data=4096, byte_offset=8, shape=(3,), strides=(2,))
    source = Producer(given, device=(2, 3))
    code = 2 | 32 << 8 | 1 << 16
    assert tuple(casters.facts(source)) == (code, 1, 3, [3], [2], False, (2, 3), 4104, Producer)


SIZES = """
#define FASTDL_IMPLEMENTATION
#include <fastdl/pybind11.h>

template <typename Tensor> int64_t size(const Tensor &x)
{
    return x.size();
}

PYBIND11_MODULE(sizes, m)
{
    m.def("any", &size<fastdl::tensor<>>);
    m.def("of_three", &size<fastdl::tensor<fastdl::ndim<3>>>);
    m.def("kept", &size<fastdl::owned<>>);
}
"""


def test_no_size_overflows(tmp_path):
    """A tensor without elements may have any other sizes. The process ends where one overflows."""
    (tmp_path / "sizes.cpp").write_text(SIZES)
    run_isolated(f"""
    from pathlib import Path
    from tests.support.cxx import binding
    from tests.support.producers import Given, Producer

    traps = "-fsanitize=signed-integer-overflow", "-fsanitize-undefined-trap-on-error"
    source = Path({str(tmp_path)!r}, "sizes.cpp")
    sizes = binding("sizes", "pybind11", source, *traps)
    for shape, size in (((2**40, 2**40, 0), 0), ((0, 2**40, 2**40), 0), ((1, 2, 3), 6)):
        for function in (sizes.any, sizes.of_three, sizes.kept):
            assert function(Producer(Given(shape=shape, strides=(1, 1, 1)))) == size
    """)


def test_elements_by_index(casters):
    memory = np.zeros((4, 6), "float32")
    casters.fill(memory[::-2, 1::3], 5)
    expected = np.zeros((4, 6))
    expected[3, [1, 4]] = 5, 6
    expected[1, [1, 4]] = 15, 16
    np.testing.assert_array_equal(memory, expected)


def test_visit_finds_the_element_type(casters):
    for dtype in ("float32", "float64", "int32"):
        assert casters.visit(np.arange(10, dtype=dtype)[::-3]) == f"{dtype} 18"


def test_visit_types_of_two_bytes(casters):
    assert casters.visit_halves(np.ones(3, "float16")) == "float16 15360"
    assert casters.visit_halves(np.ones(3, ml_dtypes.bfloat16)) == "bfloat16 16256"
    assert casters.bfloat16(np.ones(3, ml_dtypes.bfloat16)) == 3


def test_optional(casters):
    assert casters.optional(None) == -1
    assert casters.optional(ONE) == 6


def test_keywords_and_signature(casters):
    assert casters.float32(x=ONE) == 6
    text = casters.shape_any_3.__doc__
    assert "x: typing.Annotated[typing.Any, dict(shape=(None, 3), device='cpu')]" in text
    text = casters.all_at_once.__doc__
    assert "[typing.Any, dict(dtype='float32', shape=(2, 3), order='C')]" in text
    text = casters.writable_float32_or_int32.__doc__
    assert "dict(dtype='float32 | int32', device='cpu', writable=True)" in text
    assert "dict(shape=(), device='cpu')" in casters.ndim0.__doc__
    assert "dict(order='CF', device='cpu')" in casters.contiguous.__doc__
    assert "dict(device='cuda')" in casters.cuda.__doc__
    assert "dict(device=14)" in casters.oneapi.__doc__
    assert "typing.Any, dict()]" in casters.any_device.__doc__
    assert "-> object" in casters.counted.__doc__


# ---- overloads ----


@pytest.mark.parametrize("scale", [2.0, 2, np.float64(2)])  # the latter two may need a conversion
def test_overloads_by_element_type(casters, scale):
    assert casters.pick(scale, ONE) == "float32"
    assert casters.pick(scale, np.ones(3)) == "float64"
    assert casters.pick(scale, 7.0) == "scalar"
    assert casters.pick(scale, 7) == "scalar"


def test_overloads_without_the_mark_agree_on_what_fits(casters):
    assert casters.pick_plain(2.0, ONE) == "float32"
    assert casters.pick_plain(2.0, np.ones(3)) == "float64"


def test_an_exception_waits_for_the_other_arguments(casters):
    assert casters.pick_by(ONE, 1) == "number"
    assert casters.pick_by(ONE, "a") == "text"


def test_an_interrupt_is_no_reason_to_try_another_overload(casters):
    with pytest.raises(KeyboardInterrupt):
        casters.pick(2.0, Producer(Given(), act=raises(KeyboardInterrupt)))


# ---- what goes wrong on the way ----


def test_the_producers_own_exception(casters):
    with pytest.raises(LookupError, match="^not today"):
        casters.anything(Producer(Given(), act=raises(LookupError("not today"))))


@pytest.mark.parametrize("kind", [Producer, Tabled])
@pytest.mark.parametrize(
    ("function", "error"),
    [("float32", None), ("float64", TypeError), ("ndim0", ValueError), ("cuda", BufferError)],
)
def test_what_was_borrowed_is_given_back(casters, kind, function, error):
    given = Given()
    source = kind(given)
    if error is None:
        assert getattr(casters, function)(source) == 6
    else:
        with pytest.raises(error):
            getattr(casters, function)(source)
    given.assert_released()


def test_given_back_by_every_overload(casters):
    """Each of two passes asks three functions; each time the producer makes another tensor."""
    made = []

    def act(self):
        made.append(Given(dtype=(0, 8, 1)))
        return made[-1].capsule()

    with pytest.raises(TypeError):
        casters.pick(2, Producer(Given(), act=act))
    assert len(made) >= 2
    for given in made:
        given.assert_released()


def test_a_cpp_exception_gives_back_too(casters):
    given = Given()
    with pytest.raises(RuntimeError, match="^of 6$"):
        casters.throw_after(Producer(given))
    given.assert_released()


def test_function_that_runs_without_the_gil(casters):
    """Nor are exceptions made without it: pybind11 asks for arguments after it is released."""
    given = Given()
    assert casters.released(Producer(given)) == 6
    given.assert_released()
    for _ in range(100):
        with pytest.raises(TypeError, match="^x: expected float32, got float64"):
            casters.released(np.ones(3))


def test_threads(casters):
    """Good and bad calls on several threads."""

    def work(i):
        assert casters.released(ONE) == 6
        with contextlib.suppress(TypeError):
            casters.released([])
            raise AssertionError("no exception")

    together(*[work] * 4)


# ---- members that throw ----


def test_as_another_element_type(casters):
    casters.read_as_float(readonly(ONE.copy()))
    casters.write_as_float(ONE)


def test_as_an_element_type_that_autograd_would_miss(casters, monkeypatch):
    torch = types.SimpleNamespace(is_grad_enabled=lambda: enabled)
    monkeypatch.setitem(sys.modules, "torch", torch)
    kind = type("Tensor", (Producer,), {"__module__": "torch", "requires_grad": True,
                                        "is_neg": lambda self: False})  # fmt: skip
    enabled = True
    casters.read_as_float(kind(Given()))
    with pytest.raises(BufferError, match=r"^x: expected .* torch\.no_grad\(\)"):
        casters.write_as_float(kind(Given()))
    enabled = False
    casters.write_as_float(kind(Given()))


def test_expect_like_and_no_alias(casters):
    casters.like(MATRIX, MATRIX.T.copy().T)
    casters.like(np.array(1.0), np.array(2.0))
    array = np.ones(10)
    casters.no_alias(array, array)
    casters.no_alias(array[:5], array[5:])
    casters.no_alias(array[::2], array[1::2])


@pytest.fixture
def set_stream():
    yield hostile.set_stream
    hostile.set_stream(0, 0, False)


def test_a_stream_of_ones_own(casters, set_stream):
    """In full in test_c_order.py: here the errors are thrown."""
    casters.order(ONE, 77)
    set_stream(0, 77, False)
    casters.order(Tabled(Given(device=CUDA)), 77)
    given = Given(device=CUDA)
    with pytest.raises(BufferError, match="no CUDA driver"):
        casters.order(Tabled(given), 78)
    given.assert_released()


def test_work_stream(casters, set_stream):
    assert casters.work_stream(ONE) == 0
    set_stream(0, 77, False)
    assert casters.work_stream(Tabled(Given(device=CUDA))) == 77
    set_stream(-1, 0, True)
    given = Given(device=CUDA)
    with pytest.raises(LookupError, match="no stream from the hostile table"):
        casters.work_stream(Tabled(given))
    given.assert_released()


def test_loans_of_a_list(casters):
    givens = [Given(), Given(dtype=(2, 64, 1)), Given()]
    assert casters.total([ONE, MATRIX]) == 12
    with pytest.raises(TypeError, match="^x: expected float32, got float64"):
        casters.total([Producer(given) for given in givens])
    givens[0].assert_released()
    givens[1].assert_released()
    givens[2].assert_alive()


# ---- tensors that are kept ----


def vector(first):
    """Three float32 that count from `first`."""
    return Given(shape=(3,), memory=floats("f", (first, first + 1, first + 2)))


def test_a_member_keeps_its_argument(casters):
    array = np.arange(4, dtype="float32")
    table = casters.Table(array[1:])
    array[3] = 30
    alive = weakref.ref(array)
    del array
    gc.collect()
    assert alive() is not None
    assert table.sum() == 33
    table.add(np.ones(2, "float32"))
    assert table.sum() == 35
    assert table.room_for(MATRIX) == 6
    del table
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("kind", [Producer, Tabled])
def test_what_is_kept_is_released_with_its_holder(casters, kind):
    givens = [vector(1), vector(10), vector(100)]
    table = casters.Table(kind(givens[0]))
    for given in givens[1:]:
        table.add(kind(given))
    for given in givens:
        given.assert_alive()
    assert table.sum() == 6 + 33 + 303
    del table
    gc.collect()
    for given in givens:
        given.assert_released()


@pytest.mark.parametrize("name", ["released_kept", "released_value"])
def test_what_is_kept_is_released_without_the_gil(library, name):
    """An argument ends before the call guard that released the GIL does."""
    run_isolated(f"""
import numpy as np
from tests.support.cxx import binding
from tests.support.producers import Given, Producer
casters = binding("casters_{library}", "{library}")
given = Given(shape=(3,))
assert casters.{name}(Producer(given)) == 3
given.assert_released()
for _ in range(100):
    assert casters.{name}(np.ones(3, "float32")) == 3
""")


def test_what_is_kept_may_outlive_python(library):
    run_isolated(f"""
import numpy as np
from tests.support.cxx import binding
binding("casters_{library}", "{library}").keep_for_ever(np.ones(3, "float32"))
""")


def test_items_of_a_list_are_kept(casters):
    givens = [vector(1), vector(10)]
    assert casters.sum_of_all([Producer(given) for given in givens]) == 6 + 33
    for given in givens:
        given.assert_released()
    arrays = [np.full(i, i, "float32") for i in (1, 2, 3)]
    back = casters.reversed(arrays)
    assert [a.tolist() for a in back] == [a.tolist() for a in arrays[::-1]]
    assert all(np.shares_memory(a, b) for a, b in zip(back, arrays[::-1], strict=True))


def test_an_item_that_does_not_fit(casters, library):
    givens = [vector(1), vector(10)]
    error = "^x: expected float32, got" if library == "pybind11" else "incompatible function"
    with pytest.raises(TypeError, match=error):
        casters.sum_of_all([Producer(givens[0]), np.ones(3), Producer(givens[1])])
    givens[0].assert_released()
    givens[1].assert_alive()


def test_a_kept_tensor_is_returned(casters):
    array = np.arange(3, dtype="float32")
    same = casters.same(array)
    assert type(same) is np.ndarray
    assert np.shares_memory(same, array)
    assert not casters.same(readonly(array.copy())).flags.writeable
    assert type(casters.same(fastdl.asarray(array))) is fastdl.Tensor
    given = vector(5)
    back = casters.same(Producer(given))
    assert back.tolist() == [5, 6, 7]
    given.assert_alive()
    del back
    given.assert_released()
    table = casters.Table(array)
    assert np.shares_memory(table.take(), array)
    with pytest.raises(ValueError, match="one that was moved from"):
        table.take()


def test_what_a_kept_tensor_must_be(casters):
    given = Given()
    with pytest.raises(ValueError, match=r"^x: expected 1 dimension, got 2"):
        casters.same(Producer(given))
    given.assert_released()
    array = np.zeros(3, "float32")
    casters.write_kept(array)
    assert array.tolist() == [7, 7, 7]
    assert casters.optional_kept(None) == -1
    assert casters.optional_kept(np.zeros(4, "float32")) == 4
    code = 2 | 64 << 8 | 1 << 16
    strided = readonly(np.arange(24.0).reshape(4, 6))[::-2, 1::3]
    assert tuple(casters.kept_facts(strided)) == (code, [2, 2], [-12, 3], True)
    assert casters.kept_pick(2, ONE) == "float32"
    assert casters.kept_pick(2, np.ones(3)) == "float64"
    assert casters.kept_pick(2, 3) == "scalar"
    assert casters.two_bytes(ONE).tolist() == [0, 0]
    assert "dtype='float32', shape=(None,)" in casters.same.__doc__
    assert "-> object" in casters.same.__doc__


# ---- arguments that are copied where they do not fit ----


NUMBERS = np.arange(6.0).reshape(2, 3)
DOUBLE, FLOAT, INT32, INT8 = (
    code | bits << 8 | 1 << 16 for code, bits in ((2, 64), (2, 32), (0, 32), (0, 8))
)


CONVERT = 32
PADDED = np.zeros((3, 8), "float32")[:, :4]
INT8S = np.ones(3, "int8")
#: Functions, their arguments, and of the first of these as they see it the strides and the element
#: type of a copy; None if it is shared, and ... for either.
SEEN = [
    *(row for x, dtype in ((NUMBERS, DOUBLE), (NUMBERS.astype("int8"), INT8),
                           (readonly(NUMBERS.copy()), DOUBLE)) for row in [
        ("copied_c", [x], [3, 1], None), ("copied_c", [x.T], [2, 1], dtype),
        ("copied_f", [x], [1, 2], dtype), ("copied_f", [x.T], [1, 3], None)]),
    ("converted_double", [NUMBERS], [3, 1], None),
    *(("converted_double", [NUMBERS.astype(name)], [3, 1], DOUBLE)
      for name in ("bool", "int8", "uint64", "float16", "float32")),
    ("converted_any", [INT8S], [1], INT32),  # the first
    ("converted_any", [np.zeros(2)], [1], FLOAT),
    ("converted_kept", [NUMBERS], [3, 1], None),
    ("converted_kept", [MATRIX.T], [2, 1], DOUBLE),
    ("from_array", [bytearray(b"abc")], [1], None),
    ("from_array_kept", [bytearray(b"abc")], [1], None),
    # By a loan with a specification made at run time, with constraints or without.
    ("seen_with", [NUMBERS, 0, 0], [3, 1], None),
    ("seen_with", [MATRIX.T, 2, CONVERT], [2, 1], FLOAT),
    ("seen_with", [INT8S, 1, CONVERT], [1], DOUBLE),
    ("seen_with_float", [MATRIX, 0, 0], [3, 1], None),
    ("seen_with_array", [floats("d", range(3)), 1, 0], [1], None),
    # The element type and the layout are what both allow, in one copy.
    *(("seen_with_converted_float", [INT8S.astype(name), 1, 0], [1], FLOAT)
      for name in ("int8", "float64")),
    *(("seen_column_major", [x], [1, len(x)], DOUBLE) for x in (MATRIX, MATRIX.T)),
    *(("seen_by_rows", [x, layout], [x.shape[1], 1], ...)
      for x in (MATRIX.T, PADDED, PADDED.T) for layout in (0, 1 | 2, 4, 2 | 4)),
    *(("seen_by_columns", [x, layout], [1, x.shape[0]], ...)
      for x in (MATRIX.T, PADDED, PADDED.T) for layout in (0, 1 | 2, 2 | 4)),
]  # fmt: skip


@pytest.mark.parametrize(("function", "arguments", "strides", "copied"), SEEN)
def test_copied_or_converted_where_needed(casters, function, arguments, strides, copied):
    x = np.asarray(arguments[0])
    dtype, *seen, is_copy, address = getattr(casters, function)(*arguments)
    assert seen == [list(x.shape), strides]
    assert copied is ... or is_copy is (copied is not None)
    assert (address == x.ctypes.data) is not is_copy
    assert copied in (None, ..., dtype)


def test_sums_of_what_was_converted(casters):
    for dtype in ("bool", "int8", "uint64", "float16", "float32"):
        expected = NUMBERS.astype(dtype).astype("float64").sum()
        assert casters.sum_of_matrix(NUMBERS.astype(dtype).T) == expected
    assert casters.sum_of_matrix(NUMBERS[:, ::-2]) == 10
    assert casters.sum_of_matrix(np.zeros((0, 3), "int8")) == 0


def test_a_copy_is_for_calls_that_may_convert(casters):
    for function in (casters.converted_marked, casters.kept_marked):
        assert not tuple(function(NUMBERS))[3]
    assert casters.pick_converted(MATRIX) == "float32"
    assert casters.pick_converted(MATRIX.T) == "float32"
    assert casters.pick_converted(NUMBERS) == "float64"
    assert casters.pick_converted(NUMBERS.astype("int8")) == "float32"  # the first


def test_converted_and_kept(casters):
    np.testing.assert_array_equal(casters.same_converted(MATRIX.T), MATRIX.T.astype("float64"))
    assert np.shares_memory(casters.same_converted(NUMBERS), NUMBERS)


@pytest.mark.parametrize("function", ["sum_of_matrix", "converted_kept"])
def test_what_was_copied_is_given_back(casters, function):
    for fields in ({}, {"dtype": (2, 64, 1)}, {"dtype": (5, 128, 1)}):
        given = Given(shape=(2,), **fields)
        try:
            getattr(casters, function)(Producer(given))
        except TypeError:
            assert fields == {"dtype": (5, 128, 1)}
        given.assert_released()


def test_constraints_of_copies_are_in_the_signature(casters):
    text = casters.converted_double.__doc__
    assert "dict(dtype='float64', order='C', device='cpu', converted=True)" in text
    assert "dict(order='C', device='cpu', copied=True)" in casters.copied_c.__doc__


@pytest.mark.parametrize(
    ("function", "ndim", "fields", "error", "words"),
    [
        ("seen_with", 1, {}, ValueError, "1 dimension, got 2"),
        ("seen_with_float", 0, {"dtype": (2, 64, 1), "memory": floats("d", range(6))}, TypeError,
         "float32, got float64"),
    ],
)  # fmt: skip
def test_a_loan_that_is_refused_is_released(casters, function, ndim, fields, error, words):
    given = Given(**fields)
    with pytest.raises(error, match=f"^x: expected {words}"):
        getattr(casters, function)(Producer(given), ndim, 0)
    given.assert_released()


@pytest.mark.parametrize("offset", [4, 1])
def test_such_a_copy_is_aligned_as_the_constraints_say(casters, offset):
    x = aligned(0).view("uint8")[offset:][:20].view("float32")

    def address(seen):
        return tuple(seen(x, 0))[4]

    assert address(casters.seen_aligned) % 64 == 0
    for seen in (casters.seen_by_default, casters.seen_by_default_spec):
        assert (address(seen) % 64 == 0) is (offset == 1)
    assert address(casters.seen_anywhere) == x.ctypes.data
    assert casters.aligned1(x) == 5
    casters.like(x, x.copy())  # alignment is not compared
    casters.no_alias(x, x.copy())
    for function in (casters.float32, casters.anything) if offset == 1 else ():
        with pytest.raises(BufferError, match="^x: expected data aligned to 4 bytes"):
            function(x)


# ---- results ----


def test_results_are_of_the_callers_type(casters):
    result = casters.filled_like(MATRIX.T, 3)
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, [[3, 4], [5, 6], [7, 8]], strict=False)
    assert result.dtype == np.float32
    assert result.flags.writeable
    result = casters.counted(np.ones(1))
    np.testing.assert_array_equal(result, np.arange(6, dtype="int32").reshape(2, 3), strict=True)
    result = casters.filled_like(fastdl.asarray(ONE), 1)
    assert type(result) is fastdl.Tensor
    assert result.tolist() == [1, 2, 3, 4, 5, 6]
    result = casters.counted(Producer(Given()))
    assert type(result) is fastdl.Tensor  # nothing can make a Producer
    assert result.tolist() == [[0, 1, 2], [3, 4, 5]]


class Proxy:
    """Its instances are tensors, and its type is not."""

    def __init__(self, array):
        self.array = array

    def __getattr__(self, name):
        return getattr(self.array, name)


def made_like(casters, x):
    for function in (casters.like_array, casters.like_kept_array, casters.like_loaned_array):
        empty, moved = function(x)
        assert type(empty) is type(moved)
        assert fastdl.from_dlpack(empty).shape == (2,)
        assert fastdl.from_dlpack(moved).tolist() == [1, 2, 3]
        yield type(empty)


def test_results_like_what_is_no_tensor_but_an_array(casters):
    """Its type can make none, so they are of the type that fastdl.asarray returned."""
    for x in (b"abc", bytearray(3), memoryview(b"abc"), np.uint8(3), Proxy(np.zeros(3, "u1"))):
        assert set(made_like(casters, x)) == {fastdl.Tensor}
        for function in (casters.empty_like_array, casters.same_array):
            result = function(x)
            assert type(result) is fastdl.Tensor
            assert (result.shape, str(result.dtype)) == (np.shape(fastdl.asarray(x)), "uint8")
    memory = bytearray(b"abc")
    assert np.shares_memory(np.asarray(casters.same_array(memory)), np.frombuffer(memory, "u1"))
    for kind in (np.ndarray, fastdl.Tensor):
        assert set(made_like(casters, fastdl.convert(np.zeros(3), kind))) == {kind}


def test_two_results(casters):
    first, second = casters.two_results(fastdl.asarray(MATRIX))
    assert (type(first), first.shape) == (fastdl.Tensor, (2, 3))
    assert (type(second), second.shape, str(second.dtype)) == (fastdl.Tensor, (2,), "int32")


@pytest.mark.parametrize("like", [np.ndarray, fastdl.Tensor])
def test_results_on_the_memory_of_containers(casters, like):
    x = fastdl.convert(np.zeros(1, np.float32), like)
    where, result = casters.from_container(x, 2, 3)
    assert type(result) is like
    tensor = fastdl.from_dlpack(result)
    assert (tensor.data_ptr, tensor.tolist()) == (where, [[0, 1, 2], [3, 4, 5]])
    tensor, view = None, np.asarray(result)[1:]
    result = None
    assert (casters.containers(), view.tolist()) == (1, [[3, 4, 5]])
    view = None
    gc.collect()
    assert casters.containers() == 0
    for size in (0, 4):
        where, result = casters.from_vector(x, size)
        tensor = fastdl.from_dlpack(result)
        assert (tensor.tolist(), tensor.dtype, tensor.readonly) == ([7] * size, "int16", False)
        assert not size or tensor.data_ptr == where
    where, result = casters.from_unique_ptr(x, 1, 3)
    tensor = fastdl.from_dlpack(result)
    assert (tensor.data_ptr, tensor.readonly) == (where, True)
    assert tensor.tolist() == [[0, 1.5, 0]]
    where, result = casters.from_std_array(x)
    tensor = fastdl.from_dlpack(result)
    assert tensor.tolist() == [7, 8]
    assert tensor.data_ptr != where  # the elements of a std::array move with it


def test_results_that_are_not_returned(casters):
    casters.drop_result(ONE, False)
    with pytest.raises(RuntimeError, match="^after allocation$"):
        casters.drop_result(ONE, True)


@pytest.mark.library("torch")
def test_torch(library):
    """In a process of its own: torch takes seconds, and much memory."""
    code = """
    import gc, sys
    import pytest, torch
    from tests.support.cxx import binding

    casters = binding("casters_LIBRARY", "LIBRARY")
    x = torch.ones(4, 6)
    casters.fill(x[1:, ::2], 5)
    assert x[1:, ::2].tolist() == [[5, 6, 7], [15, 16, 17], [25, 26, 27]]
    assert casters.float32(x.t()) == 24
    assert casters.float16(torch.ones(3, dtype=torch.float16)) == 3
    result = casters.filled_like(x[0], 2)
    assert type(result) is torch.Tensor and result.dtype == torch.float32
    assert result.tolist() == [2, 3, 4, 5, 6, 7]
    result = casters.counted(x)
    assert result.dtype == torch.int32 and result.tolist() == [[0, 1, 2], [3, 4, 5]]
    result += 1
    assert casters.three(x, x, result.float()) == 54

    def refuse():
        with pytest.raises(TypeError, match="^x: expected float64, got float32: convert it first"):
            casters.float64(x)

    refuse()
    with pytest.raises((BufferError, TypeError, RuntimeError)):
        casters.anything(torch.ones(3).to_sparse())
    with pytest.raises(BufferError):
        casters.anything(torch.ones(3, dtype=torch.complex64).conj())
    # Nobody holds the tensor after good and bad calls.
    before = sys.getrefcount(x), sys.getrefcount(torch.Tensor)
    for _ in range(100):
        casters.float32(x), casters.counted(x), refuse()
    gc.collect()
    assert (sys.getrefcount(x), sys.getrefcount(torch.Tensor)) == before
    print("done")
    """
    assert run_isolated(code.replace("LIBRARY", library)) == "done\n"


# ---- what is refused ----

FROZEN, BYTES = readonly(ONE.copy()), np.ones((2, 3), "int8")
NO_SUCH = "incompatible function arguments"
ONE_FLOAT = np.zeros(1, "float32")
#: Functions, their arguments, and what they raise. A function makes an argument that is used up.
REFUSED = [
    *(("anything", [x], TypeError, "expected a (tensor|DLPack producer).*neither")
      for x in ([1.0], 3, "text", b"bytes", object(), np.float32, memoryview(b""))),
    ("anything", [None], TypeError, "NoneType"),
    ("optional", [np.ones(2)], TypeError, "^x: expected float32, got float64"),
    ("optional", [[1.0]], TypeError, "'list'"),
    ("visit", [np.arange(3)], TypeError,
     "^argument: expected float32, float64 or int32, got int64"),
    ("visit_halves", [ONE], TypeError, "^argument: expected float16 or bfloat16, got float32"),
    *(("pick", [scale, BYTES], TypeError, NO_SUCH) for scale in (2.0, 2, np.float64(2))),
    ("pick_plain", [2.0, BYTES], TypeError, "^argument: expected float32, got int8"),
    ("pick_by", [np.ones(3), "a"], TypeError, "^argument: expected float32, got float64"),
    ("pick_by", [np.ones(3), []], TypeError, NO_SUCH),
    ("kept_pick", [2, BYTES], TypeError, NO_SUCH),
    ("read_as_float", [BYTES], TypeError, "^x: expected float32, got int8"),
    ("write_as_float", [BYTES], TypeError, "^x: expected float32, got int8"),
    ("write_as_float", [FROZEN], BufferError, "^x: expected a writable tensor"),
    ("like", [MATRIX, MATRIX.T], ValueError, r"^x: expected shape \(3, 2\), got \(2, 3\)"),
    ("like", [ONE, MATRIX], ValueError, "^x: expected 2 dimensions, got 1"),
    ("like", [ONE, np.ones(6)], TypeError, "^x: expected float64, as y has, got float32"),
    ("like", [MATRIX, lambda: on_device(CUDA)], BufferError,
     "^x: expected cuda:0, where y is, got cpu:0"),
    ("no_alias", [ONE[:4], ONE[3:]], ValueError,
     "^x: expected no memory shared with y, got an overlap"),
    ("two_bytes_as_float", [ONE], TypeError, "^result: expected float32, got int8"),
    ("two_bytes_as_matrix", [ONE], ValueError, "^result: expected 2 dimensions, got 1"),
    ("same", [np.ones(3)], TypeError, "^x: expected float32, got float64"),
    ("same", [MATRIX], ValueError, "^x: expected 1 dimension, got 2"),
    ("same", [[1.0]], TypeError, "^x: expected a tensor, got .*list"),
    ("write_kept", [FROZEN], BufferError, "expected a writable tensor"),
    ("copied_double", [MATRIX], TypeError, "^x: expected float64, got float32"),
    ("copied_c", [lambda: on_device(CUDA)], BufferError, "^x: expected host memory, got cuda:0"),
    ("converted_double", [np.ones(3, "complex128")], TypeError, "expected float64, got complex128"),
    ("converted_double", [[1.0, 2.0]], TypeError, "expected a tensor, got .*list"),
    ("converted_double", [None], TypeError, "NoneType"),
    ("converted_int8", [NUMBERS], TypeError, "^x: expected int8, got float64"),
    ("converted_int8", [np.array([1, 300])], ValueError, "expected numbers that fit int8, got 300"),
    ("converted_matrix", [ONE], ValueError, "^x: expected 2 dimensions, got 1"),
    *((f"{name}_marked", [MATRIX], TypeError, NO_SUCH) for name in ("converted", "kept")),
    *((name, [x], TypeError, words) for name in ("from_array", "from_array_kept") for x, words in [
        ([1, 2], r"pass numpy\.asarray"),
        (memoryview(bytearray(4)).cast("h"), "expected uint8, got int16")]),
    ("seen_with", [[1.0], 1, 0], TypeError, "^x: expected a tensor, got .*list"),
    ("seen_with", [floats("d", range(3)), 1, 0], TypeError,
     "expected a tensor, got .*array.array"),
    ("seen_with_converted_float", [np.ones(3, "complex64"), 1, 0], TypeError,
     "^x: expected float32, got complex64"),
    *(("seen_with_write", [BYTES, 2, rules], TypeError,
       "^x: expected float64 or float32, got int8") for rules in (0, 32)),  # never to a copy
    ("seen_with_write", [FROZEN.reshape(2, 3), 2, 0], BufferError, "^x: expected a writable"),
    ("seen_by_columns", [MATRIX, 1], BufferError, "expected a column-major contiguous layout"),
    ("counted", [lambda: Tabled(Given())], NotImplementedError, "hostile table allocates nothing"),
    ("moved_from", [ONE], ValueError, "one that was moved from"),
    *(("from_container", [ONE_FLOAT, *shape], ValueError,
       rf"^make_owned: expected a shape of 6 elements, got {re.escape(str(shape))}$")
      for shape in [(2, 2), (2, 4), (0, 3), (-2, -3), (0, -1), (2**62, 8), (2**63 - 1,) * 2]),
    *(("from_unique_ptr", [ONE_FLOAT, *shape], ValueError,
       f"^make_owned: expected a shape of at most {2**60 - 1} elements, got "
       + re.escape(str(shape))) for shape in [(0, -1), (-1, 0), (2**62, 8)]),
]  # fmt: skip


@pytest.mark.parametrize(("function", "arguments", "error", "words"), REFUSED)
def test_what_is_refused(casters, function, arguments, error, words):
    made = [x() if isinstance(x, types.LambdaType) else x for x in arguments]
    with pytest.raises(error, match=words):
        getattr(casters, function)(*made)
    del made
    gc.collect()
    assert casters.containers() == 0


# ---- nothing is kept ----


def attempt(function, *arguments):
    with pytest.raises((TypeError, ValueError, BufferError, LookupError, RuntimeError)):
        function(*arguments)


class Failing:
    def __dlpack__(self, **keywords):
        raise LookupError("not today")

    def __dlpack_device__(self):
        return CPU


NOBODY = Failing()
VECTOR = np.ones(3, "float32")
OPERATIONS = {
    "taken": lambda c: c.three(ONE, ONE, ONE),
    "optional": lambda c: (c.optional(ONE), c.optional(None)),
    "overloaded": lambda c: (c.pick(2, np.ones(2)), c.pick(2, 2)),
    "mismatch": lambda c: attempt(c.float64, ONE),
    "second mismatch": lambda c: attempt(c.like, ONE, MATRIX),
    "two mismatches": lambda c: attempt(c.three, np.ones(2), np.ones(2), ONE),
    "no overload": lambda c: attempt(c.pick, 2.0, np.ones(2, "int8")),
    "no tensor": lambda c: attempt(c.anything, [1.0]),
    "failed producer": lambda c: attempt(c.anything, NOBODY),
    "failed producer, overloaded": lambda c: attempt(c.pick, 2.0, NOBODY),
    "without the GIL": lambda c: attempt(c.released, [1.0]),
    "thrown": lambda c: attempt(c.throw_after, ONE),
    "result": lambda c: c.filled_like(ONE, 1),
    "dropped result": lambda c: attempt(c.drop_result, ONE, True),
    "failed result": lambda c: attempt(c.moved_from, ONE),
    "kept": lambda c: (c.Table(VECTOR).sum(), c.optional_kept(None), c.optional_kept(VECTOR)),
    "kept in a list": lambda c: c.reversed([VECTOR, VECTOR]),
    "not kept in a list": lambda c: attempt(c.reversed, [VECTOR, ONE, [1.0], MATRIX]),
    "not kept": lambda c: attempt(c.same, MATRIX),
    "returned": lambda c: c.same(VECTOR),
    "copied": lambda c: (c.sum_of_matrix(MATRIX.T), c.converted_kept(MATRIX.T)),
    "not copied": lambda c: attempt(c.converted_int8, np.array([300])),
    "with a specification": lambda c: (c.seen_with(ONE, 1, 0), attempt(c.seen_with, ONE, 2, 0)),
    "two results": lambda c: c.two_results(ONE),
    "kept, overloaded": lambda c: (c.kept_pick(2, np.ones(2)), c.kept_pick(2, 2)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_nothing_is_kept(casters, name):
    def used(times):
        for _ in range(times):
            OPERATIONS[name](casters)
        gc.collect()
        counts = [sys.getrefcount(x) for x in (ONE, MATRIX, VECTOR, NOBODY, np.ndarray, Failing)]
        return counts, tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        counts, memory = used(100)  # caches are filled
        grown = []
        for _ in range(3):
            counts_after, memory_after = used(1000)
            grown.append(memory_after - memory)
            memory = memory_after
    finally:
        tracemalloc.stop()
    assert counts_after == counts
    # An exception is larger. CPython's cache of attributes keeps some names it was asked for, so
    # one round says little: what is leaked is leaked in each.
    assert min(grown) < 60 * 1000


# ---- without the package ----


@pytest.mark.parametrize("name", LIBRARIES)
def test_without_the_package(name):
    """The casters look for it at the first call, and do without."""
    code = """
    import sys
    from tests.support.cxx import binding

    sys.modules["fastdl"] = None  # its import fails
    casters = binding("casters_LIBRARY", "LIBRARY")
    import numpy as np
    import pytest

    assert casters.float64(np.ones(3)) == 3  # by __dlpack__
    for function, argument, said in [
        (casters.float32, np.ones(3), "^x: expected float32, got float64"),
        (casters.float32, [1.0], "^x: expected a tensor"),
        (casters.counted, np.ones(3), None),  # no table for NumPy's arrays
        (casters.same_array, b"abc", None),  # nor a fastdl.Tensor
    ]:
        with pytest.raises(TypeError, match=said):
            function(argument)
    print("done")
    """
    assert run_isolated(code.replace("LIBRARY", name)) == "done\n"


# ---- the import of the package, at the first call ----


def during_the_import(library, then):
    """Runs `then`, in a process whose casters import the package at their first call; `at_import`
    runs in the import, and may be replaced."""
    code = """
    import sys, threading
    from tests.support.cxx import binding
    import numpy as np

    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name == "fastdl":
                at_import()

    sys.meta_path.insert(0, Finder())
    casters = binding("casters_LIBRARY", "LIBRARY")
    assert "fastdl" not in sys.modules
    x = np.ones(3)
    """
    code = textwrap.dedent(code).replace("LIBRARY", library) + textwrap.dedent(then)
    return run_isolated(code + "\nprint('done')")


@pytest.mark.parametrize("name", LIBRARIES)
def test_threads_that_come_during_the_import_wait_for_it(name):
    """Without the package there is no table for NumPy's arrays, so a result is a TypeError."""
    during_the_import(
        name,
        """
        found, importing, ended = [], threading.Event(), threading.Event()

        def at_import():
            importing.set()
            ended.wait(0.3)  # not reached by those that wait

        def call():
            try:
                found.append(type(casters.counted(x)))
            except TypeError as error:
                found.append(error)
            ended.set()

        threads = [threading.Thread(target=call) for _ in range(4)]
        threads[0].start()
        assert importing.wait(10)
        for thread in threads[1:]:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [np.ndarray] * 4, found
        """,
    )


@pytest.mark.parametrize("name", LIBRARIES)
def test_what_the_import_calls_does_without_the_package(name):
    """A hook of the import, or the garbage collector: it neither waits for itself nor imports."""
    during_the_import(
        name,
        """
        seen = []

        def at_import():
            seen.append(casters.float64(x))

        assert type(casters.counted(x)) is np.ndarray
        assert seen == [3]
        """,
    )


@pytest.mark.parametrize("name", LIBRARIES)
def test_an_import_that_was_interrupted_is_made_again(name):
    during_the_import(
        name,
        """
        def at_import():
            raise KeyboardInterrupt

        import pytest
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                casters.float64(x)
        at_import = lambda: None
        assert type(casters.counted(x)) is np.ndarray
        """,
    )
