# SPDX-License-Identifier: Apache-2.0
"""MLX."""

from fastdl._bridges.bridge import POSITIVE, Bridge
from fastdl._core.exchange import TYPE_EXPORT_DOES_NOT_SYNC, TYPE_IMMUTABLE, TYPE_LEGACY


def copies(tensor):
    """all data, without Metal"""
    import mlx.core as mx

    return None if mx.metal.is_available() else True


def importer():
    import mlx.core as mx

    def make(tensor):
        if tensor.dtype.name == "float64":  # mx.from_dlpack narrows it
            return mx.array(tensor.numpy(), dtype=mx.float64)
        return mx.from_dlpack(tensor)

    return make


DTYPE_OF = {"Dtype": lambda x: (str(x).rpartition(".")[2], 1)}
TYPES = {"mlx:array": TYPE_IMMUTABLE | TYPE_EXPORT_DOES_NOT_SYNC | TYPE_LEGACY}
RELEASE = "mlx[cpu]==0.32.4"
SAMPLE = "mlx.core:arange(6, dtype=float32)"

BRIDGES = (
    Bridge(
        "mlx.core.array",
        title="MLX",
        classes=("mlx:array",),
        quick=importer,
        strides=POSITIVE,
        copies=copies,
        since="0.32",
        dtypes=(
            *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float16", "float32", "float64", "bfloat16", "complex64"),
        ),
    ),
)

DEFECTS = {
    "float64 becomes float32, so large numbers become infinity": "MLX has float64 on the CPU, "
    "and there `convert` makes an array of float64.",
    "A producer's capsule is not renamed, so it can be consumed twice": "A producer must "
    "return a new capsule each time, as fastdl's tensors do.",
    "The exception of a producer is lost": "`convert(x, mx.array)` calls the producer itself, "
    "so its exception reaches you.",
    "A capsule of an unknown major version is read": "Another major version may have another "
    "layout. fastdl refuses it, and exports version 1.",
}
