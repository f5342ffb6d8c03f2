# SPDX-License-Identifier: Apache-2.0
"""CuPy."""

import sys

from fastdl._bridges.bridge import COPIED, DEVICE, Bridge


def make(tensor, like):
    import cupy

    return cupy.from_dlpack(tensor)


def move(x, device):
    import cupy

    with cupy.cuda.Device(device.id):
        return cupy.asarray(x)


def empty(shape, dtype, device):
    import cupy
    import numpy

    with cupy.cuda.Device(device.id):
        return cupy.empty(shape, numpy.dtype(dtype))


def device_name(x):
    return "rocm" if sys.modules["cupy"].cuda.runtime.is_hip else "cuda", x.id


DEVICE_OF = {"Device": device_name}
RELEASE = "cupy-cuda12x==14.2.0"
SAMPLE = "cupy:arange(6, dtype='float32')"

BRIDGES = (
    Bridge(
        "cupy.ndarray",
        title="CuPy",
        classes=("cupy:ndarray",),
        make=make,
        move=move,
        empty=empty,
        readonly=COPIED,
        devices=DEVICE,
    ),
)
