# SPDX-License-Identifier: Apache-2.0
"""What an installation has in it: the wheel in FASTDL_WHEEL, or else what is installed."""

import io
import os
import re
import zipfile
from configparser import ConfigParser
from email.parser import Parser
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
MOST_BYTES = 1_000_000  # of the wheel
COMPILED = {".so", ".pyd"}


class Contents:
    """Files of a distribution: path -> function that reads it."""

    def __init__(self, files, size):
        self.files = {str(path): read for path, read in files}
        self.paths = [PurePosixPath(path) for path in self.files]
        self.size = size

    def metadata(self):
        (path,) = (path for path in self.files if path.endswith(".dist-info/METADATA"))
        return Parser().parsestr(self.files[path]().decode())


def of_wheel(path):
    wheel = zipfile.ZipFile(path)
    files = [(name, lambda name=name: wheel.read(name)) for name in wheel.namelist()]
    return Contents(files, path.stat().st_size)


def of_installation():
    try:
        found = distribution("fastdlpack")
    except PackageNotFoundError:
        pytest.skip("fastdlpack is not installed")
    files = [path for path in found.files or () if "__pycache__" not in path.parts]
    if not any(path.as_posix() == "fastdl/__init__.py" for path in files):
        pytest.skip("fastdlpack is installed in editable form")
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in files:
            packed.write(path.locate(), path.as_posix())
    return Contents([(path.as_posix(), path.read_binary) for path in files], len(wheel.getvalue()))


@pytest.fixture(scope="module")
def contents():
    wheel = os.environ.get("FASTDL_WHEEL")
    return of_wheel(Path(wheel)) if wheel else of_installation()


def test_types(contents):
    assert "fastdl/py.typed" in contents.files
    # A compiled module says nothing to a type checker but through its stub.
    stubs = {path.with_suffix("") for path in contents.paths if path.suffix == ".pyi"}
    modules = {
        path.with_name(path.name.partition(".")[0])
        for path in contents.paths
        if path.suffix in COMPILED
    }
    assert modules
    assert modules <= stubs


@pytest.mark.parametrize("suffix", [".py", ".pyi"])
def test_python_modules(contents, suffix):
    source = ROOT / "src"
    assert {path for path in contents.files if path.endswith(suffix)} == {
        path.relative_to(source).as_posix() for path in source.rglob(f"*{suffix}")
    }


def test_headers(contents):
    headers = sorted((ROOT / "include" / "fastdl").glob("*.h"))
    assert headers
    for header in headers:
        assert contents.files[f"fastdl/include/fastdl/{header.name}"]() == header.read_bytes()


def test_what_other_projects_build_with(contents):
    """The CMake package, Cython's declarations, and fastdl.pc with the version in it."""
    source = ROOT / "src" / "fastdl"
    for name in ("__init__.pxd", "cmake/fastdl-config.cmake", "cmake/fastdl-config-version.cmake"):
        assert contents.files[f"fastdl/{name}"]() == (source / name).read_bytes()
    text = contents.files["fastdl/pkgconfig/fastdl.pc"]().decode()
    assert "@" not in text
    assert f"\nVersion: {contents.metadata()['Version']}\n" in text
    assert "\nincludedir=${pcfiledir}/../include\n" in text  # beside it, wherever that is


def test_build_tools_find_it_by_themselves(contents):
    """Each entry point names a folder, as a package, and the file is in there."""
    (path,) = (path for path in contents.files if path.endswith(".dist-info/entry_points.txt"))
    groups = ConfigParser()
    groups.read_string(contents.files[path]().decode())
    for group, file in [("pkg_config", "fastdl.pc"), ("cmake.root", "fastdl-config.cmake")]:
        assert f"{groups[group]['fastdl'].replace('.', '/')}/{file}" in contents.files
    assert groups["dask.sizeof"]["fastdl"].split(":")[0] + ".py" in contents.files
    assert set(groups.sections()) == {"pkg_config", "cmake.root", "dask.sizeof"}


def test_nothing_else(contents):
    """No C or Cython source, no private header, no test: each file is of a kind that is meant."""
    for path in contents.paths:
        if path.parts[0] == "fastdl":
            assert "tests" not in path.parts
            if path.suffix == ".h" or path.name == "fastdl.c":
                assert path.parts[:3] == ("fastdl", "include", "fastdl")
            elif path.suffix in {".cmake", ".pc"}:
                assert path.parts[1] == {".cmake": "cmake", ".pc": "pkgconfig"}[path.suffix]
            elif path.suffix == ".pxd":  # what the core declares for itself is private
                assert path == PurePosixPath("fastdl/__init__.pxd")
            else:
                assert path.suffix in {".py", ".pyi", *COMPILED} or path.name == "py.typed"
        elif path.name != "fastdl_dask.py":  # which Dask loads
            assert path.parts[0].endswith(".dist-info")


def test_size(contents):
    assert contents.size <= MOST_BYTES


def test_metadata(contents):
    metadata = contents.metadata()
    assert metadata["Name"] == "fastdlpack"
    assert metadata["License-Expression"] == "Apache-2.0"
    required = metadata.get_all("Requires-Dist", [])
    assert required  # of the extras
    assert [one for one in required if "extra ==" not in one] == []
    extras = set(metadata.get_all("Provides-Extra"))
    assert extras >= {"test", "peers", "bench", "docs", "dev"}
    assert any(path.endswith(".dist-info/licenses/LICENSE") for path in contents.files)


def test_links(contents):
    """The description is read away from the repository: its links lead to files of this release."""
    metadata = contents.metadata()
    places = dict(line.split(", ") for line in metadata.get_all("Project-URL"))
    assert set(places) == {"Source", "Documentation", "Issues", "Changelog"}
    assert all(place.startswith(places["Source"]) for place in places.values())
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = re.sub(r"(?ms)^```.*?^```$", "", metadata.get_payload())
    links = re.findall(r'\]\(([^)\s]+)|\b(?:src|srcset|href)="([^"]+)', text)
    absolute = [one or other for one, other in links if not (one or other).startswith("#")]
    assert len(absolute) > 10
    assert [link for link in absolute if not link.startswith("https://")] == []
    for link in absolute:
        if link.startswith(places["Source"]):
            kind, version, path = link.removeprefix(places["Source"] + "/").split("/", 2)
            assert version == f"v{metadata['Version']}"
            assert kind == ("raw" if path.endswith((".svg", ".png")) else "blob")
            assert (ROOT / path.partition("#")[0]).is_file(), link
