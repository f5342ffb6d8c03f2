"""The table of docs/upstream.md, from the one that `doctor` reads: see docs/quote.py."""

from collections.abc import Iterator

from fastdl._cli.defects import DEFECTS, SEEN


def as_markdown() -> Iterator[str]:
    yield from ("| seen in | defect | what fastdl does |", "|---|---|---|")
    for library, rows in DEFECTS.items():
        for title, remedy in rows.items():
            yield f"| {library} {SEEN[library]} | {title} | {remedy} |"
