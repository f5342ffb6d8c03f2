# SPDX-License-Identifier: Apache-2.0
"""Which descriptors fastdl accepts, and what it computes from them, against a model in Python."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import fastdl
from tests.support.ctypes_dlpack import (
    CUDA,
    INT64_MAX,
    INT64_MIN,
    METAL,
    OPENCL,
    SUBBYTE_PADDED,
    Managed,
    capsule_of,
)
from tests.support.model import Model

UINT8, INT4, UINT1, FLOAT32, COMPLEX128 = (1, 8, 1), (0, 4, 1), (1, 1, 1), (2, 32, 1), (5, 128, 1)
FLOAT6, FLOAT4X2, FLOAT32X4, UINT1X3 = (15, 6, 1), (17, 4, 2), (2, 32, 4), (1, 1, 3)


def check(shape, dtype, strides=None, data=0x10000, byte_offset=0, flags=0, device=(CUDA, 0)):
    """That fastdl agrees with the model on a descriptor. Its memory is not read."""
    managed = Managed(
        shape,
        dtype,
        strides=strides,
        data=data,
        byte_offset=byte_offset,
        flags=flags,
        device=device,
    )
    has_addresses = device[0] not in (OPENCL, METAL)
    model = Model(shape, dtype, strides, data, byte_offset, flags, has_addresses)
    if not model.representable():
        with pytest.raises(BufferError, match="the tensor has"):
            fastdl.from_dlpack(managed.capsule())
        assert managed.deleted == 1
        return None
    tensor = fastdl.from_dlpack(managed.capsule())
    assert managed.deleted == 0
    assert tensor.shape == shape
    assert tensor.size == model.size
    assert tensor.itemsize == model.itemsize
    assert tensor.nbytes == model.nbytes
    assert tensor.data_ptr == (model.start if has_addresses else data or 0) % 2**64
    for order in "CF":
        assert tensor.is_contiguous(order) == model.contiguous(order), order
    if strides is not None:
        assert tensor.strides == strides
    del tensor
    assert managed.deleted == 1
    return model


edges = [0, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**32, 2**62, INT64_MAX // 3, INT64_MAX - 1, INT64_MAX]
sizes = st.one_of(
    st.integers(0, 5),
    st.sampled_from(edges),
    st.sampled_from([-1, INT64_MIN]),
    st.integers(0, 2**40),
)
jumps = st.one_of(
    st.integers(-5, 5),
    st.sampled_from([*edges, *(-n for n in edges), INT64_MIN]),
    st.integers(-(2**40), 2**40),
)
dtypes = st.sampled_from(
    [UINT8, INT4, UINT1, FLOAT32, COMPLEX128, FLOAT6, FLOAT4X2, FLOAT32X4, UINT1X3]
)
addresses = st.sampled_from([None, 1, 256, 0x10000, 2**47, 2**63, 2**64 - 8, 2**64 - 1])
offsets = st.sampled_from([0, 0, 0, 4, 2**32, 2**63, 2**64 - 256, 2**64 - 1])


@given(
    st.lists(st.tuples(sizes, jumps), max_size=5),
    dtypes,
    st.booleans(),
    addresses,
    offsets,
    st.sampled_from([0, SUBBYTE_PADDED]),
    st.sampled_from([(CUDA, 0), (OPENCL, 1), (METAL, 0)]),
)
def test_any_descriptor(dims, dtype, with_strides, data, offset, flags, device):
    shape = tuple(n for n, _ in dims)
    strides = tuple(s for _, s in dims) if with_strides else None
    check(shape, dtype, strides, data, offset, flags, device)


@given(st.lists(st.integers(1, 2**20), min_size=1, max_size=4), dtypes, st.integers(-2, 2))
@example([2**20, 2**20, 2**20, 8], UINT8, -1)
def test_sizes_near_the_limit(dims, dtype, nudge):
    # One more dimension brings the bytes to the last that fit, or the first that do not.
    rest = int(np.prod(dims, dtype=object))
    bits = dtype[1] * dtype[2]
    unit = rest * bits if bits % 8 else rest * 8 * (bits // 8)
    last = (INT64_MAX // unit) if bits % 8 else INT64_MAX * 8 // unit
    check((max(0, min(last + nudge, INT64_MAX)), *dims), dtype, data=1)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 12)), max_size=4),
    st.sampled_from([UINT8, FLOAT32]),
)
def test_contiguity_of_small_descriptors(dims, dtype):
    check(tuple(n for n, _ in dims), dtype, tuple(s for _, s in dims), data=2**32)


# ---- each limit by itself -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "dtype", "fits"),
    [
        ((INT64_MAX,), UINT8, True),
        ((2**62,), (0, 16, 1), False),
        ((2**62 - 1,), (0, 16, 1), True),
        ((2**31, 2**32), UINT8, False),
        ((2**31, 2**32 - 1), UINT8, True),
        ((2**62, 2), UINT8, False),
        ((2**32, 2**32), UINT8, False),
        ((2**32, 2**32, 0), UINT8, True),
        ((0, INT64_MAX, INT64_MAX), COMPLEX128, True),
        ((INT64_MAX // 4 - 2,), INT4, True),
        ((INT64_MAX // 4 + 1,), INT4, False),
        ((INT64_MAX // 128,), (2, 8 * 2, 64), True),
        ((INT64_MAX // 128 + 1,), (2, 16, 64), False),
        ((2**40,), (3, 255, 65535), False),
    ],
)
def test_sizes(shape, dtype, fits):
    model = check(shape, dtype, data=1)
    assert (model is not None) is fits


@pytest.mark.parametrize(
    ("shape", "strides", "data", "fits"),
    [
        ((2,), (INT64_MAX - 1,), 1, True),
        ((2,), (INT64_MAX,), 1, False),  # one byte more than a 64-bit count
        ((3,), (INT64_MAX // 2,), 1, True),
        ((3,), (INT64_MAX // 2 + 1,), 1, False),
        ((2,), (-4,), 4, True),
        ((2,), (-4,), 3, False),  # below address 0
        ((2,), (INT64_MIN,), 2**63, True),
        ((2,), (INT64_MIN,), 2**63 - 1, False),
        ((2, 2), (INT64_MIN, INT64_MIN), 2**63, False),
        ((2, 2), (INT64_MIN, INT64_MAX - 1), 2**63, True),
        ((2, 2), (INT64_MAX, INT64_MAX), 1, False),
        ((1, 1), (INT64_MAX, INT64_MIN), 1, True),  # never stepped along
        ((0, 2), (INT64_MAX, INT64_MIN), 1, True),
        ((INT64_MAX,), (0,), 1, True),
        ((2,), (1,), 2**64 - 3, True),
        ((2,), (1,), 2**64 - 2, False),  # the end, one past the last byte, must be an address
    ],
)
def test_reach(shape, strides, data, fits):
    model = check(shape, UINT8, strides, data)
    assert (model is not None) is fits


@pytest.mark.parametrize(
    ("data", "offset", "device", "fits"),
    [
        (2**63, 2**63 - 8, CUDA, True),
        (2**63, 2**63 - 1, CUDA, False),
        (2**63, 2**63, CUDA, False),
        (2**63, 2**63 - 8, OPENCL, True),  # a handle: only the offset counts
        (2**63, 2**64 - 8, OPENCL, True),
        (2**63, 2**64 - 1, OPENCL, False),
        (16, 2**64 - 8, CUDA, False),
        (4096, 2**64 - 4096 - 2, CUDA, False),  # the last element
        (2**64 - 4096, 2**63, CUDA, False),
    ],
)
def test_byte_offset(data, offset, device, fits):
    model = check((4,), UINT8, None, data, offset, device=(device, 0))
    assert (model is not None) is fits


# ---- packed elements ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "dtype", "nbytes"),
    [
        ((1,), INT4, 1),
        ((3,), INT4, 2),
        ((4, 3), INT4, 6),
        ((9,), UINT1, 2),
        ((3,), UINT1X3, 2),
        ((4,), FLOAT6, 3),
        ((), INT4, 1),
        ((3,), FLOAT4X2, 3),
        ((0,), INT4, 0),
    ],
)
def test_bytes_of_packed_elements(shape, dtype, nbytes):
    assert fastdl.from_dlpack(capsule_of(shape, dtype)).nbytes == nbytes
    padded = fastdl.from_dlpack(capsule_of(shape, dtype, flags=SUBBYTE_PADDED))
    assert padded.nbytes == padded.size * padded.itemsize


@pytest.mark.parametrize(
    ("shape", "strides", "fits"),
    [
        ((2, 3), (3, 1), True),
        ((2, 3), (1, 2), False),
        ((2, 3), (4, 1), False),
        ((3,), (-1,), False),
        ((3,), (2,), False),
        ((1, 3), (99, 1), True),
        ((2, 0), (99, 99), True),
    ],
)
def test_packed_elements_have_no_strides(shape, strides, fits):
    assert (check(shape, INT4, strides) is not None) is fits


def test_padded_elements_have_strides():
    assert check((2, 3), INT4, (1, 2), flags=SUBBYTE_PADDED) is not None


# ---- what leaves ----------------------------------------------------------------------------


def test_messages_name_the_descriptor():
    with pytest.raises(BufferError) as error:
        fastdl.from_dlpack(capsule_of((3, -2), (2, 32, 4), device=(2, 7)))
    for part in ("(3, -2)", "code 2, bits 32, lanes 4", "device (2, 7)", "negative"):
        assert part in str(error.value)
