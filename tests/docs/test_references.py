# SPDX-License-Identifier: Apache-2.0
"""The pages that are generated from the sources leave out nothing that is public."""

import re
from functools import cache

import pytest

import fastdl
from docs import quote
from fastdl import __main__ as command_line
from fastdl import _cli
from tests.support.build import ROOT

DOCS = ROOT / "docs"


@cache
def whole(page):
    """As the site has it."""
    return quote.complete((DOCS / page).read_text(), DOCS)


def headings(page):
    return set(re.findall(r"(?m)^##+ `(.+)`$", whole(page)))


def test_each_public_name_of_the_package():
    page = whole("reference.md")
    constants = {"__version__", "dlpack_version"}
    assert all(f"`fastdl.{name}`" in page for name in constants)
    assert headings("reference.md") >= set(fastdl.__all__) - constants


@pytest.mark.parametrize("cls", [fastdl.Tensor, fastdl.DType, fastdl.Device])
def test_each_public_member_of_a_class(cls):
    names = [name for name in vars(cls) if not name.startswith("_") and hasattr(cls, name)]
    assert headings("reference.md") >= {f"{cls.__name__}.{name}" for name in names}


def test_each_signature_is_python():
    for block in re.findall(r"(?s)```python\n(?!>>>)(.*?)```", whole("reference.md")):
        compile(block, "reference.md", "exec")


def test_each_command_and_option():
    assert headings("python-guide.md") == set(_cli.COMMANDS)
    page = (DOCS / "python-guide.md").read_text()
    assert all(f"| `{option}` |" in page for option in command_line.FACTS)


def test_the_c_reference_does_not_refer_to_other_parts_of_the_header():
    page = whole("reference.md")
    assert re.findall(r"at the (?:top|end) of this|table at the top", page) == []
    assert set(re.findall(r'\(see "([^"]+)"\)', page)) <= set(re.findall(r"(?m)^###? (.+)$", page))


def test_each_public_declaration_of_the_header():
    header = (ROOT / "include/fastdl/fastdl.h").read_text()
    interface = header[: header.index(" * What is known about types\n")]
    functions = re.findall(r"(?m)^static inline [^\n]*?\b(fastdl_\w*[a-z])\(", interface)
    assert len(functions) > 25
    types = {f"fastdl_{name}" for name in ("view", "spec", "dim", "argument")}
    assert headings("reference.md") >= {*functions, *types}
