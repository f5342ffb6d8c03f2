"""NumPy: Tensor.numpy and Tensor.__array__, and the bridge. NumPy is imported here, at first use,
and nowhere else."""

from fastdl._convert.convert import Bridge
from fastdl._convert.values import bit_step
from fastdl._core import tensor as core


def numpy(tensor):
    """A NumPy array on the memory of `tensor`, as Tensor.numpy."""
    core.host(tensor, "numpy()")
    from fastdl.bridges import _numpy

    dtype = tensor.dtype
    lane = descriptor(dtype.lane)
    if shares_bytes(tensor):
        return _unpacked(tensor, lane)
    # A vector type is an array with one more dimension, of its lanes.
    return _numpy.array(tensor, lane, dtype.lanes)


def shares_bytes(tensor) -> bool:
    """Whether lanes of the tensor share bytes, within elements or across them: NumPy cannot."""
    return core.is_packed(tensor) or (tensor.dtype.bits < 8 and tensor.dtype.lanes > 1)


def _unpacked(tensor, lane):
    """A new array of a type whose lanes share bytes, one lane to a byte."""
    import numpy as np

    dtype, step = tensor.dtype, bit_step(tensor)
    data = np.frombuffer(core.read_bytes(tensor), np.uint8)
    bits = np.unpackbits(data, bitorder="little")[: tensor.size * step].reshape(-1, step)
    bits = bits[:, : dtype.lanes * dtype.bits]  # without the padding
    values = np.packbits(bits.reshape(-1, dtype.bits), axis=1, bitorder="little")
    if dtype.name.startswith("int"):  # sign extension, as ml_dtypes stores them
        values = np.where(values >> (dtype.bits - 1), values | (0xFF << dtype.bits) & 0xFF, values)
    shape = tensor.shape if dtype.lanes == 1 else (*tensor.shape, dtype.lanes)
    return values.astype(np.uint8).view(lane).reshape(shape)


def descriptor(dtype):
    """The numpy.dtype of a fastdl.DType; of one dimension of lanes for a vector type."""
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
    if copy is False and shares_bytes(tensor):
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
    from fastdl.bridges import _numpy

    return _numpy.BRIDGE


def _maker():
    from fastdl.bridges import _numpy

    return _numpy.MAKER


def _copies(tensor):
    """elements that share bytes"""
    return shares_bytes(tensor)


BRIDGES = (
    Bridge(
        "numpy.ndarray",
        title="NumPy",
        classes=("numpy:ndarray",),
        make=lambda tensor, like: numpy(tensor),
        quick=_maker,
        copies=_copies,
    ),
)
