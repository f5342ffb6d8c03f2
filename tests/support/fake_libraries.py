# SPDX-License-Identifier: Apache-2.0
"""Packages that take the place of libraries which the command line knows, for a child process."""

import os
import subprocess
from pathlib import Path

from tests.support.isolate import run_python

#: What makes an array of float32 0 to 5 that has nothing but a buffer.
ARRAY = """
import array
def arange(n, dtype):
    return array.array("f", range(n))
"""


def install(folder: Path, package: str, source: str, version: str = "", name: str = "") -> None:
    """Puts a package into `folder`; with a version, also a distribution (`name`) that has it."""
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text(source)
    if version:
        distribution(folder, name or package, version, package)


def distribution(folder: Path, name: str, version: str, package: str) -> None:
    """What an installer leaves behind."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "top_level.txt").write_text(f"{package}\n")  # CPython 3.10 looks for nothing else


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """python -m fastdl in a process that finds the packages of `folder` first."""
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {"PYTHONPATH": path, "COLUMNS": "80", **environment}
    return run_python("-m", "fastdl", *arguments, env=environment, cwd=folder)
