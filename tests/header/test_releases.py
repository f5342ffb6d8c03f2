# SPDX-License-Identifier: Apache-2.0
"""Extension modules in C++ that were compiled with headers of two releases, in one process. No
flag hides their symbols, so that the dynamic linker merges all that the headers leave open."""

import re
import shutil
import sysconfig

import pytest

import fastdl
from tests.support.build import ROOT, run_compiler
from tests.support.cxx import headers
from tests.support.isolate import run_isolated

pytestmark = pytest.mark.slow

INCLUDE = ROOT / "include" / "fastdl"

# What another release may change: the layouts of structs that a module uses for itself. Old text:
# new text, by file.
CHANGES = {
    "fastdl.h": [
        ("    const uint32_t *dtypes;", "    int64_t more[6];\n    const uint32_t *dtypes;"),
    ],
    "tensor.h": [
        (
            "    fastdl_view view;\n    PyTypeObject *type;",
            "    PyTypeObject *type;\n    int64_t more[4];\n    fastdl_view view;",
        )
    ],
}

MODULE = """
#define FASTDL_IMPLEMENTATION
#include <fastdl/tensor.h>

/* How the module throws, as a binding library would set it. */
namespace
{
struct raised : std::exception {};
const bool throws = (fastdl::detail::throw_error = [] { throw raised(); }, true);
} // namespace

using Matrix = fastdl::tensor<const float, fastdl::shape<2, 3>, fastdl::c_contiguous>;
using Kept = fastdl::owned<fastdl::any_of<const float, const int32_t>, fastdl::ndim<1>>;

/* The kept vector's dtype, size and first stride, or the last dimension of a matrix. */
static PyObject *take(PyObject *, PyObject *argument)
{
    try {
        if (!throws || PyErr_Occurred() || PyObject_HasAttrString(argument, "kept") == 0) {
            fastdl::loan<Matrix> loan(argument);
            const Matrix &x = loan.get();
            return Py_BuildValue("(sLi)", "borrowed", (long long)x.shape(1), int(x(1, 2)));
        }
        PyObject *inner = PyObject_GetAttrString(argument, "kept");
        Kept first(inner), second = std::move(first);
        Py_DECREF(inner);
        fastdl::owned<float> made = fastdl::empty<float>({4}, second);
        return Py_BuildValue("(sLL)", "kept", (long long)second.size(), (long long)made.size());
    } catch (const raised &) {
        return nullptr;
    }
}

/* The size of a vector that is kept, without constraints but its type. */
static PyObject *own(PyObject *, PyObject *argument)
{
    try {
        fastdl::owned<const float> kept(argument);
        return PyLong_FromLongLong(kept.get().as<const float>().size());
    } catch (const raised &) {
        return nullptr;
    }
}

static PyMethodDef methods[] = {
    {"take", take, METH_O, nullptr}, {"own", own, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "NAME", nullptr, 0, methods,
                                 nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_NAME()
{
    return PyModule_Create(&definition);
}
"""

USE = """
import importlib.util, os, sys, types
import numpy as np

sys.setdlopenflags(os.RTLD_NOW | FLAG)  # with RTLD_GLOBAL even ordinary symbols are merged

def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

modules = [load(path, name) for path, name in PATHS]
matrix = np.arange(6, dtype="float32").reshape(2, 3)
for module in modules * 2:
    assert module.take(matrix) == ("borrowed", 3, 5), module
    assert module.own(matrix) == 6
    for dtype in "float32", "int32":
        vector = types.SimpleNamespace(kept=np.zeros(7, dtype))
        assert module.take(vector) == ("kept", 7, 4), module
    for wrong, error, words, *function in [
        (matrix.T, ValueError, "expected shape (2, 3), got (3, 2)"),
        (matrix.astype("int8"), TypeError, "expected float32, got int8"),
        (types.SimpleNamespace(kept=np.zeros(7)), TypeError, "expected float32 or int32, got fl"),
        (np.zeros(7), TypeError, "expected float32, got float64", module.own),
        ([], TypeError, "list"),
    ]:
        try:
            (*function, module.take)[0](wrong)
        except error as caught:
            assert words in str(caught), caught
        else:
            raise AssertionError(module, wrong)
print("done")
"""


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """The include folder of another release."""
    folder = tmp_path_factory.mktemp("other")
    shutil.copytree(INCLUDE, folder / "fastdl")
    release = fastdl.__version__.replace(".", "_")
    for name in ("fastdl.h", "tensor.h"):
        path = folder / "fastdl" / name
        text = path.read_text()
        for old, new in CHANGES[name]:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        path.write_text(text.replace(release, "77_0"))
    return folder


