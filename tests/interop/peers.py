"""The libraries that fastdl is tested against: one table, LIBRARIES.

A row says how to make an array, how to read it, and how to give it a tensor (the functions are in
arrays.py). The first rows, PEERS, also state how fastdl gets at the arrays of a library, to which
cases/ holds it. Everything else about all of them is measured by matrix/.
"""

import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NoReturn

import pytest

from . import arrays
from .matrix.cells import COPY, DIES, REFUSED, ZERO_COPY, Cell, load

# ---- the table ------------------------------------------------------------------------------

# The max_version of capsules.
LEGACY = (None,)
BOTH = (None, (1, 0))

# How fastdl gets at an array of a library.
TABLE = "its exchange table"
BRIDGE = "its C API"
PROTOCOL = "`__dlpack__`"
BUFFER = "its buffer"


@dataclass(frozen=True)
class Peer:
    """One library, or one type of it."""

    name: str
    title: str  # for people
    module: str  # to import
    make: Callable[[list, str], Any] | None  # nested values and the name of a dtype -> array
    values: Callable[[Any], Any]  # array -> nested values, by the library's own means
    take: Callable[[Any], Any] | None  # fastdl.Tensor, or DLPack producer -> array

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
    is_readonly: Callable[[Any], bool] | None = None  # asks a result
    capsules: tuple = ()  # those that it takes by themselves

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
        through=BRIDGE,
        pointer=arrays.numpy_pointer,
        write=arrays.set_first,
        max_ndim=64,
        views=NUMPY_VIEWS,
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
        through=BUFFER,
        pointer=lambda x: x.unsafe_buffer_pointer(),
        views={"transposed": lambda x: x.T, "gaps": lambda x: x[:, ::2]},
        elsewhere=RuntimeError,
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
        pointer=arrays.mlx_pointer,
        views={
            "transposed": lambda x: x.T,
            "gaps": lambda x: x[:, ::2],
            "reversed": lambda x: x[::-1],
            "inner": lambda x: x[1:, 1:],
            "broadcast": lambda x: arrays.mlx_broadcast(x[:, :1]),
        },
        capsules=BOTH,
        where="on the CPU",  # on Metal it may share: see _bridges/mlx.py
    ),
    Peer(
        name="pyarrow",
        title="PyArrow `Array`",
        module="pyarrow",
        like="pyarrow:Array",
        make=arrays.pyarrow_make,
        values=lambda x: x.to_pylist(),
        take=arrays.pyarrow_take,
        pointer=arrays.pyarrow_pointer,
        max_ndim=1,
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
        pointer=lambda x: arrays.numpy_pointer(x.to_numpy()),
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
        pointer=lambda x: x.data_ptr(),
        capsules=LEGACY,
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
        pointer=lambda x: x.data_ptr(),
        capsules=BOTH,
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
        pointer=lambda x: arrays.numpy_pointer(x._array),
        write=arrays.set_first,
        views={
            "transposed": lambda x: x.T,
            "gaps": lambda x: x[:, ::2],
            "reversed": lambda x: x[::-1, :],
            "inner": lambda x: x[1:, 1:],
        },
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
        capsules=BOTH,
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

# Those that bridges read.
READ = ("openvino", "tinygrad", "tensorflow", "drjit")  # by what DLPack does not say


# ---- for people -----------------------------------------------------------------------------

WORDS = MappingProxyType(
    {ZERO_COPY: "shared", COPY: "copied", REFUSED: "refused", DIES: "**the process dies**"}
)
# Where it is lost the library writes all the same; DLPack leaves that to the consumer.
FLAGS = MappingProxyType({"stays read-only": "kept", "read-only is lost": "**lost**"})


def outcomes(peer: Peer, cells: Mapping[str, str]) -> Iterator[str]:
    """What becomes of a Tensor: a compact one, others, and the flag of one that is read-only."""
    compact, unaligned, gaps, reverse, readonly = (
        Cell.parse(cells[f"export/{layout}"])
        for layout in ("compact", "unaligned", "gaps", "reversed", "readonly")
    )
    limit = ", one dimension" if peer.max_ndim == 1 else ""
    if (compact.outcome, unaligned.outcome) == (ZERO_COPY, COPY):
        limit = " if aligned to 64 bytes"  # as matrix/sources.py aligns all others
    yield WORDS[compact.outcome] + limit
    yield WORDS[gaps.outcome]
    yield WORDS[reverse.outcome]
    yield FLAGS.get(readonly.note) or WORDS[readonly.outcome]


def as_markdown() -> Iterator[str]:
    """What README.md shows of the results of matrix/: see docs/quote.py."""
    measured = load()
    head = (
        "library, release, imported through, import, export, with gaps, negative strides, read-only"
    )
    yield from (f"| {head.replace(', ', ' | ')} |", "|" + "---|" * (head.count(",") + 1))
    for peer in PEERS:
        cells = measured[peer.name]
        row = (
            peer.title,
            f"{cells['version']} {peer.where}".rstrip(),
            peer.through,
            Cell.parse(cells["import/float32"]).note or "writable",
            *outcomes(peer, cells),
        )
        yield f"| {' | '.join(row)} |"
