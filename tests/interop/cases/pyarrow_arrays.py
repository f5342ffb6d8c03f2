# SPDX-License-Identifier: Apache-2.0
"""What is particular to Arrow: buffers, tensors, and mutability."""

import numpy as np
import pyarrow as pa
import pytest

import fastdl

from .common import both_entries

LEGACY_IS_DEPRECATED = pytest.mark.filterwarnings("ignore:Exporting an unversioned DLPack")
ENTRIES = pytest.mark.parametrize("from_dlpack", both_entries(), ids=("compiled", "python"))


def test_buffers_are_taken_as_bytes():
    buffer = pa.array([1, 2], pa.int8()).buffers()[1]
    tensor = fastdl.asarray(buffer)
    assert tensor.data_ptr == buffer.address
    assert tensor.tolist()[:2] == [1, 2]
    assert tensor.readonly is not buffer.is_mutable


@ENTRIES
@LEGACY_IS_DEPRECATED
def test_arrays_are_readonly_though_the_legacy_capsule_drops_it(from_dlpack):
    array = pa.array([1.0, 2.0])
    assert from_dlpack(array).readonly
    assert from_dlpack(array.__dlpack__(max_version=(1, 0))).readonly
    assert not from_dlpack(array.__dlpack__()).readonly


@ENTRIES
@LEGACY_IS_DEPRECATED
@pytest.mark.parametrize("writable", [True, False])
def test_the_flag_decides_for_arrow_tensors(from_dlpack, writable):
    source = np.arange(6.0).reshape(2, 3)
    source.flags.writeable = writable
    array = pa.Tensor.from_numpy(source)
    assert array.is_mutable is writable
    tensor = from_dlpack(array)
    assert tensor.readonly is not writable
    assert tensor.data_ptr == source.ctypes.data
    if not writable:
        with pytest.raises(Exception, match="(?i)immutable|read-only|readonly"):
            array.__dlpack__()


@ENTRIES
def test_arrays_of_tensors(from_dlpack):
    source = np.arange(12.0).reshape(3, 2, 2)
    array = pa.FixedShapeTensorArray.from_numpy_ndarray(source)
    tensor = from_dlpack(array)
    assert tensor.shape == (3, 2, 2)
    assert tensor.readonly
    assert tensor.tolist() == source.tolist()


@pytest.mark.parametrize(
    "x", [pa.array(["a"]), pa.array([{"x": "a"}]), pa.array([b"ab"], pa.binary(2))]
)
def test_what_is_not_numbers_is_an_array_all_the_same(x):
    calls = (fastdl.asarray, fastdl.encode, lambda x: fastdl.convert(x, np.ndarray, copy=True))
    for call in calls:
        with pytest.raises(BufferError, match="expected an Arrow .*, got (format|other types)"):
            call(x)


def test_a_tensor_of_fastdl_keeps_its_flag_in_arrow():
    for writable in (True, False):
        source = np.arange(4.0)
        source.flags.writeable = writable
        assert pa.Tensor.from_dlpack(fastdl.from_dlpack(source)).is_mutable is writable


@pytest.mark.parametrize("shape", [(), (2, 2), (2, 0), (1, 1)])
def test_one_dimension_alone(shape):
    """The matrix, which has arrays of one dimension for this library, asks no other."""
    tensor = fastdl.from_dlpack(np.ones(shape))
    with pytest.raises(pa.ArrowInvalid, match="one dimensional"):
        pa.Array.from_dlpack(tensor)
    for like in (pa.Array, pa.array([1.0])):
        with pytest.raises(BufferError, match=r"cannot be converted to pyarrow\.Array"):
            fastdl.convert(tensor, like)
    assert tensor.tolist() == np.ones(shape).tolist()
