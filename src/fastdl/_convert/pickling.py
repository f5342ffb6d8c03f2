"""How a host tensor is pickled: its bytes, and what they are.

A pickle contains the name `fastdl._unpickle` and its arguments: neither may change.
"""

from fastdl._core import tensor as core
from fastdl._protocol.array_interface import compact_strides

ROW_MAJOR, COLUMN_MAJOR = "C", "F"


def reduce(tensor, protocol):
    """What Tensor.__reduce_ex__ returns.

    From protocol 5 on the memory itself is a buffer, which the pickler takes out of band if its
    user wants that.
    """
    if not tensor.device.is_host:
        raise TypeError(
            f"{core.describe(tensor)} cannot be pickled, since other processes may not reach its "
            f"memory: pickle a copy on the host, to('cpu')"
        )
    memory, *described = compact(tensor)
    stored = as_buffer(memory) if protocol >= 5 else as_values(memory, tensor.readonly)
    return unpickle, (stored, *described)


def compact(tensor):
    """The bytes of a host tensor, in a buffer, and what `unpickle` is to be told of them. What has
    gaps is copied without them."""
    dtype = tensor.dtype
    order = ROW_MAJOR
    if tensor.is_contiguous():
        memory = core.as_bytes(tensor)
    elif tensor.is_contiguous("F"):
        memory, order = core.as_bytes(tensor), COLUMN_MAJOR
    else:
        memory = core.read_bytes(tensor) if tensor.readonly else core.as_bytes(tensor.copy())
    padded = dtype.bits * dtype.lanes % 8 != 0 and not core.is_packed(tensor)
    return memory, dtype.__dlpack_data_type__(), tensor.shape, order, padded


def as_buffer(memory):
    from pickle import PickleBuffer  # loaded by now, and not by `import fastdl`

    return PickleBuffer(memory)


def as_values(memory, readonly):
    """The bytes in an object that Python itself pickles, and whose memory the result can keep."""
    return bytes(memory) if readonly else bytearray(memory)


def unpickle(memory, dtype, shape, order, padded):
    """A Tensor on `memory`, a buffer, which it keeps; read-only if that is. ValueError if they do
    not fit."""
    if order not in (ROW_MAJOR, COLUMN_MAJOR):
        raise ValueError(f"expected the order 'C' or 'F', got {order!r}")
    strides = None if order == ROW_MAJOR else compact_strides(shape[::-1])[::-1]
    return core.from_memory(memory, shape, dtype, strides, padded=padded)


unpickle.__module__, unpickle.__qualname__ = "fastdl", "_unpickle"
