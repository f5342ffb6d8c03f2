# SPDX-License-Identifier: Apache-2.0
"""How other projects find the headers: get_include and the CMake package.

The examples are built in tests/examples; what a wheel has in it is for test_wheel.py.
"""

import re
import shutil
import textwrap
from pathlib import Path

import pytest

import fastdl
from fastdl import _build
from tests.examples.building import run
from tests.support.build import ROOT

MAJOR, MINOR, PATCH = map(int, fastdl.__version__.split(".")[:3])
VERSION = f"{MAJOR}.{MINOR}.{PATCH}"


def test_include_folder_has_the_headers():
    folder = Path(fastdl.get_include())
    assert folder.is_absolute()
    assert (folder / "fastdl" / "fastdl.h").is_file()
    assert (folder / "fastdl" / "dlpack.h").is_file()
    assert [Path(path).relative_to(folder).name for path in fastdl.get_sources()] == ["fastdl.c"]


def test_cflags_survive_a_shell(tmp_path, monkeypatch):
    """A folder with a space in it is one argument."""
    headers = tmp_path / "my headers"
    headers.mkdir()
    monkeypatch.setattr(_build, "get_include", lambda: str(headers))
    printed = run(f"for flag in {_build.get_cflags()}; do echo $flag; done", tmp_path)
    assert printed == f"-I{headers}\n"


# ---- CMake ----------------------------------------------------------------------------------

FIND = """\
cmake_minimum_required(VERSION 3.18...3.30)
project(look LANGUAGES NONE)
foreach(wanted IN LISTS WANTED)
  unset(fastdl_DIR CACHE)
  string(REPLACE " " ";" wanted_arguments "${wanted}")
  find_package(fastdl ${wanted_arguments} CONFIG QUIET HINTS "${WHERE}")
  file(APPEND found.txt "${wanted}: ${fastdl_FOUND} ${fastdl_VERSION}\\n")
endforeach()
if(TARGET fastdl::fastdl)
  get_target_property(include fastdl::fastdl INTERFACE_INCLUDE_DIRECTORIES)
  file(APPEND found.txt "include: ${include}\\n")
endif()
"""


def find_package(place, *wanted, where=None, flags=""):
    """What find_package answers to each request: wanted -> whether it found, and the folder."""
    (place / "CMakeLists.txt").write_text(FIND)
    (place / "found.txt").unlink(missing_ok=True)
    flags += f" -DWHERE='{where}'" if where else ""
    run(f"cmake -S . -B build '-DWANTED={';'.join(wanted)}' {flags}", place)
    shutil.rmtree(place / "build")
    lines = (place / "found.txt").read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines)


def test_cmake_honours_versions(tmp_path):
    yes = [
        VERSION,
        f"{MAJOR}.{MINOR}",
        f"{MAJOR}.0",
        f"{VERSION} EXACT",
        f"0.0...{MAJOR}.{MINOR + 1}",
        f"0.0...{VERSION}",
        f"{VERSION}...<{MAJOR + 1}",
    ]
    no = [
        f"{MAJOR}.{MINOR}.{PATCH + 1}",
        f"{MAJOR}.{MINOR + 1}",
        f"{MAJOR + 1}.0",
        f"{MAJOR}.{MINOR}.{PATCH}.1 EXACT",
        f"0.0...<{VERSION}",
        f"{MAJOR}.{MINOR + 1}...{MAJOR + 1}.0",
    ]
    found = find_package(tmp_path, *yes, *no, where=_build.get_cmake_dir())
    include = found.pop("include")
    assert Path(include).samefile(fastdl.get_include())
    assert found == {
        **dict.fromkeys(yes, f"1 {VERSION}"),
        **dict.fromkeys(no, f"0 {VERSION}"),
    }


@pytest.mark.parametrize(
    "flag",
    [
        "-DCMAKE_PREFIX_PATH=$(python -m fastdl --cmakedir)",
        "-DCMAKE_PREFIX_PATH=$(dirname $(dirname $(python -m fastdl --cmakedir)))",  # site-packages
        "-Dfastdl_ROOT=$(python -m fastdl --cmakedir)",  # as scikit-build-core does
    ],
)
def test_cmake_looks_in(tmp_path, flag):
    found = find_package(tmp_path, VERSION, flags=flag)
    assert found[VERSION].startswith("1")
    assert Path(found["include"]).samefile(fastdl.get_include())


