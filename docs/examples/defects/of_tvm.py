# SPDX-License-Identifier: Apache-2.0
# %% A compiled function crashes on data that is not aligned
# dies of SIGSEGV
import numpy as np
import tvm
import tvm_ffi
from tvm import te

a = te.placeholder((8,), name="a")
b = te.compute((8,), lambda i: a[i] * 2.0, name="b")
function = te.create_prim_func([a, b]).with_attr("global_symbol", "twice")
twice = tvm.compile(tvm.IRModule({"twice": function}), target="llvm")["twice"]
room = np.zeros(48, np.float32)
start = -room.ctypes.data % 64 // 4
twice(tvm_ffi.from_dlpack(room[start + 16 :][:8]), tvm_ffi.from_dlpack(room[start + 1 :][:8]))

# %% float4 is packed in the other order
import ctypes

import ml_dtypes
import numpy as np
import tvm

tensor = tvm.runtime.tensor(np.array([1, 2], ml_dtypes.float4_e2m1fn))  # 0b0010, 0b0100
assert tensor.dtype == "float4_e2m1fn"
assert tensor.numpy().astype(float).tolist() == [1.0, 2.0]
assert ctypes.c_uint8.from_address(tensor.data_ptr()).value == 0b0010_0100
