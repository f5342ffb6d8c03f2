# SPDX-License-Identifier: Apache-2.0
"""Each layer of the package uses only those below it: what docs/architecture.md promises."""

import re
import subprocess
import sysconfig
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from fastdl import _policy
from tests.support.build import ROOT
from tests.support.layers import LAYERS, WAYS_UP

SOURCE = ROOT / "src" / "fastdl"

WITHOUT_PYTHON = 1  # up to this one


def layer_of(path: str) -> int:
    for number, (_, prefixes) in enumerate(LAYERS):
        if path.startswith(prefixes):
            return number
    raise AssertionError(f"{path} belongs to no layer: add it to LAYERS, and to the architecture")


def included_by(path, text, source=SOURCE):
    """The headers of fastdl that a C file includes, as paths in the package."""
    for name in re.findall(r'^#include [<"]([^>"]+)[>"]', text, re.MULTILINE):
        if name.startswith(("fastdl/", "_")):
            yield name
        elif (path.parent / name).exists():
            yield (path.parent / name).relative_to(source).as_posix()


def imported_by(text, source=SOURCE):
    """The modules of a package that a Python or Cython file imports, as paths in its folder; in
    functions, too."""
    pattern = rf"^ *from {source.name}\.?([\w.]*) (c?)import (?:\(([^)]*)\)|([^\n#]*))"
    for package, c, several, one in re.findall(pattern, text, re.MULTILINE):
        folder = package.replace(".", "/") + "/" if package else ""
        for name in (several or one).strip(" \n,").split(","):
            inside = folder + name.split(" as ")[0].strip()
            if (source / inside).is_dir():
                yield inside + "/"
            elif list((source / folder).glob(f"{Path(inside).name}.p*")):
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


def test_the_suite_is_not_used():
    """The conformance suite is a project of its own: no file of the package needs it."""
    for path in files():
        pattern = r"(?m)^ *(?:from|import|#include)\b.*\bdlpack_conformance\b"
        assert not re.search(pattern, path.read_text()), path


def circle_of_imports(source):
    """Modules of a package of which each imports the next, and the last is the first; None if there
    are none. What a module and its declarations (.pxd) import counts as one, and so does what a C
    file and its header include."""
    imports = defaultdict(set)
    for path in source.rglob("*"):
        if path.suffix in (".py", ".pyx", ".pxd"):
            name = path.relative_to(source).with_suffix("").as_posix()
            imports[name].update({*imported_by(path.read_text(), source)} - {name})
        elif path.suffix in (".c", ".h"):
            name = path.relative_to(source).with_suffix(".h").as_posix()
            imports[name].update({*included_by(path, path.read_text(), source)} - {name})
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return error.args[1]
    return None


@pytest.mark.parametrize("source", [SOURCE, ROOT / "benchmarks"], ids=lambda path: path.name)
def test_no_module_imports_itself_by_way_of_others(source):
    """Neither at its top nor in a function."""
    assert circle_of_imports(source) is None


def test_a_circle_is_seen(tmp_path):
    source = tmp_path / "package"
    source.mkdir()
    (source / "first.py").write_text("from package.second import x\n")
    (source / "second.py").write_text("def f():\n    from package import third\n")
    (source / "third.pyx").write_text("from package.first cimport y\n")
    assert {*circle_of_imports(source)} == {"first", "second", "third"}
    (source / "third.pyx").unlink()
    (source / "upper.h").write_text('#include "lower.h"\n')
    (source / "lower.h").touch()
    assert circle_of_imports(source) is None
    (source / "lower.c").write_text('#include "lower.h"\n#include "upper.h"\n')
    assert {*circle_of_imports(source)} == {"lower.h", "upper.h"}


# ---- the ways up ----------------------------------------------------------------------------


