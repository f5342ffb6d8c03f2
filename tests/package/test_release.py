# SPDX-License-Identifier: Apache-2.0
"""What a release says about itself: versions, addresses, workflows, and lists that have to agree.
What is in a wheel is for test_wheel.py."""

import re
import runpy
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import fastdl
from tests.support.isolate import run_python

ROOT = Path(__file__).parents[2]
HEADERS = "fastdl.include.fastdl"
MADE = {"_build", "build", "fastdlpack.egg-info", "PKG-INFO"}
OURS = ("docs", "include", "src", "tests", "benchmarks", "conformance", ".ci", ".github")


def read(path):
    return (ROOT / path).read_text()


def texts():
    """Every text file of the project: path -> content."""
    inside = (path for folder in OURS for path in (ROOT / folder).rglob("*"))
    for path in [*ROOT.iterdir(), *inside]:
        if path == Path(__file__) or MADE.intersection((path.name, *path.parts)):
            continue
        if path.is_file():
            with suppress(UnicodeDecodeError):
                yield path.relative_to(ROOT).as_posix(), path.read_text()


# ---- versions -------------------------------------------------------------------------------


def test_one_version():
    """Three files cannot look it up; the changelog has a heading for it."""
    version = fastdl.__version__
    assert read("src/fastdl/_version.py").count(f'__version__ = "{version}"') == 1
    assert f"##{version.replace('.', '_')}\n" in read("include/fastdl/fastdl.h")
    assert f"\nversion: {version}\n" in read("CITATION.cff")
    assert f'\n  version: "{version}"\n' in read(".ci/recipe.yaml")
    assert re.search(r"(?m)^## (\S+)", read("CHANGELOG.md"))[1] in (version, "Unreleased")


# ---- the address of the repository ----------------------------------------------------------


def test_one_file_has_the_address():
    address = re.compile(r"github\.com/[\w.-]+/fastdl(?:pack)?\b|\bOWNER/")
    assert [path for path, text in texts() if address.search(text)] == ["pyproject.toml"]


# ---- workflows ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ci", "release"])
def test_actions_are_pinned(name):
    """To a commit, since tags can move; the comment is for people and for dependabot."""
    used = re.findall(r"(?m)^.*\buses:.*$", read(f".github/workflows/{name}.yml"))
    assert used
    pinned = re.compile(r" +(?:- )?uses: [\w/.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [line for line in used if not pinned.fullmatch(line)] == []


def test_wheels_are_built_for_every_python_that_is_claimed():
    project = read("pyproject.toml")
    claimed = re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', project)
    (built,) = re.findall(r'(?m)^build = "cp31\{([\d,]+)\}-\* cp31\{4,5\}t-\*"', project)
    assert [f"1{minor}" for minor in built.split(",")] == claimed
    assert re.search(r'(?m)^requires-python = ">=3\.(\d+)"', project)[1] == claimed[0]


# ---- habits ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "folders"), [("editable_wheel", {""}), ("bdist_wheel", {"", HEADERS})]
)
def test_an_editable_installation_is_src_itself(command, folders, monkeypatch):
    """With a package from another folder, setuptools would make a finder of its own, where Cython
    does not look."""
    setuptools = pytest.importorskip("setuptools")
    pytest.importorskip("Cython")
    made = {}
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["setup.py", command])
    monkeypatch.setattr(setuptools, "setup", lambda **given: made.update(given))
    runpy.run_path("setup.py")
    assert made["package_dir"].keys() == folders
    assert {HEADERS} & set(made["packages"]) == {HEADERS} & folders


# ---- what a machine without a compiler is told ----------------------------------------------


def build(tmp_path, **environment):
    """What setup.py prints that cannot compile: its last line."""
    command = ("setup.py", "-q", "build_ext", f"-b{tmp_path}", f"-t{tmp_path}")
    done = run_python(*command, cwd=ROOT, env=environment)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


def test_a_missing_compiler_gets_one_sentence(tmp_path):
    line = build(tmp_path, CC="/nonexistent/cc")
    assert line.startswith("error: fastdl has to be compiled here, but a C compiler")
    assert "/nonexistent/cc" in line
    for cure in (
        "python3-dev ",
        "python3-devel",
        "xcode-select --install",
        "Visual Studio",
        "wheel",
    ):
        assert cure in line
