"""How to make an array of each library, how to read one, and how to give it a tensor.

A library is imported where it is used: the parent process imports none of them. The functions are
put together in the table of peers.py.
"""

import importlib
from types import MappingProxyType

from fastdl._native import dtype_facts

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
COMPLEXES = ("complex64", "complex128")
FLOAT8 = (
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
MORE_FLOAT8 = tuple(
    name for name, *_ in dtype_facts() if name.startswith("float8") and name not in FLOAT8
)


def sample(dtype: str) -> list:
    """Three values that every library represents exactly in `dtype`."""
    if dtype == "bool":
        return [True, False, True]
    if dtype.startswith("complex"):
        return [1 + 2j, -3j, 0.5 + 0j]
    if dtype.startswith("uint"):
        return [1, 0, 3] if dtype != "uint1" else [1, 0, 1]
    if dtype.startswith("int"):
        return [1, 0, -2]
    if dtype == "float8_e8m0fnu":  # powers of two alone
        return [1.0, 0.5, 4.0]
    return [-1.5, 0.0, 2.0]


def of_the_suite(library: str, name: str):
    """A function of the suite's adapter of a library, which is imported at the first call."""

    def call(*arguments):
        adapter = importlib.import_module(f"dlpack_conformance.adapters.{library}")
        return getattr(adapter, name)(*arguments)

    return call


numpy_take = of_the_suite("numpy", "from_dlpack")
numpy_pointer = of_the_suite("numpy", "address")
torch_take = of_the_suite("torch", "from_dlpack")
jax_prepare = of_the_suite("jax", "prepare")
jax_values = of_the_suite("jax", "values")
jax_take = of_the_suite("jax", "from_dlpack")
mlx_pointer = of_the_suite("mlx", "address")
mlx_take = of_the_suite("mlx", "from_dlpack")
pyarrow_pointer = of_the_suite("pyarrow", "address")
pyarrow_take = of_the_suite("pyarrow", "from_dlpack")
onnxruntime_take = of_the_suite("onnxruntime", "from_dlpack")
tvm_ffi_values = of_the_suite("tvm_ffi", "values")
tvm_ffi_take = of_the_suite("tvm_ffi", "from_dlpack")
strict_take = of_the_suite("array_api_strict", "from_dlpack")
tensorflow_values = of_the_suite("tensorflow", "values")
tensorflow_take = of_the_suite("tensorflow", "from_dlpack")
tensorflow_pointer = of_the_suite("tensorflow", "address")
paddle_take = of_the_suite("paddle", "from_dlpack")
warp_prepare = of_the_suite("warp", "prepare")
warp_take = of_the_suite("warp", "from_dlpack")
cuda_core_values = of_the_suite("cuda_core", "values")


def numpy_dtype(name: str):
    """A numpy.dtype, of ml_dtypes where NumPy has none."""
    import numpy as np

    if name in ("bool", *INTEGERS, *FLOATS, *COMPLEXES):
        return np.dtype(name)
    return np.dtype(getattr(importlib.import_module("ml_dtypes"), name))


def numpy_make(values, dtype):
    import numpy as np

    return np.array(values, dtype=numpy_dtype(dtype))


def numpy_broadcast(array):
    import numpy as np

    return np.lib.stride_tricks.as_strided(array, (2, 4), (array.strides[0], 0))


def torch_make(values, dtype):
    import torch

    return torch.tensor(values).to(getattr(torch, dtype))


def torch_values(array):
    import torch

    narrow = array.dtype.itemsize < 2 and array.dtype.is_floating_point
    if array.dtype is torch.complex32:
        return array.to(torch.complex64).tolist()
    return (array.float() if narrow else array).tolist()


def jax_make(values, dtype):
    import jax.numpy as jnp

    return jnp.asarray(numpy_make(values, dtype))


def mlx_make(values, dtype):
    import mlx.core as mx

    array = mx.array(values, dtype=getattr(mx, "bool_" if dtype == "bool" else dtype))
    mx.eval(array)
    return array


def mlx_broadcast(array):
    import mlx.core as mx

    return mx.broadcast_to(array, (2, 4))


def pyarrow_make(values, dtype):
    import pyarrow as pa

    return pa.array(numpy_make(values, dtype))


def arrow_tensor_make(values, dtype):
    import pyarrow as pa

    return pa.Tensor.from_numpy(numpy_make(values, dtype))


def arrow_tensor_take(producer):
    import pyarrow as pa

    return pa.Tensor.from_dlpack(producer)


def onnxruntime_make(values, dtype):
    """A value with memory of its own: one from NumPy borrows (see onnxruntime_values.py)."""
    import onnxruntime as ort

    array = numpy_make(values, dtype)
    value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), array.dtype.type)
    value.update_inplace(array)
    return value


