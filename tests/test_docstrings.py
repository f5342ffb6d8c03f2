"""The docstrings of compiled code: each has an example that is true, and the stubs repeat it."""

import doctest
import inspect
import subprocess
import sys

import numpy as np
import pytest

import fastdl
from tests.support.build import ROOT

#: Only a machine with a device has something to show.
WITHOUT_EXAMPLE = {"record", "release"}

MEMBERS = {
    **{f"Tensor.{name}": getattr(fastdl.Tensor, name) for name in dir(fastdl.Tensor)},
    "empty": fastdl.empty,
}


def is_public(name):
    return not name.rpartition(".")[2].startswith("_")


@pytest.mark.parametrize("name", list(filter(is_public, MEMBERS)))
def test_what_is_public_has_an_example(name):
    text = inspect.getdoc(MEMBERS[name])
    assert text and (">>>" in text) is (name.rpartition(".")[2] not in WITHOUT_EXAMPLE)


@pytest.mark.parametrize("name", MEMBERS)
def test_examples(name):
    text = inspect.getdoc(MEMBERS[name]) or ""
    names = {"np": np, "fastdl": fastdl}
    examples = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    messages = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples, out=messages.append)
    assert not messages, "".join(messages)


def test_stubs_have_the_docstrings():
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "stubs.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
