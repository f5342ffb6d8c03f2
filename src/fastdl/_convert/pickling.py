"""How a host tensor is pickled: its bytes, and what they are.

A pickle contains the name `fastdl._unpickle` and its arguments: neither may change.
"""

from fastdl._core import tensor as core

ROW_MAJOR, COLUMN_MAJOR = "C", "F"


def reduce(tensor, protocol):
    """What Tensor.__reduce_ex__ returns.

    From protocol 5 on the memory itself is a buffer, which the pickler takes out of band if its
    user wants that. What has gaps is made compact first.
    """
    if not tensor.device.is_host:
        raise TypeError(
            f"{core.describe(tensor)} cannot be pickled, since other processes may not reach its "
            f"memory: pickle a copy on the host, to('cpu')"
        )
    dtype = tensor.dtype
    memory, order = core.as_bytes(tensor), ROW_MAJOR
    if memory is None:
        memory = core.read_bytes(tensor) if tensor.readonly else core.as_bytes(tensor.copy())
    elif not tensor.is_contiguous():
        order = COLUMN_MAJOR
    if protocol >= 5:
        from pickle import PickleBuffer  # loaded by now, and not by `import fastdl`

        memory = PickleBuffer(memory)
    else:  # either of these is pickled by its values
        memory = bytes(memory) if tensor.readonly else bytearray(memory)
    padded = dtype.bits * dtype.lanes % 8 != 0 and not core.is_packed(tensor)
    return unpickle, (memory, dtype.__dlpack_data_type__(), tensor.shape, order, padded)


def unpickle(memory, dtype, shape, order, padded):
    """A Tensor on `memory`, a buffer, which it keeps; read-only if that is. ValueError if they do
    not fit."""
    strides = None
    if order != ROW_MAJOR:
        strides, step = [], 1
        for size in shape:
            strides.append(step)
            step *= max(size, 1)
        strides = tuple(strides)
    return core.from_memory(memory, shape, dtype, strides, padded=padded)


unpickle.__module__, unpickle.__qualname__ = "fastdl", "_unpickle"