@pytest.fixture(scope="module")
def modules(other, tmp_path_factory):
    """(path, name) of the modules, by the optimisation they were compiled with: "same" is another
    of this release."""
    folder = tmp_path_factory.mktemp("modules")
    found = {}
    this = INCLUDE.parent
    for level in ("-O0", "-O2"):
        for release, include in (("this", this), ("same", this), ("other", other)):
            name = f"release_{release}_{level[1:]}"
            source = folder / f"{name}.cpp"
            source.write_text(MODULE.replace("NAME", name))
            output = folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
            command = ["g++", "-std=c++17", "-fPIC", "-shared", level, f"-I{include}"]
            command += ["-isystem", sysconfig.get_path("include"), source, "-o", output]
            run_compiler(command)
            found[release, level] = (str(output), name)
    return found


@pytest.mark.parametrize("flag", ["os.RTLD_LOCAL", "os.RTLD_GLOBAL"])
@pytest.mark.parametrize("order", [("this", "other"), ("other", "this"), ("this", "same")])
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_each_module_goes_by_its_own_header(modules, level, order, flag):
    paths = [modules[release, level] for release in order]
    code = USE.replace("FLAG", flag).replace("PATHS", repr(paths))
    assert run_isolated(code) == "done\n"


def in_manual():
    """The class that keeps a tensor in the header."""
    header = (INCLUDE / "tensor.h").read_text()
    text = re.search(r"^ \* +struct Interpolator.*?\};", header, re.DOTALL | re.MULTILINE)[0]
    return text.replace(" * ", "")


MEMBERS = """
struct Half { uint16_t bits; };
template <> struct fastdl::dtype_of<Half> : fastdl::is_float16 {};
inline constexpr char name[] = "x";

using namespace fastdl;
using Input = tensor<const float, ndim<2>, inner_contiguous>;
struct Kept {
    owned<any_of<const float, const int>, shape<any, 3>, c_contiguous, named<name>> a;
    owned<const double, f_contiguous, aligned<64>, asarray, converted> b;
    owned<writable, device::cuda> c;
    owned<const Half, device::any, copied> d;
    std::vector<owned<const float, ndim<1>>> more;
};
struct Lent {
    const Input &x;
    loan<Input> loaned;
    std::function<void(const Input &)> function;
    description &described;
};
struct Raised : python_error {};
"""
FUNCTION = "std::size_t size(const {0} &); std::size_t size(const {0} &x) {{ return sizeof(x); }}"


@pytest.mark.parametrize("standard", ["c++17", "c++20"])
@pytest.mark.parametrize("library", [None, "nanobind", "pybind11"])
def test_classes_of_the_author_may_name_such_classes(tmp_path, library, standard):
    """And be visible to other modules themselves, as classes are by default."""
    lines = [f"#include <fastdl/{library or 'tensor'}.h>", "#include <functional>"]
    lines += ["#include <vector>"]
    lines += ["namespace manual {", in_manual(), FUNCTION.format("Interpolator"), "}"]
    lines += [MEMBERS, *map(FUNCTION.format, ("Kept", "Lent", "Raised"))]
    if standard == "c++20":
        lines += ['struct Named { owned<named<"x">> x; };', FUNCTION.format("Named")]
    source = tmp_path / "member.cpp"
    source.write_text("\n".join([*lines, ""]))
    command = ["g++", f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-c"]
    command += [f"-I{INCLUDE.parent}", "-isystem", sysconfig.get_path("include")]
    command += headers(library) if library else ()
    run_compiler([*command, source, "-o", tmp_path / "member.o"])
