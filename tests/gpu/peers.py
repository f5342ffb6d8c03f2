"""CuPy and torch as the scenarios want a library: see `Library` in arrays.py.

Imported where a GPU is: neither is needed to collect the tests.
"""

from tests.gpu.backends import SIZE
from tests.interop.peers import require


class Cupy:
    name = "cupy"
    asked_at_export = False  # it has no exchange table

    def __init__(self, gpu):
        require("cupy")
        import cupy

        self.gpu, self.module = gpu, cupy

    def make(self, value):
        array = self.module.full(SIZE, value, dtype="uint8")
        self.module.cuda.Device().synchronize()
        return array

    def pointer(self, array):
        return array.data.ptr

    def using(self, stream):
        return self.module.cuda.ExternalStream(stream)

    def take(self, tensor):
        return self.module.from_dlpack(tensor)

    def in_use(self):
        """The bytes of the device that its arrays hold."""
        return self.module.get_default_memory_pool().used_bytes()


class Torch:
    name = "torch"
    asked_at_export = True

    def __init__(self, gpu):
        require("torch")
        import torch

        self.gpu, self.module = gpu, torch

    def make(self, value):
        array = self.module.full((SIZE,), value, dtype=self.module.uint8, device="cuda")
        self.module.cuda.synchronize()
        return array

    def pointer(self, array):
        return array.data_ptr()

    def using(self, stream):
        return self.module.cuda.stream(self.module.cuda.ExternalStream(stream))

    def take(self, tensor):
        return self.module.from_dlpack(tensor)

    def in_use(self):
        return self.module.cuda.memory_allocated()
