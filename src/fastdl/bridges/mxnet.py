"""MXNet. Its arrays have no `__dlpack__`; it gives and takes legacy capsules."""

from fastdl._convert.convert import COMPACT, COPIED, Bridge
from fastdl._core import exchange


def make(tensor, like):
    import mxnet

    if tensor.size == 0:  # which it takes for data with gaps
        return mxnet.nd.array(tensor.numpy(), dtype=tensor.dtype.name)
    return mxnet.nd.from_dlpack(tensor.__dlpack__())


def read(x):
    return exchange.from_dlpack(x.to_dlpack_for_write())


BRIDGES = (
    Bridge(
        "mxnet.nd.NDArray",
        title="MXNet",
        classes=("mxnet:NDArray",),
        make=make,
        read=read,
        strides=COMPACT,
        readonly=COPIED,
        dtypes=("int8", "int32", "int64", "uint8", "float16", "float32", "float64"),
    ),
)
