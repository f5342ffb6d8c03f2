"""What is timed of a Tensor's everyday methods: groups of subjects, as in exchanges.py.

The tensors are small, so that the cost is that of the call. The peers are the same methods of an
ndarray; for what an ndarray has not, the nearest cheaper call of fastdl itself.
"""

import pickle

import numpy as np

import fastdl
from benchmarks.native import loops
from benchmarks.timing import Subject, in_c, in_python

Group = tuple[list[Subject], list[Subject]]


def empty_call(x) -> Group:
    return (
        [in_c("an empty call", loops.call, loops.noop, x)],
        [in_python("an empty call", "f(x)", f=loops.noop, x=x)],
    )


def same_method(name: str, array: np.ndarray) -> Group:
    """A method of a Tensor and that of an ndarray."""
    tensor = fastdl.from_dlpack(array)
    c, python = empty_call(array)
    for peer, cls, x in (("fastdl", fastdl.Tensor, tensor), ("numpy", np.ndarray, array)):
        c.append(in_c(peer, loops.call, getattr(cls, name), x))
        python.append(in_python(peer, f"x.{name}()", x=x))
    return c, python


def small() -> np.ndarray:
    return np.arange(16, dtype=np.float32)


def numpy() -> Group:
    tensor = fastdl.from_dlpack(small())
    c, python = empty_call(tensor)
    c += [
        in_c("fastdl", loops.call, fastdl.Tensor.numpy, tensor),
        in_c("np.from_dlpack", loops.call, np.from_dlpack, tensor),
    ]
    python += [
        in_python("fastdl", "x.numpy()", x=tensor),
        in_python("np.from_dlpack", "f(x)", f=np.from_dlpack, x=tensor),
    ]
    return c, python


def copy() -> Group:
    return same_method("copy", small())


def item() -> Group:
    return same_method("item", np.array(1.5))


def tolist() -> Group:
    return same_method("tolist", small())


def tolist_matrix() -> Group:
    return same_method("tolist", np.arange(10_000.0).reshape(100, 100))


def empty() -> Group:
    shape = (4, 4)
    c, python = empty_call(shape)
    for peer, function in (("fastdl", fastdl.empty), ("numpy", np.empty)):
        c.append(in_c(peer, loops.call, function, shape, "float32"))
        python.append(in_python(peer, "f(s, 'float32')", f=function, s=shape))
    return c, python


def empty_of_dtype() -> Group:
    shape = (4, 4)
    c, python = empty_call(shape)
    for peer, function, dtype in (
        ("fastdl", fastdl.empty, fastdl.DType("float32")),
        ("numpy", np.empty, np.dtype("float32")),
    ):
        c.append(in_c(peer, loops.call, function, shape, dtype))
        python.append(in_python(peer, "f(s, t)", f=function, s=shape, t=dtype))
    return c, python


def out_of_band(statement: str) -> Group:
    """Protocol 5, with the memory as a buffer of its own."""
    subjects = []
    for peer, x in (("fastdl", fastdl.from_dlpack(small())), ("numpy", small())):
        buffers: list[pickle.PickleBuffer] = []
        data = pickle.dumps(x, 5, buffer_callback=buffers.append)
        names = {"dumps": pickle.dumps, "loads": pickle.loads, "x": x, "s": data, "b": buffers}
        subjects.append(in_python(peer, statement, **names))
    return [], subjects


def pickled() -> Group:
    return out_of_band("dumps(x, 5, buffer_callback=[].append)")


def unpickled() -> Group:
    return out_of_band("loads(s, buffers=b)")


def attribute(name: str) -> Group:
    tensor = fastdl.from_dlpack(small())
    return [], [
        in_python("fastdl", f"x.{name}", x=tensor),
        in_python("shape", "x.shape", x=tensor),
    ]


def dtype() -> Group:
    return attribute("dtype")


def device() -> Group:
    return attribute("device")


def on_cpu(statement: str, x) -> Group:
    """What moves nothing, and the plain import."""
    return [], [
        in_python("fastdl", statement, f=fastdl.from_dlpack, x=x),
        in_python("from_dlpack(x)", "f(x)", f=fastdl.from_dlpack, x=x),
        *empty_call(x)[1],
    ]


def array_on_cpu() -> Group:
    return on_cpu("f(x, device='cpu')", small())


def tensor_on_cpu() -> Group:
    return on_cpu("f(x, device='cpu')", fastdl.from_dlpack(small()))


def to_cpu() -> Group:
    return on_cpu("x.to('cpu')", fastdl.from_dlpack(small()))


GROUPS = {
    "numpy": numpy,
    "copy": copy,
    "empty": empty,
    "empty_of_dtype": empty_of_dtype,
    "item": item,
    "tolist": tolist,
    "tolist_matrix": tolist_matrix,
    "pickled": pickled,
    "unpickled": unpickled,
    "dtype": dtype,
    "device": device,
    "array_on_cpu": array_on_cpu,
    "tensor_on_cpu": tensor_on_cpu,
    "to_cpu": to_cpu,
}
