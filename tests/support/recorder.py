# SPDX-License-Identifier: Apache-2.0
"""A producer on NumPy's memory, that remembers how it was asked."""

import numpy as np

from tests.support.build import extension
from tests.support.ctypes_dlpack import CPU

_native = extension("native")
Native, forward = _native.Native, _native.forward


def array_of(n=3):
    return np.arange(n, dtype=np.float64)


class Recorder:
    """A producer on a NumPy array, whose `__dlpack__` is in C: what it takes cannot be read off it.

    takes: the keywords that it does not refuse. wording: how it refuses one, in place of {}.
    calls: the keywords of each call, those that were refused included.
    """

    takes = ("stream", "max_version", "dl_device", "copy")
    wording = "__dlpack__() got an unexpected keyword argument '{}'"

    def __init__(self, array=None, device=(CPU, 0)):
        self.array = array_of() if array is None else array
        self.device = device
        self.calls = []

    def __dlpack_device__(self):
        return self.device

    __dlpack__ = Native(lambda self, **keywords: self.export(**keywords))

    def export(self, stream=None, max_version=None, dl_device=None, copy=None, **others):
        return self.array.__dlpack__(max_version=max_version, copy=copy)


def new_type(**members):
    """A producer type that fastdl has never seen, so that nothing is known of it."""
    return type("Producer", (Recorder,), members)
