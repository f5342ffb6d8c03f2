# SPDX-License-Identifier: Apache-2.0
"""The two halves of the C interface: what each file that includes fastdl.h adds to its module, and
fastdl.c, which is compiled once."""

import itertools
import shutil
import subprocess
import sys
import sysconfig

import numpy as np
import pytest

import fastdl
from tests.support.build import ROOT, compiled_once, load_module, run_compiler
from tests.support.build import folder as shared_folder
from tests.support.producers import Given, Producer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not sys.platform.startswith("linux") or "gcc" not in (sysconfig.get_config_var("CC") or ""),
        reason="the linker of other systems has its own ways",
    ),
]

INCLUDE = ROOT / "include"
LIMITED = "-DPy_LIMITED_API=0x030a0000"
CXX = ("-x", "c++", "-std=c++17")
IMPLEMENTATION = "-DFASTDL_IMPLEMENTATION"

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


def compile_file(source, output, *flags, compiler="gcc"):
    command = [compiler, "-O2", "-fPIC", f"-I{sysconfig.get_path('include')}"]
    include = () if any(str(flag).startswith("-I") for flag in flags) else (f"-I{INCLUDE}",)
    run_compiler([*command, *include, *flags, "-c", source, "-o", output])
    return output


def cold_half(*flags, compiler="gcc"):
    """The object of fastdl.c as a source of its own; two seconds, so once for all modules."""
    output = shared_folder() / f"fastdl-{compiler}{''.join(flags)}.o"
    source = INCLUDE / "fastdl" / "fastdl.c"
    return compiled_once(output, lambda path: compile_file(source, path, *flags, compiler=compiler))


def build(folder, files, *link_flags, source=None, compiler="gcc", prepare=lambda objects: objects):
    """The path of a module of these files, each a tuple of flags for the compiler. `source`: the
    flags of fastdl.c as a source of its own; `prepare`: what is done to the objects before they are
    linked."""
    name = next(_names)
    module = MODULE.replace("NAME", name)
    numbers = range(len(files))
    declared = (f"PyObject *total_{i}(PyObject *, PyObject *);\n" for i in numbers)
    entries = (f'{{"total_{i}", total_{i}, METH_O, NULL}},' for i in numbers)
    module = module.replace("DECLARATIONS", "".join(declared)).replace("ENTRIES", "".join(entries))
    objects = []
    for i, (text, flags) in enumerate([(FILE, flags) for flags in files] + [(module, ())]):
        path = folder / f"{name}_{i}.c"
        path.write_text(text.replace("NUMBER", str(i)))
        objects.append(compile_file(path, path.with_suffix(".o"), *flags, compiler=compiler))
    if source is not None:
        objects.append(cold_half(*source, compiler=compiler))
    output = folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    run_compiler([compiler, "-shared", *link_flags, *prepare(objects), "-o", output])
    return output


def load(path, name=None):
    return load_module(name or path.name.split(".")[0], path)


def size(path):
    """Bytes of code and data as linked, and of memory that is zero at first."""
    answer = subprocess.run(["size", path], capture_output=True, text=True, check=True).stdout
    text, data, zero, *_ = map(int, answer.splitlines()[1].split()[:3])
    return text + data, zero


@pytest.mark.parametrize("flags", [(), (LIMITED,), CXX], ids=["full", "limited", "c++"])
def test_a_further_file_is_small(tmp_path, flags):
    one = size(build(tmp_path, [flags], source=()))
    two = size(build(tmp_path, [flags] * 2, source=()))
    assert two[0] - one[0] < 4000
    assert two[1] - one[1] < 100


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


WITHOUT_PYTHON = (f"-I{INCLUDE}", "-DFASTDL_NO_PYTHON", "-include", "fastdl/fastdl.h")
APART = ("-g", "-ffunction-sections", "-fdata-sections", "-fpatchable-function-entry=4")
# The flags of the files, of fastdl.c as a source of its own, and of the linker.
KINDS = {
    "a source": ([(), (), CXX], (), ()),
    "in one file": ([(), (IMPLEMENTATION,), CXX], None, ()),
    "in one file of C++": ([(), (*CXX, IMPLEMENTATION)], None, ()),
    "everywhere, but a source": ([(), ()], (IMPLEMENTATION,), ()),
    "not optimised": ([("-O0",), (*CXX, "-O0")], ("-O0",), ()),
    "each in its way": (
        [("-Os",), ("-O3", LIMITED), (*CXX, "-O1"), (*CXX, "-O0")],
        ("-O3",),
        (),
    ),
    "limited as a source": ([(), (LIMITED,)], (LIMITED,), ()),
    "without Python first": ([(*WITHOUT_PYTHON, "-UFASTDL_NO_PYTHON"), ()], (), ()),
    "optimised when linked": ([("-flto",), (*CXX, "-flto")], ("-flto",), ("-flto", "-O2")),
    "some optimised when linked": ([("-flto",), (), (*CXX, "-flto")], (), ("-flto", "-O2")),
    "with code apart": ([APART, (*CXX, *APART)], APART, ("-Wl,--gc-sections",)),
}
# What another compiler may make otherwise: the rest is up to the preprocessor and the linker.
BY_CLANG = ("a source", "in one file of C++", "each in its way", "optimised when linked")
CASES = [("gcc", kind) for kind in KINDS]
if shutil.which("clang"):
    CASES += [("clang", kind) for kind in BY_CLANG]


