"""PaddlePaddle."""

from fastdl._bridges.bridge import ANYWHERE, COPIED, HOST, POSITIVE, Bridge
from fastdl._bridges.lookup import published_table


def make(tensor, like):
    import paddle

    return paddle.from_dlpack(tensor)


def move(x, device):
    return x.cuda(device.id)  # its name for ROCm, too


def built():
    import paddle

    devices = paddle.is_compiled_with_cuda() or paddle.is_compiled_with_rocm()
    return {} if devices else {"devices": HOST}  # it ends the process when it looks for a stream


SAMPLE = "paddle:arange(6, dtype='float32')"

BRIDGES = (
    Bridge(
        "paddle.Tensor",
        title="PaddlePaddle",
        classes=("paddle:Tensor",),
        make=make,
        move=move,
        quick=lambda: published_table("paddle", "Tensor"),
        strides=POSITIVE,
        readonly=COPIED,  # the flag is ignored
        ndims=(0, 9),
        devices=ANYWHERE,
        built=built,
        dtypes=(
            # uint16 would become bfloat16
            *("bool", "int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"),
            *("float16", "float32", "float64", "bfloat16", "complex64", "complex128"),
            *("float8_e4m3fn", "float8_e5m2"),
        ),
    ),
)
