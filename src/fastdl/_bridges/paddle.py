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
    return {} if devices else {"devices": HOST}  # it ends the process when it looks for a stream


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
    "Negative strides read memory beyond the array": "`convert` copies such data.",
    "Read-only data becomes writable": "`convert` copies such data.",
    "uint16 becomes bfloat16": "PaddlePaddle has no uint16. `convert` raises an error.",
    "byte_offset is ignored, so other values are read": "Paddle's table ignores it, "
    "too. fastdl adds the offset to the address that it exports.",
    "The device ID is None": "fastdl reads the ID from the capsule, where it is right.",
    "The table leaves the stream unset for host memory": "fastdl does not request it there.",
    "A tensor imported from another one hangs the process when it is released last": "fastdl "
    "cannot prevent this. Keep the first tensor until the second is released, or make a copy: "
    "`convert(x, paddle.Tensor, copy=True)`.",
    "The deleter is not called if manager_ctx is NULL": "DLPack allows a NULL `manager_ctx`, "
    "so the memory leaks. fastdl always sets it.",
    "Data on CUDA ends the process if Paddle was built without CUDA": "`convert` refuses data "
    "on a device if Paddle was built for none. Pass `device='cpu'` for a copy on the host.",
    "The table's allocator ignores an overflow, and succeeds without memory": "fastdl requests no "
    "such size, and refuses a tensor that has elements but no memory.",
    "numpy() of an empty tensor that NumPy cannot hold ends the process": "`convert(x, "
    "numpy.ndarray)` raises a `BufferError`.",
    "A request for a device that Paddle lacks raises NotImplementedError": "`from_dlpack(x, "
    "device=...)` raises a `BufferError`.",
}
