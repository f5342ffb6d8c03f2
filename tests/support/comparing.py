"""Comparisons, in all their forms."""

import operator


def are_equal(a, b) -> bool:
    """Whether a == b, and that the other three comparisons agree."""
    answers = {a == b, b == a, not operator.ne(a, b), not operator.ne(b, a)}
    assert len(answers) == 1
    return answers.pop()
