"""PyTorch."""

from fastdl._convert.convert import ANYWHERE, COPIED, POSITIVE, Bridge
from fastdl.bridges.lookup import published_table


def make(tensor, like):
    import torch

    return torch.from_dlpack(tensor)


BRIDGES = (
    Bridge(
        "torch.Tensor",
        title="PyTorch",
        classes=("torch:Tensor",),
        make=make,
        quick=lambda: published_table("torch", "Tensor"),
        strides=POSITIVE,  # the process aborts at negative ones
        readonly=COPIED,  # the flag is ignored
        devices=ANYWHERE,
    ),
)
