# SPDX-License-Identifier: Apache-2.0
"""pandas: Series. Its objects are read over their own interfaces (see _convert/missing.py)."""

from fastdl._bridges.bridge import Bridge


def make(tensor, like):
    import pandas as pd

    return pd.Series(tensor.numpy(), copy=False)


RELEASE = "pandas==3.1.1"
SAMPLE = "pandas:Series(range(6), dtype='float32')"

BRIDGES = (
    Bridge(
        "pandas.Series",
        title="pandas",
        classes=("pandas:Series",),
        make=make,
        ndims=(1, 1),
        dtypes=(
            *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float16", "float32", "float64", "complex64", "complex128"),
        ),
    ),
)
