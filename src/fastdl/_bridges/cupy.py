"""CuPy."""

from fastdl._convert.convert import COPIED, DEVICE, Bridge


def make(tensor, like):
    import cupy

    return cupy.from_dlpack(tensor)


SAMPLE = "cupy:arange(6, dtype='float32')"

BRIDGES = (
    Bridge(
        "cupy.ndarray",
        title="CuPy",
        classes=("cupy:ndarray",),
        make=make,
        readonly=COPIED,
        devices=DEVICE,
    ),
)
