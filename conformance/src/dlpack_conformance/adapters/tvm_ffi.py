# SPDX-License-Identifier: Apache-2.0
"""tvm-ffi. It has no constructor from values, so it borrows NumPy arrays."""

import numpy as np
import tvm_ffi

from dlpack_conformance.elements import all_but

title = "tvm-ffi"
distribution = "apache-tvm-ffi"
takes_tables = True
from_dlpack = tvm_ffi.from_dlpack
from_capsule = tvm_ffi.from_dlpack
address = tvm_ffi.Tensor.data_ptr

dtypes = all_but("bfloat16")


def make(values, dtype):
    return tvm_ffi.from_dlpack(np.array(values, dtype))


def values(array):
    return np.from_dlpack(array).tolist()
