# SPDX-License-Identifier: Apache-2.0
"""What is timed of convert: each pair with the best way that the two libraries have themselves.

Groups of subjects as in exchanges.py. The subject "fastdl" is fastdl.convert, unless the group is
about an import.
"""

from types import ModuleType

import fastdl
from benchmarks.exchanges import numpy_array, table, torch_tensor
from benchmarks.native import loops
from benchmarks.timing import Subject, in_c, in_python


def jax_array():
    import jax.numpy as jnp

    return jnp.ones(16, jnp.float32)


def conversion(source, like, own) -> tuple[list[Subject], list[Subject]]:
    """fastdl.convert(source, like) and own(source), in both loops."""
    c = [
        in_c("fastdl", loops.call, fastdl.convert, source, like),
        in_c("own", loops.call, own, source),
        in_c("an empty call", loops.call, loops.noop, source),
    ]
    python = [
        in_python("fastdl", "f(x, like)", f=fastdl.convert, x=source, like=like),
        in_python("own", "f(x)", f=own, x=source),
        in_python("an empty call", "f(x)", f=loops.noop, x=source),
    ]
    return c, python


def torch_to_numpy():
    import numpy as np
    import torch

    c, python = conversion(torch_tensor(), np.ndarray, torch.Tensor.numpy)
    return [*c, in_c("torch's table", loops.borrow, table(torch.Tensor), torch_tensor())], python


def numpy_to_torch():
    import torch

    array = numpy_array()
    c, python = conversion(array, torch.Tensor, torch.from_numpy)
    floor = in_c("both tables", loops.pass_on, table(array), table(torch.Tensor), array)
    return [*c, floor], python


def tensor_to_torch():
    import torch

    tensor = fastdl.from_dlpack(numpy_array())
    c, python = conversion(tensor, torch.Tensor, torch.from_dlpack)
    floor = in_c("both tables", loops.pass_on, table(tensor), table(torch.Tensor), tensor)
    return [*c, floor], python


def jax_to_torch():
    import torch

    return conversion(jax_array(), torch.Tensor, torch.from_dlpack)


def jax_to_numpy():
    import numpy as np

    array = jax_array()
    c, python = conversion(array, np.ndarray, np.asarray)
    return [*c, in_c("its buffer", loops.lock, array)], python


def importing(source, own) -> tuple[list[Subject], list[Subject]]:
    """fastdl.from_dlpack(source) and own(source)."""
    return (
        [
            in_c("fastdl", loops.call, fastdl.from_dlpack, source),
            in_c("own", loops.call, own, source),
        ],
        [
            in_python("fastdl", "f(x)", f=fastdl.from_dlpack, x=source),
            in_python("own", "f(x)", f=own, x=source),
        ],
    )


def from_jax():
    array = jax_array()
    return importing(array, type(array).__dlpack__)


def from_mlx():
    import mlx.core as mx

    array = mx.ones(16)
    mx.eval(array)
    return importing(array, type(array).__dlpack__)


def from_tvm_ffi():
    """Compared with NumPy's import of an array."""
    import numpy as np
    import tvm_ffi

    array = numpy_array()
    tensor = tvm_ffi.from_dlpack(array)
    c, python = importing(tensor, type(tensor).__dlpack__)
    c.append(in_c("numpy", loops.call, np.from_dlpack, array))
    python.append(in_python("numpy", "f(x)", f=np.from_dlpack, x=array))
    return c, python


def compared(statement, **names):
    """A call of convert that names the library, or the device, and the same with the type."""
    names["f"] = fastdl.convert
    return [], [in_python("fastdl", statement, **names), in_python("type", "f(x, like)", **names)]


def by_module():
    import torch

    module = ModuleType("re-exporting")
    module.from_dlpack = torch.from_dlpack
    return compared("f(x, module)", x=numpy_array(), module=module, like=torch.Tensor)


def by_device():
    import numpy as np

    return compared("f(x, like, device='cpu')", x=torch_tensor(), like=np.ndarray)


def tree(sources, like):
    """convert_tree of a dict of four arrays, and four calls of convert."""
    names = dict(zip("abcd", sources, strict=True))
    calls = "; ".join(f"f({name}, like)" for name in names)
    return [], [
        in_python("fastdl", "g(tree, like)", g=fastdl.convert_tree, tree=dict(names), like=like),
        in_python("four calls", calls, f=fastdl.convert, like=like, **names),
    ]


def tree_to_torch():
    """Also by the wrapper of Gymnasium that does that."""
    import torch
    from gymnasium.wrappers.array_conversion import array_conversion, module_namespace

    arrays = [numpy_array() for _ in range(4)]
    c, python = tree(arrays, torch.Tensor)
    names = {"tree": dict(zip("abcd", arrays, strict=True)), "xp": module_namespace(torch)}
    return c, [*python, in_python("gymnasium", "f(tree, xp)", f=array_conversion, **names)]


def tree_to_numpy():
    import numpy as np

    return tree([torch_tensor() for _ in range(4)], np.ndarray)


GROUPS = {
    "tree_to_torch": tree_to_torch,
    "tree_to_numpy": tree_to_numpy,
    "by_module": by_module,
    "by_device": by_device,
    "torch_to_numpy": torch_to_numpy,
    "numpy_to_torch": numpy_to_torch,
    "tensor_to_torch": tensor_to_torch,
    "jax_to_torch": jax_to_torch,
    "jax_to_numpy": jax_to_numpy,
    "from_jax": from_jax,
    "from_mlx": from_mlx,
    "from_tvm_ffi": from_tvm_ffi,
}
