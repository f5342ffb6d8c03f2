# SPDX-License-Identifier: Apache-2.0
# %% A producer's capsule is not renamed, so it can be consumed twice
import drjit.scalar
import numpy as np


class Producer:
    capsule = np.arange(3.0, dtype=np.float32).__dlpack__()
    __dlpack__ = lambda self, **_: self.capsule


drjit.scalar.TensorXf(Producer())  # which takes it, and calls its deleter
assert '"dltensor"' in repr(Producer.capsule)

# %% A producer's KeyboardInterrupt becomes a TypeError
import drjit.scalar


class Producer:
    def __dlpack__(self, **_):
        raise KeyboardInterrupt


try:
    drjit.scalar.TensorXf(Producer())
except TypeError:
    pass
else:
    raise AssertionError
