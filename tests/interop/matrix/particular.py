# SPDX-License-Identifier: Apache-2.0
"""Rows of libraries whose use of tensors is no matter of arrays alone. One table: ROWS."""

import ctypes
import gc
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np

import fastdl

from ..cases.common import aligned, freed
from .cells import COPY, WRONG, ZERO_COPY, Cell
from .measure import Wrong, reason, refusal

Case = Callable[[], str | None]


@dataclass(frozen=True)
class Row:
    """Cases by name. A case returns its outcome, zero-copy if None; an exception is a refusal, and
    a broken assertion is wrong."""

    title: str
    about: str
    cases: dict[str, Case]
    version: Callable[[], str] = lambda: ""

    def cells(self) -> Iterator[tuple[str, Callable[[], Cell]]]:
        yield "version", self.version
        for name, case in self.cases.items():
            yield name, lambda case=case: outcome(case)


def outcome(case: Case) -> Cell:
    try:
        return Cell.parse(case() or ZERO_COPY)
    except (AssertionError, Wrong) as error:
        return Cell(WRONG, reason(error))
    except Exception as error:
        return refusal(error)


# ---- TVM --------------------------------------------------------------------------------------


@cache
def kernel():
    """b = 2 * a, for 8 float32."""
    import tvm
    from tvm import te

    a = te.placeholder((8,), name="a")
    b = te.compute((8,), lambda i: a[i] * 2.0, name="b")
    function = te.create_prim_func([a, b]).with_attr("global_symbol", "twice")
    return tvm.compile(tvm.IRModule({"twice": function}), target="llvm")["twice"]


def called(result: np.ndarray) -> None:
    kernel()(fastdl.from_dlpack(aligned(np.arange(8.0))), fastdl.from_dlpack(result))
    assert result.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]


# ---- Numba ------------------------------------------------------------------------------------


def compiled(body: str) -> Callable:
    """A function of x that Numba compiles."""
    import numba

    names = {"np": np}
    exec(f"def function(x):\n    {body}", names)
    return numba.njit(names["function"])


def numba_reads() -> None:
    assert compiled("return x[1] + x[2] + len(x)")(fastdl.from_dlpack(np.arange(3.0))) == 6


def numba_writes(give: Callable) -> None:
    source = np.arange(3.0)
    compiled("x[0] = 9.0")(give(fastdl.from_dlpack(source)))
    assert source.tolist() == [9.0, 1.0, 2.0]


def numba_gaps() -> None:
    tensor = fastdl.from_dlpack(np.arange(8.0).reshape(2, 4))[:, ::2]
    assert compiled("return x[1, 1]")(tensor) == 6


def numba_read_only() -> None:
    source = np.arange(3.0)
    source.flags.writeable = False
    compiled("x[0] = 9.0")(fastdl.from_dlpack(source))


# ---- CuPy -------------------------------------------------------------------------------------


def cupy_takes(name: str) -> None:
    import cupy

    getattr(cupy, name)(fastdl.from_dlpack(np.arange(3.0)))


def cupy_convert() -> None:
    import cupy

    fastdl.convert(fastdl.from_dlpack(np.arange(3.0)), cupy.ndarray)


# ---- dpnp, on its device ----------------------------------------------------------------------

VIEWS = {
    "compact": lambda x: x,
    "transposed": lambda x: x.T,
    "gaps": lambda x: x[:, ::2],
    "inner": lambda x: x[1:, 1:],
    "negative stride": lambda x: x[::-1],
    "no dimensions": lambda x: x[0, 0],
}


def device_and_back(view: Callable) -> None:
    """Memory of the device passes through fastdl: nothing is copied to the host."""
    import dpnp

    array = view(dpnp.arange(8, dtype="float32").reshape(2, 4))
    tensor = fastdl.from_dlpack(array)
    assert tuple(tensor.__dlpack_device__()) == tuple(map(int, array.__dlpack_device__()))
    back = dpnp.from_dlpack(tensor)
    assert dpnp.asnumpy(back).tolist() == dpnp.asnumpy(array).tolist()
    array += 1
    assert dpnp.asnumpy(back).tolist() == dpnp.asnumpy(array).tolist()


def device_to_host(view: Callable) -> str:
    import dpnp

    array = view(dpnp.arange(8, dtype="float32").reshape(2, 4))
    assert (
        fastdl.from_dlpack(array, device="cpu").tolist()
        == view(np.arange(8, dtype="float32").reshape(2, 4)).tolist()
    )
    return COPY


# ---- Rust -------------------------------------------------------------------------------------


RUSTC = shutil.which("rustc") or str(Path.home() / ".cargo/bin/rustc")


@cache
def rust():
    """exchange.rs of this folder, compiled."""
    output = Path(tempfile.mkdtemp(), "exchange.so")
    flags = ("--edition=2021", "--crate-type=cdylib", "-O", "-Dwarnings")
    source = Path(__file__).with_name("exchange.rs")
    subprocess.run([RUSTC, *flags, source, "-o", output], check=True)
    library = ctypes.PyDLL(str(output))
    thing, number, flag = ctypes.py_object, ctypes.c_int64, ctypes.c_int
    library.alive.restype = number
    for name, arguments in {
        "make": [number, number, flag, flag],
        "take": [thing],
        "total_owned": [thing, thing],
        "total_borrowed": [thing, thing],
        "arange": [thing, number, number],
    }.items():
        getattr(library, name).argtypes, getattr(library, name).restype = arguments, thing
    return library


