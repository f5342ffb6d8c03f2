# SPDX-License-Identifier: Apache-2.0
# %% Negative strides end the process
# dies of SIGABRT
import numpy as np
import torch

torch.from_dlpack(np.arange(4.0)[::-1])  # c10::Error in a function that may not throw

# %% Read-only data becomes writable
import numpy as np
import torch

source = np.zeros(2)
source.flags.writeable = False
torch.from_dlpack(source)[0] = 5.0
assert source[0] == 5.0

# %% Negated views export other values
import numpy as np
import torch

view = torch.tensor([1 + 2j]).conj().imag
assert view.tolist() == [-2.0]
assert np.from_dlpack(view).tolist() == [2.0]

# %% torch.asarray reads any buffer as float32
import numpy as np
import torch

tensor = torch.asarray(memoryview(np.array([1, 2, 3])))
assert (tensor.dtype, tensor.shape) == (torch.float32, (6,))

# %% A capsule that is refused for its size is freed twice
import contextlib, ctypes, os, sys

import numpy as np
import torch

pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
array = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (2, 2), (0, 0))
before, capsule = sys.getrefcount(array), array.__dlpack__()
shape = ctypes.c_void_p.from_address(pointer(capsule, b"dltensor") + 24).value
(ctypes.c_int64 * 2).from_address(shape)[:] = 1 << 40, 1 << 40  # all of them one float
with contextlib.suppress(RuntimeError):  # it refuses that
    torch.from_dlpack(capsule)
assert sys.getrefcount(array) == before and '"dltensor"' in repr(capsule)
os._exit(0)  # the deleter was called, and the capsule's destructor would call it again

# %% A request for a device that PyTorch lacks raises NotImplementedError
import torch

try:
    torch.ones(3).__dlpack__(dl_device=(12, 0))
except NotImplementedError:  # where a BufferError is due
    pass
else:
    raise AssertionError
