# SPDX-License-Identifier: Apache-2.0
"""What is timed of the C API: groups of subjects that run interleaved in one process.

Each group returns the subjects of a loop in C and those of a loop in Python, as in exchanges.py.
All peers are compiled by native.py with the same flags.
"""

from collections.abc import Callable

import fastdl
from benchmarks.exchanges import numpy_array, table, torch_tensor
from benchmarks.native import load, loops
from benchmarks.timing import Subject, in_c, in_python

#: Arguments of the functions that are called.
ARGUMENTS = {1: "one", 3: "three", 8: "eight"}

#: Views that keep their bases held by torch's C++ side.
keep: list = []

Subjects = tuple[list[Subject], list[Subject]]


# ---- fastdl_borrow in a loop ----------------------------------------------------------------


def borrowers(source, floor: Subject) -> Subjects:
    """fastdl in its forms, nanobind's import and a floor. No loop in Python: see below."""
    ours, limited = load("with_fastdl"), load("with_fastdl_limited")
    return (
        [
            in_c("fastdl", ours.borrow, source),
            in_c("with fastdl_expect", ours.borrow_expect, source),
            in_c("with a named size", ours.borrow_expect_name, source),
            in_c("limited API", limited.borrow, source),
            in_c("nanobind", load("with_nanobind").borrow, source),
            floor,
        ],
        [],
    )


def alone(source) -> Subject:
    """The header without fastdl_import()."""
    return in_c("header alone", load("with_fastdl_alone").borrow, source)


def borrow_torch() -> Subjects:
    tensor = torch_tensor()
    floor = in_c("the direct call", loops.borrow, table(tensor), tensor)
    return borrowers(tensor, floor)


def borrow_torch_held() -> Subjects:
    """A tensor that torch's C++ side holds too, here as the base of a view. One that only Python
    holds costs torch more: its table makes a C++ reference to it, and the first of those acquires,
    and the last releases, a reference to the Python object, under the GIL."""
    tensor = torch_tensor()
    keep.append(tensor[:])
    floor = in_c("the direct call", loops.borrow, table(tensor), tensor)
    return borrowers(tensor, floor)


def borrow_numpy() -> Subjects:
    array = numpy_array()
    c, python = borrowers(array, in_c("reading the struct", load("direct").array, array))
    return [*c, alone(array)], python


def borrow_tensor() -> Subjects:
    tensor = fastdl.from_dlpack(numpy_array())
    return borrowers(tensor, in_c("the direct call", loops.borrow, table(tensor), tensor))


def borrow_jax() -> Subjects:
    import jax.numpy as jnp

    array = jnp.asarray(numpy_array())
    c, python = borrowers(array, in_c("__dlpack__", loops.call, array.__dlpack__))
    return [*c, alone(array)], python


# ---- a result in a loop ---------------------------------------------------------------------


def results(like: type, *others: Subject) -> Subjects:
    """fastdl_empty and fastdl_wrap of 16 elements, for a caller with objects of a type."""
    return [in_c("fastdl", load("with_fastdl").result, like), *others], []


def result_numpy() -> Subjects:
    import numpy as np

    return results(np.ndarray, in_c("PyArray_SimpleNew", load("direct").result))


def result_torch() -> Subjects:
    import torch

    return results(torch.Tensor, in_c("torch's table", loops.result, table(torch_tensor())))


def result_tensor() -> Subjects:
    return results(
        fastdl.Tensor, in_c("its table", loops.result, fastdl.exchange_api(fastdl.Tensor))
    )


# ---- a function of some tensors -------------------------------------------------------------


def functions(sources: list, callees: dict[str, Callable]) -> Subjects:
    """Each function called with these tensors, in both loops, and an empty call."""
    callees["an empty call"] = load("direct").empty
    names = {f"x{i}": source for i, source in enumerate(sources)}
    statement = f"f({', '.join(names)})"
    return (
        [in_c(name, loops.call, callee, *sources) for name, callee in callees.items()],
        [in_python(name, statement, f=callee, **names) for name, callee in callees.items()],
    )


def of_all(name: str) -> dict[str, Callable]:
    """The function of that name by those who take torch's tensors as well as NumPy's arrays."""
    nanobind = load("with_nanobind")
    callees = {
        "fastdl": getattr(load("with_fastdl"), name),
        "nanobind": getattr(nanobind, name),
        "tvm_ffi": getattr(load("with_tvm_ffi"), name),
    }
    if hasattr(nanobind, f"{name}_cast"):  # once this tree has fastdl/nanobind.h
        callees["fastdl's caster"] = getattr(nanobind, f"{name}_cast")
    return callees


def call_torch(count: int, held: bool = False) -> Subjects:
    """`held`: see borrow_torch_held."""
    tensors = [torch_tensor() for _ in range(count)]
    if held:
        keep.extend(tensor[:] for tensor in tensors)
    direct = load("direct")
    direct.use(table(tensors[0]))
    name = ARGUMENTS[count]
    return functions(tensors, {**of_all(name), "torch's table": getattr(direct, name)})


def call_numpy(count: int) -> Subjects:
    arrays = [numpy_array() for _ in range(count)]
    name = ARGUMENTS[count]
    pybind11 = getattr(load("with_pybind11"), name)
    return functions(arrays, {**of_all(name), "pybind11": pybind11})


# ---- the key of a compiled kernel -----------------------------------------------------------


def by_attributes(*tensors) -> tuple:
    """What is in the key of the example, as a compiler of kernels in Python reads it."""
    return tuple(
        (x.dtype, x.ndim, x.device, x.is_contiguous(), x.data_ptr() % 16 == 0) for x in tensors
    )


def kernel_key() -> Subjects:
    callees = {"fastdl": load("kernel_key").key, "attributes": by_attributes}
    return functions([torch_tensor() for _ in range(3)], callees)


GROUPS = {
    "borrow_torch": borrow_torch,
    "borrow_torch_held": borrow_torch_held,
    "borrow_numpy": borrow_numpy,
    "borrow_tensor": borrow_tensor,
    "result_numpy": result_numpy,
    "result_torch": result_torch,
    "result_tensor": result_tensor,
    **{f"call_torch_{n}": lambda n=n: call_torch(n) for n in ARGUMENTS},
    "call_torch_3_held": lambda: call_torch(3, held=True),
    **{f"call_numpy_{n}": lambda n=n: call_numpy(n) for n in ARGUMENTS},
    "kernel_key": kernel_key,
    "borrow_jax": borrow_jax,  # last: JAX starts threads
}
