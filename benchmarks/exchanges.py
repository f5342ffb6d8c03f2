# SPDX-License-Identifier: Apache-2.0
"""What is timed of exchanges: groups of subjects that run interleaved in one process.

In the groups "c/..." the caller is a loop in C (what the call itself costs), in the groups
"python/..." a loop in Python (what a user sees, the interpreter's share included). Each
function returns the subjects of its group, and imports the peers that it needs.
"""

from collections.abc import Callable

import fastdl
from benchmarks.native import loops
from benchmarks.timing import Subject, in_c, in_python

VERSION = (1, 0)
DIMENSIONS = range(1, 9)
SMALL, LARGE = 16, 2**24  # elements of 4 bytes


def table(type_or_object):
    """Its exchange table, fastdl's where it has none of its own."""
    return fastdl.exchange_api(type_or_object)


def numpy_array(*shape):
    import numpy as np

    return np.ones(shape or (SMALL,), dtype=np.float32)


def torch_tensor(*shape):
    import torch

    return torch.ones(shape or (SMALL,))


# ---- from_dlpack ----------------------------------------------------------------------------


def importers(source, *modules) -> tuple[list[Subject], list[Subject]]:
    """from_dlpack(source) of each module, in both loops, and an empty call. In Python it is an
    attribute of the module, as users write it."""
    names = {module.__name__: module for module in modules}
    return (
        [
            *(in_c(name, loops.call, m.from_dlpack, source) for name, m in names.items()),
            in_c("an empty call", loops.call, loops.noop, source),
        ],
        [
            *(in_python(n, f"{n}.from_dlpack(x)", **{n: m, "x": source}) for n, m in names.items()),
            in_python("an empty call", "f(x)", f=loops.noop, x=source),
        ],
    )


def from_torch():
    import tvm_ffi

    tensor = torch_tensor()
    c, python = importers(tensor, fastdl, tvm_ffi)
    return [*c, in_c("torch's table", loops.own, table(tensor), tensor)], python


def from_numpy():
    import numpy as np
    import tvm_ffi

    array = numpy_array()
    c, python = importers(array, fastdl, np, tvm_ffi)
    return [*c, in_c("the bridge's table", loops.own, table(array), array)], python


def into_numpy():
    """np.from_dlpack of a fastdl.Tensor and of an array; the subjects are named by the source."""
    import numpy as np

    array = numpy_array()
    sources = {"fastdl": fastdl.from_dlpack(array), "numpy": array}
    return (
        [
            *(in_c(name, loops.call, np.from_dlpack, x) for name, x in sources.items()),
            in_c("an empty call", loops.call, loops.noop, array),
        ],
        [
            *(in_python(n, "f(x)", f=np.from_dlpack, x=x) for n, x in sources.items()),
            in_python("an empty call", "f(x)", f=loops.noop, x=array),
        ],
    )


# ---- __dlpack__ -----------------------------------------------------------------------------


def export():
    """In C the capsule is consumed and dropped, in Python it is dropped."""
    import tvm_ffi

    array = numpy_array()
    sources = {
        "fastdl": fastdl.from_dlpack(array),
        "numpy": array,
        "tvm_ffi": tvm_ffi.from_dlpack(array),
    }
    names = ("max_version",)
    statement = "x.__dlpack__(max_version=version)"
    return (
        [
            *(in_c(n, loops.export, x, names, VERSION) for n, x in sources.items()),
            in_c("an empty capsule", loops.capsule),
        ],
        [
            *(in_python(n, statement, x=x, version=VERSION) for n, x in sources.items()),
            in_python("an empty call", "f(x)", f=loops.noop, x=array),
        ],
    )


# ---- dependence on the tensor ---------------------------------------------------------------


def by_dimensions(make: Callable, floor: str):
    """fastdl and the table it goes through, from 1 to 8 dimensions."""
    subjects = []
    for ndim in DIMENSIONS:
        source = make(*(2,) * ndim)
        subjects += [
            in_c(f"fastdl {ndim}", loops.call, fastdl.from_dlpack, source),
            in_c(f"{floor} {ndim}", loops.own, table(source), source),
        ]
    return subjects, []


def torch_dimensions():
    return by_dimensions(torch_tensor, "torch's table")


def numpy_dimensions():
    import numpy as np

    subjects, python = by_dimensions(numpy_array, "the bridge's table")
    for ndim in DIMENSIONS:
        array = numpy_array(*(2,) * ndim)
        subjects.append(in_c(f"numpy {ndim}", loops.call, np.from_dlpack, array))
    return subjects, python


def export_dimensions():
    subjects = []
    for ndim in DIMENSIONS:
        array = numpy_array(*(2,) * ndim)
        tensor = fastdl.from_dlpack(array)
        for name, source in (("fastdl", tensor), ("numpy", array)):
            subjects.append(in_c(f"{name} {ndim}", loops.export, source, ("max_version",), VERSION))
    return subjects, []


def data_size():
    """from_dlpack and __dlpack__ of few and of many elements."""
    subjects = []
    for size, elements in (("64 bytes", SMALL), ("64 MiB", LARGE)):
        array, tensor = numpy_array(elements), torch_tensor(elements)
        ours = fastdl.from_dlpack(array)
        subjects += [
            in_c(f"ndarray, {size}", loops.call, fastdl.from_dlpack, array),
            in_c(f"torch, {size}", loops.call, fastdl.from_dlpack, tensor),
            in_c(f"export, {size}", loops.export, ours, ("max_version",), VERSION),
        ]
    return subjects, []


GROUPS = {
    "from_torch": from_torch,
    "from_numpy": from_numpy,
    "export": export,
    "into_numpy": into_numpy,
    "torch_dimensions": torch_dimensions,
    "numpy_dimensions": numpy_dimensions,
    "export_dimensions": export_dimensions,
    "data_size": data_size,
}
