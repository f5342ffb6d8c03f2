# SPDX-License-Identifier: Apache-2.0
"""Polars: Series, over Arrow's interface. It never writes to the memory."""

from fastdl._bridges.bridge import COMPACT, Bridge
from fastdl._bridges.pyarrow import NUMBERS


def make(tensor, like):
    import polars as pl

    return pl.Series(tensor)


def copies(tensor):
    """bools, which are bits there"""
    return tensor.dtype.name == "bool"


RELEASE = "polars==2.1.0"
SAMPLE = "polars:Series(range(6), dtype=Float32)"

BRIDGES = (
    Bridge(
        "polars.Series",
        title="Polars",
        classes=("polars:Series",),
        make=make,
        strides=COMPACT,
        ndims=(1, 1),
        dtypes=("bool", *NUMBERS),
        copies=copies,
    ),
)
