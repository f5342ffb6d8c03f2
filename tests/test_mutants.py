"""The table of mutants fits the tree: a mutant whose text or test is gone proves nothing."""

import ast
from functools import cache

import pytest

from tests.mutants.places import ROOT, NotFound, broken
from tests.mutants.run import SHARE, choose, first_of_sample
from tests.mutants.table import MUTANTS


@cache
def functions_in(file):
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_each_has_a_name_of_its_own():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) > 100


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_text_and_its_tests_are_there(mutant):
    file, text = broken(mutant.functions, mutant.changes)
    assert text != (ROOT / file).read_text()
    for file, *names in (test.split("::") for test in mutant.tests):
        assert {name.partition("[")[0] for name in names} <= functions_in(file)


@pytest.mark.parametrize("functions", ["no_such_function", "fdl_block_end"])
def test_a_mutant_whose_function_or_text_is_gone_is_seen(functions):
    with pytest.raises(NotFound, match=f"found 0 times in {functions}: 'no such text'"):
        broken(functions, (("no such text", ""),))


def test_a_text_that_is_there_twice_is_seen():
    with pytest.raises(NotFound, match="found 2 times"):
        broken("fdl_block_end", (("block->drop", ""),))


def test_samples_are_parts_of_the_whole():
    samples = [choose([], first)[0] for first in range(SHARE)]
    assert sorted(mutant.name for sample in samples for mutant in sample) == sorted(
        mutant.name for mutant in MUTANTS
    )
    assert {len(MUTANTS) // SHARE, -(-len(MUTANTS) // SHARE)} >= {len(s) for s in samples}
    assert first_of_sample() == first_of_sample() < SHARE


def test_all_or_some_by_name():
    assert choose(["--all"], 0)[0] == MUTANTS
    assert MUTANTS[0] in choose([MUTANTS[0].name], 0)[0]
    assert choose(["no such name"], 0)[0] == []
