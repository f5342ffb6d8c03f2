# SPDX-License-Identifier: Apache-2.0
"""Dtypes and devices of others, and comparisons with them in all their forms."""

import operator


def are_equal(a, b) -> bool:
    """Whether a == b, and that the other three comparisons agree."""
    answers = {a == b, b == a, not operator.ne(a, b), not operator.ne(b, a)}
    assert len(answers) == 1
    return answers.pop()


class Theirs:
    """A dtype, or a device, with the protocols that libraries agreed on."""

    def __init__(self, *numbers):
        self.numbers = numbers

    def __repr__(self):  # the same in each process: it names a test
        return f"Theirs{self.numbers}"

    def __dlpack_data_type__(self):
        return self.numbers

    def __dlpack_device__(self):
        return self.numbers