def onnxruntime_values(value):
    """As a list. Of float8, 1.32 shows NumPy the bytes, or nothing."""
    if "float8" in value.data_type():
        raise TypeError(f"{value.data_type()} has no values in NumPy")
    return value.numpy().tolist()


def tvm_ffi_make(values, dtype):
    import numpy as np
    import tvm_ffi

    # It has no constructor from values. Memory of its own is not needed here.
    return tvm_ffi.from_dlpack(np.require(numpy_make(values, dtype)))


def strict_make(values, dtype):
    import array_api_strict as xp

    return xp.asarray(values, dtype=getattr(xp, dtype))


DRJIT_TENSORS = MappingProxyType(
    {
        "bool": "TensorXb",
        "float16": "TensorXf16",
        "float32": "TensorXf",
        "float64": "TensorXf64",
        "int8": "TensorXi8",
        "uint8": "TensorXu8",
        "int32": "TensorXi",
        "uint32": "TensorXu",
        "int64": "TensorXi64",
        "uint64": "TensorXu64",
    }
)


def drjit_type(dtype):
    if dtype not in DRJIT_TENSORS:
        raise TypeError(f"DrJit has no tensors of {dtype}")
    return getattr(importlib.import_module("drjit.llvm"), DRJIT_TENSORS[dtype])


def drjit_make(values, dtype):
    array = numpy_make(values, dtype)
    return drjit_type(dtype)(array.ravel().tolist(), shape=array.shape)


def drjit_take(producer):
    # It imports by its constructors, whose element type must fit. Capsules are float32 here.
    dtype = producer.dtype.name if hasattr(producer, "dtype") else "float32"
    return drjit_type(dtype)(producer)


def set_first(array, value):
    array[(0,) * len(array.shape)] = value


def numpy_method(array):
    return array.numpy().tolist()


def asarray(array):
    """fastdl's way into what has no `__dlpack__`."""
    import fastdl

    return fastdl.asarray(array)


def host_pointer(array):
    import numpy as np

    return numpy_pointer(np.asarray(array))


def numpy_write(array, value):
    """For arrays whose `numpy()` shares memory."""
    set_first(array.numpy(), value)


def numpy_wrap(array):
    return array


def torch_wrap(array):
    import torch

    return torch.from_numpy(array)


def torch_hide_table():
    """What a torch before 2.9 has: `__dlpack__` alone."""
    import torch

    for name in ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"):
        if name in vars(torch.Tensor):
            delattr(torch.Tensor, name)


def arrow_tensor_wrap(array):
    import pyarrow as pa

    return pa.Tensor.from_numpy(array)


def tvm_ffi_wrap(array):
    import tvm_ffi

    return tvm_ffi.from_dlpack(array)


def tensorflow_make(values, dtype):
    import tensorflow as tf

    return tf.constant(numpy_make(values, dtype))


def paddle_make(values, dtype):
    import paddle

    if dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        return paddle.to_tensor(numpy_make(values, "float32")).astype(dtype)
    return paddle.to_tensor(numpy_make(values, dtype))


def paddle_values(array):
    if array.dtype.name in ("BFLOAT16", "FLOAT8_E4M3FN", "FLOAT8_E5M2"):
        return array.astype("float32").tolist()
    return array.numpy().tolist()


def paddle_broadcast(array):
    import paddle

    return paddle.as_strided(array, [2, 4], [4, 0])


def warp_make(values, dtype):
    import warp

    return warp.array(numpy_make(values, dtype), device="cpu")


def warp_wrap(array):
    import warp

    return warp.array(array, device="cpu", copy=False)


def tvm_make(values, dtype):
    import tvm

    return tvm.runtime.tensor(numpy_make(values, dtype))


def tvm_take(producer):
    import tvm

    return tvm.runtime.from_dlpack(producer)


def cuda_core_make(values, dtype):
    return cuda_core_take(numpy_make(values, dtype))


def cuda_core_take(producer):
    from cuda.core.utils import StridedMemoryView

    return StridedMemoryView.from_any_interface(producer, stream_ptr=-1)


def openvino_make(values, dtype):
    import openvino as ov

    return ov.Tensor(numpy_make(values, dtype), shared_memory=False)


