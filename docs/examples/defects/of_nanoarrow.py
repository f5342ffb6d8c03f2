# SPDX-License-Identifier: Apache-2.0
# %% A producer's capsule is not renamed, so it can be consumed twice
import nanoarrow
import numpy as np


class Producer:
    capsule = np.arange(3.0).__dlpack__()
    __dlpack__ = lambda self, **_: self.capsule


buffer = nanoarrow.c_buffer(Producer())
assert '"dltensor"' in repr(Producer.capsule)  # another consumer would free it, under the buffer

# %% Lanes are ignored, so half of the values are read
import ctypes

import nanoarrow
import numpy as np

capsule = np.arange(4, dtype=np.float32)[:2].__dlpack__()
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
lanes = ctypes.c_uint16.from_address(pointer(capsule, b"dltensor") + 22)
lanes.value = 2  # two elements of two lanes: (0, 1) and (2, 3)
Producer = type("Producer", (), {"__dlpack__": lambda self, **_: capsule})
assert list(nanoarrow.c_buffer(Producer())) == [0, 1]
