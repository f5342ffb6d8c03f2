"""NumPy in particular: its memmaps, its scalars, and its functions given a Tensor."""

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


# ---- NumPy's protocols ----------------------------------------------------------------------


def test_the_arguments_of_numpys_from_dlpack():
    array = np.arange(6.0).reshape(2, 3)[:, ::2]
    tensor = fastdl.from_dlpack(array)
    for keywords in ({"device": "cpu"}, {"copy": False}, {"device": "cpu", "copy": None}):
        assert np.from_dlpack(tensor, **keywords).ctypes.data == array.ctypes.data
    copy = np.from_dlpack(tensor, copy=True)
    assert not np.may_share_memory(copy, array)
    assert copy.tolist() == array.tolist()
    array.flags.writeable = False
    assert np.from_dlpack(fastdl.from_dlpack(array), copy=True).flags.writeable


def test_arithmetic_of_numpy_accepts_tensors():
    tensor = fastdl.from_dlpack(np.arange(3.0))
    assert np.add(tensor, 1).tolist() == [1.0, 2.0, 3.0]
    assert np.stack([tensor, tensor]).shape == (2, 3)


# ---- lifetime -------------------------------------------------------------------------------


def test_resize_is_refused_while_a_tensor_lives():
    array = np.arange(3.0)
    tensor = fastdl.from_dlpack(array)
    with pytest.raises(ValueError, match="resize"):
        array.resize(1000)
    assert tensor.tolist() == [0.0, 1.0, 2.0]
