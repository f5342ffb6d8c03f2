# SPDX-License-Identifier: Apache-2.0
"""PyTorch."""

import sys

from fastdl._bridges.bridge import ANYWHERE, COPIED, POSITIVE, Bridge
from fastdl._bridges.lookup import published_table
from fastdl._core.errors import refusal, type_name
from fastdl._core.exchange import TYPE_TRUSTED


def make(tensor, like):
    import torch

    return torch.from_dlpack(tensor)


def move(x, device):
    return x.to(f"cuda:{device.id}")  # its name for ROCm, too


def dtype_name(x):
    name = str(x).removeprefix("torch.")
    return ("float4_e2m1fn", 2) if name == "float4_e2m1fn_x2" else (name, 1)


KINDS = {
    "cpu": "cpu",
    "cuda": "cuda",
    "hip": "rocm",
    "xpu": "oneapi",
    "mps": "metal",
    "maia": "maia",
    "privateuseone": "ext_dev",
}


def device_name(x):
    kind = x.type
    if kind == "cuda" and sys.modules["torch"].version.hip:
        kind = "hip"
    if kind not in KINDS:
        raise ValueError(f"expected a device known to DLPack, got torch's {kind!r}")
    return KINDS[kind], x.index or 0


TRANSFORM = (
    "inside of a transform (vmap, grad, jvp, functionalize, torch.compile): call this outside of "
    "vmap and its like, or make it a custom operator there (torch.library.custom_op)"
)

#: Classes whose tensors have no memory: a description, and the tensors to pass instead.
WITHOUT_MEMORY = {
    "FunctionalTensor": TRANSFORM,
    "DTensor": "whose parts are in several processes: pass x.to_local(), the part of this process, "
    "or x.full_tensor()",
    "MaskedTensor": "with a mask: pass x.to_tensor(value), which replaces masked elements, or "
    "x.get_data(), which ignores the mask",
    "AsyncCollectiveTensor": "that has not arrived: pass x.wait()",
}


def explain(x):
    """The exception for a tensor without plain numbers in memory, in one shape; None for others."""
    import torch

    names = [cls.__name__ for cls in type(x).__mro__ if cls.__module__.startswith("torch.")]
    what = next(filter(None, map(WITHOUT_MEMORY.get, names)), None)
    if what is not None:
        pass
    elif torch._C._functorch.is_functorch_wrapped_tensor(x) or torch._is_functional_tensor(x):
        what = TRANSFORM
    elif x.is_nested:
        what = "that nests others: pass each of x.unbind(), or x.values(), which has all elements"
    elif x.is_meta:
        what = "on the device 'meta', which has none: make its elements on another device first"
    elif x.layout is not torch.strided:
        what = f"of layout {x.layout}: pass x.to_dense()"
    elif x.is_quantized:
        what = "whose elements are quantised: pass x.dequantize(), or x.int_repr() for the integers"
    elif x._is_zerotensor():
        what = "whose zeros are not stored: pass x.clone()"
    else:
        return None
    return refusal(
        BufferError, f"expected numbers in memory, got a tensor of type {type_name(x)!r} {what}"
    )


DTYPE_OF = {"dtype": dtype_name}
DEVICE_OF = {"device": device_name}
TYPES = {"torch:Tensor": TYPE_TRUSTED}
RELEASE = "torch==2.13.0"
SAMPLE = "torch:arange(6, dtype=float32)"

BRIDGES = (
    Bridge(
        "torch.Tensor",
        title="PyTorch",
        classes=("torch:Tensor",),
        make=make,
        gradient="requires_grad",
        move=move,
        quick=lambda: published_table("torch", "Tensor"),
        strides=POSITIVE,  # it has no negative strides, and 2.13 aborts the process
        readonly=COPIED,  # the flag is ignored
        devices=ANYWHERE,
        dtypes=(  # its table leaks a tensor that it refuses
            *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float16", "float32", "float64", "bfloat16", "complex32", "complex64", "complex128"),
            *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
            *("float8_e8m0fnu", "float4_e2m1fnx2"),
        ),
    ),
)

DEFECTS = {
    "Negative strides end the process": "`convert` copies such data.",
    "Read-only data becomes writable": "PyTorch has no read-only tensors, and gives no "
    "warning. `convert` copies such data.",
    "Negated views export other values": "`from_dlpack` and `convert` refuse such a view and "
    "name `resolve_neg()`.",
    "torch.asarray reads any buffer as float32": "`convert(x, torch.Tensor)` preserves the element "
    "type and the shape of a buffer.",
    "A capsule that is refused for its size is freed twice": "`from_dlpack` and `convert` "
    "refuse such a tensor, and free it once.",
    "A request for a device that PyTorch lacks raises NotImplementedError": "`from_dlpack(x, "
    "device=...)` raises a `BufferError`.",
}
