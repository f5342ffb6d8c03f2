"""The libraries that fastdl is tested against: one table, LIBRARIES.

A row says how to make an array, how to read it, and how to give it a tensor (the functions are in
arrays.py). The first rows, PEERS, also state what was measured of a library: cases/ holds fastdl to
these facts, and the library too. Everything else about all of them is measured by matrix/.
"""

import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NoReturn

import pytest

from . import arrays
from .arrays import (
    COMPLEXES,
    DRJIT_TENSORS,
    FLOAT8,
    FLOATS,
    INTEGERS,
    MORE_FLOAT8,
    SMALL_INTEGERS,
)
from .matrix.cells import load

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
BRIDGE = "its C API"
PROTOCOL = "`__dlpack__`"
BUFFER = "its buffer"

# What becomes of the read-only flag.
KEPT = "kept"
LOST = "lost"  # the library writes all the same; DLPack leaves that to the consumer


def outcomes(default: str, **exceptions: str) -> Mapping[str, str]:
    return MappingProxyType({name: exceptions.get(name, default) for name in LAYOUTS})


@dataclass(frozen=True)
class Peer:
    """One library, or one type of it."""

    name: str
    title: str  # for people
    module: str  # to import
    make: Callable[[list, str], Any] | None  # nested values and the name of a dtype -> array
    values: Callable[[Any], Any]  # array -> nested values, by the library's own means
    take: Callable[[Any], Any] | None  # fastdl.Tensor, or DLPack producer -> array
    dtypes: tuple[str, ...] = ()  # that it exports under their own names

    # Where it runs.
    distribution: str = ""  # that has its version; `module` unless told
    environment: str = "main"  # which of matrix/requirements
    where: str = ""  # for people: what else the facts depend on, besides the release
    prepare: Callable[[], None] | None = None  # called once after the import

    # For matrix/.
    give: Callable[[Any], Any] | None = None  # array -> fastdl.Tensor, if not by from_dlpack
    wrap: Callable[[Any], Any] | None = None  # ndarray -> array that shares its memory
    like: str | Callable[[str], Any] = ""  # what fastdl.convert is told: "module:name", or by dtype
    in_grid: bool = True  # paired with the other libraries

    # As a producer.
    through: str = PROTOCOL  # or TABLE, BRIDGE, BUFFER
    readonly: bool = False  # what fastdl must say of its arrays
    pointer: Callable[[Any], int] | None = None
    write: Callable[[Any, Any], None] | None = None  # sets the first element; must not raise
    unwritten: tuple[str, ...] = ()  # dtypes of which it cannot set one; "scalar": no dimensions
    min_ndim: int = 0
    max_ndim: int = 8
    # Views by name -> how to take them.
    views: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
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

    def __repr__(self) -> str:
        return self.name


def require(module: str) -> None:
    """Ends the test if a library is missing: see `missing`.

    Imports nothing: many of the libraries cost seconds, and belong into child processes.
    """
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        missing(module)


NOT_INSTALLED = "is not installed, which a test of libraries needs"


def missing(what: str) -> NoReturn:
    """Skips the test; FASTDL_REQUIRE_PEERS=1, which CI sets, makes that a failure."""
    if os.environ.get("FASTDL_REQUIRE_PEERS") == "1":
        pytest.fail(f"{what} {NOT_INSTALLED}, and FASTDL_REQUIRE_PEERS=1")
    pytest.skip(f"{what} {NOT_INSTALLED}")


NUMPY_VIEWS = {
    "broadcast": lambda x: arrays.numpy_broadcast(x[:, :1]),
    "transposed": lambda x: x.T,
    "gaps": lambda x: x[:, ::2],
    "reversed": lambda x: x[::-1],
    "inner": lambda x: x[1:, 1:],
}

