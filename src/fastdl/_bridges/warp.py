# SPDX-License-Identifier: Apache-2.0
"""Warp. It has no arrays without dimensions."""

from fastdl._bridges.bridge import ANYWHERE, COPIED, Bridge


def make(tensor, like):
    import warp

    warp.init()  # imports fail before this
    return warp.from_dlpack(tensor)


def move(x, device):
    return x.to(f"cuda:{device.id}")


RELEASE = "warp-lang==1.19.0"
SAMPLE = "warp:array(range(6), dtype=float32, device='cpu')"

BRIDGES = (
    Bridge(
        "warp.array",
        title="Warp",
        classes=("warp:array",),
        make=make,
        move=move,
        readonly=COPIED,
        ndims=(1, 4),
        devices=ANYWHERE,
        dtypes=(
            *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float16", "float32", "float64", "bfloat16"),
        ),
    ),
)

DEFECTS = {
    "An array without dimensions raises IndexError": "Warp has no such arrays. `convert` raises "
    "an error: `reshape(1)` first.",
    "byte_offset is ignored, so other values are read": "fastdl adds the offset to the address "
    "that it exports.",
    "Elements of several lanes get the strides of one, so they overlap": "`convert` refuses them.",
    "A capsule that is destroyed clears a pending exception": "The capsule's memory also leaks. "
    "Warp's deleter clears the exception, too: fastdl saves it before the call.",
}
