# SPDX-License-Identifier: Apache-2.0
"""Every public name says what it does, with an example that works, and editors can show it."""

import ast
import doctest
import inspect
from importlib import import_module

import numpy as np
import pytest

import fastdl
from docs.stubs import with_docstrings
from tests.support.build import ROOT

PUBLIC = [name for name in fastdl.__all__ if callable(getattr(fastdl, name))]

#: As in a session of a user.
NAMES = {"fastdl": fastdl, "np": np, "__name__": "__main__"}

#: Only a machine with a device has something to show.
WITHOUT_EXAMPLE = {"record", "release"}


def examples():
    """(name, docstring) of the package, the public names and the members of the classes."""
    yield "fastdl", fastdl.__doc__
    for name in PUBLIC:
        thing = getattr(fastdl, name)
        yield name, thing.__doc__
        for member, value in vars(thing).items() if isinstance(thing, type) else ():
            text = getattr(value, "__doc__", None)
            if isinstance(text, str) and not isinstance(value, (int, str)) and ">>>" in text:
                yield f"{name}.{member}", text


@pytest.mark.parametrize(("name", "text"), [pytest.param(*x, id=x[0]) for x in examples()])
def test_examples_work(name, text):
    example = doctest.DocTestParser().get_doctest(inspect.cleandoc(text), NAMES, name, None, None)
    assert example.examples, f"{name} has no example"
    with np.printoptions(legacy=False):
        result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example)
    assert result.failed == 0


@pytest.mark.parametrize("name", [name for name in dir(fastdl.empty(0)) if name[0] != "_"])
def test_each_method_of_a_tensor_has_an_example(name):
    text = inspect.getdoc(getattr(fastdl.Tensor, name))
    assert text and (">>>" in text) is (name not in WITHOUT_EXAMPLE)


@pytest.mark.parametrize("cls", [fastdl.Tensor, fastdl.DType, fastdl.Device, fastdl.use_stream])
def test_members_are_documented(cls):
    for name, member in vars(cls).items():
        if not name.startswith("_") and hasattr(cls, name):
            assert inspect.getdoc(member), name


def test_dir_shows_the_public_names_alone():
    assert dir(fastdl) == sorted(fastdl.__all__)
    assert all(hasattr(fastdl, name) for name in dir(fastdl))


def test_a_wheel_has_stubs_with_the_docstrings():
    """Those that the compiled modules have: of a public class, also those of its members."""
    described = set()
    for path in (ROOT / "src").rglob("*.pyx"):
        module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        for node in ast.parse(with_docstrings(path.with_suffix(".pyi"))).body:
            name = getattr(node, "name", "")
            thing = getattr(fastdl, name, None)
            if thing is not getattr(import_module(module), name, fastdl) or name in described:
                continue  # of overloads the first
            described.add(name)
            assert inspect.cleandoc(ast.get_docstring(node)) == inspect.getdoc(thing)
            members = {}
            for member in node.body if isinstance(node, ast.ClassDef) else ():
                if getattr(member, "name", "_")[0] != "_":
                    members.setdefault(member.name, member)  # of overloads the first
            for own, member in members.items():
                text = inspect.getdoc(inspect.getattr_static(thing, own))
                assert ast.get_docstring(member) == text, own
    compiled = {"Tensor", "convert", "convert_tree", "empty", "exchange_api", "from_dlpack"}
    assert described == compiled | {"register_exchange_api"}
