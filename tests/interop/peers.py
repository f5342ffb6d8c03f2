"""What the tests know of the libraries that fastdl is tested against. One table: PEERS.

Everything about a library is here: how to make an array in it, how to read one, how to hand it a
DLPack producer, and what was measured of its behaviour. The tests hold fastdl to these facts, and
the libraries too: a release that behaves differently fails here and nowhere else.
"""

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NoReturn

import pytest

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SMALL_INTEGERS = tuple(name for name in INTEGERS if not name.endswith("64"))
FLOATS = ("float16", "float32", "float64")
COMPLEXES = ("complex64", "complex128")
FLOAT8 = (
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
MORE_FLOAT8 = ("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz")


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


# ---- making and reading arrays --------------------------------------------------------------


def numpy_dtype(name: str):
    """A numpy.dtype, of ml_dtypes where NumPy has none."""
    import numpy as np

    if name in ("bool", *INTEGERS, *FLOATS, *COMPLEXES):
        return np.dtype(name)
    return np.dtype(getattr(importlib.import_module("ml_dtypes"), name))


def numpy_make(values, dtype):
    import numpy as np

    return np.array(values, dtype=numpy_dtype(dtype))


def numpy_pointer(array):
    return array.__array_interface__["data"][0]


def numpy_broadcast(array):
    import numpy as np

    return np.lib.stride_tricks.as_strided(array, (2, 4), (array.strides[0], 0))


def numpy_take(producer):
    import numpy as np

    return np.from_dlpack(producer)


def torch_make(values, dtype):
    import torch

    return torch.tensor(values).to(getattr(torch, dtype))


def torch_values(array):
    import torch

    narrow = array.dtype.itemsize < 2 and array.dtype.is_floating_point
    if array.dtype is torch.complex32:
        return array.to(torch.complex64).tolist()
    return (array.float() if narrow else array).tolist()


def torch_take(producer):
    import torch

    return torch.from_dlpack(producer)


def jax_make(values, dtype):
    import jax.numpy as jnp

    return jnp.asarray(numpy_make(values, dtype))


def jax_values(array):
    import numpy as np

    return np.asarray(array).tolist()


def jax_take(producer):
    import jax

    return jax.dlpack.from_dlpack(producer)


def mlx_make(values, dtype):
    import mlx.core as mx

    array = mx.array(values, dtype=getattr(mx, "bool_" if dtype == "bool" else dtype))
    mx.eval(array)
    return array


def mlx_pointer(array):
    import numpy as np

    return numpy_pointer(np.asarray(memoryview(array)))


def mlx_broadcast(array):
    import mlx.core as mx

    return mx.broadcast_to(array, (2, 4))


def mlx_take(producer):
    import mlx.core as mx

    return mx.from_dlpack(producer)


def pyarrow_make(values, dtype):
    import pyarrow as pa

    return pa.array(numpy_make(values, dtype))


def pyarrow_pointer(array):
    return array.buffers()[1].address + array.offset * array.type.bit_width // 8


def pyarrow_take(producer):
    import pyarrow as pa

    return pa.Array.from_dlpack(producer)


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


def onnxruntime_take(producer):
    import onnxruntime as ort

    return ort.OrtValue.from_dlpack(producer)


def tvm_ffi_make(values, dtype):
    import numpy as np
    import tvm_ffi

    # It has no constructor from values. Memory of its own is not needed here.
    return tvm_ffi.from_dlpack(np.require(numpy_make(values, dtype)))


def tvm_ffi_values(array):
    import numpy as np

    return np.from_dlpack(array).tolist()


def tvm_ffi_take(producer):
    import tvm_ffi

    return tvm_ffi.from_dlpack(producer)


def strict_make(values, dtype):
    import array_api_strict as xp

    return xp.asarray(values, dtype=getattr(xp, dtype))


def strict_take(producer):
    import array_api_strict as xp

    return xp.from_dlpack(producer)


DRJIT_TENSORS = MappingProxyType(
    {
        "bool": "TensorXb",
        "float16": "TensorXf16",
        "float32": "TensorXf",
        "float64": "TensorXf64",
        "int32": "TensorXi",
        "uint32": "TensorXu",
        "int64": "TensorXi64",
        "uint64": "TensorXu64",
    }
)


def drjit_type(dtype):
    return getattr(importlib.import_module("drjit.llvm"), DRJIT_TENSORS[dtype])


def drjit_make(values, dtype):
    array = numpy_make(values, dtype)
    return drjit_type(dtype)(array.ravel().tolist(), shape=array.shape)


def drjit_take(producer):
    # It imports by its constructors, whose element type must fit. Capsules are float32 here.
    dtype = producer.dtype.name if hasattr(producer, "dtype") else "float32"
    return drjit_type(dtype)(producer)


def _set_first(array, value):
    array[(0,) * len(array.shape)] = value


def _to_numpy_values(array):
    return array.numpy().tolist()


# ---- the table ------------------------------------------------------------------------------

# What becomes of a fastdl.Tensor of a certain layout that is handed to a library.
SHARED = "shared"  # zero-copy
COPIED = "copied"
REFUSED = "refused"  # an exception, after which the Tensor is as before
ABORTS = "aborts"  # the process dies: not fastdl's to prevent, and not tried

LEGACY = (None,)
BOTH = (None, (1, 0))

LAYOUTS = ("compact", "transposed", "gaps", "reversed", "broadcast", "scalar", "bool", "bfloat16")

# How fastdl gets at an array of a library.
TABLE = "its exchange table"
BRIDGE = "a bridge over its C API"
PROTOCOL = "`__dlpack__`"

# What becomes of the read-only flag.
KEPT = "kept"
LOST = "lost"  # the library writes all the same; DLPack leaves that to the consumer


def outcomes(default: str, **exceptions: str) -> Mapping[str, str]:
    return MappingProxyType({name: exceptions.get(name, default) for name in LAYOUTS})


@dataclass(frozen=True)
class Peer:
    """One library, or one type of it."""

    name: str
    module: str  # to import
    make: Callable[[list, str], Any]  # nested values and the name of a dtype -> array
    values: Callable[[Any], Any]  # array -> nested values, by the library's own means
    take: Callable[[Any], Any]  # DLPack producer -> array
    dtypes: tuple[str, ...]  # that it exports under their own names

    # As a producer.
    through: str = PROTOCOL  # or TABLE, BRIDGE
    readonly: bool = False  # what fastdl must say of its arrays
    pointer: Callable[[Any], int] | None = None
    write: Callable[[Any, Any], None] | None = None  # sets the first element
    max_ndim: int = 8
    has_scalars: bool = True  # arrays of 0 dimensions
    # Views by name -> how to take them. They must share memory with their base, unless jax's.
    views: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    views_share: bool = True
    elsewhere: type[Exception] | tuple[type[Exception], ...] = (
        BufferError  # raised when host data is asked for on CUDA
    )

    # As a consumer.
    layouts: Mapping[str, str] = field(default_factory=dict)
    readonly_data: str = KEPT  # KEPT, LOST, COPIED or REFUSED
    is_readonly: Callable[[Any], bool] | None = None  # asks a result
    alignment: int = 1  # data aligned to less is copied
    capsules: tuple = ()  # the max_version of capsules that it takes by themselves
    takes_2d: bool = True
    takes_empty: bool = True

    def __repr__(self) -> str:
        return self.name


def require(module: str) -> None:
    """Ends the test if a library is missing: see `missing`.

    Imports nothing: many of the libraries cost seconds, and belong into child processes.
    """
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        missing(module)


def missing(what: str) -> NoReturn:
    """Skips the test; FASTDL_REQUIRE_PEERS=1, which CI sets, makes that a failure."""
    if os.environ.get("FASTDL_REQUIRE_PEERS") == "1":
        pytest.fail(f"{what} is not installed, and FASTDL_REQUIRE_PEERS=1")
    pytest.skip(f"{what} is not installed")


NUMPY_VIEWS = {
    "broadcast": lambda x: numpy_broadcast(x[:, :1]),
    "transposed": lambda x: x.T,
    "gaps": lambda x: x[:, ::2],
    "reversed": lambda x: x[::-1],
    "inner": lambda x: x[1:, 1:],
}

PEERS = (
    Peer(
        name="numpy",
        module="numpy",
        make=numpy_make,
        values=lambda x: x.tolist(),
        take=numpy_take,
        dtypes=("bool", *INTEGERS, *FLOATS, *COMPLEXES, "bfloat16", *FLOAT8, *MORE_FLOAT8),
        through=BRIDGE,
        pointer=numpy_pointer,
        write=_set_first,
        max_ndim=64,
        views=NUMPY_VIEWS,
        layouts=outcomes(SHARED, bfloat16=REFUSED),
        elsewhere=(BufferError, ValueError),  # the latter before NumPy 2.3
        is_readonly=lambda x: not x.flags.writeable,
    ),
    Peer(
        name="torch",
        module="torch",
        make=torch_make,
        values=torch_values,
        take=torch_take,
        dtypes=("bool", *INTEGERS, *FLOATS, *COMPLEXES, "bfloat16", *FLOAT8),
        through=TABLE,
        pointer=lambda x: x.data_ptr(),
        write=_set_first,
        max_ndim=64,
        views={
            "transposed": lambda x: x.T,
            "gaps": lambda x: x[:, ::2],
            "inner": lambda x: x[1:, 1:],
            "broadcast": lambda x: x[:, :1].expand(2, 4),
        },
        elsewhere=NotImplementedError,  # the CPU build has no kernel for the copy
        capsules=BOTH,
        layouts=outcomes(SHARED, reversed=ABORTS),
        readonly_data=LOST,
    ),
    Peer(
        name="jax",
        module="jax",
        make=jax_make,
        values=jax_values,
        take=jax_take,
        dtypes=(
            "bool",
            *SMALL_INTEGERS,
            "float16",
            "float32",
            "complex64",
            "bfloat16",
            *FLOAT8,
            *MORE_FLOAT8,
            "float4_e2m1fn",
        ),
        readonly=True,
        pointer=lambda x: x.unsafe_buffer_pointer(),
        views={"transposed": lambda x: x.T, "gaps": lambda x: x[:, ::2]},
        views_share=False,
        elsewhere=RuntimeError,
        layouts=outcomes(SHARED, gaps=REFUSED, reversed=REFUSED, broadcast=REFUSED),
        readonly_data=REFUSED,
        alignment=64,
    ),
    Peer(
        name="mlx",
        module="mlx.core",
        make=mlx_make,
        values=lambda x: x.tolist(),
        take=mlx_take,
        dtypes=("bool", *INTEGERS, *FLOATS, "complex64", "bfloat16"),
        pointer=mlx_pointer,
        readonly=True,
        views={
            "transposed": lambda x: x.T,
            "gaps": lambda x: x[:, ::2],
            "reversed": lambda x: x[::-1],
            "inner": lambda x: x[1:, 1:],
            "broadcast": lambda x: mlx_broadcast(x[:, :1]),
        },
        capsules=BOTH,
        layouts=outcomes(COPIED, reversed=REFUSED),
        readonly_data=COPIED,
    ),
    Peer(
        name="pyarrow",
        module="pyarrow",
        make=pyarrow_make,
        values=lambda x: x.to_pylist(),
        take=pyarrow_take,
        dtypes=(*INTEGERS, *FLOATS),
        readonly=True,
        pointer=pyarrow_pointer,
        max_ndim=1,
        has_scalars=False,
        layouts=outcomes(REFUSED),
        takes_2d=False,
        takes_empty=False,
    ),
    Peer(
        name="pyarrow.Tensor",
        module="pyarrow",
        make=arrow_tensor_make,
        values=lambda x: x.to_numpy().tolist(),
        take=arrow_tensor_take,
        dtypes=(*INTEGERS, *FLOATS),
        pointer=lambda x: numpy_pointer(x.to_numpy()),
        layouts=outcomes(SHARED, reversed=REFUSED, bool=REFUSED, bfloat16=REFUSED),
        is_readonly=lambda x: not x.is_mutable,
    ),
    Peer(
        name="onnxruntime",
        module="onnxruntime",
        make=onnxruntime_make,
        values=_to_numpy_values,
        take=onnxruntime_take,
        dtypes=(*INTEGERS, *FLOATS),  # bool is exported as uint8
        pointer=lambda x: x.data_ptr(),
        capsules=LEGACY,
        layouts=outcomes(REFUSED, compact=SHARED, scalar=SHARED, bfloat16=SHARED),
        readonly_data=REFUSED,
    ),
    Peer(
        name="tvm_ffi",
        module="tvm_ffi",
        make=tvm_ffi_make,
        values=tvm_ffi_values,
        take=tvm_ffi_take,
        dtypes=("bool", *INTEGERS, *FLOATS, *COMPLEXES),
        pointer=lambda x: x.data_ptr(),
        capsules=BOTH,
        layouts=outcomes(SHARED),
        readonly_data=LOST,
    ),
    Peer(
        name="strict",
        module="array_api_strict",
        make=strict_make,
        values=lambda x: x._array.tolist(),
        take=strict_take,
        dtypes=("bool", *INTEGERS, "float32", "float64", *COMPLEXES),
        pointer=lambda x: numpy_pointer(x._array),
        write=_set_first,
        views={
            "transposed": lambda x: x.T,
            "gaps": lambda x: x[:, ::2],
            "reversed": lambda x: x[::-1, :],
            "inner": lambda x: x[1:, 1:],
        },
        layouts=outcomes(SHARED, bfloat16=REFUSED),
        is_readonly=lambda x: not x._array.flags.writeable,
    ),
    Peer(
        name="drjit",
        module="drjit",
        make=drjit_make,
        values=_to_numpy_values,
        take=drjit_take,
        dtypes=tuple(DRJIT_TENSORS),
        capsules=BOTH,
        layouts=outcomes(REFUSED, compact=SHARED, scalar=SHARED, bool=SHARED),
        readonly_data=LOST,
    ),
)

BY_NAME = {peer.name: peer for peer in PEERS}


# ---- for people -----------------------------------------------------------------------------

TITLES = MappingProxyType(
    {
        "numpy": "NumPy, ml_dtypes",
        "torch": "PyTorch",
        "jax": "JAX",
        "mlx": "MLX",
        "pyarrow": "PyArrow `Array`",
        "pyarrow.Tensor": "PyArrow `Tensor`",
        "onnxruntime": "ONNX Runtime",
        "tvm_ffi": "tvm-ffi",
        "strict": "array-api-strict",
        "drjit": "DrJit",
    }
)
WORDS = MappingProxyType(
    {SHARED: "shared", COPIED: "copied", REFUSED: "refused", ABORTS: "**the process dies**"}
)


def compact(peer: Peer) -> str:
    """What becomes of a compact Tensor."""
    if not peer.takes_2d:
        return "shared, one dimension"  # test_one_dimension
    if peer.alignment > 1:
        return f"shared if aligned to {peer.alignment} bytes"
    return WORDS[peer.layouts["compact"]]


def as_markdown() -> Iterator[str]:
    """The facts that README.md shows: see docs/quote.py. The tests of cases/ hold each of them."""
    head = ("library", "imported through", "import", "export", "with gaps", "negative strides")
    yield from (f"| {' | '.join(head)} | read-only |", "|" + "---|" * (len(head) + 1))
    for peer in PEERS:
        row = (
            TITLES[peer.name],
            peer.through,
            "read-only" if peer.readonly else "writable",
            compact(peer),
            *(WORDS[peer.layouts[layout]] for layout in ("gaps", "reversed")),
            {KEPT: "kept", LOST: "**lost**", COPIED: "copied", REFUSED: "refused"}[
                peer.readonly_data
            ],
        )
        yield f"| {' | '.join(row)} |"
