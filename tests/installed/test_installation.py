# SPDX-License-Identifier: Apache-2.0
"""What a user of an installed fastdl does first, with NumPy, pytest and setuptools alone.

It runs from any folder, against each wheel of a release: see [tool.cibuildwheel] in pyproject.toml,
and the session `wheel` of noxfile.py.
"""

import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastdl

ROOT = Path(__file__).parents[2]  # of the repository, or of cibuildwheel's copy


@pytest.mark.parametrize(
    "dtype", "bool int8 int64 uint8 uint64 float16 float32 float64 complex64 complex128".split()
)
def test_arrays_go_in_and_come_back(dtype):
    array = np.arange(12).reshape(3, 4).astype(dtype)[:, ::-2]
    tensor = fastdl.from_dlpack(array)
    back = np.from_dlpack(tensor)
    assert back.ctypes.data == tensor.data_ptr == array.ctypes.data
    assert (back.dtype, back.strides) == (array.dtype, array.strides)
    np.testing.assert_array_equal(back, array)
    np.testing.assert_array_equal(np.asarray(tensor.copy()), array)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(tensor)).numpy(), array)


def test_protections_hold():
    array = np.arange(3.0)
    array.flags.writeable = False
    tensor = fastdl.from_dlpack(array)
    assert tensor.readonly
    with pytest.raises(BufferError, match="read-only"):
        tensor.__dlpack__()
    with pytest.raises(TypeError):
        fastdl.from_dlpack("text")
    capsule = array.copy().__dlpack__()
    fastdl.from_dlpack(capsule)
    with pytest.raises(ValueError, match="consumed"):
        fastdl.from_dlpack(capsule)


def test_the_command_line():
    command = [sys.executable, "-m", "fastdl", "--version"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert fastdl.__version__ in printed


@pytest.mark.slow
def test_the_example_of_the_header(tmp_path):
    """Compiled by the compiler of this platform, as the file says."""
    place = tmp_path / "c"
    shutil.copytree(ROOT / "docs/examples/c", place)
    command = [sys.executable, "setup.py", "build_ext", "--inplace"]
    built = subprocess.run(command, cwd=place, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    use = (
        "import axpy, numpy as np, fastdl;"
        "y = np.ones(3); axpy.axpy(2.0, fastdl.asarray(np.arange(3.0)), y); print(y.tolist());"
        "print(type(axpy.scaled(0.5, y)).__name__)"
    )
    used = subprocess.run([sys.executable, "-c", use], cwd=place, capture_output=True, text=True)
    assert used.stdout.split("\n")[:2] == ["[1.0, 3.0, 5.0]", "ndarray"], used.stderr
