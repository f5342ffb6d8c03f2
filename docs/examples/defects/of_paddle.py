# SPDX-License-Identifier: Apache-2.0
# %% Negative strides read memory beyond the array
import numpy as np
import paddle

source = np.arange(8.0).reshape(2, 4)[::-1]
tensor = paddle.from_dlpack(source)
assert tensor.numpy().tolist() != source.tolist()

# %% Read-only data becomes writable
import numpy as np
import paddle

source = np.zeros(2)
source.flags.writeable = False
paddle.from_dlpack(source)[0] = 5.0
assert source[0] == 5.0

# %% uint16 becomes bfloat16
import numpy as np
import paddle

assert paddle.to_tensor(np.array([1], np.uint16)).dtype == paddle.bfloat16

# %% byte_offset is ignored, so other values are read
import ctypes

import numpy as np
import paddle
from paddle.utils import dlpack

capsule = np.arange(6, dtype=np.float32)[:4].__dlpack__()
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
offset = ctypes.c_uint64.from_address(pointer(capsule, b"dltensor") + 40)
offset.value = 8  # byte_offset: the elements are 2, 3, 4, 5
assert dlpack.from_dlpack(capsule).tolist() == [0, 1, 2, 3]

# %% The device ID is None
import paddle

assert paddle.ones([3]).__dlpack_device__()[1] is None  # not 0

# %% The table leaves the stream unset for host memory
import ctypes

import paddle

pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
table = pointer(paddle.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
stream = ctypes.c_void_p(7)
current_work_stream = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(
    ctypes.c_void_p.from_address(table + 48).value
)
assert current_work_stream(1, 0, ctypes.addressof(stream)) == 0
assert stream.value == 7  # success, and nothing was written

# %% A tensor imported from another one hangs the process when it is released last
# dies of SIGALRM
import signal

import numpy as np
import paddle

first = paddle.from_dlpack(np.zeros(3, np.float32))
second = paddle.from_dlpack(first)
del first
signal.alarm(5)
del second  # its deleter releases `first`, and waits for a lock that it holds itself

# %% The deleter is not called if manager_ctx is NULL
import ctypes

import numpy as np
import paddle

pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
deleted = []
deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleted.append)
capsule = np.zeros(3, np.float32).__dlpack__()
managed = (ctypes.c_void_p * 8).from_address(pointer(capsule, b"dltensor"))
managed[6:] = None, ctypes.cast(deleter, ctypes.c_void_p).value  # manager_ctx, deleter
tensor = paddle.from_dlpack(capsule)
del tensor
assert not deleted

# %% Data on CUDA ends the process if Paddle was built without CUDA
# dies of SIGSEGV
import paddle


class Producer:
    __dlpack_device__ = lambda self: (2, 0)
    __dlpack__ = lambda self, **_: None  # is not called


paddle.from_dlpack(Producer())  # asks its own build for a CUDA stream

# %% The table's allocator ignores an overflow, and succeeds without memory
import ctypes, struct

import paddle

pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
table = pointer(paddle.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
allocate = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(
    ctypes.c_void_p.from_address(table + 16).value
)
shape, made = (ctypes.c_int64 * 2)(1 << 33, 1 << 33), ctypes.c_void_p()
prototype = struct.pack("PiiiBBHPPQ", 0, 1, 0, 2, 2, 32, 1, ctypes.addressof(shape), 0, 0)
assert allocate(prototype, ctypes.addressof(made), None, None) == 0
assert ctypes.c_void_p.from_address(made.value + 32).value is None  # success, and no memory

# %% numpy() of an empty tensor that NumPy cannot hold ends the process
# dies of SIGSEGV
import ctypes

import numpy as np
import paddle

pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
capsule = np.zeros((0, 2), np.float32).__dlpack__()
shape = ctypes.c_void_p.from_address(pointer(capsule, b"dltensor") + 24).value
ctypes.c_int64.from_address(shape + 8).value = 1 << 62  # NumPy does not make such arrays
paddle.from_dlpack(capsule).numpy()

# %% A request for a device that Paddle lacks raises NotImplementedError
import paddle

try:
    paddle.ones([3]).__dlpack__(dl_device=(12, 0))
except NotImplementedError:  # where a BufferError is due
    pass
else:
    raise AssertionError
