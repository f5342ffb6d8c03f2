"""TVM."""

from fastdl._convert.convert import ANYWHERE, COMPACT, COPIED, Bridge


def make(tensor, like):
    from tvm import runtime

    return runtime.from_dlpack(tensor)


BRIDGES = (
    Bridge(
        "tvm.runtime.Tensor",
        title="TVM",
        classes=("tvm:Tensor",),
        make=make,
        strides=COMPACT,
        readonly=COPIED,
        alignment=64,
        devices=ANYWHERE,
    ),
)
