# SPDX-License-Identifier: Apache-2.0
# %% An array without dimensions raises IndexError
import numpy as np
import warp

warp.init()
try:
    warp.from_dlpack(np.array(1.0, np.float32))
except IndexError:
    pass
else:
    raise AssertionError

# %% byte_offset is ignored, so other values are read
import ctypes

import numpy as np
import warp

warp.init()
capsule = np.arange(6, dtype=np.float32)[:4].__dlpack__()
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
offset = ctypes.c_uint64.from_address(pointer(capsule, b"dltensor") + 40)
offset.value = 8  # byte_offset: the elements are 2, 3, 4, 5
assert warp.from_dlpack(capsule).numpy().tolist() == [0, 1, 2, 3]

# %% Elements of several lanes get the strides of one, so they overlap
import ctypes

import numpy as np
import warp

warp.init()
capsule = np.arange(4, dtype=np.float32)[:2].__dlpack__()
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
lanes = ctypes.c_uint16.from_address(pointer(capsule, b"dltensor") + 22)
lanes.value = 2  # two elements of two lanes: (0, 1) and (2, 3)
assert warp.from_dlpack(capsule).numpy().tolist() == [[0, 1], [1, 2]]

# %% A capsule that is destroyed clears a pending exception
import warp

warp.init()
fail = lambda: (warp.zeros(3, device="cpu").__dlpack__(), 1 / 0)
try:
    fail()
except SystemError:  # not a ZeroDivisionError
    pass
else:
    raise AssertionError
