"""Compiles C++ extension modules, with a binding library or without one; see also build.py."""

import importlib.util
import os
import shlex
import sys
import sysconfig
from pathlib import Path

from tests.support.build import ROOT, SOURCES, compiled_once, folder, run_compiler

WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")


def compile_cxx(*arguments):
    """Runs the C++ compiler for code of an extension module."""
    variable = sysconfig.get_config_var
    command = [*shlex.split(variable("CXX") or "c++"), *shlex.split(variable("CCSHARED") or "")]
    command += ["-std=c++17", "-O1", "-fvisibility=hidden", f"-I{ROOT / 'include'}"]
    command += ["-isystem", sysconfig.get_path("include")]
    if sanitizers := os.environ.get("FASTDL_SANITIZE"):
        command += [f"-fsanitize={sanitizers}", "-fno-omit-frame-pointer", "-g"]
    if sys.platform == "darwin":
        command += ["-undefined", "dynamic_lookup"]
    run_compiler([*command, *arguments], cwd=folder())


def headers(library):
    """The flags with which code that includes nanobind or pybind11 compiles."""
    include = Path(importlib.import_module(library).__file__).parent / "include"
    return ("-isystem", include)


def runtime(library):
    """What an extension module of that library is linked with, compiled at first use."""
    if library != "nanobind":
        return ()
    package = Path(importlib.import_module("nanobind").__file__).parent
    source = package / "src" / "nb_combined.cpp"
    maps = package / "ext" / "robin_map" / "include"
    # Its code reads objects as what they are not by the letter of the standard.
    flags = ("-w", "-fno-strict-aliasing", "-isystem", maps, *headers("nanobind"))
    output = folder() / "nanobind.o"
    return (compiled_once(output, lambda path: compile_cxx(*flags, "-c", source, "-o", path)),)


def binding(name, library, source=None, *flags):
    """The extension module of tests/capi/NAME.cpp, or of `source`, compiled at first use; warnings
    are errors."""
    if name not in sys.modules:
        output = folder() / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
        inputs = (*headers(library), *flags, "-shared", source or SOURCES / f"{name}.cpp")
        compiled_once(
            output,
            lambda path: compile_cxx(*WARNINGS, *inputs, *runtime(library), "-o", path),
        )
        spec = importlib.util.spec_from_file_location(name, output)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]
