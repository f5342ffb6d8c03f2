# SPDX-License-Identifier: Apache-2.0
"""What each axpy of docs/examples must do, whatever it is written in.

Runs in a child, since what is tested here may crash: see test_examples.py. FASTDL_EXAMPLES: the
folders of the modules.
"""

import array
import gc
import os
import sys
from functools import cache
from importlib import machinery, util

import numpy as np
import pytest

import fastdl
from tests.interop.peers import BY_NAME, require
from tests.support.ctypes_dlpack import FakeProducer

FOLDERS = os.environ["FASTDL_EXAMPLES"].split(os.pathsep)


@cache
def loaded(folder):
    found = machinery.PathFinder.find_spec("axpy", [folder])
    module = util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(params=FOLDERS)
def axpy(request):
    return loaded(request.param)


# Library -> the type of a result for an argument of it.
RESULTS = {
    "numpy": "numpy.ndarray",
    "torch": "torch.Tensor",
    "tvm_ffi": "tvm_ffi.core.Tensor",  # these types have no table: bridges make them
    "jax": "jaxlib._jax.ArrayImpl",
}


@pytest.fixture(params=RESULTS)
def peer(request):
    require(request.param)
    return BY_NAME[request.param]


def is_jax(peer):
    """Whose arrays never change, and have no float64 unless it is asked for."""
    return peer.name == "jax"


def dtypes_of(peer):
    return ["float32"] if is_jax(peer) else ["float32", "float64"]


def type_name(value):
    return f"{type(value).__module__.removesuffix('._core.tensor')}.{type(value).__qualname__}"


def test_adds_in_place(axpy, peer):
    for dtype in dtypes_of(peer):
        x = peer.make([1.0, -2.0, 3.0], dtype)
        y = (BY_NAME["numpy"] if is_jax(peer) else peer).make([10.0, 20.0, 30.0], dtype)
        assert axpy.axpy(0.5, x, y) is None
        assert np.from_dlpack(y).tolist() == [10.5, 19.0, 31.5]
        assert peer.values(x) == [1.0, -2.0, 3.0]


def test_results_are_of_the_callers_framework(axpy, peer):
    for dtype in dtypes_of(peer):
        x = peer.make([1.0, -2.0, 3.0], dtype)
        result = axpy.scaled(0.5, x)
        assert type_name(result) == RESULTS[peer.name]
        assert np.from_dlpack(result).tolist() == [0.5, -1.0, 1.5]
        assert np.from_dlpack(result).dtype == dtype
        assert peer.values(x) == [1.0, -2.0, 3.0]


def test_two_libraries_in_one_call(axpy, peer):
    x = peer.make([1.0, 2.0], "float32")
    y = np.ones(2, np.float32)
    axpy.axpy(2.0, x, y)
    assert y.tolist() == [3.0, 5.0]
    if not is_jax(peer):
        axpy.axpy(2.0, np.ones(2, np.float32), x)
        assert peer.values(x) == [3.0, 4.0]