def ways_of_modules():
    """{(file, module): names} of what the modules use of those that _policy.py gives them."""
    found = defaultdict(set)
    for path in files():
        for module, name in re.findall(r"\bpolicy\.(\w+)\.(\w+)", path.read_text()):
            callee = getattr(_policy, module).__name__.removeprefix("fastdl.").replace(".", "/")
            suffix = "pyx" if (SOURCE / f"{callee}.pyx").exists() else "py"
            found[path.relative_to(SOURCE).as_posix(), f"{callee}.{suffix}"].add(name)
    return found


def pointers_in(text):
    """The pointers to functions in a header, each with its name in the table of ways: that of the
    type, where that has nothing else."""
    found = {name: name for name in re.findall(r"\(\*(\w+)\)\(", text)}
    tables = re.findall(r"(?s)typedef struct \{([^}]*)\} (\w+);", text)
    cython = re.findall(r"ctypedef struct (\w+):\n((?: .*\n)+)", text)
    for body, table in [*tables, *((body, name) for name, body in cython)]:
        found.update(dict.fromkeys(pointers_in(body), table))
    return found


def ways_of_pointers():
    """{(header, file): names} of the pointers of a lower layer that a file of a higher one sets."""
    found = defaultdict(set)
    for header in (*SOURCE.rglob("*.h"), *SOURCE.glob("*/[!n]*.pxd")):  # native.pxd repeats others
        lower = header.relative_to(SOURCE).as_posix()
        for path in (*SOURCE.rglob("*.c"), *SOURCE.rglob("*.pyx")):
            upper = path.relative_to(SOURCE).as_posix()
            for pointer, name in pointers_in(header.read_text()).items():
                before = r"^ *|\bblock->" if name == pointer else r"\."
                is_set = re.search(rf"(?m)(?:{before}){pointer} = ", path.read_text())
                if is_set and layer_of(upper) > layer_of(lower):
                    found[lower, upper].add(name)
    return found


def test_every_way_up_is_in_the_table():
    listed = {(caller, callee): set(names.split()) for caller, callee, names, _ in WAYS_UP}
    assert listed == {**ways_of_modules(), **ways_of_pointers()}
    assert len(listed) == len(WAYS_UP) <= 20
    used = re.findall(r"\bpolicy\.(\w+)\.", "".join(path.read_text() for path in files()))
    of_package = re.findall(r"\b_policy\.(\w+)\.", (SOURCE / "__init__.py").read_text())
    assert {*_policy._MODULES, "convert", "streams"} == {*used, *of_package}
    for caller, callee in listed:
        assert layer_of(caller) <= layer_of(callee)


def combined(target, *sources):
    """One object file of C or object files; and the symbols of fastdl that it needs from others."""
    paths = (ROOT / "include", SOURCE, sysconfig.get_path("include"))
    flags = ["-std=c11", "-DFASTDL_LINKED=1", *(f"-I{path}" for path in paths)]
    subprocess.run(["cc", *flags, "-r", "-nostdlib", "-o", target, *sources], check=True)
    found = subprocess.run(["nm", "-u", target], check=True, capture_output=True, text=True)
    return target, set(re.findall(r"\b(?:fdl|fastdl)_\w+", found.stdout))


@pytest.mark.slow
def test_the_core_needs_no_symbol_of_the_devices(tmp_path):
    memory, _ = combined(tmp_path / "memory.o", *(SOURCE / "_memory").glob("*.c"))
    core, needed = combined(tmp_path / "core.o", *(SOURCE / "_core").glob("*.c"))
    assert "fdl_block_new" in needed  # so those of devices would be seen
    _, needed = combined(tmp_path / "both.o", memory, core)
    assert not needed


def test_the_memory_layer_links_alone(tmp_path):
    """It needs no symbol of a higher layer, nor of Python."""
    library = tmp_path / "memory.so"
    sources = sorted(map(str, (SOURCE / "_memory").glob("*.c")))
    flags = ["-std=c11", "-shared", "-fPIC", "-Wl,-z,defs", "-I", str(ROOT / "include")]
    subprocess.run(["cc", *flags, "-o", str(library), *sources], check=True)
