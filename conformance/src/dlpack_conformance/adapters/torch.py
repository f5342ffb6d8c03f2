# SPDX-License-Identifier: Apache-2.0
"""PyTorch."""

import torch

title = "PyTorch"
from_dlpack = torch.from_dlpack
from_capsule = torch.utils.dlpack.from_dlpack
values = torch.Tensor.tolist
conjugated = torch.conj
address = torch.Tensor.data_ptr

views = {
    "transposed": lambda x: x.T,
    "strided": lambda x: x[:, ::2],
    "offset": lambda x: x[1:, 1:],
    "column": lambda x: x[:, 1],
    "broadcast": lambda x: x[:2, :1].expand(2, 4),
}

deviations = dict.fromkeys(
    ("readonly.is-kept", "readonly.passes-through", "readonly.views"),
    "PyTorch has no read-only tensors: the array API standard prefers that it ignores the flag",
)


def make(values, dtype):
    return torch.tensor(values, dtype=getattr(torch, dtype))


def write(array, value):
    array[(0,) * array.ndim] = value
