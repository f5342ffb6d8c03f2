# SPDX-License-Identifier: Apache-2.0
"""What docs/interop.md shows of the stored results: see docs/quote.py. Needs no library."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

from ..peers import BY_NAME, LIBRARIES
from .cells import COPY, DIES, OUTCOMES, WRONG, ZERO_COPY, Cell, load
from .particular import ROWS
from .sources import DTYPES, LAYOUTS

DIRECTIONS = {
    "import": "import",
    "export": "own function",
    "from": "`convert` from it",
    "to": "`convert` to it",
}
WAYS = {"own": "by the consumer's own function", "convert": "by fastdl.convert"}

# ---- the page -------------------------------------------------------------------------------


def sections() -> Iterator[str]:
    """A collapsed part for each library, and each row of another kind."""
    rows = load()
    for peer in LIBRARIES:
        yield from section(peer.name, rows[peer.name])
    for name, row in ROWS.items():
        yield from particular_section(row, rows[name])


def refusals() -> Iterator[str]:
    """Why the grid has other colours than green and yellow, one line for each reason."""
    cells = load()["grid"]
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


def summary() -> Iterator[str]:
    """How many cases of each library are shared, copied and refused, and the bad ones."""
    rows = load()
    columns = {key: title for key, title in DIRECTIONS.items() if key != "from"}  # as "import"
    yield f"| library | {' | '.join(columns.values())} |"
    yield "|---" * (1 + len(columns)) + "|"
    for peer in LIBRARIES:
        cells = rows[peer.name]
        tallies = (tally(cells, direction) for direction in columns)
        title = re.sub(r" [\d.]+$", "", peer.title)  # the version says more
        yield f"| {title} {cells['version']} | {' | '.join(tallies)} |"


def tally(cells: dict[str, str], direction: str) -> str:
    counts = Counter(
        Cell.parse(text).outcome
        for name, text in cells.items()
        if name.partition("/")[0] == direction
    )
    if not counts:
        return "–"
    bad = (f", {counts[word]} **{word}**" for word in (WRONG, DIES) if counts[word])
    return "/".join(str(counts[word]) for word in OUTCOMES[:3]) + "".join(bad)


def section(name: str, cells: dict[str, str]) -> Iterator[str]:
    yield from opened(BY_NAME[name].title, cells["version"])
    used = [key for key in DIRECTIONS if any(cell.startswith(f"{key}/") for cell in cells)]
    yield f"| case | {' | '.join(DIRECTIONS[key] for key in used)} |"
    yield "|---" * (1 + len(used)) + "|"
    notes: dict[str, str] = {}  # of those that are alike, the first
    merged: dict[tuple, list[str]] = {}
    for case in (*DTYPES, *LAYOUTS):
        if any(f"{key}/{case}" in cells for key in used):
            row = [Cell.parse(cells.get(f"{key}/{case}", "")) for key in used]
            words = tuple(entry(cell, case, notes) for cell in row)
            merged.setdefault(words, []).append(LAYOUTS.get(case, case))
    for words, cases in merged.items():
        yield f"| {', '.join(cases)} | {' | '.join(words)} |"
    yield ""
    yield from (f"{number}. {quoted(note)}" for number, note in enumerate(notes.values(), 1))
    yield "\n</details>\n"


def opened(*words: str) -> Iterator[str]:
    """The head of a part that is collapsed."""
    title = re.sub(r"`([^`]*)`", r"<code>\1</code>", " ".join(filter(None, words)))
    yield f"<details>\n<summary>{title}</summary>\n"


def like(note: str, case: str) -> str:
    """What notes that are alike have in common: the dtype may differ, and where they end."""
    return re.sub(rf"\b(an?|{case}|{'|'.join(DTYPES)})\b|\d+", "#", note)[:100]


def particular_section(row, cells: dict[str, str]) -> Iterator[str]:
    yield from opened(row.title, cells.get("version", ""))
    yield f"{row.about}\n"
    yield "| case | outcome |\n|---|---|"
    for name, text in cells.items():
        if name != "version":
            cell = Cell.parse(text)
            yield f"| {name} | {shown(cell)}{': ' + quoted(cell.note) if cell.note else ''} |"
    yield "\n</details>\n"


def entry(cell: Cell, case: str, notes: dict[str, str]) -> str:
    if not cell.note:
        return shown(cell)
    if cell.outcome in (ZERO_COPY, COPY):
        return f"{shown(cell)}, {cell.note}"
    notes.setdefault(key := like(cell.note, case), cell.note)
    return f"{shown(cell)} ({[*notes].index(key) + 1})"


def shown(cell: Cell) -> str:
    return f"**{cell.outcome}**" if cell.outcome in (WRONG, DIES) else cell.outcome


def quoted(note: str) -> str:
    return f"`{note.replace('`', chr(39)).replace('|', '/')}`" if note else ""
