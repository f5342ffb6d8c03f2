# SPDX-License-Identifier: Apache-2.0
"""array-api-strict, which wraps NumPy."""

from fastdl._bridges.bridge import Bridge


def make(tensor, like):
    import array_api_strict

    return array_api_strict.from_dlpack(tensor)


RELEASE = "array-api-strict==2.6.1"
SAMPLE = "array_api_strict:arange(6, dtype=float32)"

BRIDGES = (
    Bridge(
        "array_api_strict.Array",
        title="array-api-strict",
        classes=("array_api_strict:Array",),
        make=make,
        dtypes=(
            *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float32", "float64", "complex64", "complex128"),
        ),
    ),
)
