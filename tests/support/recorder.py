"""A producer in Python on NumPy's memory, that remembers how it was asked."""

import numpy as np

from tests.support.ctypes_dlpack import CPU


def array_of(n=3):
    return np.arange(n, dtype=np.float64)


class Recorder:
    """A producer on a NumPy array: `takes` are the keywords that it does not refuse."""

    takes = ("stream", "max_version", "dl_device", "copy")
    wording = "Array.__dlpack__() got an unexpected keyword argument '{}'"

    def __init__(self, array=None, device=(CPU, 0)):
        self.array = array_of() if array is None else array
        self.device = device
        self.calls = []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        self.calls.append(keywords)
        for name in keywords:
            if name not in self.takes:
                raise TypeError(self.wording.format(name))
        return self.export(**keywords)

    def export(self, stream=None, max_version=None, dl_device=None, copy=None):
        return self.array.__dlpack__(max_version=max_version, copy=copy)


def new_type(**members):
    """A producer type that fastdl has never seen, so that nothing is known of it."""
    return type("Producer", (Recorder,), members)