PEERS = (
    Peer(
        name="numpy",
        title="NumPy, ml_dtypes",
        module="numpy",
        wrap=arrays.numpy_wrap,
        like="numpy:ndarray",
        make=arrays.numpy_make,
        values=lambda x: x.tolist(),
        take=arrays.numpy_take,
        dtypes=("bool", *INTEGERS, *FLOATS, *COMPLEXES, "bfloat16", *FLOAT8, *MORE_FLOAT8),
        through=BRIDGE,
        pointer=arrays.numpy_pointer,
        write=arrays.set_first,
        max_ndim=64,
        views=NUMPY_VIEWS,
        layouts=outcomes(SHARED, bfloat16=REFUSED),
        elsewhere=(BufferError, ValueError),  # the latter before NumPy 2.3
        is_readonly=lambda x: not x.flags.writeable,
    ),
    Peer(
        name="torch",
        title="PyTorch",
        module="torch",
        wrap=arrays.torch_wrap,
        like="torch:Tensor",
        make=arrays.torch_make,
        values=arrays.torch_values,
        take=arrays.torch_take,
        dtypes=("bool", *INTEGERS, *FLOATS, *COMPLEXES, "bfloat16", *FLOAT8),
        through=TABLE,
        pointer=lambda x: x.data_ptr(),
        write=arrays.set_first,
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
        title="JAX",
        module="jax",
        prepare=arrays.jax_prepare,
        like="jax:Array",
        make=arrays.jax_make,
        values=arrays.jax_values,
        take=arrays.jax_take,
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
        through=BUFFER,
        readonly=True,
        pointer=lambda x: x.unsafe_buffer_pointer(),
        views={"transposed": lambda x: x.T, "gaps": lambda x: x[:, ::2]},
        elsewhere=RuntimeError,
        layouts=outcomes(SHARED, gaps=REFUSED, reversed=REFUSED, broadcast=REFUSED),
        readonly_data=REFUSED,
        alignment=64,
    ),
    Peer(
        name="mlx",
        title="MLX",
        module="mlx.core",
        distribution="mlx",
        like="mlx.core:array",
        make=arrays.mlx_make,
        values=lambda x: x.tolist(),
        take=arrays.mlx_take,
        dtypes=("bool", *INTEGERS, *FLOATS, "complex64", "bfloat16"),
        pointer=arrays.mlx_pointer,
        readonly=True,
        views={
            "transposed": lambda x: x.T,
            "gaps": lambda x: x[:, ::2],
            "reversed": lambda x: x[::-1],
            "inner": lambda x: x[1:, 1:],
            "broadcast": lambda x: arrays.mlx_broadcast(x[:, :1]),
        },
        capsules=BOTH,
        where="on the CPU",  # on Metal it may share: see _bridges/mlx.py
        layouts=outcomes(COPIED, reversed=REFUSED),
        readonly_data=COPIED,
    ),
    Peer(
        name="pyarrow",
        title="PyArrow `Array`",
        module="pyarrow",
        like="pyarrow:Array",
        make=arrays.pyarrow_make,
        values=lambda x: x.to_pylist(),
        take=arrays.pyarrow_take,
        dtypes=(*INTEGERS, *FLOATS),
        readonly=True,
        pointer=arrays.pyarrow_pointer,
        max_ndim=1,
        layouts=outcomes(REFUSED),
        takes_2d=False,
    ),
    Peer(
        name="pyarrow.Tensor",
        title="PyArrow `Tensor`",
        module="pyarrow",
        wrap=arrays.arrow_tensor_wrap,
        like="pyarrow:Tensor",
        make=arrays.arrow_tensor_make,
        values=lambda x: x.to_numpy().tolist(),
        take=arrays.arrow_tensor_take,
        dtypes=(*INTEGERS, *FLOATS),
        pointer=lambda x: arrays.numpy_pointer(x.to_numpy()),
        layouts=outcomes(SHARED, reversed=REFUSED, bool=REFUSED, bfloat16=REFUSED),
        is_readonly=lambda x: not x.is_mutable,
    ),
    Peer(
        name="onnxruntime",
        title="ONNX Runtime",
        module="onnxruntime",
        like="onnxruntime:OrtValue",
        make=arrays.onnxruntime_make,
        values=arrays.onnxruntime_values,
        take=arrays.onnxruntime_take,
        dtypes=(*INTEGERS, *FLOATS),  # bool is exported as uint8
        pointer=lambda x: x.data_ptr(),
        capsules=LEGACY,
        layouts=outcomes(REFUSED, compact=SHARED, scalar=SHARED, bfloat16=SHARED),
        readonly_data=REFUSED,
    ),
    Peer(
        name="tvm_ffi",
        title="tvm-ffi",
        module="tvm_ffi",
        distribution="apache-tvm-ffi",
        wrap=arrays.tvm_ffi_wrap,
        like="tvm_ffi:Tensor",
        make=arrays.tvm_ffi_make,
        values=arrays.tvm_ffi_values,
        take=arrays.tvm_ffi_take,
        dtypes=("bool", *INTEGERS, *FLOATS, *COMPLEXES),
        pointer=lambda x: x.data_ptr(),
        capsules=BOTH,
        layouts=outcomes(SHARED),
        readonly_data=LOST,
    ),
    Peer(
        name="strict",
        title="array-api-strict",
        module="array_api_strict",
        distribution="array-api-strict",
        like="array_api_strict",
        make=arrays.strict_make,
        values=lambda x: x._array.tolist(),
        take=arrays.strict_take,
        dtypes=("bool", *INTEGERS, "float32", "float64", *COMPLEXES),
        pointer=lambda x: arrays.numpy_pointer(x._array),
        write=arrays.set_first,
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
        title="DrJit",
        module="drjit",
        like=arrays.drjit_type,
        make=arrays.drjit_make,
        values=arrays.numpy_method,
        take=arrays.drjit_take,
        dtypes=tuple(DRJIT_TENSORS),
        capsules=BOTH,
        layouts=outcomes(REFUSED, compact=SHARED, scalar=SHARED, bool=SHARED),
        readonly_data=LOST,
    ),
)

