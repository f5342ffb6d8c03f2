# SPDX-License-Identifier: Apache-2.0
"""Tensors in files of safetensors and NumPy, and in batches of a torch DataLoader."""

import json
import mmap

import numpy as np

import fastdl

# [save]


def save(path, tensors):
    """Tensors, by name, to a file of safetensors; without a copy of those on the host that are
    row-major."""
    from safetensors import TensorSpec, serialize_file

    rows = {name: tensor.to("cpu").contiguous() for name, tensor in tensors.items()}
    specs = {
        name: TensorSpec(dtype=str(t.dtype), shape=t.shape, data_ptr=t.data_ptr, data_len=t.nbytes)
        for name, t in rows.items()
    }
    serialize_file(specs, path)


# [/save]


#: safetensors' names of types, and fastdl's.
TYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "BOOL": "bool",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz", "C64": "complex64",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
}  # fmt: skip


def load(path):
    """The tensors of such a file, read-only, in memory that is read when it is used."""
    with open(path, "rb") as file:
        data = fastdl.asarray(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    start = 8 + int.from_bytes(bytes(data[:8]), "little")
    header = json.loads(bytes(data[8:start]))
    header.pop("__metadata__", None)
    tensors = {}
    for name, about in header.items():
        first, last = about["data_offsets"]
        flat = data[start + first : start + last].view(TYPES[about["dtype"]])
        tensors[name] = flat.reshape(tuple(about["shape"]))
    return tensors


def save_npy(path, tensor):
    """Types that a .npy file does not have (bfloat16, float8) as bytes of the last dimension."""
    array = tensor.numpy()
    if array.dtype.isbuiltin != 1:  # of ml_dtypes
        array = tensor.contiguous().view("uint8").numpy()
    np.save(path, array)


def load_npy(path, dtype=None):
    """The same memory as the file's, read-only; of `dtype` if it was saved as bytes."""
    tensor = fastdl.asarray(np.load(path, mmap_mode="r"))
    return tensor if dtype is None else tensor.view(dtype)


def collate(tensors):
    """For torch's DataLoader(..., collate_fn=collate): its own refuses Tensors."""
    import torch

    return torch.stack([fastdl.convert(tensor, torch.Tensor) for tensor in tensors])
