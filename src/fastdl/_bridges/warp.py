"""Warp. It has no arrays without dimensions."""

from fastdl._bridges.bridge import ANYWHERE, COPIED, Bridge


def make(tensor, like):
    import warp

    warp.init()  # imports fail before this
    return warp.from_dlpack(tensor)


def move(x, device):
    return x.to(f"cuda:{device.id}")


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
