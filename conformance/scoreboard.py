"""What README.md shows of scoreboard.json and pairs.json, which these commands write:

python -m dlpack_conformance scoreboard --output scoreboard.json
python -m dlpack_conformance pairs --output pairs.json
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from dlpack_conformance import pairs as grid
from dlpack_conformance import reports
from dlpack_conformance.suite import BAD, MEMORY, SEVERITIES, all_checks

FOLDER = Path(__file__).parent


def stored(name: str) -> dict:
    return json.loads((FOLDER / name).read_text("utf-8"))


def number() -> Iterator[str]:
    checks = all_checks()
    unsafe = sum(check.severity == MEMORY for check in checks.values())
    yield f"There are {len(checks)} checks; {unsafe} of them look for memory that is used or freed"
    yield "wrongly."


def scoreboard() -> Iterator[str]:
    board = stored("scoreboard.json")
    yield f"Taken on {board['date']} with CPython {board['python']}."
    yield ""
    yield from reports.in_rows(
        reports.row(report["library"], Counter(report["counts"]), Counter(report["severities"]))
        for report in board["reports"]
    )


def own() -> Iterator[str]:
    (report,) = (
        r for r in stored("scoreboard.json")["reports"] if r["library"]["name"] == "fastdl"
    )
    for finding in report["findings"]:
        check = all_checks()[finding["id"]]
        yield f"- `{check.id}`: {check.sentence} Instead: {one_line(finding['note'])}."


def findings() -> Iterator[str]:
    """For each library what failed, the worst first; checks with the same note together."""
    for report in stored("scoreboard.json")["reports"]:
        bad = [f for f in report["findings"] if f["outcome"] in BAD]
        if not bad:
            continue
        library = report["library"]
        yield f"**{library['title']}** {library['version']}"
        yield ""
        order = lambda f: (SEVERITIES.index(f["severity"]), one_line(f["note"]))  # noqa: E731
        for (severity, note), same in groupby(
            sorted(bad, key=order), lambda f: (f["severity"], one_line(f["note"]))
        ):
            names = ", ".join(f"`{f['id']}`" for f in same)
            yield f"- {severity}: {names}: {note}"
        yield ""


def one_line(note: str) -> str:
    """A note without what differs from run to run, short, and plain in Markdown."""
    text = re.sub(r"0x[0-9a-f]+|\b\d{9,}\b", "...", " ".join(note.split()))
    text = re.sub(r"(/[\w.+-]+){2,}", "...", text)
    text = re.sub(r"(died of \w+): .*", r"\1", text)
    text = text.replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[").replace("*", "\\*")
    return text if len(text) < 120 else f"{text[:110].rsplit(' ', 1)[0]} ..."


def pairs() -> Iterator[str]:
    yield "```text"
    yield from (line.rstrip() for line in grid.lines(stored("pairs.json")))
    yield "```"


def notes_of_pairs() -> Iterator[str]:
    """The pairs that do not work, with the reason."""
    found = stored("pairs.json")["pairs"]
    bad = {key: c for key, c in found.items() if c["outcome"] in (grid.WRONG, grid.DIES)}
    for key, cell in bad.items():
        producer, consumer = key.split("/")
        yield f"- {producer} to {consumer}: {cell['outcome']}: {one_line(cell['note'])}"
