"""Checks of libraries on a GPU: what becomes of the streams that they are given, and where they
work. The simulated driver has no libraries; each that is not installed is marked as assumed.

Each question is a check of its own, since a library may crash on a number that it takes for a
handle: JAX does so on -1, it is believed.
"""

import ctypes
import warnings

from tests.simulated.conformance_driver import Assumed, Checks, Latch, about
from tests.support.simulation import LEGACY

OK = "accepted"


class OfLibrary(Checks):
    """Questions to one library; `array` makes one on device 0."""

    def prepare(self):
        super().prepare()
        self.simulated = self.driver.has("fk_reset")

    def library(self):
        if self.simulated:
            raise Assumed("the simulated device has no libraries")
        try:
            return self.load()
        except ImportError as error:
            raise Assumed(f"{type(error).__name__}: {error}") from None

    def exported(self, array, *, stream):
        """What became of the call."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                array.__dlpack__(stream=stream)
            except Exception as error:
                return f"{type(error).__name__}: {error}".splitlines()[0][:120]
        return OK + "".join(f", with a {c.category.__name__}" for c in caught)

    def inserts_a_wait(self, make):
        """Whether `array.__dlpack__(stream=S)` makes S wait for held work on the stream that the
        library says is current. `make`: stream -> (array, context manager)."""
        d = self.driver
        found = {}
        for name, passed in (("handle", d.stream()), ("-1", d.stream())):
            source = d.stream()
            array, current = make(source)
            Latch(d, source).open()  # loads what it needs
            d.ok("cuStreamSynchronize", source)
            with current:
                latch = Latch(d, source)
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        array.__dlpack__(stream=passed if name == "handle" else -1)
                    found[name] = d.call("cuStreamQuery", passed) == 600
                finally:
                    latch.open()
            d.ok("cuStreamSynchronize", source)
            d.ok("cuStreamSynchronize", passed)
        return found["handle"], found["-1"]

    def ask_where(self, pointer):
        d = self.driver
        context = ctypes.c_void_p()
        d.ok("cuPointerGetAttribute", ctypes.addressof(context), 1, pointer)
        self.expect("its memory is of the primary context", context.value == self.context, True)
        self.expect("which is current as before", d.current() == self.context, True)
        d.pop()
        try:
            self.load()
            self.pointer(self.array())
            self.expect("and which it makes current", d.current() in (None, self.context), True)
            self.note("current after its work on a thread without one", d.current() is not None)
        finally:
            d.push(self.context)
            # What the library made current stays below.


class Torch(OfLibrary):
    streams = {None: OK, -1: OK, 0: "AssertionError", 1: OK, 2: "BufferError"}

    def load(self):
        import torch

        if not torch.cuda.is_available():
            raise Assumed("this torch has no CUDA")
        self.torch = torch

    def array(self):
        return self.torch.ones(8, device="cuda")

    def pointer(self, array):
        return array.data_ptr()

    @about("producers-order")
    def check_torch_waits(self):
        self.library()
        torch = self.torch

        def make(stream):
            return self.array(), torch.cuda.stream(torch.cuda.ExternalStream(stream))

        self.expect("a wait with a handle, and with -1", self.inserts_a_wait(make), (True, False))

    @about("non-blocking-streams")
    def check_torch_streams(self):
        self.library()
        flags = ctypes.c_uint(9)
        self.driver.ok("cuStreamGetFlags", self.torch.cuda.Stream().cuda_stream, flags)
        self.expect("flags of torch.cuda.Stream", flags.value, 1)

    @about("current-device")
    def check_torch_current_device(self):
        if self.count < 2:
            raise Assumed("needs two devices")
        self.library()
        d = self.driver
        self.array()
        d.push(d.made("cuDevicePrimaryCtxRetain", 1))
        try:
            self.expect("torch.cuda.current_device()", self.torch.cuda.current_device(), 1)
        finally:
            d.pop()


class Cupy(OfLibrary):
    streams = {None: OK, -1: OK, 0: OK, 1: OK, 2: OK}

    def load(self):
        import cupy

        self.cupy = cupy

    def array(self):
        return self.cupy.ones(8, "float32")

    def pointer(self, array):
        return array.data.ptr

    @about("producers-order")
    def check_cupy_waits(self):
        self.library()

        def make(stream):
            array = self.array()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                return array, self.cupy.cuda.ExternalStream(stream)

        self.expect("a wait with a handle, and with -1", self.inserts_a_wait(make), (True, False))


class Jax(OfLibrary):
    streams = {None: OK, 1: OK, 0: None, 2: None, -1: None}  # None: nobody knows

    def load(self):
        import jax

        try:
            jax.devices("cuda")
        except RuntimeError as error:
            raise Assumed(f"JAX without a GPU: {error}".splitlines()[0]) from None
        self.numpy = jax.numpy

    def array(self):
        return self.numpy.ones(8).block_until_ready()

    def pointer(self, array):
        return array.unsafe_buffer_pointer()


class Numba(OfLibrary):
    streams = {}  # it has no __dlpack__

    def load(self):
        import numba_cuda  # noqa: F401
        import numpy
        from numba import cuda

        self.cuda, self.numpy = cuda, numpy

    def array(self):
        return self.cuda.to_device(self.numpy.ones(8))

    def pointer(self, array):
        return array.__cuda_array_interface__["data"][0]


class CudaCore(OfLibrary):
    streams = {-1: OK, 1: OK, 2: OK}

    def load(self):
        from cuda.core import Device

        self.device = Device(0)

    def array(self, stream=None):
        self.device.set_current()
        queue = self.device.create_stream() if stream is None else self.wrapped(stream)
        return self.device.memory_resource.allocate(64, stream=queue)

    def wrapped(self, stream):
        from cuda.core import Stream

        return Stream.from_handle(stream)

    def pointer(self, array):
        return int(array.handle)

    @about("producers-ignore")
    def check_cuda_core_ignores(self):
        from contextlib import nullcontext

        self.library()

        def make(stream):
            return self.array(stream), nullcontext()

        self.expect("a wait with a handle, and with -1", self.inserts_a_wait(make), (False, False))


class TvmFfi(OfLibrary):
    streams = {-1: OK, 1: OK, 2: OK}

    def load(self):
        import torch
        import tvm_ffi

        if not torch.cuda.is_available():
            raise Assumed("this torch has no CUDA")
        self.torch, self.tvm_ffi = torch, tvm_ffi

    def array(self):
        return self.tvm_ffi.from_dlpack(self.torch.ones(8, device="cuda"))

    def pointer(self, array):
        return array.data_ptr()

    @about("producers-ignore")
    def check_tvm_ffi_ignores(self):
        self.library()
        torch = self.torch

        def make(stream):
            return self.array(), torch.cuda.stream(torch.cuda.ExternalStream(stream))

        self.expect("a wait with a handle, and with -1", self.inserts_a_wait(make), (False, False))


def _takes(number, expected):
    @about("producer-streams")
    def check(self):
        self.library()
        got = self.exported(self.array(), stream=number)
        self.note(f"stream={number}", got)
        if expected is not None:
            self.expect(f"stream={number} is", got.startswith(expected), True)
        code = self.driver.call("cuStreamQuery", LEGACY)
        self.note("the device after that", code)

    return check


@about("primary-context")
def _where(self):
    self.library()
    self.ask_where(self.pointer(self.array()))


LIBRARIES = {
    "torch": Torch,
    "cupy": Cupy,
    "jax": Jax,
    "numba": Numba,
    "cuda-core": CudaCore,
    "tvm-ffi": TvmFfi,
}
for _kind in LIBRARIES.values():
    _kind.check_where_it_works = _where
    for _number, _expected in _kind.streams.items():
        setattr(_kind, f"check_stream_{_number}", _takes(_number, _expected))
