# SPDX-License-Identifier: Apache-2.0
"""The highest cost of a call that fastdl allows itself, as a multiple of the alternative's.

A key: what is timed, the alternative.
"""

BUDGETS = {
    # imports and exports
    "from_torch/tvm_ffi": 0.55,
    "from_numpy/numpy": 0.28,
    "from_jax/own": 0.4,
    "from_mlx/own": 1.6,
    "from_tvm_ffi/numpy": 100 / 150,
    "export/numpy": 0.9,
    "export/tvm_ffi": 0.9,
    "into_numpy/numpy": 0.95,
    # conversions; the alternative is the best that the two libraries offer themselves
    "torch_to_numpy/own": 0.4,
    "numpy_to_torch/own": 0.75,
    "tensor_to_torch/own": 0.25,
    "jax_to_torch/own": 0.25,
    "jax_to_numpy/own": 0.8,
    "tree_to_torch/four calls": 1.15,
    "tree_to_numpy/four calls": 1.6,
    "tree_to_torch/gymnasium": 1.0,
    "by_module/type": 1.2,
    "by_device/type": 1.2,
    # methods of a Tensor; compared with a cheaper call of fastdl where an ndarray has none
    "numpy/np.from_dlpack": 1.0,
    "copy/numpy": 2.0,
    "empty/numpy": 2.5,
    "empty_of_dtype/numpy": 2.5,
    "item/numpy": 3.0,
    "tolist/numpy": 1.3,
    "tolist_matrix/numpy": 1.3,
    "pickled/numpy": 1.5,
    "unpickled/numpy": 1.5,
    "dtype/shape": 3.0,
    "device/shape": 3.0,
    "array_on_cpu/from_dlpack(x)": 4.0,
    "tensor_on_cpu/from_dlpack(x)": 4.0,
    "to_cpu/from_dlpack(x)": 4.0,
    # a file of eight functions, compiled: benchmarks.bindings
    "eight/seconds": 1.2,
    "eight/bytes": 1.8,
    # a fresh process
    "import/numpy": 0.05,
}
