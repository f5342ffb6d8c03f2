# SPDX-License-Identifier: Apache-2.0
# %% Shared memory is unmapped under an array
from multiprocessing.shared_memory import SharedMemory

import numpy as np

memory = SharedMemory(create=True, size=8)
array = np.ndarray(1, buffer=memory.buf)
memory.close()  # no BufferError: `array` points to nothing now
memory.unlink()
