# SPDX-License-Identifier: Apache-2.0
"""The table of mutants fits the tree: a mutant whose text or test is gone proves nothing."""

import ast
from functools import cache

import pytest

from tests.mutants.table import MUTANTS, ROOT, broken


@cache
def names_in(file):
    tree = ast.parse((ROOT / file).read_text())
    return {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }


def test_each_has_a_name_of_its_own():
    assert 100 < len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) <= 120


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_text_and_its_tests_are_there(mutant):
    file, text = broken(mutant)
    assert text != (ROOT / file).read_text()
    for file, *names in (test.split("::") for test in mutant.tests):
        assert {name.partition("[")[0] for name in names} <= names_in(file)
