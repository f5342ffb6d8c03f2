# SPDX-License-Identifier: Apache-2.0
# %% byte_offset is ignored in host memory, so other values are read
import ctypes

import dpnp
import numpy as np

capsule = np.arange(6, dtype=np.float32)[:4].__dlpack__()
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
offset = ctypes.c_uint64.from_address(pointer(capsule, b"dltensor") + 40)
offset.value = 8  # byte_offset: the elements are 2, 3, 4, 5
methods = {"__dlpack__": lambda self, **_: capsule, "__dlpack_device__": lambda self: (1, 0)}
producer = type("Producer", (), methods)()
assert dpnp.from_dlpack(producer).tolist() == [0, 1, 2, 3]

# %% A capsule without a deleter ends the process
# dies of SIGSEGV
import ctypes

import dpnp
import numpy as np

pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
capsule = np.zeros(3, np.float32).__dlpack__()
ctypes.c_void_p.from_address(pointer(capsule, b"dltensor") + 56).value = None  # the deleter
Producer = type("Producer", (np.ndarray,), {"__dlpack__": lambda self, **_: capsule})
dpnp.from_dlpack(np.zeros(3, np.float32).view(Producer))  # when the array is released
