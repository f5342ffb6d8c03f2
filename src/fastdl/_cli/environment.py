# SPDX-License-Identifier: Apache-2.0
"""Facts about this Python, this machine and this fastdl, for a report."""

import os
import platform
import sys
import sysconfig
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import fastdl
from fastdl import _native
from fastdl._cli.libraries import Library

DISTRIBUTION = "fastdlpack"


def fastdl_facts() -> dict[str, Any]:
    folder = Path(fastdl.__file__).parent
    return {
        "version": fastdl.__version__,
        "dlpack": ".".join(map(str, fastdl.dlpack_version)),
        "folder": str(folder),
        "installed": folder.parent.name in ("site-packages", "dist-packages"),
        "library": Path(_native.__file__ or "").name,
    }


def python_facts() -> dict[str, Any]:
    gil = getattr(sys, "_is_gil_enabled", lambda: True)
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "compiler": platform.python_compiler(),
        "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "gil": gil(),
        "debug": hasattr(sys, "gettotalrefcount"),
    }


def platform_facts() -> dict[str, Any]:
    libc = " ".join(platform.libc_ver()) if sys.platform == "linux" else ""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "libc": libc.strip(),
        "cpus": os.cpu_count(),
    }


# ---- distributions --------------------------------------------------------------------------


@cache
def packages() -> Mapping[str, list[str]]:
    """Package -> the names of the distributions that install it. Reads the file lists of all
    distributions; empty if the metadata of one cannot be read."""
    try:
        return metadata.packages_distributions()
    except Exception:  # whatever a parser raises
        return {}


def distributions(package: str) -> list[str]:
    """The names of the distributions that install a package."""
    return sorted({*filter(None, packages().get(package, ()))})


def version_of(library: Library) -> str:
    """The version of an installed library, found without importing it; "" if unknown."""
    for name in (*distributions(library.name), library.name.replace("_", "-")):
        try:
            version = metadata.version(name)
        except Exception:  # there is none of that name, or its metadata cannot be read
            continue
        if version:
            return version
    return ""


def name_clashes() -> list[str]:
    """Sentences about other packages that are also imported as `fastdl`."""
    found = distributions("fastdl")
    others = [name for name in found if name.replace("_", "-").lower() != DISTRIBUTION]
    sentences = [
        f"The distribution {name!r} also installs a package `fastdl`: uninstall it, then reinstall "
        f"{DISTRIBUTION}, since they may have overwritten each other's files."
        for name in others
    ]
    own = Path(fastdl.__file__).resolve().parent
    for entry in dict.fromkeys(sys.path):
        for file in (Path(entry or ".", "fastdl", "__init__.py"), Path(entry or ".", "fastdl.py")):
            if os.path.isfile(file) and file.resolve().parent != own:
                sentences.append(
                    f"{file} is imported as `fastdl` wherever its folder comes first on sys.path; "
                    f"this fastdl is in {own}."
                )
    return sentences
