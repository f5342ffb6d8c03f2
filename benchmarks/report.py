# SPDX-License-Identifier: Apache-2.0
"""The report: a table for the terminal, the tables of docs/comparison.md, and all as JSON."""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.rows import OWN, REASONS, Row

HEADINGS = ("what", "view", "fastdl", "peer", "floor", "ratio", "target", "verdict")


def number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"{value:.{0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2}f} {unit}"


def with_name(name: str, value: float | None, unit: str) -> str:
    return f"{name} {number(value, unit)}" if name and value is not None else name


def cells(row: Row) -> tuple[str, ...]:
    ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
    if row.spread is not None:
        ratio += f" ({row.spread[0]:.3f} to {row.spread[1]:.3f})"
    return (
        row.what,
        row.view,
        number(row.ours, row.unit),
        with_name(row.peer, row.peers, row.unit),
        with_name(row.floor, row.floors, row.unit),
        ratio,
        row.budget,
        row.verdict,
    )


def as_text(rows: list[Row]) -> str:
    table = [HEADINGS, *map(cells, rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*lines, *(f"{row.key}: {row.failure}" for row in rows if row.failure)])


def budgets() -> Iterator[str]:
    """How many targets are met, and why the others are not: see docs/quote.py."""
    sections, _, _ = load(ROOT / "docs")
    yield from (summary(sections), "")
    yield from ("A target without a unit is a ratio. These were missed, or not measured:", "")
    yield from missed(sections)


def as_markdown() -> Iterator[str]:
    """The stored measurements, one table a section, each collapsed: see docs/quote.py."""
    sections, machine, versions = load(ROOT / "docs")
    facts = [*machine.items(), *versions.items()]
    yield from collapsed("Machine and versions", [f"- {name}: {value}" for name, value in facts])
    for title, rows in sections.items():
        lines = [HEADINGS, ("---",) * len(HEADINGS), *map(cells, rows)]
        table = ("| " + " | ".join(line) + " |" for line in lines)
        # Escaped, or names would be set in bold.
        yield from collapsed(title, [line.replace("__", r"\_\_") for line in table])


def collapsed(title: str, lines: list[str]) -> list[str]:
    return ["<details>", f"<summary>{title}</summary>", "", *lines, "", "</details>", ""]


def summary(sections: dict[str, list[Row]]) -> str:
    rows = [row for section in sections.values() for row in section]
    held, lost = (sum(row.verdict == v for row in rows) for v in ("held", "MISSED"))
    return f"**{held} of {held + lost} targets are met.**"


def missed(sections: dict[str, list[Row]]) -> list[str]:
    """A line for each; both loops of a call share one if they miss for the same reason."""
    views: dict[tuple[str, str, str, str], list[str]] = {}
    for row in (row for section in sections.values() for row in section):
        if row.verdict in ("MISSED", "not measured"):
            why = row.failure or reason(row, sections)
            peer = OWN.get(row.key.split("/")[1], row.peer) if row.peer == "own" else row.peer
            views.setdefault((row.what, peer, row.budget, why), []).append(row.view)
    return [
        f"- {what}{peer and f' against {peer}'}, {' and '.join(seen)} ({budget}): {why}."
        for (what, peer, budget, why), seen in views.items()
    ] or ["None."]


def reason(row: Row, sections: dict[str, list[Row]]) -> str:
    """Why the budget of a row is missed, with the figures of this run."""
    rows = {other.key: other for section in sections.values() for other in section}

    def figure(found: re.Match) -> str:
        other = rows[found["key"]]
        return number(getattr(other, found["field"]), other.unit)

    text = REASONS.get(row.key, "no reason recorded yet")
    return re.sub(r"\{(?P<key>[^:}]+):(?P<field>\w+)\}", figure, text)


def write(directory: Path, sections, machine, versions) -> None:
    directory.mkdir(exist_ok=True)
    data = {
        "machine": machine,
        "versions": versions,
        "rows": {
            title: [asdict(row) | {"verdict": row.verdict} for row in rows]
            for title, rows in sections.items()
        },
    }
    (directory / "benchmarks.json").write_text(in_lines(data) + "\n")


def in_lines(data: Any, indent: str = "\n ") -> str:
    """JSON with a line for each innermost dictionary: readable in a diff."""
    if "{" not in json.dumps(data)[1:]:
        return json.dumps(data)
    if isinstance(data, dict):
        parts = [f"{json.dumps(key)}: {in_lines(data[key], f'{indent} ')}" for key in data]
    else:
        parts = [in_lines(value, f"{indent} ") for value in data]
    begin, end = "{}" if isinstance(data, dict) else "[]"
    return f"{begin}{indent}{f',{indent}'.join(parts)}{indent[:-1]}{end}"


def load(directory: Path) -> tuple[dict[str, list[Row]], dict, dict]:
    """The rows by section, machine and versions, as `write` left them."""
    data = json.loads((directory / "benchmarks.json").read_text())
    sections = {
        title: [Row(**{k: v for k, v in row.items() if k != "verdict"}) for row in rows]
        for title, rows in data["rows"].items()
    }
    return sections, data["machine"], data["versions"]
