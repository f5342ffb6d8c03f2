# SPDX-License-Identifier: Apache-2.0
"""Each way in which fastdl makes a producer, on the memory of a NumPy array, which it keeps."""

import functools
import sys
import sysconfig
from pathlib import Path

import pytest

import fastdl
from tests.support import consumer
from tests.support.build import (
    SOURCES,
    compile_source,
    compiled_once,
    folder,
    load_module,
    run_compiler,
)
from tests.support.c_producers import ALONE, INSTALLED, LIMITED_API, describe, given
from tests.support.cxx import binding


@fastdl.producer("array")
class Decorated:
    def __init__(self, array):
        self.array = array


KEPT = {}


def by_pointer(array):
    """Its deleter, and nothing else, ends the array's life: once, since a second call raises."""
    says = describe(array)
    KEPT[id(array)] = array
    return fastdl.from_pointer(
        says["data"],
        says["shape"],
        array.dtype,
        strides=says["strides"],
        deleter=functools.partial(KEPT.pop, id(array)),
        readonly=says["flags"] == 1,
    )


def bound(library):
    """tests/capi/producers.cpp, bound by nanobind or pybind11."""
    with_a_gil(library)
    name = f"producers_{library}"
    return binding(name, library, SOURCES / "producers.cpp", f"-DMODULE={name}", f"-D{library}_=1")


@functools.cache
def cythonized():
    """The module of tests/capi/producers.pyx."""
    with_a_gil("Cython")
    declarations = Path(fastdl.__file__).parents[1]

    def make(path):
        source = path.with_suffix(".c")
        command = [sys.executable, "-m", "cython", f"-I{declarations}", "-o", source]
        run_compiler([*command, SOURCES / "producers.pyx"])
        compile_source(source, path, "-w")  # generated code, of which we are not the judge

    output = folder() / f"producers{sysconfig.get_config_var('EXT_SUFFIX')}"
    return load_module("producers", compiled_once(output, make))


def with_a_gil(library):
    pytest.importorskip(library)
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip(f"a module of {library} would enable the GIL")


def in_cxx(library):
    return functools.partial(given, bound(library).Given)


#: Each makes, where it can, a function from an array to a producer.
PRODUCERS = {
    "fastdl.Tensor": lambda: fastdl.from_dlpack,
    "from_pointer": lambda: by_pointer,
    "Python": lambda: Decorated,
    "C": lambda: functools.partial(given, ALONE.Lending),
    "C, which lends nothing": lambda: functools.partial(given, ALONE.Exporting),
    "C, static": lambda: functools.partial(given, ALONE.Static),
    "C, with the package": lambda: functools.partial(given, INSTALLED.Roomy),
    "C++, limited API": lambda: functools.partial(given, LIMITED_API.Lending),
    "nanobind": lambda: in_cxx("nanobind"),
    "pybind11": lambda: in_cxx("pybind11"),
    "Cython": lambda: functools.partial(given, cythonized().Given),
}

#: Parameters for a test of each. nanobind compiles its own library first.
EACH = [pytest.param(x, marks=pytest.mark.slow if x == "nanobind" else ()) for x in PRODUCERS]

#: Those whose requests Python reads, which knows the draft of 2022: fastdl.Tensor's.
OF_THE_DRAFT = ("fastdl.Tensor", "from_pointer", "Python")


def ways_to_hold(x):
    """Each way in which C may own a tensor of a producer."""
    yield consumer.take(x.__dlpack__())
    yield consumer.take(x.__dlpack__(max_version=(1, 0)))
    yield consumer.from_object(type(x).__dlpack_c_exchange_api__, x)
