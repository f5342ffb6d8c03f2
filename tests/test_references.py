"""The pages that are generated from the sources leave out nothing that is public."""

import re

import pytest

import fastdl
from fastdl import __main__ as command_line
from fastdl import cli
from tests.support.build import ROOT

DOCS = ROOT / "docs"


def headings(page):
    return set(re.findall(r"(?m)^##+ `(.+)`$", (DOCS / page).read_text()))


def test_each_public_name_of_the_package():
    page = (DOCS / "python-reference.md").read_text()
    constants = {"__version__", "dlpack_version"}
    assert all(f"`fastdl.{name}`" in page for name in constants)
    assert headings("python-reference.md") >= set(fastdl.__all__) - constants


@pytest.mark.parametrize("cls", [fastdl.Tensor, fastdl.DType, fastdl.Device])
def test_each_public_member_of_a_class(cls):
    members = {f"{cls.__name__}.{name}" for name in vars(cls) if not name.startswith("_")}
    assert headings("python-reference.md") >= members


def test_each_command_and_option():
    assert headings("command-line.md") == set(cli.COMMANDS)
    page = (DOCS / "command-line.md").read_text()
    assert all(f"| `{option}` |" in page for option in command_line.FACTS)


def test_each_public_declaration_of_the_header():
    header = (ROOT / "include/fastdl/fastdl.h").read_text()
    interface = header[: header.index(" * What is known about types\n")]
    functions = re.findall(r"(?m)^static inline [^\n]*?\b(fastdl_\w*[a-z])\(", interface)
    assert len(functions) > 25
    assert headings("c-reference.md") >= set(functions)
