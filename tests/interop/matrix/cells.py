# SPDX-License-Identifier: Apache-2.0
"""Cells: what was measured, in words, which of two outcomes is worse, and how they are stored."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).with_name("results.json")

Rows = dict[str, dict[str, str]]  # of each, its cells by name, and the version of the library

ZERO_COPY = "zero-copy"
COPY = "copy"
REFUSED = "refused"  # an exception, after which everything is as before
WRONG = "wrong"  # other values, a write that is not seen, memory that is freed early or never
DIES = "dies"  # the process ends
BY_FASTDL = "in fastdl"  # what a refusal begins with where one asks who failed

VERSION = "version"  # of the library: in the place of a cell

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
    """A line for each cell that turned worse, is gone, or says something else of the array that
    arrives. Both map names to cells as text."""
    lines = []
    for name, text in before.items():
        if name not in after:
            lines.append(f"{name}: was {text!r}, is gone")
        elif rank(after[name]) > rank(text) or note(after[name]) != note(text):
            lines.append(f"{name}: was {text!r}, is {after[name]!r}")
    return lines


def rank(text: str) -> int:
    return OUTCOMES.index(Cell.parse(text).outcome)


def note(text: str) -> str:
    """What is said of an array that arrives: "read-only", "as uint8". Not the words of an error."""
    cell = Cell.parse(text)
    return cell.note if cell.outcome in (ZERO_COPY, COPY) else ""


def load(path: Path = RESULTS) -> Rows:
    rows: Rows = {}
    for row, found in json.loads(path.read_text("utf-8")).items():
        cells = {name: text for text, names in found.items() for name in names if text != VERSION}
        rows[row] = cells | ({VERSION: found[VERSION]} if VERSION in found else {})
    return {row: dict(sorted(cells.items())) for row, cells in rows.items()}


def dump(rows: Rows, path: Path = RESULTS) -> None:
    """Cells that are alike on one line: their text, and the names of all that have it."""
    parts = []
    for row, cells in sorted(rows.items()):
        found: dict[str, str | list[str]] = {}
        for name, text in sorted(cells.items()):
            if name == VERSION:
                found[name] = text
            else:
                found.setdefault(text, []).append(name)
        lines = (f"{in_json(text)}: {in_json(names)}" for text, names in found.items())
        parts.append(f"{in_json(row)}: {{\n" + ",\n".join(lines) + "\n}")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")


def in_json(data: str | list[str]) -> str:
    return json.dumps(data, ensure_ascii=False)
