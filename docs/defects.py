# SPDX-License-Identifier: Apache-2.0
"""The lists of docs/upstream.md, from what `doctor` reads: see docs/quote.py.

Each defect has a program in docs/examples/defects/of_LIBRARY.py, where a line `# %% title` begins
one. The line after it may be `# dies of SIGNAL`. A program that ends the process in this way, or
runs to its end, has shown the defect: tests/interop/test_upstream.py runs them all.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import collapsed
from fastdl._cli import defects

FOLDER = Path(__file__).parent / "examples" / "defects"
CELL = re.compile(
    r"^# %% (?P<title>.*)\n(?:# dies of (?P<signal>\w+)\n)?(?P<text>(?:(?!# %% ).*\n)*)",
    re.MULTILINE,
)


class Program(NamedTuple):
    library: str  # as imported
    title: str
    signal: str | None  # that ends the process
    text: str


def programs(library: str = "*") -> list[Program]:
    """Of one library, or of all."""
    return [
        Program(path.stem.removeprefix("of_"), *cell.group("title", "signal", "text"))
        for path in sorted(FOLDER.glob(f"of_{library}.py"))
        for cell in CELL.finditer(path.read_text())
    ]


def as_markdown() -> Iterator[str]:
    for number, (library, file) in enumerate(defects.files().items()):
        path = f"examples/defects/of_{library}.py"
        yield from ([""] if number else [])
        release = file.RELEASE.replace("==", " ")
        yield from (f"### {library}", "", f"Seen in {release} ([programs]({path})):", "")
        for title, remedy in file.DEFECTS.items():
            yield f"- **{title}.** {remedy}"
        yield from ("", f"<!-- site: docs.defects:folded#{library} -->")


def folded(library: str) -> Iterator[str]:
    """The programs of a library, for the site."""
    for program in programs(library):
        yield from collapsed(
            program.title, ["```python", *program.text.strip().splitlines(), "```"]
        )
