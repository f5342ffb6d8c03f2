# SPDX-License-Identifier: Apache-2.0
"""<windows.h> has macros with plain names, which no public header may use."""

import importlib.util
import re
import subprocess
import sysconfig

import pytest

from tests.support.build import ROOT

INCLUDE = ROOT / "include"
HEADERS = sorted(path.name for path in INCLUDE.glob("fastdl/*.[ch]"))
C, CXX = ("c99", "c++17"), ("c++17", "c++20")
NAMES = """
    BOOLEAN CONST DELETE ERROR FALSE IGNORE IN OPAQUE OPTIONAL OUT PASCAL STRICT THIS TRANSPARENT
    TRUE UNALIGNED VOID cdecl far grp1 grp2 hyper interface near pascal psh1 psh2 rad1 rad2 small
    min(a,b) max(a,b)
""".split()


def of_others(name, seen):
    """What a header of ours includes of other projects: that may use those names."""
    for found in re.findall('# *include ["<](.+)[">]', (INCLUDE / "fastdl" / name).read_text()):
        ours = found.removeprefix("fastdl/")
        if ours not in HEADERS:
            yield f"#if __has_include(<{found}>)\n#include <{found}>\n#endif\n"
        elif ours not in seen:
            yield from of_others(ours, seen | {ours})


CASES = [
    (header, standard)
    for header in HEADERS
    for standard in (C if header in ("dlpack.h", "fastdl.h", "fastdl.c") else CXX)
]


@pytest.mark.parametrize(("header", "standard"), CASES)
def test_names_that_windows_takes(header, standard):
    lines = [*of_others(header, {header}), *(f"#define {name} ] <windows.h> [\n" for name in NAMES)]
    folders = [INCLUDE, sysconfig.get_path("include")]
    for library in ("nanobind", "pybind11"):
        folders += [f"{importlib.util.find_spec(library).submodule_search_locations[0]}/include"]
    language = "c++" if "++" in standard else "c"
    result = subprocess.run(
        [*("gcc", "-fsyntax-only", f"-std={standard}"), *(f"-I{folder}" for folder in folders),
         *("-x", language, "-")],
        input=f"{''.join(lines)}#include <fastdl/{header}>\n", capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
