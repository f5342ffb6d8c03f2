# SPDX-License-Identifier: Apache-2.0
"""A row of the report, and why a budget is missed.

Add to REASONS, under the key of its row, why a budget is missed. The report prints it, and fills in
costs of this run: {c/from_torch/tvm_ffi:floors} is the `floors` of the row with that key. So no
reason holds a figure that a later run contradicts.
"""

from dataclasses import dataclass

_TORCH_COUNTS = (
    "for three tensors that only Python holds, torch's exchange table alone takes "
    "{c/call_torch_3/tvm_ffi:floors}, over the target. If C++ holds them, too, the table takes "
    "{c/call_torch_3_held/tvm_ffi:floors}, and the target is met: see "
    "[PyTorch](upstream.md#pytorch)"
)

_TORCH_IMPORT = (
    "torch's own exchange table takes {c/from_torch/tvm_ffi:floors} of the "
    "{c/from_torch/tvm_ffi:ours} of the C loop"
)

_DIMENSIONS = (
    "the target was set on another machine; on this one, NumPy needs "
    "{c/numpy_dimensions:peers} for each dimension"
)

_RESULT = (
    "NumPy's own function makes an array and its memory in "
    "{c/result_numpy/PyArray_SimpleNew:peers}; fastdl's also makes a Tensor, which owns the memory"
)

_ROWS = "both copy whole rows at the speed of memory; two runs differ by more than the miss"

_STRUCT = (
    "the target was set on another machine; on this one, reading the struct alone takes "
    "{c/borrow_numpy:floors}"
)

_ELEMENTS = (
    "both copy one element at a time: the ratios of single processes lie on both sides of the "
    "target"
)

_IMPORT = (
    "most of the time goes to the shared library, and to creating the element types and devices; "
    "`python -X importtime -c 'import fastdl'` shows the rest"
)

_INTO_TORCH = (
    "fastdl's table and torch's alone take {{c/{group}/own:floors}} of the {{c/{group}/own:ours}} "
    "of the C loop"
)

_JAX_BUFFER = (
    "JAX takes {c/jax_to_numpy/own:floors} of the {c/jax_to_numpy/own:ours} of the C loop to lock "
    "and unlock its buffer; `np.asarray` returns an array that JAX has kept since the first call"
)

_MLX_CAPSULE = (
    "the peer is MLX's `__dlpack__`, whose capsule is dropped. MLX's buffer would be quicker, but "
    "does not keep the memory"
)

_TVM_FFI_CALL = (
    "tvm-ffi's own `__dlpack__` takes {c/from_tvm_ffi/own:peers}, and the type has no exchange "
    "table"
)

#: The function that the subject "own" of a group is.
OWN = {
    "numpy_to_torch": "`torch.from_numpy`",
    "torch_to_numpy": "`torch.Tensor.numpy`",
    "tensor_to_torch": "`torch.from_dlpack`",
    "jax_to_torch": "`torch.from_dlpack`",
    "jax_to_numpy": "`np.asarray`",
    "from_mlx": "MLX's own",
    "from_jax": "JAX's own",
}

REASONS: dict[str, str] = {
    "c/call_torch_3/tvm_ffi": _TORCH_COUNTS,
    "python/call_torch_3/tvm_ffi": _TORCH_COUNTS,
    "c/from_torch/tvm_ffi": _TORCH_IMPORT,
    "python/from_torch/tvm_ffi": _TORCH_IMPORT,
    "c/numpy_to_torch/own": _INTO_TORCH.format(group="numpy_to_torch"),
    "python/numpy_to_torch/own": _INTO_TORCH.format(group="numpy_to_torch"),
    "c/tensor_to_torch/own": _INTO_TORCH.format(group="tensor_to_torch"),
    "python/tensor_to_torch/own": _INTO_TORCH.format(group="tensor_to_torch"),
    "c/jax_to_numpy/own": _JAX_BUFFER,
    "python/jax_to_numpy/own": _JAX_BUFFER,
    "c/from_mlx/own": _MLX_CAPSULE,
    "python/from_mlx/own": _MLX_CAPSULE,
    "c/from_tvm_ffi/numpy": _TVM_FFI_CALL,
    "python/from_tvm_ffi/numpy": _TVM_FFI_CALL,
    "c/torch_dimensions": _DIMENSIONS,
    "c/numpy_dimensions": _DIMENSIONS,
    "c/result_numpy/PyArray_SimpleNew": _RESULT,
    "copy/contiguous/numpy": _ROWS,
    "copy/permuted (1, 0, 2)/numpy": _ROWS,
    "copy/every second row/numpy": _ROWS,
    "copy/reversed rows/numpy": _ROWS,
    "copy/reversed/numpy": _ELEMENTS,
    "c/borrow_numpy": _STRUCT,
    "import/numpy": _IMPORT,
    "import/tvm_ffi": _IMPORT,
}


@dataclass
class Row:
    """One line of the report. `value` is what the limit applies to; costs are in `unit`."""

    key: str  # names the row in REASONS and in the JSON
    what: str
    view: str
    unit: str = "ns"
    ours: float | None = None
    peer: str = ""
    peers: float | None = None
    floor: str = ""
    floors: float | None = None
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    value: float | None = None
    limit: float | None = None  # None: shown for comparison, no budget
    budget: str = ""
    failure: str = ""  # why it could not be measured

    @property
    def verdict(self) -> str:
        if self.failure:
            return "not measured"
        if self.limit is None or self.value is None:
            return ""
        return "held" if self.value <= self.limit else "MISSED"
