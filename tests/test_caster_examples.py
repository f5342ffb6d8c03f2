"""docs/examples of nanobind and pybind11, compiled by their bare command; CMake is for the tests of
the build files."""

import numpy as np
import pytest

import fastdl
from tests.support.build import ROOT
from tests.support.cxx import binding


@pytest.fixture(scope="module", params=["nanobind", "pybind11"])
def example(request):
    library = request.param
    source = ROOT / "docs" / "examples" / library / "axpy.cpp"
    assert len(source.read_text().splitlines()) <= 60  # a guide quotes it
    return binding(f"axpy_{library}", library, source, "-std=c++20")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("a", [2, 0.5])
def test_axpy(example, dtype, a):
    x = np.arange(10, dtype=dtype)[::-3]
    y = np.ones((4, 3), dtype)[:, 1]
    example.axpy(a, x, y)
    np.testing.assert_array_equal(y, a * x + 1)
    example.axpy(a, y, y)  # in place
    np.testing.assert_array_equal(y, (1 + a) * (a * x + 1))


def test_axpy_of_two_libraries(example):
    y = fastdl.asarray(np.ones(3))
    example.axpy(3.0, np.arange(3.0), y)
    assert y.tolist() == [1, 4, 7]


def test_result_is_of_the_callers_type(example):
    x = np.arange(6.0)[::2]
    result = example.scaled(3.0, x)
    np.testing.assert_array_equal(result, [0, 6, 12])
    assert result.dtype == np.float64
    result = example.scaled(3.0, fastdl.asarray(x.astype("float32")))
    assert type(result) is fastdl.Tensor
    assert (result.tolist(), result.dtype) == ([0, 6, 12], fastdl.DType("float32"))


READ_ONLY = np.ones(3)
READ_ONLY.setflags(write=False)


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        ([1.0], np.ones(3), TypeError, "got 'list'"),
        (np.ones(3, int), np.ones(3), TypeError, "x: expected float32 or float64, got int64"),
        (np.ones(3), np.ones(3, "f"), TypeError, "x: expected float32, as y has, got float64"),
        (np.ones((3, 1)), np.ones(3), ValueError, "x: expected 1 dimension, got 2"),
        (np.ones(4), np.ones(3), ValueError, r"x: expected shape \(3,\), got \(4,\)"),
        (np.ones(3), READ_ONLY, BufferError, "y: expected a writable tensor, got a read-only one"),
    ],
)
def test_bad_input(example, x, y, error, message):
    with pytest.raises(error, match=message):
        example.axpy(2.0, x, y)


def test_overlap(example):
    memory = np.ones(5)
    with pytest.raises(ValueError, match="y: expected memory apart from that of x"):
        example.axpy(2.0, memory[:3], memory[1:4])
