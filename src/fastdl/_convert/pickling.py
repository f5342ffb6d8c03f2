# SPDX-License-Identifier: Apache-2.0
"""Pickling of host tensors: the bytes, and their description; and tokens and sizes for Dask.

A pickle contains the name `fastdl._unpickle` and its arguments: neither may change.
"""

import sys

from fastdl._core import tensor as core
from fastdl._protocol.array_interface import compact_strides
from fastdl._version import __version__

ROW_MAJOR, COLUMN_MAJOR = "C", "F"
MANY = 1 << 20  # bytes: copying fewer may be faster than pickling an ndarray


def reduce(tensor, protocol):
    """The arguments of `unpickle` in the result of Tensor.__reduce_ex__.

    From protocol 5 on the memory itself is a PickleBuffer, which may be transmitted out of band.
    """
    check_host(tensor)
    memory, *described = compact(tensor)
    if protocol >= 5:
        stored = as_buffer(memory)
    elif tensor.nbytes >= MANY and not tensor.readonly and has("numpy", "frombuffer"):
        register()
        stored = Carried(memory, False)
    else:
        stored = Stored(memory, tensor.readonly)
    return stored, *described


def check_host(tensor):
    """TypeError, with alternatives, for a tensor on a device."""
    if not tensor.device.is_host:
        raise TypeError(
            f"{core.describe(tensor)} cannot be pickled, since other processes may not reach its "
            f"memory: pickle a copy on the host, made with {core.copier(tensor)}, or an object on "
            f"its memory that can be pickled: fastdl.convert(x, torch.Tensor) with "
            f"torch.multiprocessing or Ray, fastdl.convert(x, cupy.ndarray) with Dask; a "
            f"CUDA-aware MPI accepts the tensor itself"
        )


def compact(tensor):
    """The bytes of a host tensor, in a buffer, and the other arguments of `unpickle`. A tensor with
    gaps is copied."""
    order = ROW_MAJOR
    if tensor.is_contiguous():
        memory = core.as_bytes(tensor)
    elif tensor.is_contiguous("F"):
        memory, order = core.as_bytes(tensor), COLUMN_MAJOR
    else:
        memory = core.read_bytes(tensor) if tensor.readonly else core.as_bytes(tensor.copy())
    return memory, tensor.dtype.__dlpack_data_type__(), tensor.shape, order, is_padded(tensor)


def is_padded(tensor):
    """Whether elements that are not whole bytes are padded to whole bytes."""
    return tensor.dtype.bits * tensor.dtype.lanes % 8 != 0 and not core.is_packed(tensor)


def as_buffer(memory):
    from pickle import PickleBuffer  # loaded by now, but not by `import fastdl`

    return PickleBuffer(memory)


class Stored:
    """The bytes of a tensor, for a pickler whose protocol is unknown until it reaches them, such as
    that of multiprocessing. Pickling a bytearray itself would copy it once more."""

    def __init__(self, memory, readonly):
        self.memory = memory
        self.readonly = readonly

    def __reduce_ex__(self, protocol):
        if protocol >= 5:
            return memoryview, (as_buffer(self.memory),)
        return bytes if self.readonly else bytearray, (bytes(self.memory),)


class Carried(Stored):
    """Writable bytes, which the pickler of multiprocessing sends as an ndarray: `bytes` arrive as
    immutable, and a bytearray copies them, but an ndarray takes them over as its memory. Other
    pickles may be read where NumPy is not installed."""


def as_array(carried):
    """The reducer of Carried in the pickler of multiprocessing, for every protocol."""
    from numpy import frombuffer

    return memoryview, (frombuffer(carried.memory, "uint8"),)


def register():
    """Registers with the pickler of multiprocessing, if that is loaded (otherwise it is not in
    use)."""
    if has("multiprocessing.reduction", "ForkingPickler"):
        sys.modules["multiprocessing.reduction"].ForkingPickler.register(Carried, as_array)


def has(module, name):
    """Whether a module is loaded, and defines `name` already: another thread may be importing
    it."""
    return hasattr(sys.modules.get(module), name)


register()  # and before each use, but then too late for the pickler in progress


def unpickle(memory, dtype, shape, order, padded, *newer):
    """A Tensor on the buffer `memory`, which it keeps alive; read-only if the buffer is. ValueError
    if the arguments do not fit. A release that needs more arguments adds its version before
    them."""
    if newer:
        raise ValueError(
            f"expected a pickle in the form of fastdl {__version__} or older, got one of "
            f"{newer[0]}: upgrade fastdlpack here"
        )
    if order not in (ROW_MAJOR, COLUMN_MAJOR):
        raise ValueError(f"expected the order 'C' or 'F', got {order!r}")
    try:
        strides = None if order == ROW_MAJOR else compact_strides(shape[::-1])[::-1]
        return core.from_memory(memory, shape, dtype, strides, padded=padded)
    except (IndexError, TypeError) as error:
        memoryview(memory).release()  # TypeError if it has no buffer
        raise ValueError(f"expected a dtype and a shape as tuples of ints: {error}") from error


# ---- for Dask -------------------------------------------------------------------------------


def token(tensor) -> tuple:
    """Tensor.__dask_tokenize__: equal for equal type, shape and bytes. Memory of other devices is
    not read: each call then returns a new token, or raises Dask's error if tokens must be
    deterministic.
    """
    facts = ("fastdl.Tensor", str(tensor.dtype), tensor.shape)
    if not tensor.device.is_host:
        from dask.tokenize import normalize_token

        return (*facts, normalize_token(_Unread(tensor)))
    from hashlib import sha1  # not needed by `import fastdl`

    memory = core.as_bytes(tensor) if tensor.is_contiguous() else core.read_bytes(tensor)
    return (*facts, sha1(memory, usedforsecurity=False).hexdigest())


class _Unread:
    """An object that Dask cannot hash deterministically, since it cannot be pickled."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __repr__(self):
        return core.describe(self.tensor)

    def __reduce__(self):
        raise TypeError(f"{self!r} has no values on the host")


def nbytes(tensor) -> int:
    """The size of a tensor's memory, whatever its owner; a broadcast dimension counts once."""
    return once(tensor).nbytes


def once(tensor):
    """A view in which broadcast dimensions have one element."""
    parts = [
        slice(1) if size > 1 and stride == 0 else slice(None)
        for size, stride in zip(tensor.shape, tensor.strides, strict=True)
    ]
    return tensor[tuple(parts)] if slice(1) in parts and tensor.size else tensor
