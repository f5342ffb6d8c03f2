# SPDX-License-Identifier: Apache-2.0
"""What workers do in these tests: they import it, or get it by value."""

import numpy as np

import fastdl


def made(n, dtype="float32", count=1 << 16):
    return fastdl.from_dlpack(np.full(count, n).astype(fastdl.DType(dtype).dtype))


def facts(x):
    return (type(x).__name__, str(x.dtype), x.shape, x.strides, bytes(x))


def total(x):
    return float(x.numpy().astype("float64").sum())
