"""The report: a table for the terminal, docs/benchmarks.md, and the same in JSON."""

import json
import re
from dataclasses import asdict
from pathlib import Path

from benchmarks.rows import REASONS, Row

HEADINGS = ("what", "view", "fastdl", "peer", "floor", "ratio", "budget", "verdict")

INTRODUCTION = """\
# Benchmarks

`python -m benchmarks` wrote this page, and the raw samples in `benchmarks.json`. Each row compares
subjects that ran interleaved in one process, on one machine, in one run.

"C loop" is the cost of the call itself. "Python loop" is the cost that a Python user sees, with
the interpreter's share. A cost is the median over processes of the median of the samples. A ratio
is the median over rounds of fastdl's cost divided by the peer's *in the same round*, so noise that
slows both cancels out; the parentheses hold the lowest and highest ratio of a single process. The
floor is the part of the work that cannot be avoided. The cost of a dimension is fitted to the
lowest samples.
"""

REPRODUCE = """\
## How to reproduce

    pip install '.[bench]'
    python -m benchmarks

`--long` exchanges 10^8 tensors instead of 10^7 to look for leaks, and `--instructions` counts
instructions under valgrind, which noise does not affect. `benchmarks/README.md` says how to quiet a
machine.
"""


def number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit in ("bytes", "blocks"):
        return f"{value:.0f} {unit}"
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


def as_markdown(sections: dict[str, list[Row]], machine: dict, versions: dict) -> str:
    parts = [INTRODUCTION, summary(sections), "## Machine and versions\n"]
    facts = [*machine.items(), *versions.items()]
    parts.append("\n".join(f"- {name}: {value}" for name, value in facts) + "\n")
    for title, rows in sections.items():
        parts.append(f"## {title}\n")
        lines = [HEADINGS, ("---",) * len(HEADINGS), *map(cells, rows)]
        table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        parts.append(table.replace("__", r"\_\_") + "\n")  # or names would be set in bold
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
            why = row.failure or reason(row, sections)
            where = ", ".join(part for part in (row.view or "size", row.peer) if part)
            lines.append(f"- {row.what}, {where}: {why}")
    return "\n".join(lines if len(lines) > 1 else [*lines, "None."]) + "\n"


def reason(row: Row, sections: dict[str, list[Row]]) -> str:
    """Why the budget of a row is missed, with the figures of this run."""
    rows = {other.key: other for section in sections.values() for other in section}

    def figure(found: re.Match) -> str:
        other = rows[found["key"]]
        return number(getattr(other, found["field"]), other.unit)

    text = REASONS.get(row.key, "no reason recorded yet")
    return re.sub(r"\{(?P<key>[^:}]+):(?P<field>\w+)\}", figure, text)


def write(directory: Path, sections, machine, versions, samples) -> None:
    directory.mkdir(exist_ok=True)
    write_page(directory, sections, machine, versions)
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


def write_page(directory: Path, sections, machine, versions) -> None:
    (directory / "benchmarks.md").write_text(as_markdown(sections, machine, versions))


def load(directory: Path) -> tuple[dict[str, list[Row]], dict, dict]:
    """The rows by section, machine and versions, as `write` left them."""
    data = json.loads((directory / "benchmarks.json").read_text())
    sections = {
        title: [Row(**{k: v for k, v in row.items() if k != "verdict"}) for row in rows]
        for title, rows in data["rows"].items()
    }
    return sections, data["machine"], data["versions"]