def test_any_object_with_a_buffer(axpy):
    """By way of asarray: what has neither a table nor `__dlpack__`."""
    x, y = array.array("d", [1.0, 2.0]), array.array("d", [0.0, 1.0])
    axpy.axpy(3.0, fastdl.asarray(x), fastdl.asarray(y))
    assert y.tolist() == [3.0, 7.0]
    result = axpy.scaled(3.0, fastdl.asarray(x))
    assert type(result) is fastdl.Tensor
    assert result.tolist() == [3.0, 6.0]


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_strides(axpy, library, dtype):
    require(library)
    peer = BY_NAME[library]
    matrix = peer.make([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype)
    axpy.axpy(10.0, matrix[1][::2], matrix[0][1:])
    assert peer.values(matrix) == [[1.0, 42.0, 63.0], [4.0, 5.0, 6.0]]
    axpy.axpy(1.0, matrix[:, 0], matrix[:, 1])  # entwined, with nothing in common
    assert peer.values(matrix) == [[1.0, 43.0, 63.0], [4.0, 9.0, 6.0]]
    assert peer.values(axpy.scaled(2.0, matrix[:, 2])) == [126.0, 12.0]


@pytest.mark.parametrize("step", [-1, -2, 3])
def test_negative_strides_and_broadcast_input(axpy, step):
    y = np.zeros(12)
    axpy.axpy(1.0, np.arange(12.0)[::step], y[::step])
    expected = np.zeros(12)
    expected[::step] = np.arange(12.0)[::step]
    assert y.tolist() == expected.tolist()
    axpy.axpy(1.0, np.broadcast_to(np.float64(5), 12), y)
    assert y.tolist() == (expected + 5).tolist()
    assert axpy.scaled(2.0, np.broadcast_to(np.float64(5), 3)).tolist() == [10.0, 10.0, 10.0]


def test_empty_vectors(axpy, peer):
    x = peer.make([], "float32")
    axpy.axpy(1.0, x, np.empty(0, np.float32))
    assert tuple(axpy.scaled(1.0, x).shape) == (0,)


def test_y_may_be_x(axpy):
    y = np.array([1.0, 2.0, 3.0])
    axpy.axpy(2.0, y, y)
    assert y.tolist() == [3.0, 6.0, 9.0]


def test_an_output_that_requires_grad(axpy):
    """Its gradient would miss what is written."""
    require("torch")
    import torch

    x, y = (torch.ones(3, requires_grad=True) for _ in "xy")
    with pytest.raises(BufferError, match=r"^y: expected .* requires grad"):
        axpy.axpy(1.0, x, y)
    with torch.no_grad():
        axpy.axpy(1.0, x, y)
    assert y.tolist() == [2.0, 2.0, 2.0]


def read_only(vector):
    vector.flags.writeable = False
    return vector


MEMORY = np.arange(6.0)
ON_CUDA = FakeProducer((2, 0), shape=(3,), dtype=(2, 64, 1))
# What is wrong -> x, y, the exception, and what its message must say.
BAD = {
    "x has integers": (np.arange(3), np.zeros(3), TypeError, ["x", "float32 or float64", "int64"]),
    "y of another type": (np.zeros(3), np.zeros(3, "f"), TypeError, ["y", "float64", "float32"]),
    "x is a matrix": (np.zeros((3, 3)), np.zeros(3), ValueError, ["x", "1 dimension", "2"]),
    "x is a scalar": (np.array(3.0), np.zeros(3), ValueError, ["x", "1 dimension", "0"]),
    "y is a matrix": (np.zeros(3), np.zeros((3, 1)), ValueError, ["y", "1 dimension", "2"]),
    "lengths differ": (np.zeros(3), np.zeros(4), ValueError, ["expected shape", "(4,)"]),
    "y is read-only": (np.zeros(3), read_only(np.zeros(3)), BufferError, ["y", "writable"]),
    "y shares itself": (
        *(np.zeros(3), np.lib.stride_tricks.as_strided(MEMORY, (3,), (0,))),
        *(BufferError, ["y", "do not overlap"]),
    ),
    "y overlaps x": (MEMORY[:3], MEMORY[1:4], ValueError, ["y", "overlap", "x"]),
    "x on another device": (ON_CUDA, np.zeros(3), BufferError, ["x", "host memory", "cuda:0"]),
    "y on another device": (np.zeros(3), ON_CUDA, BufferError, ["y", "host memory", "cuda:0"]),
    "x is no tensor": ([1.0], np.zeros(3), TypeError, ["'list'", "__dlpack__"]),
    "y is no tensor": (np.zeros(3), [1.0], TypeError, ["'list'", "__dlpack__"]),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input(axpy, what):
    x, y, error, words = BAD[what]
    before = np.array(y) if isinstance(y, np.ndarray) else None
    counts = sys.getrefcount(x), sys.getrefcount(y)
    for _ in range(3):
        with pytest.raises(error) as caught:
            axpy.axpy(1.0, x, y)
        assert [word for word in words if word not in str(caught.value)] == []
        del caught
    gc.collect()
    assert (sys.getrefcount(x), sys.getrefcount(y)) == counts
    if before is not None:
        assert np.array_equal(y, before)
    if what.startswith("x"):  # what concerns x alone
        with pytest.raises(error):
            axpy.scaled(1.0, x)


def test_nothing_is_kept(axpy):
    """Neither arguments nor results, over many calls."""
    x, y = np.ones(1000), np.ones(1000)
    counts = sys.getrefcount(x), sys.getrefcount(y)
    for _ in range(1000):
        axpy.axpy(1.0, x, y)
        assert sys.getrefcount(axpy.scaled(1.0, x)) <= 2
    assert (sys.getrefcount(x), sys.getrefcount(y)) == counts
