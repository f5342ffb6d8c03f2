"""The table of mutants fits the tree: a mutant whose text or test is gone proves nothing."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.mutants.table import MUTANTS

ROOT = Path(__file__).parents[1]


@cache
def functions_in(file):
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_each_has_a_name_of_its_own():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) > 100


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_text_and_its_tests_are_there(mutant):
    text = (ROOT / mutant.file).read_text()
    for old, new in mutant.changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    for file, *names in (test.split("::") for test in mutant.tests):
        assert {name.partition("[")[0] for name in names} <= functions_in(file)
