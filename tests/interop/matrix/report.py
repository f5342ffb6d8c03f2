"""docs/interop.md and its picture, from results.json: python -m tests.interop.matrix.report

Needs no library, and gives the same bytes for the same results. With --check nothing is written;
what is stale is named, and the exit status is 1.
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby
from pathlib import Path

from ..peers import BY_NAME, LIBRARIES
from .cells import COPY, DIES, OUTCOMES, REFUSED, WRONG, ZERO_COPY, Cell
from .particular import ROWS
from .sources import DTYPES, LAYOUTS

ROOT = Path(__file__).parents[3]
RESULTS = Path(__file__).with_name("results.json")
PAGE, PICTURE = ROOT / "docs/interop.md", ROOT / "docs/interop.svg"

COLOURS = {
    ZERO_COPY: "#2f9e63",
    COPY: "#f0b429",
    REFUSED: "#b9c0c9",
    WRONG: "#d64545",
    DIES: "#000000",
}
DIRECTIONS = {
    "import": "import",
    "export": "own function",
    "from": "`convert` from it",
    "to": "`convert` to it",
}
WAYS = {"own": "by the consumer's own function", "convert": "by fastdl.convert"}

HEAD = """\
# Interoperability

What becomes of the arrays of other libraries in fastdl, and of fastdl's tensors there. Everything
on this page was measured by `tests/interop/matrix`: each library in a process of its own, and
the exchanges between libraries in one. CI measures it again, and fails if a cell has turned worse.

| outcome | meaning |
|---|---|
| zero-copy | The address stays the same, and a write on one side is seen on the other. |
| copy | The values arrive in other memory. |
| refused | An exception. The array that was passed is unchanged, and nothing keeps it. |
| wrong | Other values arrive, a write is not seen, or memory is released early or never. |
| dies | The process ends. |

Every cell compares the values and checks lifetimes: memory outlives whoever made it, and is
released with its last user.
"""
GRID = """\
## Every library to every other

Rows produce, columns consume two rows of three float32 numbers, or six in a row. *By the
consumer's own function* means that it is given a `fastdl.Tensor`: by `torch.from_dlpack`,
`tf.experimental.dlpack.from_dlpack`, a constructor, and so on. All libraries are in one process.

![Producers by consumers](interop.svg)
"""
ROWS_HEAD = """\
## Library by library

