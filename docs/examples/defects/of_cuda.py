# SPDX-License-Identifier: Apache-2.0
# %% A capsule of an unknown major version is read
import ctypes

import numpy as np
from cuda.core.utils import StridedMemoryView

pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
capsule = np.zeros(3, np.float32).__dlpack__(max_version=(1, 0))
ctypes.c_uint32.from_address(pointer(capsule, b"dltensor_versioned")).value = 2  # the major one
Producer = type("Producer", (np.ndarray,), {"__dlpack__": lambda self, **_: capsule})
view = StridedMemoryView.from_dlpack(np.zeros(3, np.float32).view(Producer), stream_ptr=-1)
assert view.shape == (3,)
