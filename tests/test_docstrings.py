"""Every public name says what it does, with an example that works, and editors can show it."""

import doctest
import importlib.util
import inspect

import numpy as np
import pytest

import fastdl
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


@pytest.mark.parametrize("name", [name for name in dir(fastdl.Tensor) if name[0] != "_"])
def test_each_method_of_a_tensor_has_an_example(name):
    text = inspect.getdoc(getattr(fastdl.Tensor, name))
    assert text and (">>>" in text) is (name not in WITHOUT_EXAMPLE)


@pytest.mark.parametrize("cls", [fastdl.Tensor, fastdl.DType, fastdl.Device, fastdl.use_stream])
def test_members_are_documented(cls):
    for name, member in vars(cls).items():
        if not name.startswith("_"):
            assert inspect.getdoc(member), name


def test_dir_shows_the_public_names_alone():
    assert dir(fastdl) == sorted(fastdl.__all__)
    assert all(hasattr(fastdl, name) for name in dir(fastdl))


def test_stubs_have_the_docstrings(capsys):
    spec = importlib.util.spec_from_file_location("stubs", ROOT / "docs" / "stubs.py")
    stubs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stubs)
    described = {
        node.name for stub in stubs.SOURCE.rglob("*.pyi") for node, _ in stubs.public(stub)
    }
    compiled = {"Tensor", "convert", "empty", "exchange_api", "from_dlpack"}
    assert described == compiled | {"register_exchange_api", "signature"}
    assert stubs.main(["--check"]) == 0, capsys.readouterr().out
