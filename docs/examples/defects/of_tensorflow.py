# SPDX-License-Identifier: Apache-2.0
# %% A tensor of strings or of handles ends the process
# dies of SIGABRT
import tensorflow as tf

tf.constant("text").__dlpack__()

# %% Immutable tensors are exported as writable
import ctypes

import numpy as np
import tensorflow as tf

tensor = tf.constant([1.0, 2.0])
address = np.from_dlpack(
    tensor
).ctypes.data  # NumPy, at least, takes an unmarked capsule for read-only
capsule = tensor.__dlpack__(max_version=(1, 0))
assert '"dltensor"' in repr(capsule)  # has no flags, though flags were asked for
ctypes.c_float.from_address(address).value = 5.0
assert tensor.numpy()[0] == 5.0

# %% A capsule that is refused for its device is freed twice
import ctypes, os, sys

import numpy as np
import tensorflow as tf

pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
array = np.zeros(3, np.float32)
before, capsule = sys.getrefcount(array), array.__dlpack__()
ctypes.c_int32.from_address(pointer(capsule, b"dltensor") + 8).value = 2  # on CUDA
try:
    tf.experimental.dlpack.from_dlpack(capsule)
except Exception:
    assert sys.getrefcount(array) == before and '"dltensor"' in repr(capsule)
    os._exit(0)  # the deleter was called, and the capsule's destructor would call it again

# %% A request for the host raises RuntimeError
import tensorflow as tf

try:
    tf.ones(3).__dlpack__(dl_device=(1, 0))
except RuntimeError:  # the same for every device, where a BufferError is due
    pass
else:
    raise AssertionError

# %% Lanes are ignored, so half of the values are read
import ctypes

import numpy as np
import tensorflow as tf

capsule = np.arange(4, dtype=np.float32)[:2].__dlpack__()
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
lanes = ctypes.c_uint16.from_address(pointer(capsule, b"dltensor") + 22)
lanes.value = 2  # two elements of two lanes: (0, 1) and (2, 3)
assert tf.experimental.dlpack.from_dlpack(capsule).numpy().tolist() == [0, 1]
