"""How other projects find the headers: get_include and the CMake package.

The examples are built in tests/examples; what a wheel has in it is for test_wheel.py.
"""

import shutil
from pathlib import Path

import pytest

import fastdl
from fastdl import _build
from tests.examples.building import run

MAJOR, MINOR, PATCH = map(int, fastdl.__version__.split(".")[:3])
VERSION = f"{MAJOR}.{MINOR}.{PATCH}"


def test_include_folder_has_the_headers():
    folder = Path(fastdl.get_include())
    assert folder.is_absolute()
    assert (folder / "fastdl" / "fastdl.h").is_file()
    assert (folder / "fastdl" / "dlpack.h").is_file()


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


def test_cmake_package_may_be_asked_for_twice(tmp_path):
    found = find_package(tmp_path, VERSION, VERSION, where=_build.get_cmake_dir())
    assert found[VERSION].startswith("1")
