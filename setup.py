"""Builds the compiled part; everything else is in pyproject.toml.

Switches, from the environment:
    FASTDL_SANITIZE=address,undefined   build with these sanitizers
    FASTDL_COVERAGE=1                   build for gcov
    FASTDL_DEBUG=1                      no optimisation, C asserts on
"""

import os
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from glob import glob
from itertools import chain
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

if sys.implementation.name != "cpython":
    sys.exit(f"fastdl needs CPython: {sys.implementation.name} is not supported")
if sys.byteorder != "little":
    sys.exit("fastdl needs a little-endian machine: DLPack data is in native byte order")

HEADERS = "fastdl.include.fastdl"  # where the C headers are in an installation
msvc = sys.platform == "win32"

flags = ["/O2", "/std:c11"] if msvc else ["-std=c11", "-O3", "-fvisibility=hidden"]
link_flags: list[str] = []
macros = [("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")]

if sanitizers := os.environ.get("FASTDL_SANITIZE"):
    flags += [f"-fsanitize={sanitizers}", "-fno-omit-frame-pointer", "-g", "-O1"]
    flags += ["-fno-sanitize-recover=undefined"]
    link_flags += [f"-fsanitize={sanitizers}"]
if sanitizers or sysconfig.get_config_var("Py_GIL_DISABLED"):
    macros += [("FDL_NO_SPARES", "1")]  # see block.h
if os.environ.get("FASTDL_COVERAGE"):
    flags += ["--coverage", "-O0"]
    link_flags += ["--coverage"]
if os.environ.get("FASTDL_DEBUG"):
    flags += ["-UNDEBUG", "-O0", "-g"]
elif not msvc and not sanitizers:
    flags += ["-g0"]  # Python's own flags ask for debug information, ten times the code


MODULES = [
    "fastdl._core.tensor",
    "fastdl._core.exchange",
    "fastdl._devices.driver",
    "fastdl._convert.convert",
    "fastdl.bridges._numpy",
]


def c_of_modules() -> list[str]:
    """Translates the Cython modules to C: the paths of the results."""
    modules = cythonize(
        [Extension(name, [f"src/{name.replace('.', '/')}.pyx"]) for name in MODULES],
        build_dir="build",
        include_path=["src"],
        language_level=3,
        compiler_directives={
            "binding": False,
            "boundscheck": False,
            "wraparound": False,
            "embedsignature": True,
            "embedsignature.format": "clinic",
            "freethreading_compatible": True,  # importing fastdl leaves the GIL off
        },
    )
    return [source for module in modules for source in module.sources]


class BuildExt(build_ext):
    """Compiles the sources of the one library on all cores, which halves the time on two.

    The option `--parallel` of build_ext is for several libraries.
    """

    def build_extensions(self) -> None:
        compile_in_turn = self.compiler.compile

        def compile_at_once(sources: list[str], **options) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                return [*chain(*pool.map(lambda one: compile_in_turn([one], **options), sources))]

        self.compiler.compile = compile_at_once
        super().build_extensions()


class BuildPy(build_py):
    """Makes the one file that cannot look the version up."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return  # it would be left in the source tree
        text = Path("src/fastdl/pkgconfig/fastdl.pc.in").read_text()
        target = Path(self.build_lib, "fastdl/pkgconfig/fastdl.pc")
        self.mkpath(str(target.parent))
        target.write_text(text.replace("@VERSION@", self.distribution.get_version()))


setup(
    cmdclass={"build_ext": BuildExt, "build_py": BuildPy},
    packages=[*find_packages("src"), HEADERS],
    package_dir={"": "src", HEADERS: "include/fastdl"},
    ext_modules=[
        # One library for all, so that each C function exists once: see src/fastdl/_native.c.
        Extension(
            "fastdl._native",
            [
                "src/fastdl/_native.c",
                *c_of_modules(),
                *sorted(glob("src/fastdl/_core/*.c")),
                *sorted(glob("src/fastdl/_devices/*.c")),
            ],
            include_dirs=["include", "src/fastdl", numpy.get_include()],
            depends=[*glob("src/fastdl/*/*.h"), *glob("include/fastdl/*.h")],
            define_macros=macros,
            extra_compile_args=flags,
            extra_link_args=link_flags,
            export_symbols=[f"PyInit_{name.rpartition('.')[2]}" for name in MODULES],
        )
    ],
)
