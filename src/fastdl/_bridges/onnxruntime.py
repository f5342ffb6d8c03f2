# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime."""

from fastdl._bridges.bridge import ANYWHERE, COMPACT, COPIED, Bridge

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bfloat16"),
)
NARROW = (  # sub-byte types, packed as in DLPack
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("int2", "int4", "uint2", "uint4", "float4_e2m1fn"),
)


class Bytes:
    """A bool tensor in the form that ONNX Runtime before 1.32 accepts: a capsule of bytes, from an
    object whose dtype is bool."""

    def __init__(self, tensor):
        self.dtype = tensor.dtype
        self.bytes = tensor.view("uint8")

    def __dlpack__(self):
        return self.bytes.__dlpack__()


def make(tensor, like):
    from onnxruntime import OrtValue

    return OrtValue.from_dlpack(tensor)


def make_of_bytes(tensor, like):
    return make(Bytes(tensor) if tensor.dtype.name == "bool" else tensor, like)


def read(x, tensor):
    return tensor.view("bool") if x.data_type() == "tensor(bool)" else tensor


RELEASE = "onnxruntime==1.31.1"
SAMPLE = "onnxruntime:OrtValue.ortvalue_from_numpy(numpy.arange(6, dtype='f'))"

BRIDGES = (
    Bridge(
        "onnxruntime.OrtValue",
        title="ONNX Runtime",
        classes=("onnxruntime:OrtValue",),
        make=make,
        read=read,
        reads=("uint8",),  # may be bool
        strides=COMPACT,
        readonly=COPIED,
        dtypes=(*DTYPES, *NARROW),
        devices=ANYWHERE,
        since="1.31",
        before={"1.32": {"make": make_of_bytes, "dtypes": DTYPES}},
    ),
)

DEFECTS = {
    "An export does not keep the memory alive": "A fastdl.Tensor keeps the `OrtValue` alive, "
    "and so its memory.",
    "Booleans are exported as uint8": "`convert` preserves bool in both directions.",
    "byte_offset is ignored, so other values are read": "fastdl adds the offset to the address "
    "that it exports.",
    "A capsule without a deleter ends the process": "DLPack allows a NULL deleter. fastdl "
    "always sets one.",
    "A consumed capsule that is destroyed clears a pending exception": "fastdl drops a capsule "
    "only while no exception is pending.",
}
FIXED = {"Booleans are exported as uint8": "1.32"}
