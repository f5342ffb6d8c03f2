# SPDX-License-Identifier: Apache-2.0
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
    return {} if devices else {"devices": HOST}  # it aborts the process when it looks up a stream


RELEASE = "paddlepaddle==3.3.1"
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

DEFECTS = {
    "Negative strides read other memory": "The second row is read from memory behind the "
    "array. `convert` copies such data.",
    "Read-only data becomes writable": "`convert` copies such data.",
    "uint16 becomes bfloat16": "PaddlePaddle has no uint16. `convert` raises an error.",
    "byte_offset is ignored, so other values are read": "Its exchange table ignores it too. "
    "fastdl adds the offset to the address of what it exports.",
    "The device ID is None": "fastdl reads it from the capsule, where it is right.",
    "The table does not set the stream of the host": "fastdl does not request the stream of "
    "host memory.",
    "A tensor that was taken twice is never released: the process hangs": "fastdl cannot "
    "prevent it. Keep the first tensor until the second is released, or make a copy: "
    "`convert(x, paddle.Tensor, copy=True)`.",
    "The deleter is not called if manager_ctx is NULL": "DLPack allows a NULL `manager_ctx`, "
    "so the memory leaks. fastdl always sets it.",
    "Data on CUDA ends the process if Paddle was built without CUDA": "`convert` refuses data "
    "on a device if Paddle was built for none. Pass `device='cpu'` for a copy on the host.",
    "The table allocates more bytes than 64 bits can count": "fastdl refuses a tensor that has "
    "elements and no memory, and requests no such size.",
    "numpy() of an empty tensor that NumPy cannot hold ends the process": "`convert(x, "
    "numpy.ndarray)` raises a `BufferError`.",
    "A request for a device that Paddle lacks is a NotImplementedError": "`from_dlpack(x, "
    "device=...)` raises a `BufferError`.",
}
