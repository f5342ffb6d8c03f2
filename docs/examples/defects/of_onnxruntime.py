# SPDX-License-Identifier: Apache-2.0
# %% An export does not keep the memory alive
import weakref

import numpy as np
import onnxruntime as ort

source = np.zeros(4, np.float32)
alive = weakref.ref(source)
capsule = ort.OrtValue.ortvalue_from_numpy(source).__dlpack__()
del source
assert alive() is None  # and the capsule points to it

# %% Booleans are exported as uint8
import numpy as np
import onnxruntime as ort

value = ort.OrtValue.ortvalue_from_numpy(np.array([True, False]))
assert value.data_type() == "tensor(bool)"
assert np.from_dlpack(value).dtype == np.uint8

# %% byte_offset is ignored, so other values are read
import ctypes

import numpy as np
from onnxruntime.capi._pybind_state import OrtValue

capsule = np.arange(6, dtype=np.float32)[:4].__dlpack__()
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
offset = ctypes.c_uint64.from_address(pointer(capsule, b"dltensor") + 40)
offset.value = 8  # byte_offset: the elements are 2, 3, 4, 5
assert OrtValue.from_dlpack(capsule, False).numpy().tolist() == [0, 1, 2, 3]

# %% A capsule without a deleter ends the process
# dies of SIGABRT
import ctypes

import numpy as np
import onnxruntime as ort

pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
capsule = np.zeros(3, np.float32).__dlpack__()
ctypes.c_void_p.from_address(pointer(capsule, b"dltensor") + 56).value = None  # the deleter
Producer = type("Producer", (np.ndarray,), {"__dlpack__": lambda self, **_: capsule})
ort.OrtValue.from_dlpack(np.zeros(3, np.float32).view(Producer))  # when the value is released

# %% A consumed capsule that is destroyed clears a pending exception
import numpy as np
import onnxruntime as ort

capsules = [ort.OrtValue.ortvalue_from_numpy(np.zeros(3, np.float32)).__dlpack__()]
methods = {"__dlpack__": lambda self, **_: capsules[0], "__dlpack_device__": lambda self: (1, 0)}
np.from_dlpack(type("Producer", (), methods)())
fail = lambda: (capsules.pop(), 1 / 0)
try:
    fail()
except SystemError:  # not a ZeroDivisionError
    pass
else:
    raise AssertionError
