"""Each layer of the package uses only those below it: what docs/architecture.md promises."""

import re
from pathlib import Path

import pytest

from tests.support.build import ROOT

SOURCE = ROOT / "src" / "fastdl"

# From the bottom up. A file belongs to the first entry that its path begins with.
LAYERS = (
    ("the ABI and the public header", ("fastdl/dlpack.h", "fastdl/fastdl.h", "__init__.pxd")),
    (
        "layout and ownership",
        tuple(f"_core/{n}." for n in "atomics block copy dtypes layout".split()),
    ),
    ("the host core", ("_core/", "_library", "_native", "_version")),
    ("devices", ("_devices/",)),
    ("the protocol", ("_protocol/",)),
    ("conversions", ("_convert/",)),
    ("bridges", ("bridges/",)),
    ("the package", ("_layers", "_build", "__init__.py")),
    ("the command line", ("__main__", "cli/")),
)

WITHOUT_PYTHON = 1  # up to this one


def layer_of(path: str) -> int:
    for number, (_, prefixes) in enumerate(LAYERS):
        if path.startswith(prefixes):
            return number
    raise AssertionError(f"{path} belongs to no layer: add it to LAYERS, and to the architecture")


def included_by(path, text):
    """The headers of fastdl that a C file includes, as paths in the package."""
    for name in re.findall(r'^#include [<"]([^>"]+)[>"]', text, re.MULTILINE):
        if name.startswith(("fastdl/", "_")):
            yield name
        elif (path.parent / name).exists():
            yield f"{path.parent.relative_to(SOURCE).as_posix()}/{name}"


def imported_by(text):
    """The modules of fastdl that a Python or Cython file imports, as paths in the package."""
    pattern = r"^ *from fastdl\.?([\w.]*) (c?)import (?:\(([^)]*)\)|([^\n#]*))"
    for package, c, several, one in re.findall(pattern, text, re.MULTILINE):
        folder = package.replace(".", "/") + "/" if package else ""
        for name in (several or one).strip(" \n,").split(","):
            inside = folder + name.split(" as ")[0].strip()
            if (SOURCE / inside).is_dir():
                yield inside + "/"
            elif list((SOURCE / folder).glob(f"{Path(inside).name}.p*")):
                yield inside
            else:
                yield folder.removesuffix("/") or ("__init__.pxd" if c else "__init__.py")


def files():
    for path in sorted(SOURCE.rglob("*")):
        if (
            path.suffix in (".c", ".h", ".py", ".pyx", ".pxd", ".pyi")
            and "include" not in path.parts
        ):
            yield path


@pytest.mark.parametrize("path", list(files()), ids=lambda p: p.relative_to(SOURCE).as_posix())
def test_a_file_uses_what_is_below(path):
    text, name = path.read_text(), path.relative_to(SOURCE).as_posix()
    own = layer_of(name)
    used = included_by(path, text) if path.suffix in (".c", ".h") else imported_by(text)
    for other in used:
        assert layer_of(other) <= own, f"{name} uses {other}, which is above it"
    if own <= WITHOUT_PYTHON and path.suffix in (".c", ".h"):
        assert "Python.h" not in text


def test_the_search_sees_imports():
    """The two functions above find what they look for: a test that sees nothing passes always."""
    source = (SOURCE / "_devices" / "driver.pyx").read_text()
    assert {"_core/tensor", "_core/native", "_devices/native"} <= set(imported_by(source))
    ordering = SOURCE / "_devices" / "ordering.c"
    assert "_core/lifetime.h" in set(included_by(ordering, ordering.read_text()))
