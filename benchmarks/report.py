"""The report: a table for the terminal, docs/benchmarks.md, and the same in JSON."""

import json
import re
from dataclasses import asdict
from pathlib import Path

from benchmarks.budgets import REASONS, Row

HEADINGS = ("what", "view", "fastdl", "peer", "floor", "ratio", "budget", "verdict")

INTRODUCTION = """\
# Benchmarks

Every row compares things that ran interleaved in one process, on one machine, in one run. Made by
`python -m benchmarks`, which also wrote the raw samples to `benchmarks.json` beside this page.

"C loop" is what the call itself costs; "Python loop" is what a Python user sees, with the
interpreter's share. A cost is the median over processes of the median of its samples. A ratio is
the median over rounds of fastdl divided by the peer *within* a round, so that noise which slows
both cancels; in parentheses are the lowest and highest that a single process saw. The floor is
what the work cannot do without. What a dimension adds is fitted to the lowest samples.
"""

REPRODUCE = """\
## How to reproduce

    pip install '.[bench]'
    python -m benchmarks

`python -m benchmarks --long` exchanges 10^8 tensors to look for lost memory instead of 10^7, and
`--instructions` counts instructions under valgrind, which no noise touches. How to get a quiet
machine: `benchmarks/README.md`.
"""


def number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit in ("bytes", "blocks"):
        return f"{value:.0f} {unit}"
    return f"{value:.{0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2}f} {unit}"


def beside(name: str, value: float | None, unit: str) -> str:
    return f"{name} {number(value, unit)}" if name and value is not None else name


def cells(row: Row) -> tuple[str, ...]:
    ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
    if row.spread is not None:
        ratio += f" ({row.spread[0]:.3f} to {row.spread[1]:.3f})"
    return (
        row.what,
        row.view,
        number(row.ours, row.unit),
        beside(row.peer, row.peers, row.unit),
        beside(row.floor, row.floors, row.unit),
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


def as_markdown(sections: dict[str, list[Row]], machine: dict, versions: dict) -> str:
    parts = [INTRODUCTION, summary(sections), "## Machine and versions\n"]
    facts = [*machine.items(), *versions.items()]
    parts.append("\n".join(f"- {name}: {value}" for name, value in facts) + "\n")
    for title, rows in sections.items():
        parts.append(f"## {title}\n")
        lines = [HEADINGS, ("---",) * len(HEADINGS), *map(cells, rows)]
        parts.append("\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n")
    parts += [missed(sections), REPRODUCE]
    return "\n".join(parts)


def summary(sections: dict[str, list[Row]]) -> str:
    rows = [row for section in sections.values() for row in section]
    held, lost = (sum(row.verdict == v for row in rows) for v in ("held", "MISSED"))
    return f"**{held} of {held + lost} budgets held.**\n"


def missed(sections: dict[str, list[Row]]) -> str:
    lines = ["## Budgets that are missed or were not measured\n"]
    for row in (row for section in sections.values() for row in section):
        if row.verdict in ("MISSED", "not measured"):
            why = row.failure or REASONS.get(row.key, "no reason recorded yet")
            lines.append(f"- {row.what}, {row.view or 'size'}, {row.peer}: {why}")
    return "\n".join(lines if len(lines) > 1 else [*lines, "None."]) + "\n"


def write(directory: Path, sections, machine, versions, samples) -> None:
    directory.mkdir(exist_ok=True)
    (directory / "benchmarks.md").write_text(as_markdown(sections, machine, versions))
    data = {
        "machine": machine,
        "versions": versions,
        "rows": {
            title: [asdict(row) | {"verdict": row.verdict} for row in rows]
            for title, rows in sections.items()
        },
        "samples": samples,  # nanoseconds: group -> one of {subject: [one a round]} per process
    }
    text = json.dumps(data, indent=1)
    (directory / "benchmarks.json").write_text(compact_lists(text) + "\n")


def compact_lists(text: str) -> str:
    """The JSON with each list of numbers on one line."""
    return re.sub(
        r"\[\s+([-\d.e+]+(?:,\s+[-\d.e+]+)*)\s+\]",
        lambda found: "[" + re.sub(r"\s+", " ", found[1]) + "]",
        text,
    )
