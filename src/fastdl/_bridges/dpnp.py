# SPDX-License-Identifier: Apache-2.0
"""dpnp, over SYCL. It shares unified shared memory (USM), and copies host data."""

from fastdl._bridges.bridge import ANYWHERE, Bridge


def make(tensor, like):
    import dpnp

    return dpnp.asarray(tensor.numpy()) if tensor.device.is_host else dpnp.from_dlpack(tensor)


def is_host(tensor):
    """data on the host"""
    return tensor.device.is_host


RELEASE = "dpnp==0.20.0"
SAMPLE = "dpnp:arange(6, dtype='float32')"

BRIDGES = (
    Bridge(
        "dpnp.ndarray",
        title="dpnp",
        classes=("dpnp:dpnp_array",),
        make=make,
        copies=is_host,
        devices=ANYWHERE,
        dtypes=(
            *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float16", "float32", "float64", "complex64", "complex128"),
        ),
    ),
)

DEFECTS = {
    "byte_offset is ignored in host memory, so other values are read": "fastdl adds the offset "
    "to the address that it exports.",
    "A capsule without a deleter ends the process": "DLPack allows a NULL deleter. fastdl "
    "always sets one.",
}
