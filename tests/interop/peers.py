# SPDX-License-Identifier: Apache-2.0
"""The libraries that fastdl is tested against: one table, LIBRARIES.

A row says how to make an array, how to read it, and how to give it a tensor. The first rows, PEERS,
also state how fastdl gets at the arrays of a library, to which cases/ holds it. Everything else
about all of them is measured by matrix/.
"""

import importlib
import importlib.util
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NoReturn

import pytest

import fastdl
from fastdl._bridges import lookup
from fastdl._bridges.drjit import CLASSES

from .arrays import (
    numpy_dtype,
    numpy_lists,
    numpy_make,
    numpy_pointer,
    set_first,
)
from .matrix.cells import COPY, DIES, REFUSED, ZERO_COPY, Cell, load

# ---- what a row says ------------------------------------------------------------------------

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
    take: Callable[[Any], Any] | None  # fastdl.Tensor, or DLPack producer -> array
    values: Callable[[Any], Any] = lambda x: x.tolist()  # array -> nested values, by its own means

    # Where it runs.
    distribution: str = ""  # that has its version; `module` unless told
    environment: str = "main"  # which of matrix/requirements
    where: str = ""  # for people: what else the facts depend on, besides the release
    prepare: Callable[[], None] | None = None  # called once after the import

    # For matrix/.
    give: Callable[[Any], Any] = fastdl.from_dlpack  # array -> fastdl.Tensor
    wrap: Callable[[Any], Any] | None = None  # ndarray -> array that shares its memory
    like: str | Callable[[str], Any] = ""  # what fastdl.convert is told: a name, or by dtype
    in_grid: bool = True  # paired with the other libraries

    # As a producer.
    through: str = PROTOCOL  # or TABLE, BRIDGE, BUFFER
    pointer: Callable[[Any], int] | None = None
    write: Callable[[Any, Any], None] | None = None  # sets the first element; must not raise
    unwritten: tuple[str, ...] = ()  # dtypes of which it cannot set one; "scalar": no dimensions
    min_ndim: int = 0
    max_ndim: int = 8
    views: Callable[[], Mapping] = dict  # by name: how to take them
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


class Library:
    """A module that is imported at the first use: the parent process imports none of them."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


def of(convert: Callable[[Any], Any]) -> Callable[[list, str], Any]:
    """Makes arrays of NumPy's."""
    return lambda values, dtype: convert(numpy_make(values, dtype))


def holding(convert: Callable[[Any], Any]) -> dict[str, Callable]:
    """Fields of a row whose library makes its arrays of all that it holds by one function."""
    return {"make": of(convert), "take": convert, "wrap": convert}


# What the suite's adapter of a library calls it.
NAMES = MappingProxyType({"take": "from_dlpack", "pointer": "address"})
VIEWS = MappingProxyType({"strided": "gaps", "offset": "inner"})


def known(package: str, **facts: Any) -> Peer:
    """The row of a library whose bridge knows what it is called, and in which release."""
    file = lookup.load(package)
    if file is None:
        raise LookupError(f"{package} has no row in src/fastdl/_bridges/lookup.py: add it")
    bridge = file.BRIDGES[0]
    stated = {"name": package, "title": bridge.title, "module": package, "like": bridge.name}
    return Peer(**(stated | {"distribution": re.match(r"[\w-]+", file.RELEASE)[0]} | facts))


def suite(library: str, *fields: str) -> dict[str, Callable]:
    """Fields of a row that the suite's adapter of a library has; it is imported when one is
    called."""
    adapter = Library(f"dlpack_conformance.adapters.{library}")

    def field(name: str) -> Callable:
        if name == "views":
            return lambda: {VIEWS.get(kind, kind): view for kind, view in adapter.views.items()}
        return lambda *arguments: getattr(adapter, NAMES.get(name, name))(*arguments)

    return {name: field(name) for name in fields}


# ---- libraries ------------------------------------------------------------------------------

