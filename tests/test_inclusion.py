"""What each file of an extension module that includes fastdl.h adds to the module, and what its
files share."""

import importlib.util
import itertools
import re
import shutil
import subprocess
import sys
import sysconfig

import numpy as np
import pytest

import fastdl
from tests.support.build import ROOT, run_compiler
from tests.support.producers import Given, Producer

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or "gcc" not in (sysconfig.get_config_var("CC") or ""),
    reason="the linker of other systems has its own ways",
)

INCLUDE = ROOT / "include"
LIMITED = "-DPy_LIMITED_API=0x030a0000"
CXX = ("-x", "c++", "-std=c++17")

# A file of a module: one function that takes a float32 vector.
FILE = """
#include <fastdl/fastdl.h>

#ifdef __cplusplus
extern "C"
#endif
PyObject *total_NUMBER(PyObject *module, PyObject *argument)
{
    static const uint32_t types[] = {FASTDL_FLOAT32};
    fastdl_spec spec = {types, 1, 1, NULL, 0, 0, 0, 0, NULL, NULL, 0};
    fastdl_view x;
    float sum = 0;
    (void)module;
    if (fastdl_borrow(argument, &x) < 0 || fastdl_expect(&x, "x", &spec) < 0) {
        fastdl_release(&x);
        return NULL;
    }
    for (int64_t i = 0; i < x.dl.shape[0]; i++)
        sum += ((const float *)x.dl.data)[i * x.dl.strides[0]];
    fastdl_release(&x);
    return PyFloat_FromDouble(sum);
}
"""
MODULE = """
#include <Python.h>

DECLARATIONS
static PyMethodDef methods[] = {ENTRIES {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "NAME", NULL, 0, methods,
                                        NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_NAME(void) { return PyModule_Create(&definition); }
"""
_names = (f"inclusion_{number}" for number in itertools.count())


def build(folder, files, *link_flags):
    """The path of a module of these files, each a tuple of flags for the compiler."""
    name = next(_names)
    module = MODULE.replace("NAME", name)
    numbers = range(len(files))
    declared = (f"PyObject *total_{i}(PyObject *, PyObject *);\n" for i in numbers)
    entries = (f'{{"total_{i}", total_{i}, METH_O, NULL}},' for i in numbers)
    module = module.replace("DECLARATIONS", "".join(declared)).replace("ENTRIES", "".join(entries))
    objects = []
    for i, (source, flags) in enumerate([(FILE, flags) for flags in files] + [(module, ())]):
        path = folder / f"{name}_{i}.c"
        path.write_text(source.replace("NUMBER", str(i)))
        objects.append(path.with_suffix(".o"))
        command = ["gcc", "-O2", "-fPIC", f"-I{sysconfig.get_path('include')}", "-c", path]
        include = () if any(str(flag).startswith("-I") for flag in flags) else (f"-I{INCLUDE}",)
        run_compiler([*command, *include, *flags, "-o", objects[-1]])
    output = folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    run_compiler(["gcc", "-shared", *link_flags, *objects, "-o", output])
    return output


