# SPDX-License-Identifier: Apache-2.0
# %% The last row and column of chroma are lost at odd sizes
import av
import numpy as np

plane = av.VideoFrame(5, 5, "nv12").planes[1]
assert (plane.height, plane.width) == (3, 3)
assert np.from_dlpack(plane).shape == (2, 2, 2)

# %% max_version, dl_device and copy raise TypeError
import av

plane = av.VideoFrame(4, 4, "gray").planes[0]
for keywords in ({"max_version": (1, 0)}, {"dl_device": (1, 0)}, {"copy": True}):
    try:
        plane.__dlpack__(**keywords)
    except TypeError:
        pass
    else:
        raise AssertionError

# %% A capsule without a deleter ends the process
# dies of SIGSEGV
import ctypes

import av
import numpy as np

capsule = np.zeros((4, 4), np.uint8).__dlpack__()
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
ctypes.c_void_p.from_address(pointer(capsule, b"dltensor") + 56).value = None
methods = {"__dlpack__": lambda self, **_: capsule, "__dlpack_device__": lambda self: (1, 0)}
av.VideoFrame.from_dlpack([type("Producer", (), methods)()], "gray")
