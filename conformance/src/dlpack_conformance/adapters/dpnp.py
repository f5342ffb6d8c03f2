# SPDX-License-Identifier: Apache-2.0
"""dpnp, on a oneAPI device: the CPU, where it is the only one."""

import os
import sys

os.environ.setdefault("OCL_ICD_FILENAMES", f"{sys.prefix}/lib/libintelocl.so")

import dpnp

from dlpack_conformance.adapters.numpy import write as write
from dlpack_conformance.elements import all_but

title = "dpnp"
forks = False  # its threads do not survive a fork
from_dlpack = dpnp.from_dlpack

views = {
    "transposed": lambda x: x.T,
    "strided": lambda x: x[:, ::2],
    "reversed": lambda x: x[::-1],
    "offset": lambda x: x[1:, 1:],
    "column": lambda x: x[:, 1],
}
dtypes = all_but("bfloat16")


def make(values, dtype):
    return dpnp.array(values, dtype)


def values(array):
    """Imports from the host are NumPy arrays."""
    return (dpnp.asnumpy(array) if isinstance(array, dpnp.ndarray) else array).tolist()
