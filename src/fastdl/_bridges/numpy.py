# SPDX-License-Identifier: Apache-2.0
"""NumPy: Tensor.numpy and Tensor.__array__, and the bridge. NumPy is imported here, at first use,
and nowhere else."""

from fastdl._bridges.bridge import Bridge
from fastdl._core import exchange
from fastdl._core import tensor as core
from fastdl._core.dtype import DType


def numpy(tensor):
    """A NumPy array on the memory of `tensor`, as Tensor.numpy."""
    core.host(tensor, "numpy()")
    try:
        from fastdl._bridges import _numpy
    except ModuleNotFoundError as error:
        raise ImportError(
            "expected NumPy, which is not installed: pip install numpy, or use tolist(), a "
            "memoryview or another library"
        ) from error

    dtype = tensor.dtype
    lane = descriptor(dtype.lane)
    if dtype.lanes > 1 and tensor.ndim == 64:
        raise BufferError(
            "NumPy has at most 64 dimensions, and the lanes need one more: reshape the tensor first"
        )
    if not is_as_stored(tensor):
        return _unpacked(tensor, lane)
    # A vector type becomes an additional dimension of lanes.
    return _numpy.array(tensor, lane, dtype.lanes)


def is_as_stored(tensor) -> bool:
    """Whether a NumPy array can be made on the memory of a host tensor: not if lanes share bytes,
    within elements or across them, nor if narrow floating types have nonzero padding, which
    ml_dtypes reads. (It ignores the padding of integers.)"""
    dtype = tensor.dtype
    if core.is_packed(tensor) or (dtype.bits < 8 and dtype.lanes > 1):
        return False
    if dtype.bits >= 8 or not dtype.name.startswith("float"):
        return True
    import numpy as np

    from fastdl._bridges import _numpy

    return bool((_numpy.array(tensor, np.dtype(np.uint8), 1) < 1 << dtype.bits).all())


def _unpacked(tensor, lane):
    """A new array of elements or lanes narrower than a byte, one to a byte."""
    import numpy as np

    dtype = tensor.dtype  # the lanes of an element lie without gaps, low first
    step = dtype.bits * dtype.lanes if core.is_packed(tensor) else 8 * dtype.itemsize
    data = np.frombuffer(core.read_bytes(tensor), np.uint8)
    bits = np.unpackbits(data, bitorder="little")[: tensor.size * step].reshape(-1, step)
    bits = bits[:, : dtype.lanes * dtype.bits]  # without the padding
    values = np.packbits(bits.reshape(-1, dtype.bits), axis=1, bitorder="little")
    shape = tensor.shape if dtype.lanes == 1 else (*tensor.shape, dtype.lanes)
    return values.view(lane).reshape(shape)


def descriptor(dtype):
    """The numpy.dtype of a fastdl.DType; with one dimension of lanes for a vector type."""
    import numpy as np

    if dtype.lanes > 1:
        if dtype.bits < 8:
            raise TypeError(
                f"the lanes of {dtype} share bytes, which NumPy cannot describe: Tensor.numpy() "
                f"unpacks them"
            )
        return np.dtype((descriptor(dtype.lane), (dtype.lanes,)))
    if dtype.format is not None:
        return np.dtype(dtype.name)
    try:
        import ml_dtypes
    except ImportError as error:
        raise TypeError(
            f"NumPy has no type for {dtype} by itself: install the package ml_dtypes"
        ) from error
    try:
        return np.dtype(getattr(ml_dtypes, dtype.name))
    except AttributeError as error:
        raise TypeError(
            f"neither NumPy nor ml_dtypes has a type for {dtype}: use DLPack"
        ) from error


def array(tensor, dtype, copy):
    """`__array__` of NumPy 2: converted to `dtype`, copied as `copy` says."""
    import numpy as np

    result = numpy(tensor)
    if copy is False and not is_as_stored(tensor):
        raise ValueError(f"unpacking {core.describe(tensor)} needs a copy, and copy=False")
    if copy is False and dtype is not None and np.dtype(dtype) != result.dtype:
        raise ValueError(
            f"converting {core.describe(tensor)} to {np.dtype(dtype)} needs a copy, and copy=False"
        )
    if dtype is not None:
        return result.astype(dtype, copy=bool(copy))
    return result.copy() if copy else result


def table():
    """The exchange table that fastdl made for numpy.ndarray: see lookup.Table."""
    from fastdl._bridges import _numpy

    return _numpy.BRIDGE


def read_copy(x):
    """Copies an array in another byte order, or with strides that are not a multiple of the element
    size (fields of packed structures): DLPack can express neither. None if a copy would not
    help."""
    if x.dtype.isnative and not any(stride % (x.itemsize or 1) for stride in x.strides):
        return None
    try:
        native = DType(x.dtype.newbyteorder("=")).dtype
    except (TypeError, ValueError):
        return None
    return core.mark_copied(exchange.from_dlpack(x.astype(native, order="C")))


def _maker():
    from fastdl._bridges import _numpy

    return _numpy.MAKER


def _copies(tensor):
    """packed elements; floats below 8 bits with padding other than 0"""
    return not is_as_stored(tensor)


TYPES = {"numpy:ndarray": 0}  # to which the table applies
RELEASE = "numpy==2.4.6"
SAMPLE = "numpy:arange(6, dtype='float32')"

BRIDGES = (
    Bridge(
        "numpy.ndarray",
        title="NumPy",
        classes=("numpy:ndarray",),
        make=lambda tensor, like: numpy(tensor),
        read_otherwise=read_copy,
        quick=_maker,
        copies=_copies,
    ),
)

DEFECTS = {
    "Shared memory is unmapped under an array": "`fastdl.asarray(memory.buf)` "
    "prevents this: while the tensor is alive, `SharedMemory.close()` raises an error.",
}
