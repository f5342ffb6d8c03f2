# SPDX-License-Identifier: Apache-2.0
# %% Booleans in a pyarrow.Tensor become uint8
import numpy as np
import pyarrow as pa

assert pa.Tensor.from_numpy(np.array([True])).type == pa.uint8()

# %% Array.from_dlpack refuses the older capsules, and so all arrays of JAX
import jax
import pyarrow as pa

try:
    pa.Array.from_dlpack(jax.numpy.arange(3))
except ValueError as error:  # JAX has no capsules with flags
    assert "incorrect name" in str(error)
else:
    raise AssertionError

# %% Array.from_dlpack passes max_version to producers that do not know it
import numpy as np
import pyarrow as pa

methods = {"__dlpack__": lambda self, stream=None: np.arange(3).__dlpack__()}
try:
    pa.Array.from_dlpack(type("Producer", (), methods)())
except TypeError as error:  # which ask again without it
    assert "max_version" in str(error)
else:
    raise AssertionError
