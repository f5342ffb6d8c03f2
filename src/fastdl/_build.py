# SPDX-License-Identifier: Apache-2.0
"""The locations of files for other projects to compile and link with."""

import os

# Not through importlib, which would slow down importing fastdl.
_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def get_include() -> str:
    """See fastdl.get_include."""
    installed = os.path.join(_PACKAGE, "include")
    if os.path.isdir(installed):
        return installed
    return os.path.join(os.path.dirname(os.path.dirname(_PACKAGE)), "include")  # a source tree


def get_sources() -> list[str]:
    """See fastdl.get_sources."""
    return [os.path.join(get_include(), "fastdl", "fastdl.c")]


def vendor(folder: str) -> str:
    """Copies fastdl.h, fastdl.c and dlpack.h to a folder, which is made if needed; returns their
    paths, one per line."""
    import shutil

    os.makedirs(folder, exist_ok=True)
    names = ("fastdl.h", "fastdl.c", "dlpack.h")
    return "\n".join(
        shutil.copy(os.path.join(get_include(), "fastdl", name), folder) for name in names
    )


def get_cflags() -> str:
    """The flags for a compiler, quoted for a shell."""
    import shlex

    # Forward slashes, which every compiler accepts, so that Windows needs no quotes.
    return shlex.quote("-I" + get_include().replace(os.sep, "/"))


def get_cmake_dir() -> str:
    """The folder with fastdl-config.cmake, for `fastdl_DIR` or `CMAKE_PREFIX_PATH`."""
    return os.path.join(_PACKAGE, "cmake")


def get_pkgconfig_dir() -> str:
    """The folder with fastdl.pc, for `PKG_CONFIG_PATH`.

    FileNotFoundError in a source tree, and so in an editable installation: the file is made when
    fastdl is installed.
    """
    folder = os.path.join(_PACKAGE, "pkgconfig")
    if not os.path.exists(os.path.join(folder, "fastdl.pc")):
        raise FileNotFoundError(
            f"expected fastdl.pc in {folder}, but this is a source tree, which has none: "
            "install fastdl with pip, without -e"
        )
    return folder
