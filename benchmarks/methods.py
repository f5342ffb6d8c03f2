# SPDX-License-Identifier: Apache-2.0
"""What is timed of a Tensor's everyday methods: groups of subjects, as in exchanges.py.

The tensors are small, so that the cost is that of the call. The peers are the same methods of an
ndarray; for what an ndarray has not, the nearest cheaper call of fastdl itself. All are methods or
attributes for users of Python, so there is no loop in C.
"""

import pickle

import numpy as np

import fastdl
from benchmarks.native import loops
from benchmarks.timing import Subject, in_python

Group = tuple[list[Subject], list[Subject]]


def in_turns(*subjects: Subject) -> Group:
    return [], [*subjects, in_python("an empty call", "f(x)", f=loops.noop, x=None)]


def compared(peer: str, ours: str, theirs: str, **names) -> Group:
    """Two statements with the same names."""
    return in_turns(in_python("fastdl", ours, **names), in_python(peer, theirs, **names))


def of_array(statement: str, ours: dict, theirs: dict) -> Group:
    """The same statement for fastdl and for NumPy, each with names of its own."""
    return in_turns(in_python("fastdl", statement, **ours), in_python("numpy", statement, **theirs))


def small() -> np.ndarray:
    return np.arange(16, dtype=np.float32)


def tensor() -> fastdl.Tensor:
    return fastdl.from_dlpack(small())


def numpy() -> Group:
    return compared("np.from_dlpack", "x.numpy()", "f(x)", f=np.from_dlpack, x=tensor())


def method(name: str, array: np.ndarray) -> Group:
    return of_array(f"x.{name}()", {"x": fastdl.from_dlpack(array)}, {"x": array})


def empty(ours, theirs) -> Group:
    names = {"s": (4, 4)}
    return of_array(
        "f(s, t)",
        {**names, "f": fastdl.empty, "t": ours},
        {**names, "f": np.empty, "t": theirs},
    )


def out_of_band(statement: str) -> Group:
    """Protocol 5, with the memory as a buffer of its own."""
    both = []
    for x in (tensor(), small()):
        buffers: list[pickle.PickleBuffer] = []
        data = pickle.dumps(x, 5, buffer_callback=buffers.append)
        both.append({"dumps": pickle.dumps, "loads": pickle.loads, "x": x, "s": data, "b": buffers})
    return of_array(statement, *both)


def attribute(name: str) -> Group:
    return compared("shape", f"x.{name}", "x.shape", x=tensor())


def on_cpu(statement: str, x) -> Group:
    """What moves nothing, and the plain import."""
    return compared("from_dlpack(x)", statement, "f(x)", f=fastdl.from_dlpack, x=x)


GROUPS = {
    "numpy": numpy,
    "copy": lambda: method("copy", small()),
    "empty": lambda: empty("float32", "float32"),
    "empty_of_dtype": lambda: empty(fastdl.DType("float32"), np.dtype("float32")),
    "item": lambda: method("item", np.array(1.5)),
    "tolist": lambda: method("tolist", small()),
    "tolist_matrix": lambda: method("tolist", np.arange(10_000.0).reshape(100, 100)),
    "pickled": lambda: out_of_band("dumps(x, 5, buffer_callback=[].append)"),
    "unpickled": lambda: out_of_band("loads(s, buffers=b)"),
    "dtype": lambda: attribute("dtype"),
    "device": lambda: attribute("device"),
    "array_on_cpu": lambda: on_cpu("f(x, device='cpu')", small()),
    "tensor_on_cpu": lambda: on_cpu("f(x, device='cpu')", tensor()),
    "to_cpu": lambda: on_cpu("x.to('cpu')", tensor()),
}
