"""Extension modules in C++ that were compiled with headers of two releases, in one process. No
flag hides their symbols, so that the dynamic linker merges all that the headers leave open."""

import shutil
import sysconfig

import pytest

import fastdl
from tests.support.build import ROOT, run_compiler
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

using Matrix = fastdl::tensor<const float, fastdl::shape<2, 3>, fastdl::c_contiguous>;
using Kept = fastdl::owned<fastdl::any_of<const float, const int32_t>, fastdl::ndim<1>>;

/* The kept vector's dtype, size and first stride, or the last dimension of a matrix. */
static PyObject *take(PyObject *, PyObject *argument)
{
    try {
        if (PyErr_Occurred() || PyObject_HasAttrString(argument, "kept") == 0) {
            fastdl::loan<Matrix> loan(argument);
            const Matrix &x = loan.get();
            return Py_BuildValue("(sLi)", "borrowed", (long long)x.shape(1), int(x(1, 2)));
        }
        PyObject *inner = PyObject_GetAttrString(argument, "kept");
        Kept first(inner), second = std::move(first);
        Py_DECREF(inner);
        fastdl::owned<float> made = fastdl::empty<float>({4}, second);
        return Py_BuildValue("(sLL)", "kept", (long long)second.size(), (long long)made.size());
    } catch (const fastdl::python_error &) {
        return nullptr;
    }
}

static PyMethodDef methods[] = {{"take", take, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};
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
    for dtype in "float32", "int32":
        vector = types.SimpleNamespace(kept=np.zeros(7, dtype))
        assert module.take(vector) == ("kept", 7, 4), module
    for wrong, error, words in [
        (matrix.T, ValueError, "expected shape (2, 3), got (3, 2)"),
        (matrix.astype("int8"), TypeError, "expected float32, got int8"),
        (types.SimpleNamespace(kept=np.zeros(7)), TypeError, "expected float32 or int32, got fl"),
        ([], TypeError, "list"),
    ]:
        try:
            module.take(wrong)
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
    """(path, name) of the two modules, by the optimisation they were compiled with."""
    folder = tmp_path_factory.mktemp("modules")
    found = {}
    for level in ("-O0", "-O2"):
        for release, include in (("this", INCLUDE.parent), ("other", other)):
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
@pytest.mark.parametrize("order", [("this", "other"), ("other", "this")])
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_each_module_goes_by_its_own_header(modules, level, order, flag):
    paths = [modules[release, level] for release in order]
    code = USE.replace("FLAG", flag).replace("PATHS", repr(paths))
    assert run_isolated(code) == "done\n"


def test_a_class_of_the_author_may_have_such_members(tmp_path):
    """And be visible to other modules itself, as classes are by default."""
    source = tmp_path / "member.cpp"
    source.write_text(
        "#include <fastdl/tensor.h>\n#include <vector>\n"
        "struct Holder { fastdl::owned<const float> x; std::vector<fastdl::owned<>> more; };\n"
        "std::size_t size(const Holder &held);\n"
        "std::size_t size(const Holder &held) { return held.more.size(); }\n"
    )
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-c", f"-I{INCLUDE.parent}"]
    python = sysconfig.get_path("include")
    run_compiler([*command, "-isystem", python, source, "-o", tmp_path / "member.o"])