def load(path):
    name = path.name.split(".")[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def size(path):
    """Bytes of code and data as linked, and of memory that is zero at first."""
    answer = subprocess.run(["size", path], capture_output=True, text=True, check=True).stdout
    text, data, zero, *_ = map(int, answer.splitlines()[1].split()[:3])
    return text + data, zero


@pytest.mark.parametrize("flags", [(), (LIMITED,), CXX], ids=["full", "limited", "c++"])
def test_a_further_file_is_small(tmp_path, flags):
    one, four = size(build(tmp_path, [flags])), size(build(tmp_path, [flags] * 4))
    assert (four[0] - one[0]) / 3 < 4000
    assert (four[1] - one[1]) / 3 < 100


def use(module, count):
    """Each file of a module takes what fits, and refuses all else in the same words."""
    for i in range(count):
        total = getattr(module, f"total_{i}")
        assert total(np.arange(5, dtype="float32")[::-2]) == 6
        assert total(Producer(Given(shape=(3,), strides=(1,)))) is not None
        with pytest.raises(TypeError, match=r"^x: expected float32, got int8: convert it first"):
            total(np.zeros(3, "int8"))
        with pytest.raises(ValueError, match=r"^x: expected 1 dimension, got 2: reshape it"):
            total(np.zeros((3, 3), "float32"))
        with pytest.raises(BufferError, match="the tensor has a negative dimension"):
            total(Producer(Given(shape=(-3,))))
        with pytest.raises(TypeError, match="list"):
            total([1.0])


KINDS = {
    "not optimised": [("-O0",)] * 2,
    "fully optimised": [("-O3",)] * 2,
    "small": [("-Os",)] * 2,
    "each in its way": [("-O0",), ("-O2",), ("-O3", LIMITED), (*CXX, "-O1"), (*CXX, "-O0")],
    "C++ first": [CXX, (), CXX],
    "one by itself": [("-DFASTDL_STATIC",), (), ("-DFASTDL_STATIC", *CXX), ()],
    "without Python first": [("-DFASTDL_NO_PYTHON", "-include", "fastdl/fastdl.h"), ()],
    "for a debugger": [("-g",)] * 2,
}


@pytest.mark.parametrize("kind", [*KINDS, "other linker", "optimised when linked"])
def test_files_of_a_module(tmp_path, kind):
    files = KINDS.get(kind, [(), (), CXX])
    link = ()
    if kind == "other linker":
        if shutil.which("ld.gold") is None:
            pytest.skip("no gold")
        link = ("-fuse-ld=gold",)
    if kind == "optimised when linked":
        files, link = [("-flto",), ("-flto",), (*CXX, "-flto")], ("-flto", "-O2")
    if kind == "without Python first":
        files = [(f"-I{INCLUDE}", *files[0], "-UFASTDL_NO_PYTHON"), *files[1:]]
    use(load(build(tmp_path, files, *link)), len(files))


def symbols(path, kinds):
    lines = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in lines.splitlines())
    return {row[-1] for row in rows if row[-2] in kinds}


@pytest.mark.parametrize("flags", [(), (LIMITED,), CXX], ids=["full", "limited", "c++"])
def test_what_files_share_is_named_by_the_release(tmp_path, flags):
    """A function or variable that lacks it is missing in the list of names of fastdl.h."""
    build(tmp_path, [flags])
    (path,) = tmp_path.glob("*_0.o")
    shared = symbols(path, "WVu")
    release = fastdl.__version__.replace(".", "_")
    assert [name for name in shared if not name.endswith(release)] == []
    assert len(shared) > 50
    assert symbols(path, "TDBRC") == {"total_0"}


def test_no_name_in_the_list_is_left_over():
    header = (INCLUDE / "fastdl" / "fastdl.h").read_text()
    names = re.findall(r"^#define (\w+) FASTDL_NAME_\(\1\)$", header, re.MULTILINE)
    assert names == sorted(names)
    assert [name for name in names if len(re.findall(rf"\b{name}\b", header)) < 3] == []


def test_libraries_of_two_releases_in_one_module(tmp_path):
    """The other one has room for shorter messages, in structs that it shares with nobody."""
    folder = tmp_path / "other" / "fastdl"
    shutil.copytree(INCLUDE / "fastdl", folder)
    release = fastdl.__version__.replace(".", "_")
    text = (folder / "fastdl.h").read_text()
    assert release in text
    assert "char text[1024];" in text
    text = text.replace(release, "77_0").replace("char text[1024];", "char text[20];")
    (folder / "fastdl.h").write_text(text)
    for files in [((), (f"-I{folder.parent}",)), ((f"-I{folder.parent}",), ())]:
        module = load(build(tmp_path, files))
        for i, flags in enumerate(files):
            with pytest.raises(TypeError) as caught:
                getattr(module, f"total_{i}")(np.zeros(3, "int8"))
            message = str(caught.value)
            expected = "x: expected float32, got int8: convert it first"[: 19 if flags else 99]
            assert message.startswith(f"{expected} (x is "), message
