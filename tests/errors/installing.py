"""Importing the package, and what other projects build with."""

import os
from unittest import mock

from fastdl import _build
from tests.errors.row import Group, Row


def in_a_source_tree():
    with mock.patch.object(os.path, "exists", return_value=False):
        _build.get_pkgconfig_dir()


GROUP = Group(
    "Installing and building",
    "`import fastdl`, and `python -m fastdl --include` and its like.",
    [
        Row(
            "tests/test_interpreters.py: subinterpreter",
            ImportError,
            "fastdl works in the main interpreter only, and this is a subinterpreter: import "
            "fastdl, and exchange tensors, in the main one",
            "Exchange tables belong to the process. Modules that include the header work there "
            "without the package. See [hazards](hazards.md#crashes-and-processes).",
        ),
        Row(
            "tests/test_interpreters.py: initialized again",
            ImportError,
            "fastdl works in the first life of Python in a process only, and Python was finalized "
            "and initialized again: start another process",
            "A program that embeds Python initialises it once.",
        ),
        Row(
            in_a_source_tree,
            FileNotFoundError,
            "expected fastdl.pc in …, but this is a source tree, where it is not made: install "
            "fastdl with pip",
            "`pip install .` in the source tree.",
        ),
    ],
)
