"""tvm-ffi."""

from fastdl._convert.convert import ANY, ANYWHERE, COPIED, Bridge


def make(tensor, like):
    import tvm_ffi

    return tvm_ffi.from_dlpack(tensor)


BRIDGES = (
    Bridge(
        "tvm_ffi.Tensor",
        title="tvm-ffi",
        classes=("tvm_ffi:Tensor",),
        make=make,
        strides=ANY,
        readonly=COPIED,
        devices=ANYWHERE,
    ),
)