np = Library("numpy")
ak = Library("awkward")
dask = Library("dask.array")
dpnp = Library("dpnp")
jnp = Library("jax.numpy")
mpl = Library("matplotlib")
mxnet = Library("mxnet")
ort = Library("onnxruntime")
ov = Library("openvino")
pa = Library("pyarrow")
paddle = Library("paddle")
pd = Library("pandas")
image = Library("PIL.Image")
pl = Library("polars")
plt = Library("matplotlib.pyplot")
sklearn = Library("sklearn.utils")
strict = Library("array_api_strict")
tf = Library("tensorflow")
tinygrad = Library("tinygrad")
torch = Library("torch")
tvm = Library("tvm.runtime")
tvm_ffi = Library("tvm_ffi")
views = Library("cuda.core.utils")
warp = Library("warp")
xr = Library("xarray")


def torch_values(array):
    if array.dtype is torch.complex32:
        return array.to(torch.complex64).tolist()
    narrow = array.dtype.itemsize < 2 and array.dtype.is_floating_point
    return (array.float() if narrow else array).tolist()


def torch_hide_table():
    """What a torch before 2.9 has: `__dlpack__` alone."""
    for name in ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"):
        if name in vars(torch.Tensor):
            delattr(torch.Tensor, name)


def onnxruntime_of(array):
    """A value with memory of its own: one from NumPy borrows (see onnxruntime_values.py)."""
    value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), array.dtype.type)
    value.update_inplace(array)
    return value


def onnxruntime_values(value):
    """As a list. Of float8, 1.32 shows NumPy the bytes, or nothing."""
    if "float8" in value.data_type():
        raise TypeError(f"{value.data_type()} has no values in NumPy")
    return value.numpy().tolist()


def drjit_type(dtype):
    if dtype not in CLASSES:
        raise TypeError(f"DrJit has no tensors of {dtype}")
    return getattr(importlib.import_module("drjit.llvm"), CLASSES[dtype])


def drjit_make(values, dtype):
    array = numpy_make(values, dtype)
    return drjit_type(dtype)(array.ravel().tolist(), shape=array.shape)


def drjit_take(producer):
    # It imports by its constructors, whose element type must fit. Capsules are float32 here.
    dtype = producer.dtype.name if hasattr(producer, "dtype") else "float32"
    return drjit_type(dtype)(producer)


def paddle_make(values, dtype):
    if dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        return paddle.to_tensor(numpy_make(values, "float32")).astype(dtype)
    return paddle.to_tensor(numpy_make(values, dtype))


def paddle_values(array):
    if array.dtype.name in ("BFLOAT16", "FLOAT8_E4M3FN", "FLOAT8_E5M2"):
        return array.astype("float32").tolist()
    return array.numpy().tolist()


def tinygrad_make(values, dtype):
    return tinygrad.Tensor(values, dtype=getattr(tinygrad.dtypes, dtype)).realize()


def tinygrad_values(array):
    """Read as bits where NumPy has no such type: a cast needs a compiler that has it."""
    if array.dtype is tinygrad.dtypes.bfloat16:
        bits = array.bitcast(tinygrad.dtypes.uint16).numpy()
        return numpy_lists(bits.view(numpy_dtype("bfloat16")))
    return array.tolist()


def mxnet_make(values, dtype):
    array = mxnet.nd.array(numpy_make(values, dtype), dtype=dtype)
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


def matplotlib_take(tensor):
    figure, axes = plt.subplots()
    try:
        if tensor.ndim < 2:
            return axes.plot(tensor)[0].get_ydata(orig=True).reshape(tensor.shape)
        return axes.imshow(tensor).get_array()
    finally:
        plt.close(figure)


# ---- the table ------------------------------------------------------------------------------

