"""tinygrad. Its tensors have no `__dlpack__`; making one copies."""

from fastdl._convert.asarray import asarray
from fastdl._convert.convert import Bridge
from fastdl._core import tensor as core


def make(tensor, like):
    from tinygrad import Tensor

    return Tensor(tensor.numpy()).reshape(tensor.shape).realize()


def read(x):
    x = x.contiguous().realize()
    if x.numel() == 0 or x.dtype.fmt in (None, "e"):  # of which it has no memoryview
        return core.mark_copied(asarray(x.numpy()))
    tensor = asarray(x.data())
    core.keep_alive(tensor, x)  # the memoryview does not
    return tensor


BRIDGES = (
    Bridge(
        "tinygrad.Tensor",
        title="tinygrad",
        classes=("tinygrad:Tensor",),
        make=make,
        read=read,
        copies=True,
        dtypes=(
            *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float16", "float32", "float64"),
        ),
    ),
)
