# SPDX-License-Identifier: Apache-2.0
"""DLPack capsules made and read with ctypes alone: descriptors that no library would export.

The structs are those of the suite, which share nothing with fastdl.
"""

import ctypes

from dlpack_conformance.structs import (  # noqa: F401 - for those who import this
    IS_COPIED,
    READ_ONLY,
    SUBBYTE_PADDED,
    Legacy,
    Table,
    Tensor,
    Version,
    Versioned,
    address_in,
)
from dlpack_conformance.structs import capsule_name as name_of

CPU, CUDA, CUDA_HOST, OPENCL, VULKAN, METAL, VPI = 1, 2, 3, 4, 7, 8, 9
ROCM, ROCM_HOST, EXT_DEV, CUDA_MANAGED, ONEAPI, WEBGPU = 10, 11, 12, 13, 14, 15

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_new = ctypes.pythonapi.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_NAMES = {name: name for name in (b"dltensor", b"dltensor_versioned", b"dlpack_exchange_api")}


def capsule(address, name: bytes):
    """A PyCapsule without destructor. The name outlives it, as capsules require."""
    return _new(address, _NAMES.setdefault(name, name), None)


class Managed:
    """A managed tensor whose deleter counts. Lives until then, or for as long as it is held.

    data: an address, None for NULL, or any buffer that ctypes can point to.
    """

    _alive: "dict[int, Managed]" = {}

    def __init__(
        self,
        shape=(),
        dtype=(2, 32, 1),
        *,
        strides=None,
        data=0x10000,
        device=(CPU, 0),
        byte_offset=0,
        flags=0,
        version=(1, 3),
        versioned=True,
        ndim=None,
        no_deleter=False,
    ):
        self.deleted = 0
        self.shape = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        self.strides = (ctypes.c_int64 * max(1, len(shape)))(*(strides or ()))
        self.keep = data
        if isinstance(data, (bytearray, memoryview)):
            data = ctypes.addressof(ctypes.c_char.from_buffer(data))
        self.struct = Versioned() if versioned else Legacy()
        if versioned:
            self.struct.version = Version(*version)
            self.struct.flags = flags
        tensor = self.struct.tensor
        tensor.data = data
        tensor.device_type, tensor.device_id = device
        tensor.ndim = len(shape) if ndim is None else ndim
        if hasattr(dtype, "__dlpack_data_type__"):
            dtype = dtype.__dlpack_data_type__()
        tensor.code, tensor.bits, tensor.lanes = dtype
        if shape:
            tensor.shape = self.shape
        if strides is not None:
            tensor.strides = self.strides
        tensor.byte_offset = byte_offset
        self._deleter = _DELETER(self._delete)
        if not no_deleter:
            self.struct.deleter = ctypes.cast(self._deleter, ctypes.c_void_p)
        self.address = ctypes.addressof(self.struct)

    def _delete(self, address):
        self.deleted += 1

    def capsule(self):
        """A new capsule on this tensor, which stays alive for good: tests are short."""
        Managed._alive[self.address] = self
        versioned = isinstance(self.struct, Versioned)
        return capsule(self.address, b"dltensor_versioned" if versioned else b"dltensor")


def capsule_of(*args, **kwargs):
    """The capsule of a new Managed."""
    return Managed(*args, **kwargs).capsule()


def opened(capsule):
    """The struct in a fresh capsule, as Versioned or Legacy, without consuming it."""
    kind = {"dltensor_versioned": Versioned, "dltensor": Legacy}[name_of(capsule)]
    struct = kind.from_address(address_in(capsule))
    struct.capsule = capsule  # whose destructor frees the struct
    return struct


def shape_in(tensor: Tensor) -> tuple:
    return tuple(tensor.shape[i] for i in range(tensor.ndim))


def strides_in(tensor: Tensor) -> tuple:
    return tuple(tensor.strides[i] for i in range(tensor.ndim))


class FakeProducer:
    """A producer on a device, whose memory is never read; remembers how it was asked.

    advertised: what `__dlpack_device__` says; delivered: where the capsule is.
    """

    def __init__(self, advertised, delivered=None, **descriptor):
        self.advertised = advertised
        self.delivered = delivered or advertised
        self.descriptor = {"shape": (2, 3), "flags": 0, **descriptor}
        self.calls = []

    def __dlpack_device__(self):
        return self.advertised

    def __dlpack__(self, **keywords):
        self.calls.append(keywords)
        return capsule_of(device=self.delivered, **self.descriptor)
