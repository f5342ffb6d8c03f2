# SPDX-License-Identifier: Apache-2.0
"""PyArrow: Array, which has one dimension, and Tensor."""

from fastdl._bridges.bridge import COMPACT, POSITIVE, Bridge
from fastdl._core.errors import values_missing
from fastdl._core.exchange import TYPE_EXPORT_DOES_NOT_SYNC, TYPE_READ_ONLY, TYPE_REFUSES
from fastdl._protocol.arrow import from_array

NUMBERS = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)


def make_array(tensor, like):
    import pyarrow as pa

    if tensor.size == 0:  # PyArrow mistakes that for several dimensions
        return pa.array([], type=pa.from_numpy_dtype(tensor.dtype.name))
    return pa.Array.from_dlpack(tensor)


def make_tensor(tensor, like):
    import pyarrow as pa

    return pa.Tensor.from_dlpack(tensor)


def refuse(x):
    """Refuses nulls in an array of tensors, which PyArrow exports as numbers."""
    nulls = x.storage.flatten().null_count
    if nulls:
        raise values_missing(x, nulls)


# Not TYPE_IMMUTABLE: their memory may be that of a NumPy array, which others may write to.
TYPES = {
    "pyarrow:FixedShapeTensorArray": TYPE_READ_ONLY | TYPE_REFUSES,
    "pyarrow:Array": TYPE_EXPORT_DOES_NOT_SYNC,
    "pyarrow:Tensor": TYPE_EXPORT_DOES_NOT_SYNC,
}
RELEASE = "pyarrow==26.0.1"
SAMPLE = "pyarrow:array(range(6), float32())"

BRIDGES = (
    Bridge(
        "pyarrow.Array",
        title="PyArrow",
        classes=("pyarrow:Array",),
        make=make_array,
        read_otherwise=from_array,
        strides=COMPACT,
        ndims=(1, 1),
        dtypes=NUMBERS,
        since="26",
    ),
    Bridge(
        "pyarrow.Tensor",
        title="PyArrow",
        classes=("pyarrow:Tensor",),
        make=make_tensor,
        strides=POSITIVE,
        dtypes=NUMBERS,
        since="26",
    ),
)

DEFECTS = {
    "Booleans in a pyarrow.Tensor become uint8": "PyArrow loses the type when it makes the Tensor, "
    "before fastdl can see it.",
    "Array.from_dlpack refuses the older capsules, and so all arrays of JAX": "`convert(x, "
    "pa.Array)` shares the memory of JAX.",
    "Array.from_dlpack passes max_version to producers that do not know it": "`convert(x, "
    "pa.Array)` calls again without it.",
}
