"""Builds the part in C; everything else is in pyproject.toml."""

import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup

# The sdist has a copy of the licence, which in the repository is that of fastdl too.
if Path("../LICENSE").exists():
    shutil.copyfile("../LICENSE", "LICENSE")

setup(
    ext_modules=[
        Extension(
            "dlpack_conformance._dlpack",
            ["src/dlpack_conformance/_dlpack.c"],
            extra_compile_args=["/O2", "/std:c11"] if sys.platform == "win32" else ["-std=c11"],
        )
    ]
)
