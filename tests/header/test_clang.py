# SPDX-License-Identifier: Apache-2.0
"""What clang makes of the headers of C++, with each standard library that is here: the compiler of
macOS reads templates otherwise than GCC. Modules of C that it makes are in test_inclusion.py."""

import re
import shutil

import numpy as np
import pytest

from tests.examples.building import EXAMPLES
from tests.interop.peers import missing
from tests.support.build import ROOT
from tests.support.cxx import binding, compile_cxx
from tests.support.isolate import describe, run_python

pytestmark = pytest.mark.slow

LIBSTDCXX = ("clang++",)
LIBCXX = ("clang++", "-stdlib=libc++")
LINKED = "#include <string>\nstd::string text(const char *x); std::string text(const char *x) {"


@pytest.fixture
def compiler(request, tmp_path):
    """One of these two, if it is here and works."""
    if shutil.which("clang++") is None:
        missing("clang++")
    source = tmp_path / "try.cpp"
    source.write_text(f"{LINKED} return std::string(x); }}\n")
    try:
        compile_cxx("-shared", source, "-o", tmp_path / "try.so", compiler=request.param)
    except RuntimeError:
        missing(" ".join(request.param))
    return request.param


@pytest.mark.parametrize(
    ("library", "compiler"),
    [("nanobind", LIBCXX), ("pybind11", LIBSTDCXX)],
    ids=["nanobind-libc++", "pybind11-libstdc++"],
    indirect=["compiler"],
)
def test_casters_that_clang_made(library, compiler):
    """They pass the tests of those that GCC made, but for what has a process of its own there."""
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/header/test_casters.py", "-k")
    command += (f"{library} and not without and not import and not torch",)
    environment = {"FASTDL_CASTERS_BY": " ".join(compiler)}
    child = run_python(*command, cwd=ROOT, env=environment, timeout=600)
    assert child.returncode == 0, describe(child)
    assert int(re.search(r"(\d+) passed", child.stdout)[1]) > 60


@pytest.mark.parametrize("compiler", [LIBCXX], ids=["libc++"], indirect=True)
@pytest.mark.parametrize("library", ["nanobind", "pybind11"])
def test_examples(library, compiler):
    """With a name that is a string, as C++20 allows."""
    source = EXAMPLES / library / "axpy.cpp"
    axpy = binding("axpy", library, source, "-O0", "-std=c++20", compiler=compiler)
    y = np.ones(3)
    axpy.axpy(2.0, np.arange(3.0), y)
    assert y.tolist() == [1, 3, 5]
    assert axpy.scaled(3.0, y).tolist() == [3, 9, 15]
    with pytest.raises(ValueError, match=r"^x: expected shape \(3,\), got \(2,\)"):
        axpy.axpy(2.0, np.ones(2), y)


KERNEL = """
#include <fastdl/tensor.h>
using Vector = fastdl::tensor<const float, fastdl::ndim<1>>;
double total(const Vector &x);
fastdl::owned<double> total_like(const Vector &x);
"""
FILES = {
    "kernel.cpp": f"""{KERNEL}
double total(const Vector &x)
{{
    double sum = 0;
    for (int64_t i = 0; i < x.size(); i++)
        sum += double(x(i));
    return sum;
}}
fastdl::owned<double> total_like(const Vector &x)
{{
    fastdl::owned<double> result = fastdl::empty<double>({{1}}, x);
    *result.data() = total(x);
    return result;
}}
""",
    "bind.cpp": f"""#include <fastdl/nanobind.h>
{KERNEL}
NB_MODULE(several, m)
{{
    m.def("total", &total);
    m.def("total_like", &total_like);
}}
""",
}


@pytest.mark.parametrize("compiler", [LIBCXX], ids=["libc++"], indirect=True)
def test_a_module_of_several_files(compiler, tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    rest = (tmp_path / "kernel.cpp", "-x", "c++", ROOT / "include/fastdl/fastdl.c", "-x", "none")
    several = binding("several", "nanobind", tmp_path / "bind.cpp", *rest, compiler=compiler)
    assert several.total(np.arange(4, dtype="float32")) == 6
    assert several.total_like(np.arange(4, dtype="float32")).tolist() == [6]
    with pytest.raises(TypeError, match="^argument: expected float32, got float64"):
        several.total(np.ones(3))