def test_cmake_package_may_be_moved(tmp_path):
    """With the environment that it is in: it names no folder of the machine that built it."""
    moved = tmp_path / "elsewhere" / "fastdl"
    shutil.copytree(_build.get_cmake_dir(), moved / "cmake")
    shutil.copytree(fastdl.get_include(), moved / "include")
    (moved / "_version.py").write_text('"""Another release."""\n\n__version__ = "7.8.9.dev1"\n')
    found = find_package(tmp_path, "7.5", "6.0", where=moved / "cmake")
    assert found == {"7.5": "1 7.8.9", "6.0": "0 7.8.9", "include": str(moved / "include")}


# ---- fastdl.c as a source of its own --------------------------------------------------------


def documented_lines(language):
    """The one block of the C guide in that language."""
    guide = (ROOT / "docs" / "c-guide.md").read_text()
    (block,) = re.findall(rf"^ *```{language}\n(.*?)^ *```$", guide, re.DOTALL | re.MULTILINE)
    return textwrap.dedent(block)


FILES = {
    "first.c": """
#include <fastdl/fastdl.h>
PyObject *size_of(PyObject *module, PyObject *argument)
{
    fastdl_view view;
    long long size;
    (void)module;
    if (fastdl_borrow(argument, &view) < 0)
        return NULL;
    size = view.dl.ndim > 0 ? view.dl.shape[0] : -1;
    fastdl_release(&view);
    return PyLong_FromLongLong(size);
}
""",
    "second.c": """
#include <fastdl/fastdl.h>
PyObject *size_of(PyObject *module, PyObject *argument);
static PyMethodDef methods[] = {{"size_of", size_of, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "two", NULL, 0, methods, NULL, NULL,
                                        NULL, NULL};
PyMODINIT_FUNC PyInit_two(void) { return PyModule_Create(&definition); }
""",
    "fastdl_source.c": "#include <fastdl/fastdl.c>\n",
    "CMakeLists.txt": """
cmake_minimum_required(VERSION 3.18)
project(two LANGUAGES C)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
find_package(fastdl CONFIG REQUIRED)
python_add_library(two MODULE WITH_SOABI first.c second.c)
target_link_libraries(two PRIVATE fastdl::source)
install(TARGETS two LIBRARY DESTINATION .)
""",
    "meson.build": f"project('two', 'c')\n{documented_lines('meson')}",
    "pyproject.toml": """
[build-system]
requires = ["scikit-build-core", "fastdlpack"]
build-backend = "scikit_build_core.build"

[project]
name = "two"
version = "1.0"
""",
    "setup.py": """
import fastdl
from setuptools import Extension, setup
sources = ["first.c", "second.c", "fastdl_source.c"]
setup(ext_modules=[Extension("two", sources, include_dirs=[fastdl.get_include()])])
""",
}
SUFFIX = """$(python -c "from sysconfig import *; print(get_config_var('EXT_SUFFIX'))")"""
PYTHON = """-I$(python -c "from sysconfig import *; print(get_path('include'))")"""
LINE = f"cc -fPIC -shared $(python -m fastdl --cflags) {PYTHON} first.c second.c"
WAYS = {
    "setuptools": "python setup.py -q build_ext --inplace",
    # CMake looks for a Python with a GIL unless it is told which.
    "CMake": "cmake -B build -DPython_EXECUTABLE=$(command -v python) "
    "-Dfastdl_DIR=$(python -m fastdl --cmakedir) && cmake --build build && cp build/two*.so .",
    "scikit-build-core": "python -m pip install -q --no-build-isolation --no-deps --target . .",
    "Meson": "meson setup build && meson compile -C build && cp build/two*.so .",
    "a compiler line": f"{LINE} $(python -m fastdl --sources) -o two{SUFFIX}",
    "pkg-config": f"{LINE} $(python -m pkgconf --variable=sources fastdl) -o two{SUFFIX}",
}


NEEDS = {"scikit-build-core": "scikit_build_core", "Meson": "mesonbuild"}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_two_files_and_the_source(tmp_path, way):
    if way in NEEDS:
        pytest.importorskip(NEEDS[way])
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    run(WAYS[way], tmp_path)
    code = "import two, numpy; print(two.size_of(numpy.zeros(7)))"
    assert run(f'python -c "{code}"', tmp_path) == "7\n"
