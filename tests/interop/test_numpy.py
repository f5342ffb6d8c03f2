# SPDX-License-Identifier: Apache-2.0
"""NumPy in particular: its memmaps and its scalars."""

import pytest

import fastdl
from fastdl._protocol import consumer as _consumer

from .peers import require

require("numpy")
import numpy as np  # noqa: E402

ENTRIES = pytest.mark.parametrize(
    "from_dlpack", [fastdl.from_dlpack, _consumer.from_dlpack], ids=("compiled", "python")
)


# ---- subclasses -----------------------------------------------------------------------------


@ENTRIES
def test_memmap(from_dlpack, tmp_path):
    mapped = np.memmap(tmp_path / "data", dtype=np.int32, mode="w+", shape=(2, 3))
    mapped[:] = np.arange(6).reshape(2, 3)
    tensor = from_dlpack(mapped)
    assert tensor.data_ptr == mapped.ctypes.data
    tensor.numpy()[1, 2] = 70
    assert mapped[1, 2] == 70
    mapped.flush()
    readonly = np.memmap(tmp_path / "data", dtype=np.int32, mode="r", shape=(2, 3))
    view = from_dlpack(readonly)
    assert view.readonly
    assert view.tolist() == [[0, 1, 2], [3, 4, 70]]


@ENTRIES
@pytest.mark.parametrize("kind", ["legacy", "bare"])
def test_only_arrays_get_numpys_table(from_dlpack, kind):
    """Facts are found by name, tables are not: memory of another type is never read as NumPy's."""

    class ndarray:
        if kind == "legacy":

            def __dlpack__(self, *, stream=None):
                return np.full(2, 5.0).__dlpack__()

            def __dlpack_device__(self):
                return (1, 0)

    ndarray.__module__ = np.ndarray.__module__
    ndarray.__qualname__ = np.ndarray.__qualname__
    if kind == "legacy":
        for _ in range(3):
            assert from_dlpack(ndarray()).tolist() == [5.0, 5.0]
    else:
        with pytest.raises(TypeError, match="expected a DLPack producer"):
            from_dlpack(ndarray())


def test_scalars_are_not_arrays():
    with pytest.raises(TypeError):
        fastdl.from_dlpack(np.float32(1.0))
    assert fastdl.asarray(np.float32(1.5)).item() == 1.5  # by the buffer protocol
