# SPDX-License-Identifier: Apache-2.0
"""A library that does not exist is added as docs/add-a-library.md says, in a copy of the package
and its tests: a bridge, a row of `LIBRARIES`, and a sample. Nothing else is asked for."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

import fastdl
from tests.support.isolate import describe, run_python

ROOT = Path(__file__).parents[2]

LIBRARY = """
import fastdl
from tests.support import library


class Array(library.Array):
    pass


def from_dlpack(x):
    return Array(fastdl.from_dlpack(x))
"""

BRIDGE = '''
"""An imaginary library."""

from fastdl._bridges.bridge import Bridge
from fastdl._core.exchange import TYPE_EXPORT_DOES_NOT_SYNC


def make(tensor, like):
    import imaginary

    return imaginary.from_dlpack(tensor)


TYPES = {"imaginary:Array": TYPE_EXPORT_DOES_NOT_SYNC}
RELEASE = "imaginary==1.0"
SAMPLE = "imaginary:from_dlpack(numpy.arange(6, dtype='f'))"

BRIDGES = (Bridge("imaginary.Array", title="Imaginary", classes=("imaginary:Array",), make=make),)
'''

SAMPLE = """
    known(
        "imaginary",
        make=of(lambda x: Library("imaginary").from_dlpack(x)),
        take=lambda x: Library("imaginary").from_dlpack(x),
        values=lambda x: x.tensor.tolist(),
    ),
)

# Those of which nothing is stated here.
"""


def insert(path, before, text):
    source = path.read_text()
    assert source.count(before) == 1
    path.write_text(source.replace(before, text))


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("copy")
    for source in (Path(fastdl.__file__).parent, ROOT / "tests", ROOT / "include"):
        to = folder / "src" / "fastdl" if source.name == "fastdl" else folder / source.name
        shutil.copytree(source, to, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "imaginary.py").write_text(LIBRARY)
    (folder / "imaginary-1.0.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: imaginary\nVersion: 1.0\n"
    (folder / "imaginary-1.0.dist-info" / "METADATA").write_text(metadata)

    bridges = folder / "src" / "fastdl" / "_bridges"
    (bridges / "imaginary.py").write_text(BRIDGE.lstrip())
    insert(
        bridges / "lookup.py", "LIBRARIES = {\n", 'LIBRARIES = {\n    "imaginary": "imaginary",\n'
    )
    last = "\n)\n\n# Those of which nothing is stated here.\n"
    insert(folder / "tests" / "interop" / "peers.py", last, SAMPLE)
    return folder


def run(copy, *arguments):
    path = os.pathsep.join([str(copy / "src"), str(copy), *filter(None, sys.path)])
    child = run_python(*arguments, cwd=copy, env={"PYTHONPATH": path})
    assert child.returncode == 0, describe(child)
    return child.stdout


# What docs/ shows of libraries.
PAGES = (
    "tests.interop.bridges:as_markdown",
    "tests.interop.peers:as_markdown",
    "tests.interop.matrix.report:sections",
    "tests.interop.matrix.report:summary",
)


@pytest.mark.slow
def test_three_files_are_enough(copy):
    """The matrix measures it, the tests of every library hold for it, `doctor` and the pages show
    it."""
    run(copy, "-m", "tests.interop.matrix", "main", "imaginary", "--write")
    tests = [f"tests/{name}.py" for name in ("interop/test_peers", "interop/test_matrix")]
    tests += ["tests/convert/test_convert.py"]
    chosen = "imaginary or every_row or every_cell or every_file or every_environment or the_page"
    said = run(copy, "-m", "pytest", "-v", "-p", "no:cacheprovider", *tests, "-k", chosen)
    assert "test_peer[imaginary] PASSED" in said
    assert "test_convert[imaginary] PASSED" in said
    report = json.loads(run(copy, "-m", "fastdl", "doctor", "--only", "imaginary", "--json"))
    assert [row["name"] for row in report["libraries"]] == ["imaginary"]
    for page in PAGES:
        module, _, function = page.partition(":")
        text = run(copy, "-c", f"from {module} import {function} as f; print(*f(), sep='\\n')")
        assert "Imaginary" in text or "`imaginary.Array`" in text, page
