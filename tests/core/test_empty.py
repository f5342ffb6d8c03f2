# SPDX-License-Identifier: Apache-2.0
"""fastdl.empty: new host memory."""

import numpy as np
import pytest

import fastdl
from dlpack_conformance.elements import row_major
from fastdl._core import tensor as core
from fastdl._native import dtype_facts
from tests.support.ctypes_dlpack import opened


@pytest.mark.parametrize(
    "shape",
    [
        (),
        (1,),
        (7,),
        (2, 3),
        (4, 1, 5),
        (0,),
        (3, 0, 2),
        (2**62, 0, 2**62),
        (1,) * 64,
        [2, 3],
        range(1, 4),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "complex128"])
def test_shapes(shape, dtype):
    tensor = fastdl.empty(shape, dtype)
    assert tensor.shape == tuple(shape)
    assert tensor.strides == tuple(row_major(shape))
    assert tensor.dtype == fastdl.DType(dtype)
    assert tensor.device == (1, 0)
    assert tensor.is_contiguous()
    assert not tensor.readonly
    assert not tensor.is_copied


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 255, 256, 257, 4096, 100_003])
def test_alignment(size):
    tensors = [fastdl.empty(size, "uint8") for _ in range(20)]
    assert all(tensor.data_ptr % 256 == 0 for tensor in tensors)
    assert len({tensor.data_ptr for tensor in tensors}) == 20


@pytest.mark.parametrize("size", [1, 100, 100_003])
def test_memory_can_be_written_to_the_last_byte(size):
    tensors = [fastdl.empty(size, "uint8") for _ in range(5)]
    for i, tensor in enumerate(tensors):
        tensor.numpy()[:] = i
    for i, tensor in enumerate(tensors):
        assert bytes(tensor) == bytes([i]) * size


def test_an_int_is_a_shape():
    assert fastdl.empty(5).shape == (5,)
    assert fastdl.empty(np.int64(5)).shape == (5,)
    assert fastdl.empty((np.uint8(2), 3)).shape == (2, 3)


def test_defaults():
    tensor = fastdl.empty(3)
    assert (tensor.dtype.name, tensor.device) == ("float32", (1, 0))


@pytest.mark.parametrize("name", [row[0] for row in dtype_facts()])
def test_every_type(name):
    tensor = fastdl.empty((3, 5), name)
    bits = fastdl.DType(name).bits
    assert tensor.dtype.name == name
    assert tensor.nbytes == (15 * bits + 7) // 8
    assert opened(tensor.__dlpack__(max_version=(1, 3))).flags == 0  # packed where below a byte


@pytest.mark.parametrize(
    ("dtype", "nbytes"),
    [("float32x4", 96), ("int4", 3), ("uint1", 1), ("float4_e2m1fnx2", 6), ((99, 24, 1), 18),
     (fastdl.DType("int16"), 12), ((2, 64, 1), 48), ((2, 64), 48)],
)  # fmt: skip
def test_forms_of_types(dtype, nbytes):
    assert fastdl.empty((2, 3), dtype).nbytes == nbytes


SHAPES = [
    *((), 0, 3, (3,), (2, 3), [2, 3], range(1, 3), (0, 2**62), np.int64(3), (np.int8(2), 1)),
    *(-1, (2, -1), 2**63, (2**63,), (0, -(2**70)), True, (True,), None, 1.0, "3", ("3",), {}),
    *((1,) * 64, (1,) * 65, (2**31, 2**31), (2**62, 2**62)),
]
TYPES = ["float32", "int4", "float32x4", fastdl.DType("bfloat16"), fastdl.DType("int8x3"),
         (2, 32, 1), "float", "float32\0", "\ud800", "", None, 7, (2, 999, 1)]  # fmt: skip
DEVICES = ["cpu", "cpu:0", (1, 0), fastdl.Device("cpu"), "cpu:1", "CPU", "gpu", None, "metal", 1]


def outcome(function, *arguments, **keywords):
    try:
        made = function(*arguments, **keywords)
    except Exception as error:
        return type(error), str(error)
    return made.shape, made.strides, made.dtype, made.device, made.readonly, made.is_copied


@pytest.mark.parametrize(
    "arguments",
    [
        *((shape,) for shape in SHAPES),
        *((shape, dtype) for shape in [(2, 3), -1, 4] for dtype in TYPES),
        *((shape, "int16", device) for shape in [(2, 3), None] for device in DEVICES),
    ],
    ids=repr,
)
def test_the_fast_function_and_the_general_one_agree(arguments):
    assert outcome(fastdl.empty, *arguments) == outcome(core.general_empty, *arguments)


# ---- errors ---------------------------------------------------------------------------------


REFUSED = {
    (ValueError, "as shape"): [-1, (2, -1), (0, -1), 2**63, (0, 2**63), 2**100],
    (TypeError, "as shape"):
        [None, 1.0, "3", (1.5,), (True,), True, ("2",), [[1]], (None,)],
    (MemoryError, None): [2**46, (2**20, 2**26), 2**59],
}  # fmt: skip


@pytest.mark.parametrize(
    ("error", "words", "shape"),
    [(*kind, one) for kind, shapes in REFUSED.items() for one in shapes],
)
def test_shapes_that_are_refused(error, words, shape):
    with pytest.raises(error, match=words):
        fastdl.empty(shape, "complex128")


@pytest.mark.parametrize("shape", [2**61, (2**31, 2**31), (2**62, 2**62)])
def test_more_bytes_than_64_bits_count(shape):
    with pytest.raises((MemoryError, ValueError, BufferError)) as error:
        fastdl.empty(shape, "float64")
    assert "producer" not in str(error.value)  # there is none: the caller is at fault


@pytest.mark.parametrize("dtype", [(2, 24, 1), (2, 32, 0), (0, 3, 1)])
def test_impossible_types(dtype):
    with pytest.raises((BufferError, ValueError)):
        fastdl.empty(2, dtype)


DEVICES_OUT_OF_REACH = ["cuda", "cuda_host", "cuda_managed:1", (10, 0), "metal", "oneapi", (99, 0)]


@pytest.mark.parametrize("device", DEVICES_OUT_OF_REACH)
def test_devices_out_of_reach(device):
    with pytest.raises(BufferError, match="allocate there with your library"):
        fastdl.empty(2, device=device)


def test_an_array_without_dimensions_is_a_size():
    for three in (np.array(3), fastdl.from_dlpack(np.array(3))):
        assert fastdl.empty(three).shape == (3,)
        assert fastdl.empty((three, 2)).shape == (3, 2)
    with pytest.raises(TypeError, match="only integer scalar arrays"):  # in NumPy's words
        fastdl.empty(np.array(3.0))
