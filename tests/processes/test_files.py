# SPDX-License-Identifier: Apache-2.0
"""Tensors in files, and batches of a torch DataLoader: docs/examples/processes/files.py."""

import numpy as np
import pytest
import torch
from safetensors import torch as safetensors_torch

import fastdl
from fastdl._core import tensor as core
from tests.support.build import ROOT, load_module
from tests.support.memory import filled

files = load_module("files", ROOT / "docs/examples/processes/files.py")


def test_safetensors_there_and_back(tmp_path):
    path = tmp_path / "all.safetensors"
    tensors = {name: filled(name, (2, 3)) for name in files.TYPES.values()}
    files.save(path, tensors)
    loaded = files.load(path)
    assert loaded.keys() == tensors.keys()
    for name, tensor in loaded.items():
        assert (tensor.dtype, tensor.shape, tensor.readonly) == (name, (2, 3), True)
        assert core.read_bytes(tensor) == core.read_bytes(tensors[name])


@pytest.mark.parametrize("layout", ["T", "columns", "reversed", "broadcast", "scalar"])
def test_safetensors_of_every_layout(tmp_path, layout):
    """It writes bytes from an address, whatever the strides are."""
    rows = np.arange(6.0).reshape(2, 3)
    array = {
        "T": rows.T, "columns": rows[:, ::2], "reversed": rows[::-1],
        "broadcast": np.broadcast_to(rows, (2, 2, 3)), "scalar": rows[1, 1],
    }[layout]  # fmt: skip
    files.save(tmp_path / "x", {"x": fastdl.asarray(array)})
    assert files.load(tmp_path / "x")["x"].tolist() == array.tolist()


def test_safetensors_and_others(tmp_path):
    path = tmp_path / "x.safetensors"
    weights = torch.tensor([[1.5, 2.5]], dtype=torch.bfloat16)
    files.save(path, {"w": fastdl.from_dlpack(weights)})
    assert torch.equal(safetensors_torch.load_file(path)["w"], weights)
    safetensors_torch.save_file({"w": weights, "b": torch.arange(3)}, path, {"made": "by torch"})
    loaded = files.load(path)
    assert loaded["w"].tolist() == [[1.5, 2.5]] and loaded["b"].tolist() == [0, 1, 2]
    assert torch.equal(fastdl.convert(loaded["w"], torch.Tensor), weights)


@pytest.mark.parametrize("dtype", ["float32", "int16", "bfloat16", "float8_e5m2"])
def test_npy(tmp_path, dtype):
    path, tensor = tmp_path / "x.npy", filled(dtype, (2, 4))
    files.save_npy(path, tensor)
    loaded = files.load_npy(path, dtype if tensor.dtype.bits < 32 and "f" in dtype else None)
    assert (loaded.dtype, loaded.shape, loaded.readonly) == (dtype, (2, 4), True)
    assert core.read_bytes(loaded) == core.read_bytes(tensor)


def test_npy_of_every_layout_and_type(tmp_path):
    """What it cannot hold is refused; nothing is saved that cannot be loaded."""
    path, tensor = tmp_path / "x.npy", filled("bfloat16", (2, 4))
    files.save_npy(path, tensor.T)
    assert files.load_npy(path, "bfloat16").tolist() == tensor.T.tolist()
    for dtype in ("int4", "float4_e2m1fn", "float6_e2m3fn"):
        with pytest.raises(BufferError, match="sub-byte"):
            files.save_npy(path, filled(dtype, (2, 4)))


def test_a_data_loader():
    data = [fastdl.from_dlpack(np.full((2, 3), n, "float32")) for n in range(4)]
    with pytest.raises(TypeError, match="default_collate"):
        next(iter(torch.utils.data.DataLoader(data, batch_size=2)))
    loader = torch.utils.data.DataLoader(data, batch_size=2, collate_fn=files.collate)
    assert [tuple(batch.shape) for batch in loader] == [(2, 2, 3)] * 2
    assert [batch[1, 0, 0].item() for batch in loader] == [1, 3]
