# SPDX-License-Identifier: Apache-2.0
"""tinygrad. Its tensors have no `__dlpack__`; creating one copies."""

from fastdl._bridges.bridge import Bridge
from fastdl._core import tensor as core
from fastdl._protocol.placement import mark_unless_shared

ELEMENTS = {  # by their formats
    "?": "bool",
    "b": "int8",
    "h": "int16",
    "i": "int32",
    "q": "int64",
    "B": "uint8",
    "H": "uint16",
    "I": "uint32",
    "Q": "uint64",
    "f": "float32",
    "d": "float64",
}
WITHOUT_MEMORYVIEW = {  # by their names
    "half": "float16",
    "__bf16": "bfloat16",
    "float8_e4m3": "float8_e4m3fn",
    "float8_e4m3fnuz": "float8_e4m3fnuz",
    "float8_e5m2": "float8_e5m2",
    "float8_e5m2fnuz": "float8_e5m2fnuz",
}


def make(tensor, like):
    from tinygrad import Tensor

    return Tensor(tensor.numpy()).reshape(tensor.shape).realize()


def read(x):
    dtype = ELEMENTS.get(x.dtype.fmt) or WITHOUT_MEMORYVIEW.get(x.dtype.name)
    if dtype is None:
        raise BufferError(
            f"expected a tinygrad.Tensor of numbers or bools, got elements of type {x.dtype.name}"
        )
    x = x.contiguous().realize()
    if x.numel() == 0:
        return core.empty(x.shape, dtype)
    return mark_unless_shared(_read(x, dtype), lambda: _read(x, dtype))


def _read(x, dtype):
    from tinygrad import dtypes

    if x.dtype.fmt in ELEMENTS:
        tensor = core.from_buffer(x.data())
    else:
        bits = x.bitcast(dtypes.uint8 if x.dtype.itemsize == 1 else dtypes.uint16)
        tensor = core.from_buffer(bits.data()).view(dtype)
    core.keep_alive(tensor, x)  # the memoryview does not keep it alive
    return tensor


RELEASE = "tinygrad==0.14.0"
SAMPLE = "tinygrad:Tensor(list(range(6)), dtype='float32').realize()"

BRIDGES = (
    Bridge(
        "tinygrad.Tensor",
        title="tinygrad",
        classes=("tinygrad:Tensor",),
        make=make,
        read=read,
        copies=True,
        dtypes=(*ELEMENTS.values(), "float16"),
    ),
)
