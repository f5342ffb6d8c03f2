# SPDX-License-Identifier: Apache-2.0
# %% float64 becomes float32, so large numbers become infinity
import mlx.core as mx
import numpy as np

assert mx.from_dlpack(np.array([1e300])).tolist() == [float("inf")]

# %% A producer's capsule is not renamed, so it can be consumed twice
import mlx.core as mx
import numpy as np


class Producer:
    capsule = np.arange(3.0, dtype=np.float32).__dlpack__()
    __dlpack__ = lambda self, **_: self.capsule
    __dlpack_device__ = lambda self: (1, 0)


mx.from_dlpack(Producer())  # which takes it, and calls its deleter
assert '"dltensor"' in repr(Producer.capsule)  # as if nobody had: the next one frees it again

# %% The exception of a producer is lost
import mlx.core as mx


class Producer:
    def __dlpack__(self, **_):
        raise BufferError("on loan")


try:
    mx.from_dlpack(Producer())
except TypeError as error:
    assert "on loan" not in str(error)
else:
    raise AssertionError

# %% A capsule of an unknown major version is read
import ctypes

import mlx.core as mx
import numpy as np

pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
capsule = np.ones(3, np.float32).__dlpack__(max_version=(1, 0))
ctypes.c_uint32.from_address(pointer(capsule, b"dltensor_versioned")).value = 2  # the major one
assert mx.from_dlpack(capsule).tolist() == [1, 1, 1]