# Those of which nothing is stated here.
MORE = (
    *(
        replace(
            PEERS[0],
            name=f"numpy-{version}",
            title=f"NumPy {version}",
            environment=f"numpy-{version}",
            in_grid=False,
        )
        for version in ("2.0", "1.26")
    ),
    replace(
        PEERS[1],
        name="torch-plain",
        title="PyTorch without its table",
        prepare=arrays.torch_hide_table,
        in_grid=False,
    ),
    Peer(
        name="tensorflow",
        title="TensorFlow",
        module="tensorflow",
        distribution="tensorflow-cpu",
        like="tensorflow:Tensor",
        make=arrays.tensorflow_make,
        values=arrays.tensorflow_values,
        take=arrays.tensorflow_take,
        pointer=arrays.tensorflow_pointer,
    ),
    Peer(
        name="paddle",
        title="PaddlePaddle",
        module="paddle",
        distribution="paddlepaddle",
        like="paddle:Tensor",
        make=arrays.paddle_make,
        values=arrays.paddle_values,
        take=arrays.paddle_take,
        pointer=lambda x: x.data_ptr(),
        write=arrays.set_first,
        unwritten=("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"),
        views={
            "transposed": lambda x: x.T,
            "gaps": lambda x: x[:, ::2],
            "inner": lambda x: x[1:, 1:],
            "broadcast": arrays.paddle_broadcast,
        },
    ),
    Peer(
        name="mxnet",
        title="MXNet",
        module="mxnet",
        environment="mxnet",
        in_grid=False,
        like="mxnet:nd.NDArray",
        make=arrays.mxnet_make,
        values=arrays.mxnet_values,
        take=arrays.mxnet_take,
        give=arrays.asarray,
        write=arrays.mxnet_write,
        unwritten=("scalar",),
    ),
    Peer(
        name="tvm",
        title="TVM",
        module="tvm",
        distribution="apache-tvm",
        like="tvm.runtime:Tensor",
        make=arrays.tvm_make,
        values=lambda x: arrays.numpy_lists(x.numpy()),
        take=arrays.tvm_take,
        pointer=lambda x: x.data_ptr(),
    ),
    Peer(
        name="warp",
        title="Warp",
        module="warp",
        distribution="warp-lang",
        prepare=arrays.warp_prepare,
        like="warp:array",
        make=arrays.warp_make,
        wrap=arrays.warp_wrap,
        values=lambda x: arrays.numpy_lists(x.numpy()),
        take=arrays.warp_take,
        pointer=lambda x: x.ptr,
        write=arrays.numpy_write,
        views={
            "transposed": lambda x: x.transpose(),
            "gaps": lambda x: x[:, ::2],
            "inner": lambda x: x[1:, 1:],
        },
    ),
    Peer(
        name="cuda.core",
        title="cuda.core `StridedMemoryView`",
        module="cuda.core.utils",
        distribution="cuda-core",
        like="cuda.core.utils:StridedMemoryView",
        make=arrays.cuda_core_make,
        wrap=arrays.cuda_core_take,
        values=arrays.cuda_core_values,
        take=arrays.cuda_core_take,
        pointer=lambda x: x.ptr,
        is_readonly=lambda x: x.readonly,
    ),
    Peer(
        name="openvino",
        title="OpenVINO",
        module="openvino",
        like="openvino:Tensor",
        make=arrays.openvino_make,
        wrap=arrays.openvino_wrap,
        values=lambda x: arrays.numpy_lists(x.data),
        take=arrays.openvino_take,
        give=arrays.asarray,
        pointer=lambda x: arrays.numpy_pointer(x.data),
        write=lambda x, value: arrays.set_first(x.data, value),
    ),
    Peer(
        name="tinygrad",
        title="tinygrad",
        module="tinygrad",
        like="tinygrad:Tensor",
        make=arrays.tinygrad_make,
        values=arrays.tinygrad_values,
        take=arrays.tinygrad_take,
        give=arrays.asarray,
    ),
    Peer(
        name="dpnp",
        title="dpnp (oneAPI)",
        module="dpnp",
        like="dpnp:ndarray",
        make=arrays.dpnp_make,
        values=arrays.dpnp_values,
        take=arrays.dpnp_take,
        give=arrays.dpnp_give,
        pointer=lambda x: x.get_array()._pointer,
        views={
            "transposed": lambda x: x.T,
            "gaps": lambda x: x[:, ::2],
            "reversed": lambda x: x[::-1],
            "inner": lambda x: x[1:, 1:],
        },
    ),
    Peer(
        name="pandas",
        title="pandas `Series`",
        module="pandas",
        make=arrays.pandas_make,
        values=lambda x: x.tolist(),
        take=arrays.pandas_take,
        give=arrays.asarray,
        pointer=lambda x: arrays.numpy_pointer(x.to_numpy()),
        max_ndim=1,
    ),
    Peer(
        name="polars",
        title="polars `Series`",
        module="polars",
        make=arrays.polars_make,
        values=lambda x: x.to_list(),
        take=arrays.polars_take,
        give=arrays.asarray,
        pointer=arrays.polars_pointer,
        max_ndim=1,
    ),
    Peer(
        name="xarray",
        title="xarray `DataArray`",
        module="xarray",
        make=arrays.xarray_make,
        wrap=arrays.xarray_take,
        values=lambda x: x.values.tolist(),
        take=arrays.xarray_take,
        give=arrays.asarray,
        pointer=lambda x: arrays.numpy_pointer(x.values),
    ),
    Peer(
        name="dask",
        title="dask `Array`",
        module="dask.array",
        distribution="dask",
        make=arrays.dask_make,
        wrap=arrays.dask_take,
        values=arrays.dask_values,
        take=arrays.dask_take,
        give=arrays.asarray,
    ),
    Peer(
        name="awkward",
        title="Awkward Array",
        module="awkward",
        make=arrays.awkward_make,
        wrap=arrays.awkward_wrap,
        values=lambda x: x.to_list(),
        take=arrays.awkward_take,
        give=arrays.asarray,
        pointer=arrays.host_pointer,
    ),
    Peer(
        name="sklearn",
        title="scikit-learn `check_array`",
        module="sklearn.utils",
        distribution="scikit-learn",
        make=None,
        values=lambda x: x.tolist(),
        take=arrays.sklearn_take,
        pointer=arrays.numpy_pointer,
    ),
    Peer(
        name="pillow",
        title="Pillow `Image`",
        module="PIL.Image",
        distribution="pillow",
        make=arrays.pillow_make,
        values=arrays.pillow_values,
        take=arrays.pillow_take,
        give=arrays.asarray,
        min_ndim=2,
    ),
    Peer(
        name="matplotlib",
        title="matplotlib `plot`, `imshow`",
        module="matplotlib",
        prepare=arrays.matplotlib_prepare,
        make=None,
        values=lambda x: arrays.numpy_lists(x),
        take=arrays.matplotlib_take,
        pointer=arrays.numpy_pointer,
    ),
    Peer(
        name="buffer",
        title="`bytearray`, `memoryview`",
        module="array",
        distribution="-",
        make=arrays.buffer_make,
        wrap=memoryview,
        values=lambda x: x.tolist(),
        take=memoryview,
        give=arrays.asarray,
        pointer=arrays.host_pointer,
    ),
)

LIBRARIES = (*PEERS, *MORE)
BY_NAME = {peer.name: peer for peer in LIBRARIES}


# ---- for people -----------------------------------------------------------------------------

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
    """The facts that README.md shows: see docs/quote.py. The tests of cases/ hold each of them, for
    the releases that the matrix was measured with."""
    measured = load()
    head = (
        "library, release, imported through, import, export, with gaps, negative strides, read-only"
    )
    yield from (f"| {head.replace(', ', ' | ')} |", "|" + "---|" * (head.count(",") + 1))
    for peer in PEERS:
        row = (
            peer.title,
            f"{measured[peer.name]['version']} {peer.where}".rstrip(),
            peer.through,
            "read-only" if peer.readonly else "writable",
            compact(peer),
            *(WORDS[peer.layouts[layout]] for layout in ("gaps", "reversed")),
            {KEPT: "kept", LOST: "**lost**", COPIED: "copied", REFUSED: "refused"}[
                peer.readonly_data
            ],
        )
        yield f"| {' | '.join(row)} |"
