# SPDX-License-Identifier: Apache-2.0
"""fastdl.encode and fastdl.decode: a header and the bytes, and what others may send as those."""

import ctypes
import gc
import pickle
import weakref

import ml_dtypes
import numpy as np
import pytest

import fastdl
from fastdl._core import tensor as core
from fastdl._native import dtype_facts
from tests.support.memory import assert_copied, filled

NAMES = [row[0] for row in dtype_facts()]


@pytest.mark.parametrize("dtype", [*NAMES, "float32x4", "float4_e2m1fnx2", "int8x300", (99, 24, 1)])
def test_every_type_without_a_copy(dtype):
    tensor = filled(dtype)
    header, data = fastdl.encode(tensor)
    assert type(header) is bytes and len(header) == 26
    decoded = fastdl.decode(header, data)
    assert_copied(decoded, tensor)
    assert decoded.data_ptr == tensor.data_ptr


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (5,), (2, 3, 4), (1,) * 64])
def test_every_shape(shape):
    tensor = filled("int16", shape)
    header, data = fastdl.encode(tensor)
    assert len(header) == 10 + 8 * len(shape) and data.nbytes == tensor.nbytes
    assert_copied(fastdl.decode(header, data), tensor)


@pytest.mark.parametrize(
    ("view", "copied"),
    [
        (lambda x: x.T, False),
        (lambda x: x[1:2], False),
        (lambda x: x[:, ::2], True),
        (lambda x: x[::-1], True),
        (lambda x: np.broadcast_to(x[0], (7, 6)), True),
    ],
)
def test_only_what_the_view_spans(view, copied):
    array = view(np.arange(24, dtype="f4").reshape(4, 6))
    header, data = fastdl.encode(array)
    assert data.nbytes == array.nbytes
    decoded = fastdl.decode(header, data)
    np.testing.assert_array_equal(decoded.numpy(), array)
    assert np.may_share_memory(decoded.numpy(), array) != copied


def test_padded_elements():
    array = np.arange(5).astype(ml_dtypes.int4)
    tensor = fastdl.from_dlpack(array)
    assert not core.is_packed(tensor)
    decoded = fastdl.decode(*fastdl.encode(tensor))
    assert_copied(decoded, tensor)
    assert decoded.tolist() == array.tolist()


def test_whatever_asarray_takes():
    source = np.array([1.5, 2.5], ml_dtypes.bfloat16)
    for x in (source, fastdl.from_dlpack(source)):
        assert fastdl.decode(*fastdl.encode(x)).tolist() == [1.5, 2.5]
    assert fastdl.decode(*fastdl.encode(b"abc")).tolist() == list(b"abc")
    with pytest.raises(TypeError, match="object"):
        fastdl.encode(object())


def test_read_only_is_what_the_buffer_is():
    header, data = fastdl.encode(filled("int8"))
    assert not fastdl.decode(header, data).readonly
    assert not fastdl.decode(header, bytearray(data)).readonly
    assert fastdl.decode(header, bytes(data)).readonly
    array = np.arange(3)
    array.flags.writeable = False
    assert fastdl.encode(array)[1].readonly


def test_who_keeps_what():
    """The memoryview the array, and the tensor the memory that it is decoded from."""
    array = np.ones(4, np.float32)
    alive = weakref.ref(array)
    header, data = fastdl.encode(array)
    del array
    gc.collect()
    decoded = fastdl.decode(header, data)
    del data
    gc.collect()
    assert decoded.tolist() == [1, 1, 1, 1] and alive() is not None
    del decoded
    gc.collect()
    assert alive() is None


def test_the_header_is_as_documented():
    header, _ = fastdl.encode(np.zeros((2, 513), np.complex64).T)
    assert header == b"fdl\x01" + bytes([5, 64, 1, 0, 1, 2]) + b"\x01\x02" + bytes(6) + (
        b"\x02" + bytes(7)
    )


HEADER = fastdl.encode(np.zeros((2, 3), "f4"))[0]


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (b"", "got 0 bytes"),
        (b"fdl", "expected a header of fastdl.encode, got 3 bytes"),
        (HEADER + b"\0", "got 27 bytes"),
        (HEADER[:8] + b"\x04" + HEADER[9:], "flags 4"),
        (HEADER[:9] + b"\x41" + bytes(8 * 65), "at most 64 dimensions, got 65"),
        (HEADER[:10] + b"\xff" * 8 + HEADER[18:], "negative"),
        (HEADER[:10] + b"\xff" * 7 + b"\x7f" + HEADER[18:], "more bytes than a 64-bit count"),
        (HEADER[:10] + b"\x03" + HEADER[11:], "not all in a buffer of 24 bytes"),
    ],
)
def test_a_header_that_is_wrong(header, says):
    with pytest.raises(ValueError, match=says):
        fastdl.decode(header, bytes(24))


def released(buffer):
    view = memoryview(buffer)
    view.release()
    return view


def test_a_header_without_bytes():
    with pytest.raises(ValueError, match="got 8 bytes"):
        fastdl.decode(np.zeros(()), bytes(24))
    with pytest.raises(BufferError, match="cannot get the buffer of 'memoryview': .*released"):
        fastdl.decode(released(HEADER), bytes(24))


@pytest.mark.parametrize("wrap", [lambda x: x, memoryview, pickle.PickleBuffer])
@pytest.mark.parametrize(
    "buffer",
    [
        np.array([None] * 3),
        np.zeros(3, [("Ordinal", "i4"), ("x", object)]),
        (ctypes.py_object * 3)(),
    ],
    ids=["objects", "a field", "ctypes"],
)
def test_memory_of_python_objects_is_no_data(buffer, wrap):
    with pytest.raises(BufferError, match="Python objects"):
        fastdl.decode(HEADER, wrap(buffer))
    numbers = np.zeros(3, [("Ordinal", "i8"), ("O", "i8")])
    assert fastdl.decode(HEADER, wrap(numbers)).tolist() == [[0, 0, 0], [0, 0, 0]]


def test_a_buffer_that_is_wrong():
    assert fastdl.decode(HEADER, bytearray(100)).shape == (2, 3)
    for buffer in (memoryview(bytearray(48))[::2], np.zeros((3, 8), "u1").T):
        with pytest.raises(BufferError):
            fastdl.decode(HEADER, buffer)
    for arguments in ((7, bytes(24)), (HEADER, 7), (HEADER, None)):
        with pytest.raises(TypeError, match="bytes-like object"):
            fastdl.decode(*arguments)
