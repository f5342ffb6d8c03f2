"""Cells: what was measured, in words, and which of two outcomes is worse."""

from collections.abc import Mapping
from typing import NamedTuple

ZERO_COPY = "zero-copy"
COPY = "copy"
REFUSED = "refused"  # an exception, after which everything is as before
WRONG = "wrong"  # other values, a write that is not seen, memory that is freed early or never
DIES = "dies"  # the process ends

OUTCOMES = (ZERO_COPY, COPY, REFUSED, WRONG, DIES)  # from best to worst


class Cell(NamedTuple):
    outcome: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.outcome}: {self.note}" if self.note else self.outcome

    @classmethod
    def parse(cls, text: str) -> "Cell":
        outcome, _, note = text.partition(": ")
        return cls(outcome, note)


def worse(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """A line for each cell that turned worse, or is gone. Both map names to cells as text."""
    lines = []
    for name, text in before.items():
        if name not in after:
            lines.append(f"{name}: was {text!r}, is gone")
        elif rank(after[name]) > rank(text):
            lines.append(f"{name}: was {text!r}, is {after[name]!r}")
    return lines


def rank(text: str) -> int:
    return OUTCOMES.index(Cell.parse(text).outcome)
