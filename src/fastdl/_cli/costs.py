"""What bench measures of each library, in its own process: see probe.py."""

from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import fastdl
from fastdl._cli.budgets import BUDGETS
from fastdl._cli.expression import evaluate
from fastdl._cli.libraries import BY_NAME
from fastdl._cli.timing import compared, interleave, names_in, subject


class Row(NamedTuple):
    """Two statements. `x` is an array of the library, `ndarray` one of NumPy, `tensor` a
    fastdl.Tensor, each of six float32. Other names are modules; where one is not installed, the row
    is left out."""

    ours: str
    peer: str  # what a user of the library would write
    budget: str = ""  # its key in BUDGETS

    @property
    def both(self) -> str:
        return f"({self.ours}, {self.peer})"


NUMPY = (
    Row("fastdl.from_dlpack(ndarray)", "numpy.from_dlpack(ndarray)", "from_numpy/numpy"),
    Row("numpy.from_dlpack(tensor)", "numpy.from_dlpack(ndarray)", "into_numpy/numpy"),
    Row(
        "tensor.__dlpack__(max_version=(1, 0))",
        "ndarray.__dlpack__(max_version=(1, 0))",
        "export/numpy",
    ),
    Row("tensor.numpy()", "numpy.from_dlpack(tensor)", "numpy/np.from_dlpack"),
    Row("tensor.copy()", "ndarray.copy()", "copy/numpy"),
    Row("fastdl.empty((4, 4), 'float32')", "numpy.empty((4, 4), 'float32')", "empty/numpy"),
    Row("tensor.tolist()", "ndarray.tolist()", "tolist/numpy"),
    Row("tensor.dtype", "tensor.shape", "dtype/shape"),
    Row("tensor.device", "tensor.shape", "device/shape"),
    Row("tensor.to('cpu')", "fastdl.from_dlpack(tensor)", "to_cpu/from_dlpack(x)"),
)
#: Library -> what is timed of it.
ROWS = {
    "numpy": NUMPY,
    "torch": (
        Row("fastdl.from_dlpack(x)", "torch.from_dlpack(x)"),
        Row("fastdl.from_dlpack(x)", "tvm_ffi.from_dlpack(x)", "from_torch/tvm_ffi"),
        Row("torch.from_dlpack(tensor)", "torch.from_dlpack(ndarray)"),
        Row("fastdl.convert(x, numpy.ndarray)", "x.numpy()", "torch_to_numpy/own"),
        Row(
            "fastdl.convert(ndarray, torch.Tensor)",
            "torch.from_numpy(ndarray)",
            "numpy_to_torch/own",
        ),
        Row(
            "fastdl.convert(tensor, torch.Tensor)",
            "torch.from_dlpack(tensor)",
            "tensor_to_torch/own",
        ),
    ),
    "jax": (
        Row("fastdl.from_dlpack(x)", "x.__dlpack__()", "from_jax/own"),
        Row("jax.dlpack.from_dlpack(tensor)", "jax.dlpack.from_dlpack(ndarray)"),
        Row("fastdl.convert(x, numpy.ndarray)", "numpy.asarray(x)", "jax_to_numpy/own"),
        Row("fastdl.convert(ndarray, jax.Array)", "jax.dlpack.from_dlpack(ndarray)"),
        Row("fastdl.convert(x, torch.Tensor)", "torch.from_dlpack(x)", "jax_to_torch/own"),
    ),
    "cupy": (
        Row("fastdl.from_dlpack(x)", "cupy.from_dlpack(x)"),
        Row("cupy.from_dlpack(fastdl.from_dlpack(x))", "cupy.from_dlpack(x)"),
    ),
    "mlx": (
        Row("fastdl.from_dlpack(x)", "x.__dlpack__()", "from_mlx/own"),
        Row("fastdl.convert(x, numpy.ndarray)", "numpy.asarray(x)"),
        Row("fastdl.convert(ndarray, mlx.core.array)", "mlx.core.array(ndarray)"),
    ),
    "tvm_ffi": (
        Row("fastdl.from_dlpack(x)", "numpy.from_dlpack(ndarray)", "from_tvm_ffi/numpy"),
        Row("fastdl.from_dlpack(ndarray)", "tvm_ffi.from_dlpack(ndarray)"),
        Row("tvm_ffi.from_dlpack(tensor)", "tvm_ffi.from_dlpack(ndarray)"),
        Row("fastdl.convert(x, numpy.ndarray)", "numpy.from_dlpack(x)"),
        Row("fastdl.convert(ndarray, tvm_ffi.Tensor)", "tvm_ffi.from_dlpack(ndarray)"),
    ),
    "pyarrow": (
        Row("fastdl.from_dlpack(x)", "x.__dlpack__()"),
        Row("fastdl.convert(x, numpy.ndarray)", "x.to_numpy()"),
        Row("fastdl.convert(ndarray, pyarrow.Array)", "pyarrow.array(ndarray)"),
    ),
    "onnxruntime": (
        Row("fastdl.from_dlpack(x)", "x.__dlpack__()"),
        Row("fastdl.convert(x, numpy.ndarray)", "x.numpy()"),
        Row(
            "fastdl.convert(ndarray, onnxruntime.OrtValue)",
            "onnxruntime.OrtValue.ortvalue_from_numpy(ndarray)",
        ),
    ),
    "dask": (Row("fastdl.asarray(x)", "x.compute()"),),
    "pandas": (Row("fastdl.asarray(x)", "x.to_numpy()"),),
    "polars": (Row("fastdl.asarray(x)", "x.to_numpy()"),),
    "xarray": (Row("fastdl.asarray(x)", "x.to_numpy()"),),
}
MADE_BY = {"ndarray": "numpy"}  # name of an array -> its module
OTHERS = (
    Row("fastdl.from_dlpack(x)", "x.__dlpack__()"),
    Row("fastdl.convert(x, numpy.ndarray)", "numpy.from_dlpack(x)"),
)


def measure(steps, name: str) -> None:
    """Each row is a step, so that a crash loses only the rows after it."""
    library = BY_NAME[name]
    steps.tell("import", lambda: library.version)
    x = steps.do("sample", lambda: evaluate(library.sample))
    tensor = steps.do("tensor", lambda: fastdl.asarray(x).copy())
    if tensor is None:
        return
    names = {"fastdl": fastdl, "x": x, "tensor": tensor}
    for row in rows_of(name):
        modules = {MADE_BY.get(used, used) for used in names_in(row.both) - {*names}}
        if all(map(find_spec, modules)):
            steps.tell(row.both, partial(measured, row, names))


def rows_of(name: str) -> tuple[Row, ...]:
    return ROWS.get(name, OTHERS)


def measured(row: Row, names: dict[str, Any]) -> dict[str, Any]:
    if "ndarray" in names_in(row.both):
        names = {**names, "ndarray": evaluate(BY_NAME["numpy"].sample)}
    samples = interleave(subject(row.ours, names), subject(row.peer, names))
    return judged(compared(samples), row.budget)


def judged(row: dict[str, Any], budget: str) -> dict[str, Any]:
    """The row with its budget, if there is one. No verdict within noise."""
    if budget:
        limit, (low, high) = BUDGETS[budget], row["quartiles"]
        verdict = "held" if high <= limit else "missed" if low > limit else "close"
        row |= {"budget": limit, "verdict": verdict}
    return row
