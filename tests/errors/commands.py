"""Importing the package, what other projects build with, and the commands."""

import contextlib
import io
import os
from unittest import mock

from fastdl import _build
from fastdl.__main__ import main
from fastdl._cli.expression import evaluate
from tests.errors.row import Group, Row


def in_a_source_tree():
    with mock.patch.object(os.path, "exists", return_value=False):
        _build.get_pkgconfig_dir()


def command(*arguments):
    """`python -m fastdl ARGUMENTS`, whose failure is a SystemExit with what it says."""

    def do():
        with contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                status = main(arguments)
            except SystemExit as error:  # of argparse
                status = error.code
        if status != 0:
            lines = said.getvalue().strip().splitlines()
            raise SystemExit(next(line for line in lines[::-1] if "error: " in line))

    return do


NAMES = "The names are those of the packages as they are imported."

GROUP = Group(
    "Installing, building, and the command line",
    "`import fastdl`, and `python -m fastdl`, which prints its errors and ends with status 1 or 2. "
    "See [the command line](command-line.md).",
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
            "tests/test_interpreters.py: after Py_Finalize",
            ImportError,
            "fastdl cannot be imported again after Py_Finalize in the same process: start another "
            "process",
            "A program that embeds Python initialises it once.",
        ),
        Row(
            in_a_source_tree,
            FileNotFoundError,
            "expected fastdl.pc in …, but this is a source tree, where it is not made: install "
            "fastdl with pip",
            "`pip install .` in the source tree.",
        ),
        Row(
            command("--version", "demo"),
            SystemExit,
            "…expected either a command or options such as --include, not both",
            "One call of `python -m fastdl` does either.",
        ),
        Row(
            command("demo", "--library", "nunpy"),
            SystemExit,
            "…argument --library: invalid choice: 'nunpy'… (choose from …",
            NAMES,
        ),
        Row(
            (command("doctor", "--only", "nunpy"), command("bench", "--only", "nunpy")),
            SystemExit,
            "…expected names from …; got 'nunpy'",
            NAMES,
        ),
        Row(
            command("doctor", "--limit=0"),
            SystemExit,
            "…expected a number of seconds above 0, got '0'",
            "`--limit` is how long one step may take; 60 by default.",
        ),
        Row(
            command("doctor", "--html", "."),
            SystemExit,
            "…expected a file to write for --html; got '.': …",
            "The folder must exist. An existing file is replaced.",
        ),
        Row(
            lambda: evaluate("numpy"),
            ValueError,
            "expected MODULE:EXPRESSION, as in 'numpy:ones(3)'; got 'numpy'",
            "A module to import, a colon, and an expression of its names.",
        ),
        Row(
            lambda: evaluate("numpy:arrange(3)"),
            AttributeError,
            "module 'numpy' has no attribute 'arrange'. Did you mean: 'arange'?",
            "A name is an attribute or a submodule of the module, a builtin, or another module.",
        ),
    ],
)