PEERS = (
    known(
        "numpy",
        title="NumPy, ml_dtypes",
        **suite("numpy", "take", "pointer", "views"),
        make=numpy_make,
        wrap=lambda x: x,
        through=BRIDGE,
        write=set_first,
        max_ndim=64,
        elsewhere=(BufferError, ValueError),  # the latter before NumPy 2.3
        is_readonly=lambda x: not x.flags.writeable,
    ),
    known(
        "torch",
        **suite("torch", "take", "pointer", "views"),
        make=lambda values, dtype: torch.tensor(values).to(getattr(torch, dtype)),
        wrap=lambda x: torch.from_numpy(x),
        values=torch_values,
        through=TABLE,
        write=set_first,
        max_ndim=64,
        elsewhere=NotImplementedError,  # the CPU build has no kernel for the copy
        capsules=BOTH,
    ),
    known(
        "jax",
        **suite("jax", "prepare", "take", "values", "pointer", "views"),
        make=of(lambda x: jnp.asarray(x)),
        through=BUFFER,
        elsewhere=RuntimeError,
    ),
    known(
        "mlx",
        module="mlx.core",
        **suite("mlx", "make", "take", "pointer", "views"),
        capsules=BOTH,
        where="on the CPU",  # on Metal it may share: see _bridges/mlx.py
    ),
    known(
        "pyarrow",
        title="PyArrow `Array`",
        **suite("pyarrow", "take", "values", "pointer"),
        make=of(lambda x: pa.array(x)),
        max_ndim=1,
    ),
    known(
        "pyarrow",
        name="pyarrow.Tensor",
        title="PyArrow `Tensor`",
        make=of(lambda x: pa.Tensor.from_numpy(x)),
        take=lambda x: pa.Tensor.from_dlpack(x),
        wrap=lambda x: pa.Tensor.from_numpy(x),
        like="pyarrow:Tensor",
        values=lambda x: x.to_numpy().tolist(),
        pointer=lambda x: numpy_pointer(x.to_numpy()),
        is_readonly=lambda x: not x.is_mutable,
    ),
    known(
        "onnxruntime",
        **suite("onnxruntime", "take", "pointer"),
        make=of(onnxruntime_of),
        values=onnxruntime_values,
        capsules=LEGACY,
    ),
    known(
        "tvm_ffi",
        **suite("tvm_ffi", "take", "values", "pointer"),
        # It has no constructor from values. Memory of its own is not needed here.
        make=of(lambda x: tvm_ffi.from_dlpack(np.require(x))),
        wrap=lambda x: tvm_ffi.from_dlpack(x),
        capsules=BOTH,
    ),
    known(
        "array_api_strict",
        name="strict",
        **suite("array_api_strict", "make", "take", "values", "pointer", "views"),
        like="array_api_strict",
        write=set_first,
        is_readonly=lambda x: not x._array.flags.writeable,
    ),
    known(
        "drjit",
        make=drjit_make,
        take=drjit_take,
        like=drjit_type,
        values=lambda x: x.numpy().tolist(),
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
        prepare=torch_hide_table,
        in_grid=False,
    ),
    known(
        "tensorflow",
        **suite("tensorflow", "take", "values", "pointer"),
        make=of(lambda x: tf.constant(x)),
    ),
    known(
        "paddle",
        **suite("paddle", "take", "pointer", "views"),
        make=paddle_make,
        values=paddle_values,
        write=set_first,
        unwritten=("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"),
    ),
    known(
        "mxnet",
        environment="mxnet",
        in_grid=False,
        make=mxnet_make,
        take=lambda x: mxnet.nd.from_dlpack(x.__dlpack__()),
        give=fastdl.asarray,
        values=mxnet_values,
        write=mxnet_write,
        unwritten=("scalar",),
    ),
    known(
        "tvm",
        make=of(lambda x: tvm.tensor(x)),
        take=lambda x: tvm.from_dlpack(x),
        values=lambda x: numpy_lists(x.numpy()),
        pointer=lambda x: x.data_ptr(),
    ),
    known(
        "warp",
        **suite("warp", "prepare", "take", "pointer", "views"),
        make=of(lambda x: warp.array(x, device="cpu")),
        wrap=lambda x: warp.array(x, device="cpu", copy=False),
        values=lambda x: numpy_lists(x.numpy()),
        write=lambda x, value: set_first(x.numpy(), value),  # which shares memory
    ),
    known(
        "cuda",
        name="cuda.core",
        title="cuda.core `StridedMemoryView`",
        module="cuda.core.utils",
        **suite("cuda_core", "values", "pointer"),
        **holding(lambda x: views.StridedMemoryView.from_any_interface(x, stream_ptr=-1)),
        is_readonly=lambda x: x.readonly,
    ),
    known(
        "openvino",
        make=of(lambda x: ov.Tensor(x, shared_memory=False)),
        take=lambda x: ov.Tensor(x.numpy(), shared_memory=True),
        give=fastdl.asarray,
        wrap=lambda x: ov.Tensor(x, shared_memory=True),
        values=lambda x: numpy_lists(x.data),
        pointer=lambda x: numpy_pointer(x.data),
        write=lambda x, value: set_first(x.data, value),
    ),
    known(
        "tinygrad",
        make=tinygrad_make,
        take=lambda x: tinygrad.Tensor(x.numpy()).realize(),
        give=fastdl.asarray,
        values=tinygrad_values,
    ),
    known(
        "dpnp",
        title="dpnp (oneAPI)",
        **suite("dpnp", "views"),
        make=of(lambda x: dpnp.asarray(x)),
        take=lambda x: dpnp.asarray(x),
        give=lambda x: fastdl.from_dlpack(x, device="cpu"),
        values=lambda x: dpnp.asnumpy(x).tolist(),
        pointer=lambda x: x.get_array()._pointer,
    ),
    Peer(
        name="pandas",
        title="pandas `Series`",
        module="pandas",
        make=of(lambda x: pd.Series(x)),
        take=lambda x: pd.Series(x, copy=False),
        give=fastdl.asarray,
        pointer=lambda x: numpy_pointer(x.to_numpy()),
        max_ndim=1,
    ),
    Peer(
        name="polars",
        title="polars `Series`",
        module="polars",
        make=of(lambda x: pl.Series(x)),
        take=lambda x: pl.Series(x),
        give=fastdl.asarray,
        values=lambda x: x.to_list(),
        pointer=lambda x: numpy_pointer(x.to_numpy(allow_copy=False)),
        max_ndim=1,
    ),
    Peer(
        name="xarray",
        title="xarray `DataArray`",
        module="xarray",
        **holding(lambda x: xr.DataArray(x)),
        give=fastdl.asarray,
        values=lambda x: x.values.tolist(),
        pointer=lambda x: numpy_pointer(x.values),
    ),
    Peer(
        name="dask",
        title="dask `Array`",
        module="dask.array",
        distribution="dask",
        **holding(lambda x: dask.from_array(x)),
        give=fastdl.asarray,
        values=lambda x: x.compute(scheduler="synchronous").tolist(),
    ),
    Peer(
        name="awkward",
        title="Awkward Array",
        module="awkward",
        make=of(lambda x: ak.from_numpy(x)),
        take=lambda x: ak.from_dlpack(x),
        give=fastdl.asarray,
        wrap=lambda x: ak.from_numpy(x),
        values=lambda x: x.to_list(),
        pointer=lambda x: numpy_pointer(np.asarray(x)),
    ),
    Peer(
        name="sklearn",
        title="scikit-learn `check_array`",
        module="sklearn.utils",
        distribution="scikit-learn",
        make=None,
        take=lambda x: sklearn.check_array(
            x, dtype=None, ensure_2d=False, allow_nd=True, ensure_min_samples=0
        ),
        pointer=numpy_pointer,
    ),
    Peer(
        name="pillow",
        title="Pillow `Image`",
        module="PIL.Image",
        distribution="pillow",
        make=of(lambda x: image.fromarray(x)),
        take=lambda x: image.fromarray(x),
        give=fastdl.asarray,
        values=lambda x: np.asarray(x).tolist(),
        min_ndim=2,
    ),
    Peer(
        name="matplotlib",
        title="matplotlib `plot`, `imshow`",
        module="matplotlib",
        prepare=lambda: mpl.use("Agg"),
        make=None,
        take=matplotlib_take,
        values=numpy_lists,
        pointer=numpy_pointer,
    ),
    Peer(
        name="buffer",
        title="`bytearray`, `memoryview`",
        module="array",
        distribution="-",
        make=of(lambda x: memoryview(bytearray(x)).cast(x.dtype.char, x.shape)),
        take=memoryview,
        give=fastdl.asarray,
        wrap=memoryview,
        pointer=lambda x: numpy_pointer(np.asarray(x)),
    ),
)

LIBRARIES = (*PEERS, *MORE)
BY_NAME = {peer.name: peer for peer in LIBRARIES}


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
    head = "library, release, import, export, strided, negative strides, read-only"
    yield from (f"| {head.replace(', ', ' | ')} |", "|" + "---|" * (head.count(",") + 1))
    for peer in PEERS:
        cells = measured[peer.name]
        row = (
            peer.title,
            f"{cells['version']} {peer.where}".rstrip(),
            Cell.parse(cells["import/float32"]).note or "writable",
            *outcomes(peer, cells),
        )
        yield f"| {' | '.join(row)} |"
