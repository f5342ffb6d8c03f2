# SPDX-License-Identifier: Apache-2.0
"""Element types, possible and not (faults T1 to T6). T7, arrays of NumPy
that DLPack cannot describe, is in test_numpy_bridge.py."""

import ml_dtypes
import numpy as np
import pytest

import fastdl
from fastdl._native import dtype_facts
from tests.support.producers import Given, assert_accepted, assert_refused, entries, every_way

PADDED = 4

# The types of DLPack 1.3, and of the code after it: code -> possible bits. 3 is opaque; int, uint
# and float leave the sizes open, and the ones here exist in the field.
POSSIBLE = {
    0: {1, 2, 4, 8, 16, 32, 64, 128},
    1: {1, 2, 4, 8, 16, 32, 64, 128},
    2: {16, 32, 64, 128},
    4: {16},
    5: {32, 64, 128},
    6: {8},
    **{key: {8} for key in range(7, 15)},
    15: {6},
    16: {6},
    17: {4},
    18: {32},
}
OPAQUE = (3, max(POSSIBLE) + 1, 200, 255)

ZEROS = bytes(1 << 14)


def enter(code, bits, lanes=1, **fields):
    """A tensor of that type over plenty of zeros."""
    given = Given(memory=ZEROS, dtype=(code, bits, lanes), shape=(3,), **fields)
    return fastdl.from_dlpack(given.capsule())


@pytest.mark.parametrize("code", [*POSSIBLE, *OPAQUE])
def test_t1_t2_every_code_and_size(code):
    """Accepted as it is, or refused: all 256 sizes of every code."""
    accepted = set()
    for bits in range(256):
        try:
            tensor = enter(code, bits)
        except BufferError:
            continue
        assert tensor.dtype.__dlpack_data_type__() == (code, bits, 1)
        assert tensor.nbytes == (3 * bits + 7) // 8
        assert "shape=(3,)" in repr(tensor)
        accepted.add(bits)
    assert accepted == POSSIBLE.get(code, set(range(1, 256)))


@every_way
@pytest.mark.parametrize("code", OPAQUE)
def test_t1_unknown_code_is_carried_along(way, code):
    def check(tensor):
        assert tensor.dtype.__dlpack_data_type__() == (code, 32, 1)
        assert tensor.nbytes == 24
        for access in (tensor.tolist, tensor.numpy):
            with pytest.raises(TypeError):
                access()
        with pytest.raises(BufferError):
            memoryview(tensor)
        again = fastdl.from_dlpack(tensor.__dlpack__(max_version=(1, 0)))
        assert again.dtype.__dlpack_data_type__() == (code, 32, 1)
        assert tensor.copy().dtype.__dlpack_data_type__() == (code, 32, 1)

    assert_accepted(way, check, dtype=(code, 32, 1))


@every_way
def test_t3_several_lanes(way):
    """Part of the element: in itemsize, nbytes and values; a dimension more for NumPy."""

    def check(tensor):
        assert (tensor.shape, tensor.strides) == ((3,), (1,))
        assert (tensor.itemsize, tensor.nbytes) == (8, 24)
        assert tensor.tolist() == [(0.0, 1.0), (2.0, 3.0), (4.0, 5.0)]
        assert tensor.numpy().tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
        assert tensor[1:].tolist() == [(2.0, 3.0), (4.0, 5.0)]
        assert tensor[::-1].copy().tolist() == [(4.0, 5.0), (2.0, 3.0), (0.0, 1.0)]
        with pytest.raises(BufferError):
            memoryview(tensor)

    assert_accepted(way, check, dtype=(2, 32, 2), shape=(3,))


@pytest.mark.parametrize("dtype", [(0, 4, 2), (17, 4, 2), (1, 1, 8), (1, 2, 4)])
def test_t5_lanes_that_fill_bytes(dtype):
    """float4 of two lanes is torch's form: whole bytes, so it can be strided and indexed."""
    tensor = enter(*dtype, strides=(2,))
    assert (tensor.itemsize, tensor.nbytes) == (1, 3)
    assert tensor[1:].shape == (2,)


@every_way
@pytest.mark.parametrize(
    "fields",
    [{"shape": (3,), "strides": (2,)}, {"shape": (2, 3), "strides": (1, 2)},
     {"shape": (3,), "strides": (-1,)}, {"shape": (3,), "strides": (0,)}],
)  # fmt: skip
def test_t5_strides_over_packed_elements(way, fields):
    assert_refused(way, BufferError, "share bytes", dtype=(0, 4, 1), **fields)


NUMPY_TYPES = [
    "bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16",
    *(getattr(ml_dtypes, name) for name, _, bits, _ in dtype_facts()
      if hasattr(ml_dtypes, name) and bits != 1),
]  # fmt: skip


@entries
@pytest.mark.parametrize("kind", NUMPY_TYPES, ids=lambda kind: np.dtype(kind).name)
def test_t6_round_trip_through_numpy(enter, kind):
    """Every bit, including those of NaN, infinities and negative zero."""
    patterns = {"bool": 2, "float4_e2m1fn": 16, "float6_e2m3fn": 64, "float6_e3m2fn": 64}
    count = patterns.get(np.dtype(kind).name, 256)  # above, bits that mean nothing
    array = np.arange(count, dtype=np.uint8).repeat(np.dtype(kind).itemsize).view(kind)
    tensor = enter(array)
    back = tensor.numpy()
    assert back.dtype == array.dtype
    assert back.tobytes() == array.tobytes()
    assert tensor.copy().numpy().tobytes() == array.tobytes()
    again = enter(tensor.__dlpack__(max_version=(1, 0)))
    assert again.dtype == tensor.dtype
    assert again.numpy().tobytes() == array.tobytes()
    values = tensor.tolist()
    with np.errstate(invalid="ignore"):  # NaN
        expected = array.astype("c16" if isinstance(values[0], complex) else "f8")
    np.testing.assert_array_equal(values, expected)
