# SPDX-License-Identifier: Apache-2.0
# %% copy=True does not copy
import jax
import numpy as np

room = np.zeros(48, np.float32)
source = room[-room.ctypes.data % 64 // 4 :][:4]  # aligned to 64 bytes
array = jax.dlpack.from_dlpack(source, copy=True)
source[0] = 5.0
assert array[0] == 5.0

# %% Read-only arrays of other libraries are refused
import jax
import numpy as np

source = np.zeros(2, np.float32)
source.flags.writeable = False
try:
    jax.dlpack.from_dlpack(source)
except BufferError:  # it asks for a capsule that cannot say "read-only"
    pass
else:
    raise AssertionError

# %% A capsule without a deleter raises an error
import ctypes

import jax
import numpy as np

pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
capsule = np.zeros(16, np.float32)[1:].__dlpack__()  # not aligned, so JAX copies
ctypes.c_void_p.from_address(pointer(capsule, b"dltensor") + 56).value = None
Producer = type("Producer", (np.ndarray,), {"__dlpack__": lambda self, **_: capsule})
try:
    jax.dlpack.from_dlpack(np.zeros(15, np.float32).view(Producer))
except RuntimeError:  # bad_function_call; where JAX shares the memory, the process ends with it
    pass
else:
    raise AssertionError