@pytest.mark.parametrize(("compiler", "kind"), CASES)
def test_files_of_a_module(tmp_path, kind, compiler):
    files, source, link = KINDS[kind]
    if compiler == "clang" and "-flto" in link:
        if shutil.which("ld.lld") is None:
            pytest.skip("clang's objects for that need lld")
        link = (*link, "-fuse-ld=lld")
    use(load(build(tmp_path, files, *link, source=source, compiler=compiler)), len(files))


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
def test_other_linkers(tmp_path, linker):
    if shutil.which({"mold": "mold"}.get(linker, f"ld.{linker}")) is None:
        pytest.skip(f"no {linker}")
    files = [(), (), CXX]
    use(load(build(tmp_path, files, f"-fuse-ld={linker}", source=())), len(files))


def test_objects_that_are_linked_in_two_steps(tmp_path):
    """As by projects that make one object of a library and hide what is in it."""

    def join(objects):
        joined = tmp_path / "joined.o"
        subprocess.run(["ld", "-r", *objects, "-o", joined], check=True)
        subprocess.run(["objcopy", "--localize-hidden", joined], check=True)
        return [joined]

    files = [(), CXX]
    use(load(build(tmp_path, files, source=(), prepare=join)), len(files))


def test_a_linker_that_misses_it_says_what_to_do(tmp_path):
    with pytest.raises(RuntimeError) as caught:
        build(tmp_path, [()], "-Wl,--no-undefined")
    remedy = "fastdl_c_is_missing__compile_it_or_define_FASTDL_IMPLEMENTATION_in_one_file"
    assert remedy in str(caught.value)
    with pytest.raises(RuntimeError, match=remedy):
        build(tmp_path, [()])  # it is hidden, so that a module cannot be linked without


def symbols(path, kinds):
    lines = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in lines.splitlines())
    return {row[-1] for row in rows if row[-2] in kinds}


@pytest.mark.parametrize("flags", [(), (LIMITED,), CXX], ids=["full", "limited", "c++"])
def test_one_symbol_is_shared_and_named_by_the_release(tmp_path, flags):
    path = build(tmp_path, [flags], source=flags)
    release = fastdl.__version__.replace(".", "_")
    (name,) = symbols(cold_half(*flags), "TDBRCWVu")
    assert name.endswith(release)
    assert symbols(tmp_path / f"{path.name.split('.')[0]}_0.o", "TDBRCWVu") == {"total_0"}
    shown = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True)
    assert name not in shown.stdout


def test_libraries_of_two_releases_in_one_module(tmp_path):
    """The other one has room for shorter messages."""
    folder = tmp_path / "other" / "fastdl"
    shutil.copytree(INCLUDE / "fastdl", folder)
    release = fastdl.__version__.replace(".", "_")
    for name, old, new in (
        ("fastdl.h", release, "77_0"),
        ("fastdl.c", "char text[1024];", "char text[20];"),
    ):
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))
    other_way_round = tmp_path / "reversed.so"

    def link_in_both_orders(objects):
        command = ["gcc", "-shared", *reversed(objects), "-o", other_way_round]
        run_compiler(command)
        return objects

    files = [(IMPLEMENTATION,), (IMPLEMENTATION, f"-I{folder.parent}")]
    path = build(tmp_path, files, prepare=link_in_both_orders)
    name = path.name.split(".")[0]
    for module in (load(path), load(other_way_round, name)):
        for function, cut in ((module.total_0, 99), (module.total_1, 19)):
            with pytest.raises(TypeError) as caught:
                function(np.zeros(3, "int8"))
            message = str(caught.value)
            expected = "x: expected float32, got int8: convert it first"[:cut]
            assert message.startswith(f"{expected} (x is "), message