def rustc_version() -> str:
    return subprocess.run([RUSTC, "--version"], capture_output=True, text=True).stdout.split()[1]


def rust_made(columns_first: bool, versioned: bool) -> None:
    """A tensor made in Rust is imported by its capsule, and its memory is Rust's to free."""
    before = rust().alive()
    capsule = rust().make(2, 3, columns_first, versioned)
    tensor = fastdl.from_dlpack(capsule)
    del capsule
    expected = [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]] if columns_first else [[0.0, 1, 2], [3.0, 4, 5]]
    assert tensor.tolist() == expected
    tensor.numpy()[0, 0] = 7
    assert tensor[0, 0].item() == 7
    assert rust().alive() == before + 1
    del tensor
    gc.collect()
    assert rust().alive() == before


def rust_unused(versioned: bool) -> None:
    """A capsule that nobody takes is deleted."""
    before = rust().alive()
    rust().make(2, 3, 0, versioned)
    assert rust().alive() == before


def rust_takes(build: Callable[[], np.ndarray], max_version: tuple | None) -> None:
    """Rust consumes a capsule of fastdl's, adds 1 to each element, and deletes."""
    source = build()
    before, alive = source.copy(), weakref.ref(source)
    got = rust().take(fastdl.from_dlpack(source).__dlpack__(max_version=max_version))
    assert got == before.sum()
    assert (source == before + 1).all()
    del source
    assert freed(alive)


def rust_table(function: str) -> None:
    table = fastdl.Tensor.__dlpack_c_exchange_api__
    total = getattr(rust(), function)(table, fastdl.from_dlpack(np.float32([[1, 2], [3, 4]])))
    assert total == 10


def rust_makes_by_table() -> None:
    result = rust().arange(fastdl.Tensor.__dlpack_c_exchange_api__, 2, 3)
    assert type(result) is fastdl.Tensor
    assert result.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def grid_of_six() -> np.ndarray:
    return aligned(np.arange(6.0).reshape(2, 3))


# ---- the table --------------------------------------------------------------------------------

ROWS = {
    "tvm-kernel": Row(
        "TVM kernel",
        "A function that TVM compiled by LLVM is called with a `fastdl.Tensor` for each argument.",
        {
            "compact": lambda: called(aligned(np.zeros(8))),
            "with gaps": lambda: called(aligned(np.zeros(16))[::2]),
            "of another dtype": lambda: called(np.zeros(8)),
            "unaligned": lambda: called(aligned(np.zeros(9))[1:]),
        },
        lambda: version("apache-tvm"),
    ),
    "numba": Row(
        "Numba",
        "A function compiled by `numba.njit` is called with a `fastdl.Tensor`, which it sees as a "
        "buffer. The array that `numpy()` returns is an array to it.",
        {
            "elements, len": numba_reads,
            "writes": lambda: numba_writes(lambda tensor: tensor),
            "writes, through numpy()": lambda: numba_writes(lambda tensor: tensor.numpy()),
            "two dimensions, with gaps": numba_gaps,
            "writes to read-only data": numba_read_only,
            "shape": lambda: compiled("return x.shape")(fastdl.from_dlpack(np.ones(3))) and None,
            "np.sum": lambda: compiled("return np.sum(x)")(fastdl.from_dlpack(np.ones(3))) and None,
        },
        lambda: version("numba"),
    ),
    "cupy": Row(
        "CuPy",
        "Without a GPU: what it says to host data. `tests/gpu` has the rest.",
        {
            "from_dlpack": lambda: cupy_takes("from_dlpack"),
            "asarray": lambda: cupy_takes("asarray"),
            "convert": cupy_convert,
        },
        lambda: version("cupy-cuda12x"),
    ),
    "dpnp-device": Row(
        "dpnp on its device",
        "Unified memory of a oneAPI device, which is the CPU: to fastdl and back, and to the host.",
        {
            **{f"there and back, {n}": lambda v=v: device_and_back(v) for n, v in VIEWS.items()},
            **{f"to the host, {n}": lambda v=v: device_to_host(v) for n, v in VIEWS.items()},
        },
        lambda: version("dpnp"),
    ),
    "rust": Row(
        "Rust",
        "An extension with the structs of DLPack as Rust crates define them, that knows no fastdl.",
        {
            **{
                f"made in Rust, {capsule} capsule, {layout}": lambda f=first, v=number: rust_made(
                    f, v
                )
                for number, capsule in enumerate(("legacy", "versioned"))
                for first, layout in enumerate(("row-major", "column-major"))
            },
            "made in Rust, legacy capsule, not taken": lambda: rust_unused(False),
            "made in Rust, versioned capsule, not taken": lambda: rust_unused(True),
            "made in Rust, by table": rust_makes_by_table,
            **{
                f"taken by Rust, {capsule} capsule, {layout}": lambda b=build, v=number: rust_takes(
                    b, v
                )
                for number, capsule in ((None, "legacy"), ((1, 0), "versioned"))
                for layout, build in {
                    "compact": grid_of_six,
                    "transposed": lambda: grid_of_six().T,
                    "negative stride": lambda: grid_of_six()[::-1],
                    "no elements": lambda: grid_of_six()[:0],
                }.items()
            },
            "taken by Rust, owned by table": lambda: rust_table("total_owned"),
            "taken by Rust, borrowed by table": lambda: rust_table("total_borrowed"),
        },
        rustc_version,
    ),
}