def openvino_wrap(array):
    import openvino as ov

    return ov.Tensor(array, shared_memory=True)


def openvino_take(tensor):
    return openvino_wrap(tensor.numpy())


def tinygrad_make(values, dtype):
    from tinygrad import Tensor, dtypes

    return Tensor(values, dtype=getattr(dtypes, dtype)).realize()


def tinygrad_values(array):
    """Read as bits where NumPy has no such type: a cast needs a compiler that has it."""
    from tinygrad import dtypes

    if array.dtype is dtypes.bfloat16:
        return numpy_lists(array.bitcast(dtypes.uint16).numpy().view(numpy_dtype("bfloat16")))
    return array.tolist()


def tinygrad_take(tensor):
    from tinygrad import Tensor

    return Tensor(tensor.numpy()).realize()


def dpnp_make(values, dtype):
    import dpnp

    return dpnp.asarray(numpy_make(values, dtype))


def dpnp_values(array):
    import dpnp

    return dpnp.asnumpy(array).tolist()


def dpnp_take(producer):
    import dpnp

    return dpnp.asarray(producer)


def dpnp_give(array):
    import fastdl

    return fastdl.from_dlpack(array, device="cpu")


def mxnet_make(values, dtype):
    import mxnet as mx

    array = mx.nd.array(numpy_make(values, dtype), dtype=dtype)
    array.wait_to_read()  # its engine works on threads of its own
    return array


def mxnet_write(array, value):
    set_first(array, value)
    array.wait_to_read()


def mxnet_values(array):
    values = array.asnumpy()
    if values.dtype.names == ("bfloat16",):  # as MXNet shows it
        return numpy_lists(values["bfloat16"].view(numpy_dtype("bfloat16")))
    return values.tolist()


def mxnet_take(producer):
    import mxnet as mx

    return mx.nd.from_dlpack(producer.__dlpack__())


def pandas_make(values, dtype):
    import pandas as pd

    return pd.Series(numpy_make(values, dtype))


def pandas_take(tensor):
    import pandas as pd

    return pd.Series(tensor, copy=False)


def polars_make(values, dtype):
    import polars as pl

    return pl.Series(numpy_make(values, dtype))


def polars_take(tensor):
    import polars as pl

    return pl.Series(tensor)


def polars_pointer(array):
    return numpy_pointer(array.to_numpy(allow_copy=False))


def xarray_make(values, dtype):
    return xarray_take(numpy_make(values, dtype))


def xarray_take(tensor):
    import xarray as xr

    return xr.DataArray(tensor)


def dask_make(values, dtype):
    return dask_take(numpy_make(values, dtype))


def dask_take(tensor):
    import dask.array as da

    return da.from_array(tensor)


def dask_values(array):
    return array.compute(scheduler="synchronous").tolist()


def awkward_make(values, dtype):
    return awkward_wrap(numpy_make(values, dtype))


def awkward_wrap(array):
    import awkward as ak

    return ak.from_numpy(array)


def awkward_take(producer):
    import awkward as ak

    return ak.from_dlpack(producer)


def sklearn_take(tensor):
    from sklearn.utils import check_array

    return check_array(tensor, dtype=None, ensure_2d=False, allow_nd=True, ensure_min_samples=0)


def pillow_make(values, dtype):
    return pillow_take(numpy_make(values, dtype))


def pillow_take(tensor):
    from PIL import Image

    return Image.fromarray(tensor)


def pillow_values(image):
    import numpy as np

    return np.asarray(image).tolist()


def matplotlib_prepare():
    import matplotlib as mpl

    mpl.use("Agg")


def matplotlib_take(tensor):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    try:
        if tensor.ndim < 2:
            return axes.plot(tensor)[0].get_ydata(orig=True).reshape(tensor.shape)
        return axes.imshow(tensor).get_array()
    finally:
        plt.close(figure)


FORMATS = MappingProxyType(
    {
        **dict(zip(INTEGERS, "bhiqBHIQ", strict=True)),
        **dict(zip(FLOATS, "efd", strict=True)),
        "bool": "?",
    }
)


def buffer_make(values, dtype):
    """A memoryview of a bytearray."""
    array = numpy_make(values, dtype)
    room = memoryview(bytearray(array.tobytes()))
    return room.cast(FORMATS[dtype], array.shape)


def numpy_lists(array):
    """The values of an array of NumPy or ml_dtypes as nested lists of Python's numbers."""
    return array.astype(float).tolist() if array.dtype.kind == "V" else array.tolist()
