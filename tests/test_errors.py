"""docs/errors.md: each message of fastdl is met as a user would, and none is left out."""

import gc
from functools import cache

import pytest

from tests.errors import page, unreached
from tests.errors.sources import PYTHON, C, literals, literals_in

ROWS = [row for group in page.groups() for row in group.rows]


@cache
def raised(row):
    """The messages of a row's variants, which its own describes."""
    messages = []
    for do in row.variants:
        with pytest.raises(row.error) as caught:
            do()
        assert row.describes(caught.value), f"{type(caught.value).__name__}: {caught.value}"
        messages.append(str(caught.value))
        del caught
        gc.collect()  # tensors in the frames of the exception
    return messages


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.message[:60])
def test_a_message_is_met(row):
    assert raised(row) or row.is_met_elsewhere()


def test_no_message_is_left_out():
    """Each text in the sources is in a documented message, or is listed with a reason."""
    documented = [row.message for row in ROWS]
    documented += [text for row in ROWS if len(row.variants) > 1 for text in raised(row)]
    listed = {text for _, texts in unreached.REASONS for text in texts}
    missing = [
        f"{literal.place}: {literal.text}"
        for literal in literals()
        if literal.text not in listed and not any(map(literal.is_in, documented))
    ]
    assert not missing, "\n".join(missing)


CYTHON_SOURCE = '''
def f(x):
    """Not this one."""
    if x is not c"N":  # nor "this one here"
        raise TypeError(f"expected {x!r} or "
                        # in between
                        f"{', '.join(x)}, got 'a b'")
    return WORDS["key"], r"no such (thing|one)", 'it is ' + x
'''
C_SOURCE = """
#include "a header.h"
/* "not this one" */
static const char quote = '"';
int f(void) { return fail("expected %.40s, "  // "nor this"
                          "got %lld" " of \\"%s\\""); }
"""


def test_the_scanner_joins_literals_and_passes_over_comments():
    found = [literal.text for literal in literals_in(CYTHON_SOURCE, "", PYTHON)]
    assert found == ["expected … or …, got 'a b'", "it is "]
    (found,) = literals_in(C_SOURCE, "", C)
    assert found.text == 'expected …, got … of "…"'
    assert found.is_in('expected a, got 3 of "x"')
    assert not found.is_in("expected a, got 3 of x")


def test_what_is_not_reached_exists():
    found = {literal.text for literal in literals()}
    listed = [text for _, texts in unreached.REASONS for text in texts]
    assert sorted(set(listed) - found) == []
    assert len(listed) == len(set(listed))
