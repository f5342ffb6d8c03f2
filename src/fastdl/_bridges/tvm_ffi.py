"""tvm-ffi."""

from fastdl._bridges.bridge import ANY, ANYWHERE, COPIED, Bridge


def importer():
    import tvm_ffi

    return tvm_ffi.from_dlpack


SAMPLE = "tvm_ffi:from_dlpack(fastdl.asarray(numpy.arange(6, dtype='float32')))"

BRIDGES = (
    Bridge(
        "tvm_ffi.Tensor",
        title="tvm-ffi",
        classes=("tvm_ffi:Tensor",),
        quick=importer,
        strides=ANY,
        readonly=COPIED,
        devices=ANYWHERE,
        since="0.1.3",
    ),
)
