"""Kernels in C that are compiled for the tensors that they are called with, once for each kind."""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import fastdl

TYPES = {"float32": "float", "float64": "double", "int32": "int32_t", "int64": "int64_t"}

#: What the kernel takes of each tensor is the layout "pNS" of one dimension.
SOURCE = """
#include <stdint.h>

typedef struct {{ {type} *data; int64_t size, stride; }} vector;

int axpy(double a, const vector *tensors)
{{
    const vector x = tensors[0], y = tensors[1];
    if (x.size != y.size)
        return -1;
    for (int64_t i = 0; i < x.size; i++)
        y.data[{y}] += a * x.data[{x}];
    return 0;
}}
"""

# [key]
sign = fastdl.signer(sizes=None, strides="coarse", alignment=1, layout="pNS")
arguments = ctypes.create_string_buffer(2 * 24)
kernels = {}


def axpy(a, x, y):
    """y += a * x, for vectors of any library on the host."""
    key = sign(x, y, into=arguments)
    kernel = kernels.get(key)
    if kernel is None:
        kernel = kernels[key] = compiled_for(fastdl.from_dlpack(x), fastdl.from_dlpack(y))
    if kernel(a, arguments) != 0:  # sizes are not in the key
        raise ValueError(f"expected two vectors of one size, got {len(x)} and {len(y)} elements")


# [/key]


def compiled_for(x, y):
    """The kernel for all vectors whose key is that of these two."""
    if x.ndim != 1 or y.ndim != 1 or x.dtype != y.dtype or x.dtype.name not in TYPES:
        raise TypeError(f"expected two vectors of one of {', '.join(TYPES)}, got {x!r} and {y!r}")
    if x.device.type != y.device.type or x.device.type != fastdl.DeviceType.CPU:
        raise BufferError(f"expected vectors on the host, got {x.device} and {y.device}")
    if y.readonly:
        raise BufferError("expected a vector that may be written, got a read-only one")
    index = {
        name: "i" if vector.is_contiguous() else f"i * {name}.stride"
        for name, vector in (("x", x), ("y", y))
    }
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "axpy.c"), Path(folder, "axpy.so")
        source.write_text(SOURCE.format(type=TYPES[x.dtype.name], **index))
        compiler = shutil.which("cc") or "gcc"
        subprocess.run([compiler, "-O3", "-fPIC", "-shared", source, "-o", library], check=True)
        kernel = ctypes.CDLL(str(library)).axpy
    kernel.argtypes = (ctypes.c_double, ctypes.c_void_p)
    return kernel
