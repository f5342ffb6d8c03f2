# SPDX-License-Identifier: Apache-2.0
"""Builds the part in C; everything else is in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# The sdist has a copy of the licence, which in the repository is that of fastdl too.
if Path("../LICENSE").exists():
    shutil.copyfile("../LICENSE", "LICENSE")


class BuildExt(build_ext):
    """Knows the compiler, which on Windows need not be MSVC."""

    def build_extensions(self) -> None:
        if self.compiler.compiler_type == "msvc":
            self.extensions[0].extra_compile_args = ["/O2", "/std:c11"]
        super().build_extensions()


setup(
    cmdclass={"build_ext": BuildExt},
    ext_modules=[
        Extension(
            "dlpack_conformance._dlpack",
            ["src/dlpack_conformance/_dlpack.c"],
            extra_compile_args=["-std=c11"],
        )
    ],
)
