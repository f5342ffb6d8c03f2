# SPDX-License-Identifier: Apache-2.0
"""What is particular to OpenVINO: elements that NumPy has not."""

import ml_dtypes
import numpy as np
import openvino as ov
import pytest

import fastdl

# By their names in OpenVINO. The first four of each are 1, 2, 0.5 and 4 in its format.
TYPES = {
    "bf16": ml_dtypes.bfloat16,
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e8m0": ml_dtypes.float8_e8m0fnu,
}


@pytest.mark.parametrize("name", TYPES)
def test_values_are_not_those_of_another_type(name):
    expected = np.array([[1, 2], [0.5, 4]], TYPES[name])
    source = ov.Tensor(getattr(ov.Type, name), ov.Shape([2, 2]))
    source.data[...] = expected.view(source.data.dtype)
    tensor = fastdl.asarray(source)
    assert tensor.dtype == expected.dtype
    assert tensor.data_ptr == source.data.ctypes.data
    assert tensor.tolist() == [[1, 2], [0.5, 4]]
    made = fastdl.convert(source, np.ndarray)
    assert made.dtype == expected.dtype and (made == expected).all()


@pytest.mark.parametrize("name", ["u1", "u2", "u3", "u4", "u6", "i4", "nf4", "f4e2m1", "string"])
def test_types_without_an_equal_are_refused(name):
    source = ov.Tensor(getattr(ov.Type, name), ov.Shape([2, 4]))
    message = f"of numbers of whole bytes, got elements of type {name}: x.data has their bytes"
    for enter in (fastdl.asarray, lambda x: fastdl.convert(x, np.ndarray)):
        with pytest.raises(BufferError, match=message):
            enter(source)
    if name != "string":
        assert fastdl.asarray(source.data).dtype.itemsize == 1
