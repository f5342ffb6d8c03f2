# SPDX-License-Identifier: Apache-2.0
"""Code for several element types: FASTDL_DISPATCH_*, fastdl_load and fastdl_store."""

import numpy as np
import pytest

import fastdl
from tests.support.build import CPLUSPLUS, extension, module_path
from tests.support.isolate import run_isolated

# The strictest that users have; -Wconversion sees int arithmetic on small types in any language.
STRICT = ("-pedantic", "-Wshadow", "-Wconversion")
MODULES = {
    "C99": ("dispatch_c99", "-std=c99"),
    "C++": ("dispatch_cpp", *CPLUSPLUS),
    "own half": ("dispatch_half", "-DOWN_HALF"),
}


@pytest.fixture(params=MODULES)
def module(request):
    return extension("dispatch", *MODULES[request.param], *STRICT)


def number(dtype):
    code, bits, lanes = fastdl.DType(dtype).__dlpack_data_type__()
    return code | bits << 8 | lanes << 16


FLOAT16, BFLOAT16 = number("float16"), number("bfloat16")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floating(module, dtype):
    x = np.array([1.5, -2.0, np.inf, 1e-7, 60000.0])[::-1].astype(dtype)[::2]
    y = np.zeros(3, dtype)
    with np.errstate(over="ignore"):
        assert module.double_it(x, y) == number(dtype)
        assert np.array_equal(y, x + x)


def test_bfloat16(module):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.array([1.5, -2.0, 1e38, 1e-40], ml_dtypes.bfloat16)
    y = np.zeros_like(x)
    assert module.double_it(fastdl.from_dlpack(x), fastdl.from_dlpack(y)) == BFLOAT16
    assert y.tolist() == (x.astype("f8") * 2).astype(ml_dtypes.bfloat16).tolist()


def test_other_types_are_refused_by_the_list(module):
    with pytest.raises(TypeError, match="^x: expected float32, float64, float16 or bfloat16, got"):
        module.double_it(np.ones(3, "i4"), np.ones(3, "i4"))


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"])
def test_number(module, dtype):
    assert module.total(np.array([1, 100, 26], dtype)) == 127
    with pytest.raises(TypeError):
        module.total(np.ones(3, "?"))


@pytest.mark.parametrize("detached", [False, True])
def test_two_arguments(module, detached):
    assert module.sizes(number("int16"), number("float64"), detached) == (2, 8)
    assert module.sizes(number("uint32"), number("float32"), detached) == (4, 4)
    assert module.sizes(number("int64"), number("float64"), detached) == (8, 0)
    for a, b, words in [
        ("float32", "float64", "of FASTDL_DISPATCH_INTEGER, got float32: .*FASTDL_LIST_INTEGER"),
        ("int8", "bfloat16", "of FASTDL_DISPATCH_REAL, got bfloat16: .*FASTDL_LIST_REAL"),
    ]:
        with pytest.raises(TypeError, match=f"^expected an element type {words}"):
            module.sizes(number(a), number(b), detached)
    assert module.sum() == 7.5


@pytest.mark.parametrize("name", MODULES)
def test_an_unlisted_type_before_any_exchange(name):
    path = module_path("dispatch", *MODULES[name], *STRICT)
    run_isolated(
        f"""
        from tests.support.build import load_module
        module = load_module("dispatch", {str(path)!r})
        for detached in (False, True):
            try:
                module.sizes({number("bool")}, 0, detached)
            except TypeError as error:
                assert "got bool" in str(error), error
            else:
                raise AssertionError
        """
    )


def test_every_float16(module):
    for bits in range(1 << 16):
        raw = np.uint16(bits).tobytes()
        expected = float(np.frombuffer(raw, np.float16)[0])
        value = module.load(FLOAT16, raw)
        assert value == expected or (np.isnan(value) and np.isnan(expected))
        if not np.isnan(value):
            assert module.store(FLOAT16, 2, value) == raw


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_rounding_is_to_nearest_even_in_one_step(module, name):
    """Around each number and each midpoint, from double, against NumPy and exact arithmetic."""
    fraction = {"float16": 10, "bfloat16": 7}[name]
    top = ((1 << (15 - fraction)) - 1) << fraction
    dtype = number(name)

    def value(bits):
        return module.load(dtype, np.uint16(bits).tobytes())

    for bits in [*range(70), *range(1000, 1100), *range(top // 2, top // 2 + 70),
                 *range(top - 70, top - 1)]:  # fmt: skip
        low, high = value(bits), value(bits + 1)
        middle = (low + high) / 2  # exact: double has many more bits
        even = bits if bits % 2 == 0 else bits + 1
        for x, expected in [
            (low, bits),
            (middle, even),
            (np.nextafter(middle, low), bits),
            (np.nextafter(middle, high), bits + 1),
        ]:
            assert module.store(dtype, 2, x) == np.uint16(expected).tobytes(), (bits, x)
            assert module.store(dtype, 2, -x) == np.uint16(expected | 0x8000).tobytes()
    for x, expected in [(np.inf, top), (1e300, top), (0.0, 0), (5e-324, 0), (1e-300, 0)]:
        assert module.store(dtype, 2, x) == np.uint16(expected).tobytes()
    assert np.isnan(module.load(dtype, module.store(dtype, 2, np.nan)))
    largest = value(top - 1)
    limit = largest + (largest - value(top - 2)) / 2  # from here on it is infinity
    assert module.store(dtype, 2, limit) == np.uint16(top).tobytes()
    assert module.store(dtype, 2, np.nextafter(limit, 0)) == np.uint16(top - 1).tobytes()


def test_floats_and_other_types(module):
    for code, kind in ((number("float32"), "f4"), (number("float64"), "f8")):
        raw = np.array(0.1, kind).tobytes()
        assert module.load(code, raw) == float(np.array(0.1, kind))
        assert module.store(code, len(raw), 0.1) == raw
    assert module.load(number("int32"), b"\1\0\0\0") == 0
    assert module.store(number("int32"), 4, 1.0) == b"unse"