*Import* is `fastdl.from_dlpack(array)`, or `fastdl.asarray(array)` for what has no `__dlpack__`.
*Own function* is how the library takes a `fastdl.Tensor`. Element types are tried with three
elements in a row, layouts with float32. A library that has no array for a case has no cell there.
"""

Rows = dict[str, dict[str, str]]


# ---- the page -------------------------------------------------------------------------------


def page(rows: Rows) -> Iterator[str]:
    yield HEAD
    yield GRID
    yield from refusals(rows["grid"])
    yield ROWS_HEAD
    yield from summary(rows)
    for peer in LIBRARIES:
        if peer.name in rows:
            yield from section(peer.name, rows[peer.name])
    for name, row in ROWS.items():
        if name in rows:
            yield from particular_section(row, rows[name])


def refusals(cells: dict[str, str]) -> Iterator[str]:
    """Why the grid has other colours than green and yellow, one line for each reason."""
    for way, words in WAYS.items():
        found: dict[tuple, dict[str, list[str]]] = {}  # by reason: consumer -> producers
        examples: dict[tuple, Cell] = {}
        producers, consumers = pairs = {}, {}  # all of them, as ordered sets
        for name in sorted(cells, key=lambda name: list(map(order, name.split("/")))):
            kind, producer, consumer = name.split("/")
            if kind != way:
                continue
            producers[producer] = consumers[consumer] = True
            cell = Cell.parse(cells[name])
            if cell.outcome not in (ZERO_COPY, COPY):
                note = re.sub(r"'[\w.]+'|\w+\.[\w.]+|\(\d.*?\)|\d+", "#", cell.note)
                key = (cell.outcome, note[:60])  # what follows depends on the length of names
                examples.setdefault(key, cell)
                found.setdefault(key, {}).setdefault(consumer, []).append(producer)
        if found:
            yield f"Refused {words}:\n"
            yield "| from | to | outcome |\n|---|---|---|"
            for key, refused in found.items():
                outcome = f"{shown(examples[key])}: {quoted(examples[key].note)}"
                for sources, group in groupby(refused, key=lambda name: refused[name]):
                    sides = zip((sources, list(group)), pairs, strict=True)
                    yield f"| {' | '.join(titles(*side) for side in sides)} | {outcome} |"
            yield ""


def titles(names: list[str], everyone: Iterable[str]) -> str:
    missing = [name for name in everyone if name not in names]
    if len(missing) > 4:
        return ", ".join(BY_NAME[name].title for name in names)
    return " but ".join(filter(None, ("all", ", ".join(BY_NAME[name].title for name in missing))))


def order(name: str) -> int:
    return next((number for number, peer in enumerate(LIBRARIES) if peer.name == name), -1)


def summary(rows: Rows) -> Iterator[str]:
    yield f"| library | version | {' | '.join(DIRECTIONS.values())} |"
    yield "|---" * (2 + len(DIRECTIONS)) + "|"
    for peer in LIBRARIES:
        cells = rows.get(peer.name, {})
        if cells:
            tallies = (tally(cells, direction) for direction in DIRECTIONS)
            yield f"| {peer.title} | {cells['version']} | {' | '.join(tallies)} |"
    yield ""


def tally(cells: dict[str, str], direction: str) -> str:
    counts = Counter(
        Cell.parse(text).outcome
        for name, text in cells.items()
        if name.partition("/")[0] == direction
    )
    return ", ".join(f"{counts[word]} {word}" for word in OUTCOMES if counts[word]) or "-"


def section(name: str, cells: dict[str, str]) -> Iterator[str]:
    yield f"### {BY_NAME[name].title} {cells['version']}\n"
    used = [key for key in DIRECTIONS if any(cell.startswith(f"{key}/") for cell in cells)]
    yield f"| case | {' | '.join(DIRECTIONS[key] for key in used)} |"
    yield "|---" * (1 + len(used)) + "|"
    notes: dict[str, int] = {}
    cases = [
        (case, [Cell.parse(cells.get(f"{key}/{case}", "")) for key in used])
        for case in (*DTYPES, *LAYOUTS)
        if any(f"{key}/{case}" in cells for key in used)
    ]
    for _, group in groupby(cases, key=lambda row: [like(cell, row[0]) for cell in row[1]]):
        merged = list(group)
        words = (entry(cell, notes) for cell in merged[0][1])
        yield f"| {', '.join(LAYOUTS.get(c, c) for c, _ in merged)} | {' | '.join(words)} |"
    yield ""
    yield from (f"{number}. {quoted(note)}" for note, number in notes.items())
    if notes:
        yield ""


def like(cell: Cell, case: str) -> tuple[str, str]:
    """What cells have in common that stand in one row: their notes may differ in the dtype."""
    return cell.outcome, re.sub(rf"\b({case}|{'|'.join(DTYPES)}|\d+)\b|\d+", "#", cell.note)


def particular_section(row, cells: dict[str, str]) -> Iterator[str]:
    yield f"### {row.title} {cells.get('version', '')}".rstrip() + "\n"
    yield f"{row.about}\n"
    yield "| case | outcome |\n|---|---|"
    for name, text in cells.items():
        if name != "version":
            cell = Cell.parse(text)
            yield f"| {name} | {shown(cell)}{': ' + quoted(cell.note) if cell.note else ''} |"
    yield ""


def entry(cell: Cell, notes: dict[str, int]) -> str:
    if not cell.note:
        return shown(cell)
    if cell.outcome in (ZERO_COPY, COPY):
        return f"{shown(cell)}, {cell.note}"
    return f"{shown(cell)} ({notes.setdefault(cell.note, len(notes) + 1)})"


def shown(cell: Cell) -> str:
    return f"**{cell.outcome}**" if cell.outcome in (WRONG, DIES) else cell.outcome


def quoted(note: str) -> str:
    return f"`{note.replace('`', chr(39)).replace('|', '/')}`" if note else ""


# ---- the picture ----------------------------------------------------------------------------

SIZE, LEFT, TOP, RIGHT, FOOT = 20, 190, 210, 90, 40

STYLE = """\
text { font: 11px sans-serif; fill: #1f2328 } .title { font-size: 14px; font-weight: 600 }
.end { text-anchor: end }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .dies { stroke: #e6edf3 } }"""


def picture(cells: dict[str, str]) -> Iterator[str]:
    """A panel for each way, one below the other, for the light and the dark theme of a reader."""
    pairs = {
        tuple(name.split("/")): Cell.parse(text) for name, text in cells.items() if "/" in name
    }
    names = [peer.name for peer in LIBRARIES]
    producers = [name for name in names if any(pair[1] == name for pair in pairs)]
    # The columns of each panel: not every consumer is a target of convert.
    panels = {
        way: consumers
        for way in WAYS
        if (consumers := [name for name in names if any(p[::2] == (way, name) for p in pairs)])
    }
    width = LEFT + SIZE * max(map(len, panels.values())) + RIGHT
    panel = TOP + SIZE * len(producers)
    height = panel * len(panels) + FOOT
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">'
    )
    yield f"<style>\n{STYLE}\n</style>"
    for number, (way, consumers) in enumerate(panels.items()):
        base = number * panel
        yield f'<text x="0" y="{base + 24}" class="title">{escape(WAYS[way])}</text>'
        for column, consumer in enumerate(consumers):
            x, y = LEFT + column * SIZE + SIZE // 2 + 4, base + TOP - 6
            yield f'<text x="{x}" y="{y}" transform="rotate(-60 {x} {y})">{label(consumer)}</text>'
        for line, producer in enumerate(producers):
            y = base + TOP + line * SIZE
            yield f'<text x="{LEFT - 8}" y="{y + 14}" class="end">{label(producer)}</text>'
            for column, consumer in enumerate(consumers):
                cell = pairs.get((way, producer, consumer))
                if cell is not None:
                    yield square(LEFT + column * SIZE, y, cell, f"{producer} to {consumer}")
    x, y = LEFT, height - 24
    for outcome in (ZERO_COPY, COPY, REFUSED, WRONG, DIES):
        if any(cell.outcome == outcome for cell in pairs.values()):
            yield f'<rect x="{x}" y="{y}" width="14" height="14" fill="{COLOURS[outcome]}"/>'
            yield f'<text x="{x + 20}" y="{y + 11}">{outcome}</text>'
            x += 100
    yield "</svg>"


def label(name: str) -> str:
    return escape(BY_NAME[name].title.replace("`", ""))


def square(x: int, y: int, cell: Cell, pair: str) -> str:
    outline = ' class="dies"' if cell.outcome == DIES else ""  # black is not seen on black
    return (
        f'<rect x="{x + 1}" y="{y + 1}" width="{SIZE - 2}" height="{SIZE - 2}" '
        f'fill="{COLOURS[cell.outcome]}"{outline}>'
        f"<title>{escape(f'{pair}: {cell}')}</title></rect>"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args(arguments).check
    rows = json.loads(RESULTS.read_text())
    status = 0
    for path, lines in ((PAGE, page(rows)), (PICTURE, picture(rows["grid"]))):
        text = "\n".join(lines).rstrip() + "\n"
        if check:
            stale = not path.exists() or path.read_text() != text
            if stale:
                print(f"{path.name} is stale: run python -m tests.interop.matrix.report")
            status |= stale
        else:
            path.write_text(text)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
