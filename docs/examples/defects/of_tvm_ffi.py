# SPDX-License-Identifier: Apache-2.0
# %% Read-only data of a type with an exchange table becomes writable
import fastdl
import numpy as np
import tvm_ffi

source = np.zeros(2)
source.flags.writeable = False
tensor = tvm_ffi.from_dlpack(fastdl.from_dlpack(source))
np.from_dlpack(tensor)[0] = 5.0
assert source[0] == 5.0

# %% A request for an old version raises AttributeError
import numpy as np
import tvm_ffi

tensor = tvm_ffi.from_dlpack(np.ones(3))
try:
    tensor.__dlpack__(max_version=(0, 8))
except AttributeError:
    pass
else:
    raise AssertionError

# %% copy=True does not copy
import numpy as np
import tvm_ffi

tensor = tvm_ffi.from_dlpack(np.ones(3))
copy = tvm_ffi.from_dlpack(tensor.__dlpack__(copy=True))
assert copy.data_ptr() == tensor.data_ptr()

# %% A table of an unknown major version is called
import ctypes, os

import numpy as np
import tvm_ffi

give = ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2)(lambda *_: os._exit(0))  # called
table = (ctypes.c_void_p * 7)(2, None, *[ctypes.cast(give, ctypes.c_void_p).value] * 5)  # 2.0
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
capsule = new(ctypes.addressof(table), b"dlpack_exchange_api", None)
Producer = type("Producer", (np.ndarray,), {"__dlpack_c_exchange_api__": capsule})
tvm_ffi.from_dlpack(np.zeros(3, np.float32).view(Producer))
raise AssertionError
