# SPDX-License-Identifier: Apache-2.0
"""What is particular to ONNX Runtime: values that borrow NumPy's memory."""

import weakref

import onnxruntime as ort

import fastdl

from .common import aligned, freed


def test_memory_borrowed_from_numpy_is_kept_alive():
    """OrtValue.ortvalue_from_numpy does not copy: the array is kept by the Python object alone,
    which ONNX Runtime's capsule does not keep. Whoever imports it must."""
    source = aligned([1.0, 2.0, 3.0])
    alive = weakref.ref(source)
    tensor = fastdl.from_dlpack(ort.OrtValue.ortvalue_from_numpy(source))
    del source
    assert not freed(alive, seconds=0.05)
    assert tensor.tolist() == [1.0, 2.0, 3.0]
    del tensor
    assert freed(alive)
