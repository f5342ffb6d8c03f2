# SPDX-License-Identifier: Apache-2.0
"""MXNet. Its arrays have no `__dlpack__`; functions export and import legacy capsules."""

from fastdl._bridges.bridge import COMPACT, COPIED, Bridge
from fastdl._core import exchange

NUMBERS = ("int8", "int32", "int64", "uint8", "float16", "float32", "float64")


def make(tensor, like):
    import mxnet

    if tensor.size == 0:  # MXNet mistakes that for data with gaps
        return mxnet.nd.array(tensor.numpy(), dtype=tensor.dtype.name)
    return mxnet.nd.from_dlpack(tensor.__dlpack__())


def read(x):
    # A NumPy type; for bfloat16, a structured type whose only field has that name.
    (name,) = getattr(x.dtype, "names", None) or (x.dtype.__name__,)
    if name not in (*NUMBERS, "bfloat16"):
        raise BufferError(
            f"expected an mxnet.nd.NDArray of numbers, got elements of type {name}, which MXNet "
            f"exports as another type: convert them first, with x.astype('uint8')"
        )
    return exchange.from_dlpack(x.to_dlpack_for_write())


RELEASE = "mxnet==1.9.1"
ALONE = True  # it needs an older NumPy
SAMPLE = "mxnet:nd.arange(6)"

BRIDGES = (
    Bridge(
        "mxnet.nd.NDArray",
        title="MXNet",
        classes=("mxnet:NDArray",),
        make=make,
        read=read,
        strides=COMPACT,
        readonly=COPIED,
        dtypes=NUMBERS,
    ),
)

DEFECTS = {
    "Booleans are exported as integers of one bit": "`asarray` and `convert` refuse them. "
    "`from_dlpack` cannot detect them in a bare capsule.",
}
