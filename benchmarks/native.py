# SPDX-License-Identifier: Apache-2.0
"""Builds the extension modules of the benchmarks where their sources changed, and loads them.

All with one set of flags, that of setup.py, so that the compiler favours nobody.
"""

import functools
import sys
from pathlib import Path

from setuptools import Distribution, Extension

from benchmarks import ROOT, load_module

HERE = ROOT / "benchmarks"
MEMORY = ROOT / "src/fastdl/_memory"
CONSUMERS = HERE / "consumers"

if sys.platform == "win32":
    C, CPP = ["/O2", "/std:c11"], ["/O2", "/std:c++17", "/EHsc"]
else:
    common = ["-O3", "-g0", "-fvisibility=hidden"]
    C, CPP = ["-std=c11", *common], ["-std=c++17", *common]


def loops_c() -> dict:
    """With fastdl's copy loops: what is shipped has no entry that copies into memory of the
    caller."""
    sources = [HERE / "loops.c", *(MEMORY / f"{name}.c" for name in ("copy", "dtypes"))]
    return {"sources": sources, "include_dirs": [MEMORY]}


def fastdl_c(*macros: tuple[str, str]) -> dict:
    return {"sources": [CONSUMERS / "with_fastdl.c"], "define_macros": list(macros)}


def direct() -> dict:
    import numpy

    return {"sources": [CONSUMERS / "direct.c"], "include_dirs": [numpy.get_include()]}


def nanobind() -> dict:
    """nanobind's own code is compiled along: its CMake rules would do so for size, not speed."""
    import nanobind

    own = Path(nanobind.source_dir())
    return {
        "sources": [CONSUMERS / "with_nanobind.cpp", own / "nb_combined.cpp"],
        "include_dirs": [nanobind.include_dir(), own.parent / "ext/robin_map/include"],
        "extra_compile_args": [] if sys.platform == "win32" else ["-fno-strict-aliasing"],
    }


def pybind11() -> dict:
    import pybind11

    return {
        "sources": [CONSUMERS / "with_pybind11.cpp"],
        "include_dirs": [pybind11.get_include()],
    }


def tvm_ffi() -> dict:
    from tvm_ffi import libinfo

    library = Path(libinfo.find_libtvm_ffi())
    return {
        "sources": [CONSUMERS / "with_tvm_ffi.cpp"],
        "include_dirs": libinfo.include_paths(),
        "libraries": ["tvm_ffi"],
        "library_dirs": [str(library.parent)],
        "export_symbols": [],
    }


#: Module -> what it is made of. ImportError where a peer is missing.
MODULES = {
    "loops": loops_c,
    "direct": direct,
    "with_fastdl": fastdl_c,
    "with_fastdl_alone": lambda: fastdl_c(("HEADER_ALONE", "1")),
    "with_fastdl_limited": lambda: fastdl_c(("Py_LIMITED_API", "0x030a0000")),
    "with_nanobind": nanobind,
    "with_pybind11": pybind11,
    "with_tvm_ffi": tvm_ffi,
    "kernel_key": lambda: {"sources": [ROOT / "docs/examples/c/kernel_key.c"]},
}


def build(name: str) -> Path:
    """The path of a module, compiled anew if a source or a header of fastdl's is younger."""
    parts = MODULES[name]()
    sources = [str(source) for source in parts.pop("sources")]
    extension = Extension(
        name,
        sources,
        depends=[*map(str, (*MEMORY.glob("*.h"), *(ROOT / "include/fastdl").glob("*.[ch]")))],
        include_dirs=[str(ROOT / "include"), *map(str, parts.pop("include_dirs", []))],
        extra_compile_args=[
            *(CPP if sources[0].endswith(".cpp") else C),
            *parts.pop("extra_compile_args", []),
        ],
        **parts,
    )
    command = Distribution({"name": name, "ext_modules": [extension]}).get_command_obj("build_ext")
    command.build_lib = str(ROOT / "build/benchmarks")
    command.build_temp = str(ROOT / "build/benchmarks/objects" / name)
    command.ensure_finalized()
    command.run()
    return Path(command.get_ext_fullpath(name))


@functools.cache
def load(name: str):
    """The extension module; of tvm-ffi, a library of functions."""
    path = build(name)
    if name == "with_tvm_ffi":
        import tvm_ffi

        return tvm_ffi.load_module(path)
    return load_module(name, path)


loops = load("loops")
