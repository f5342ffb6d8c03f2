# SPDX-License-Identifier: Apache-2.0
"""CuPy, torch, Numba and JAX as the scenarios want a library: see `Library` in arrays.py.

Imported where a GPU is: none is needed to collect the tests.
"""

import warnings
import weakref
from contextlib import nullcontext

import pytest

import fastdl
from tests.gpu.arrays import Exchange, Library, by_capsule
from tests.gpu.backends import OLD, SIZE
from tests.interop.peers import require


class Cupy(Exchange):
    name = "cupy"

    def __init__(self, gpu):
        require("cupy")
        import cupy

        self.gpu, self.module = gpu, cupy

    def make(self, value):
        array = self.module.full(SIZE, value, dtype="uint8")
        self.module.cuda.Device().synchronize()
        return array

    def allocate(self, stream):
        with self.using(stream):
            return self.module.empty(SIZE, dtype="uint8")

    def pointer(self, array):
        return array.data.ptr

    def using(self, stream):
        return cupy_stream(self.module, stream)

    def take(self, tensor):
        return self.module.from_dlpack(tensor)

    def in_use(self):
        """The bytes of the device that its arrays hold."""
        return self.module.get_default_memory_pool().used_bytes()


def cupy_stream(cupy, number):
    """CuPy's object for a stream that it does not own. CuPy 14 would rather be given an object than
    a number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return cupy.cuda.ExternalStream(number)


class Torch(Exchange):
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

    def allocate(self, stream):
        with self.using(stream):
            return self.module.empty(SIZE, dtype=self.module.uint8, device="cuda")

    def pointer(self, array):
        return array.data_ptr()

    def using(self, stream):
        return self.module.cuda.stream(self.module.cuda.ExternalStream(stream))

    def take(self, tensor):
        return self.module.from_dlpack(tensor)

    def in_use(self):
        return self.module.cuda.memory_allocated()


class Numba(Exchange):
    """By `__cuda_array_interface__`. Its arrays name the stream that they are bound to, if any; for
    what it takes the host waits."""

    name = "numba"
    waits_on_host = True
    cuda_alone = True

    def __init__(self, gpu):
        require("numba_cuda")
        import numpy
        from numba import cuda

        self.gpu, self.module, self.numpy = gpu, cuda, numpy

    def make(self, value):
        array = self.module.to_device(self.numpy.full(SIZE, value, "uint8"))
        self.module.synchronize()
        self.module.as_cuda_array(array)  # what that does at the first time is done
        return array

    def pointer(self, array):
        return array.__cuda_array_interface__["data"][0]

    def using(self, stream):
        return nullcontext()  # it has no current stream

    def give(self, array, stream):
        with fastdl.use_stream(self.gpu.device, stream):
            return fastdl.asarray(array.bind(self.module.external_stream(stream)))

    def give_unordered(self, array, stream):
        return fastdl.asarray(array)

    def take(self, tensor):
        return self.module.as_cuda_array(tensor)


def overwriting(jax):
    """A function of JAX's that writes its second argument and one to the memory of the first, which
    may not be used any more. (JAX would hand on what it does not change as it is.)"""
    return jax.jit(lambda old, new: new + 1, donate_argnums=0, keep_unused=True)


class Jax(Exchange):
    """As a producer. It chooses its streams itself and nothing can hold them, but what it computes
    of data that is held is held as well."""

    name = "jax"

    def __init__(self, gpu):
        self.gpu, self.module = gpu, require_jax()
        self.step = overwriting(self.module)
        self.feeder = Library(gpu)

    def make(self, value):
        self.feed = self.feeder.make(OLD)
        numpy, taken = self.module.numpy, self._take(self.feed, self.gpu.setup)
        self.step(numpy.full(SIZE, value, "uint8"), taken).block_until_ready()  # compiles
        return numpy.full(SIZE, value, "uint8").block_until_ready()

    def pointer(self, array):
        return array.unsafe_buffer_pointer()

    def using(self, stream):
        return nullcontext()

    def write(self, array, stream, value):
        self.gpu.fill(stream, self.feed.pointer, value - 1)
        taken = self._take(self.feed, stream)
        written = self.step(array, taken)
        weakref.finalize(written, id, taken)  # keeps it: JAX may wait when it releases it
        return written

    def _take(self, array, stream):
        return self.module.dlpack.from_dlpack(self.feeder.give(array, stream))

    def give_unordered(self, array, stream):
        """-1 would make JAX wait on the host: see docs/streams.md."""
        return by_capsule(array, self.gpu.setup)


def require_jax():
    """JAX with a GPU; ENVIRONMENT of backends.py keeps it from taking all the memory."""
    require("jax")
    import jax

    try:
        jax.devices("cuda")
    except RuntimeError as reason:
        pytest.skip(f"JAX without a GPU: {reason}")
    return jax


# ---- stream objects: (object, the number that the driver knows it by) -----------------------


def of_torch(which):
    require("torch")
    import torch

    stream = torch.cuda.Stream() if which == "own" else torch.cuda.default_stream()
    return stream, stream.cuda_stream or 1


def of_cupy(which):
    require("cupy")
    import cupy

    kind = cupy.cuda.Stream
    make = {"own": kind, "default": lambda: kind.null, "per-thread": lambda: kind.ptds}
    stream = make[which]()
    return stream, stream.ptr or 1


def of_numba(which):
    require("numba_cuda")
    from numba import cuda

    make = {
        "own": cuda.stream,
        "default": cuda.default_stream,
        "legacy": cuda.legacy_default_stream,
        "per-thread": cuda.per_thread_default_stream,
    }
    stream = make[which]()
    handle = stream.handle
    return stream, int(getattr(handle, "value", handle) or 0) or 1  # ctypes in older ones


def of_cuda_core(which):
    try:
        from cuda.core import LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM, Device
    except ImportError as reason:
        pytest.skip(f"cuda.core cannot be imported: {reason}")
    if which == "own":
        Device(0).set_current()
        stream = Device(0).create_stream()
    else:
        stream = LEGACY_DEFAULT_STREAM if which == "default" else PER_THREAD_DEFAULT_STREAM
    return stream, int(stream.handle)


STREAMS = {
    "torch": (of_torch, ("own", "default")),
    "cupy": (of_cupy, ("own", "default", "per-thread")),
    "numba": (of_numba, ("own", "default", "legacy", "per-thread")),
    "cuda.core": (of_cuda_core, ("own", "default", "per-thread")),
}
