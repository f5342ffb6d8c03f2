"""Builds loops.c where it changed, and loads it."""

import importlib.util
import sys
from pathlib import Path

from setuptools import Distribution, Extension

HERE = Path(__file__).parent
ROOT = HERE.parent
CORE = ROOT / "src/fastdl/_core"

# The flags of setup.py, since fastdl's copy loops are compiled in here: what is shipped has no
# entry that copies into memory of the caller.
FLAGS = ["/O2", "/std:c11"] if sys.platform == "win32" else ["-std=c11", "-O3", "-g0"]


def build() -> Path:
    """The path of the extension module, compiled anew if a source is younger."""
    extension = Extension(
        "loops",
        [str(HERE / "loops.c"), *(str(CORE / f"{c}.c") for c in ("copy", "layout", "facts"))],
        depends=[str(header) for header in CORE.glob("*.h")],
        include_dirs=[str(ROOT / "include"), str(CORE)],
        extra_compile_args=FLAGS,
    )
    command = Distribution({"name": "loops", "ext_modules": [extension]}).get_command_obj(
        "build_ext"
    )
    command.build_lib = str(ROOT / "build/benchmarks")
    command.build_temp = str(ROOT / "build/benchmarks/objects")
    command.ensure_finalized()
    command.run()
    return Path(command.get_ext_fullpath("loops"))


def load():
    """The extension module."""
    spec = importlib.util.spec_from_file_location("loops", build())
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


loops = load()
