# SPDX-License-Identifier: Apache-2.0
"""Compiles C++ extension modules, with a binding library or without one; see also build.py."""

import importlib
import os
import shlex
import sys
import sysconfig
from pathlib import Path

from tests.support.build import (
    LIBRARIES,
    ROOT,
    SOURCES,
    compiled_once,
    folder,
    load_module,
    run_compiler,
)

_loaded = {}  # by path
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")


def compile_cxx(*arguments, compiler=()):
    """Runs a C++ compiler, by default that of the interpreter, for code of an extension module."""
    variable = sysconfig.get_config_var
    command = [*(compiler or shlex.split(variable("CXX") or "c++"))]
    command += shlex.split(variable("CCSHARED") or "")
    command += ["-std=c++17", "-O1", "-fvisibility=hidden", f"-I{ROOT / 'include'}"]
    command += ["-isystem", sysconfig.get_path("include")]
    if sanitizers := os.environ.get("FASTDL_SANITIZE"):
        # Not optimised, with line numbers alone: half the time, which is minutes for the casters.
        command += [f"-fsanitize={sanitizers}", "-fno-omit-frame-pointer", "-O0", "-g1"]
    if sys.platform == "darwin":
        command += ["-undefined", "dynamic_lookup"]
    run_compiler([*command, *arguments], cwd=folder())


def refusal(tmp_path, code, *flags):
    """What the compiler says of it, or None."""
    source = tmp_path / "refused.cpp"
    source.write_text(code)
    try:
        compile_cxx(*flags, "-fsyntax-only", source)
    except RuntimeError as error:
        return str(error)
    return None


def headers(library):
    """The flags with which code that includes nanobind or pybind11 compiles."""
    include = Path(importlib.import_module(library).__file__).parent / "include"
    return ("-isystem", include)


def runtime(library, compiler=()):
    """What an extension module of that library is linked with, compiled at first use."""
    if library != "nanobind":
        return ()
    package = Path(importlib.import_module("nanobind").__file__).parent
    source = package / "src" / "nb_combined.cpp"
    maps = package / "ext" / "robin_map" / "include"
    # Its code reads objects as what they are not by the letter of the standard.
    flags = ("-w", "-fno-strict-aliasing", "-isystem", maps, *headers("nanobind"))
    words = (*flags, "-c", source, "-o")
    output = folder() / f"{'-'.join(('nanobind', *compiler))}.o"
    return (compiled_once(output, lambda path: compile_cxx(*words, path, compiler=compiler)),)


def binding(name, library, source=None, *flags, compiler=()):
    """The extension module of tests/capi/NAME.cpp, or of `source`, compiled at first use; warnings
    are errors. Modules of one name that other compilers make are other modules."""
    place = folder() / "-".join(("modules", *compiler))
    output = place / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    if output not in _loaded:
        place.mkdir(exist_ok=True)
        words = (*WARNINGS, *headers(library), *flags, "-shared")
        words += (source or SOURCES / f"{name}.cpp", *runtime(library, compiler))
        compiled_once(
            output, lambda path: compile_cxx(*words, "-o", path, *LIBRARIES, compiler=compiler)
        )
        _loaded[output] = load_module(name, output)
    return _loaded[output]
