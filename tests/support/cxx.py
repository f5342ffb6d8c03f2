"""Compiles C++ extension modules, with a binding library or without one; see also build.py."""

import importlib.util
import os
import shlex
import sys
import sysconfig
from pathlib import Path

from tests.support.build import ROOT, SOURCES, folder, run_compiler

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
    output = folder() / "nanobind.o"
    if not output.exists():
        package = Path(importlib.import_module("nanobind").__file__).parent
        source = package / "src" / "nb_combined.cpp"
        maps = package / "ext" / "robin_map" / "include"
        partial = output.with_suffix(f".{os.getpid()}.partial")
        # Its code reads objects as what they are not by the letter of the standard.
        flags = ("-w", "-fno-strict-aliasing", "-isystem", maps, *headers("nanobind"))
        compile_cxx(*flags, "-c", source, "-o", partial)
        partial.replace(output)
    return (output,)


def binding(name, library, source=None, *flags):
    """The extension module of tests/capi/NAME.cpp, or of `source`, compiled at first use; warnings
    are errors."""
    if name not in sys.modules:
        output = folder() / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
        if not output.exists():
            partial = output.with_suffix(f".{os.getpid()}.partial")
            source = source or SOURCES / f"{name}.cpp"
            inputs = (source, *runtime(library), "-o", partial)
            compile_cxx(*WARNINGS, *headers(library), *flags, "-shared", *inputs)
            partial.replace(output)
        spec = importlib.util.spec_from_file_location(name, output)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]
