# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime: OrtValue."""

import numpy as np
import onnxruntime as ort

from dlpack_conformance.elements import all_but

title = "ONNX Runtime"
address = ort.OrtValue.data_ptr

dtypes = all_but("bfloat16", "complex64", "complex128", "bool")


def make(values, dtype):
    """With its own memory: ortvalue_from_numpy borrows."""
    array = np.array(values, dtype)
    value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), array.dtype.type)
    value.update_inplace(array)
    return value


def from_dlpack(producer):
    return ort.OrtValue.from_dlpack(producer)


def values(value):
    return value.numpy().tolist()
