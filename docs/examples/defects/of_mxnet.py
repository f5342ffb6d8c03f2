# SPDX-License-Identifier: Apache-2.0
# %% Booleans are exported as integers of one bit
import ctypes

import mxnet as mx

capsule = mx.nd.array([1, 0, 1], dtype="bool").to_dlpack_for_read()
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
code, bits = ctypes.string_at(pointer(capsule, b"dltensor") + 20, 2)
assert (code, bits) == (1, 1)  # though each takes a byte
