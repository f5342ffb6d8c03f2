"""MLX."""

from fastdl._convert.convert import POSITIVE, Bridge
from fastdl._core.exchange import TYPE_EXPORT_DOES_NOT_SYNC, TYPE_IMMUTABLE


def copies(tensor):
    """all data that is not in Metal memory"""
    import mlx.core as mx

    return None if mx.metal.is_available() else True


def importer():
    import mlx.core as mx

    def make(tensor):
        if tensor.dtype.name == "float64":  # mx.from_dlpack narrows it
            return mx.array(tensor.numpy(), dtype=mx.float64)
        return mx.from_dlpack(tensor)

    return make


TYPES = {"mlx:array": TYPE_IMMUTABLE | TYPE_EXPORT_DOES_NOT_SYNC}
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
