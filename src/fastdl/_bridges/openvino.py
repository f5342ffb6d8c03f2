# SPDX-License-Identifier: Apache-2.0
"""OpenVINO. Its tensors have no `__dlpack__`; they are made on NumPy arrays, and expose element
types that NumPy lacks as others of the same size."""

from fastdl._bridges.bridge import COMPACT, COPIED, Bridge
from fastdl._core import exchange

ELEMENTS = {
    "boolean": "bool",
    **{f"{letter}{bits}": f"{kind}{bits}" for letter, kind in (("i", "int"), ("u", "uint"))
       for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
}  # fmt: skip
SHOWN_AS_OTHERS = {
    "bf16": "bfloat16",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "f8e8m0": "float8_e8m0fnu",
}


def make(tensor, like):
    from openvino import Tensor

    return Tensor(tensor.numpy(), shared_memory=True)


def read(x):
    name = x.element_type.get_type_name()
    if name in ELEMENTS:
        return exchange.from_dlpack(x.data)
    if name in SHOWN_AS_OTHERS:
        return exchange.from_dlpack(x.data).view(SHOWN_AS_OTHERS[name])
    raise BufferError(
        f"expected an openvino.Tensor of numbers of whole bytes, got elements of type {name}: "
        f"x.data has their bytes"
    )


RELEASE = "openvino==2026.4.1"
SAMPLE = "openvino:Tensor(numpy.arange(6, dtype='float32'))"

BRIDGES = (
    Bridge(
        "openvino.Tensor",
        title="OpenVINO",
        classes=("openvino:Tensor",),
        make=make,
        read=read,
        strides=COMPACT,
        readonly=COPIED,
        dtypes=ELEMENTS.values(),
    ),
)
