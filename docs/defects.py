"""The table of docs/upstream.md, from what `doctor` reads: see docs/quote.py."""

from collections.abc import Iterator

from fastdl._cli import defects


def as_markdown() -> Iterator[str]:
    yield from ("| seen in | defect | what fastdl does |", "|---|---|---|")
    for library, file in defects.files().items():
        for title, remedy in file.DEFECTS.items():
            yield f"| {library} {defects.seen(file)} | {title} | {remedy} |"
