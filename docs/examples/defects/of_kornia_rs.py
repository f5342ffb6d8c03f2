# SPDX-License-Identifier: Apache-2.0
# %% A request for a copy raises NotImplementedError
import numpy as np
from kornia_rs.image import Image

try:
    Image.from_numpy(np.zeros((2, 2, 3), np.uint8)).__dlpack__(copy=True)
except NotImplementedError:  # where a copy is due, or a BufferError
    pass
else:
    raise AssertionError
