"""The inventory: what the sources of fastdl say in words, by a scanner of their text literals.

A message is put together from literals: in a `raise`, in a table of reasons, by a function that
adds a hint. So none of these forms is searched for. Every literal of two words or more counts, but
for docstrings; `not_messages.py` lists the few that are something else.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

_QUOTED = r'"(?:[^"\\\n]|\\.)*"'
_EITHER = rf"(?:{_QUOTED}|'(?:[^'\\\n]|\\.)*')"
PYTHON = re.compile(
    rf'(?P<skip>#[^\n]*|r?"""(?s:.*?)"""|\b(?:r|rf|fr){_EITHER})'  # raw: a regular expression
    rf"|(?:\b[fbc])?(?P<text>{_EITHER})|(?P<code>\S)"
)
C = re.compile(
    r"(?P<skip>//[^\n]*|/\*(?s:.*?)\*/|'(?:[^'\\\n]|\\.)+'|\\\n"
    r"|(?m:^\s*#\s*(?:include|error)[^\n]*)|\bstatic_assert\((?s:.*?)\);)"  # the compiler's words
    rf"|(?P<text>{_QUOTED})|(?P<code>\S)"
)
_FIELD = {
    "python": re.compile(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}"),
    "c": re.compile(r"%[-+ #0]*[\d*]*(?:\.[\d*]+)?(?:ll|[lhzt])?[a-zA-Z]"),
}
_WORDS = re.compile(r"[A-Za-z]\S* +\S|\S +[A-Za-z]")

#: Annotations, pragmas, docstrings of properties, and MODULE:EXPRESSION.
_OTHERS = re.compile(
    r"[\w.,\[\] ]+(?: \| [\w.,\[\] |]+|\])|(?:clang|GCC) diagnostic .*|[A-Z][^…]*\."
    r"|[\w.]+:[\w.]+\(.*\)",
    re.DOTALL,
)


class Literal(NamedTuple):
    """The words of one text literal: `parts` are between its fields."""

    place: str
    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        return "…".join(self.parts)

    def is_in(self, message: str) -> bool:
        return re.search(".*?".join(map(re.escape, self.parts)), message, re.DOTALL) is not None


def literals() -> Iterator[Literal]:
    """Of all sources but the suite's, which speaks of other libraries. The commands print; their
    errors begin with "expected"."""
    paths = [*(ROOT / "include").rglob("*"), *(ROOT / "src" / "fastdl").rglob("*")]
    for path in sorted(paths):
        if "_testing" in path.parts:
            continue
        if path.suffix == ".py" and (path.parent.name == "_cli" or path.name == "__main__.py"):
            found = _literals_of(path, PYTHON)
            yield from (literal for literal in found if literal.text.startswith("expected"))
        elif path.suffix in (".py", ".pyx", ".pxd"):
            yield from _literals_of(path, PYTHON)
        elif path.suffix in (".c", ".h"):
            yield from _literals_of(path, C)


def _literals_of(path: Path, scanner: re.Pattern) -> Iterator[Literal]:
    return literals_in(path.read_text(), path.relative_to(ROOT).as_posix(), scanner)


def literals_in(source: str, name: str, scanner: re.Pattern) -> Iterator[Literal]:
    begin, parts = 0, [""]
    for match in [*scanner.finditer(source), None]:
        if match is not None and match["skip"]:
            continue
        if match is not None and match["text"]:
            begin = begin or source.count("\n", 0, match.start()) + 1
            first, *others = _parts(match["text"], scanner is C)
            parts = [*parts[:-1], parts[-1] + first, *others]
        elif begin:
            text = "x".join(parts)
            if _WORDS.search(text) and not _OTHERS.fullmatch(text):
                yield Literal(f"{name}:{begin}", tuple(parts))
            begin, parts = 0, [""]


def _parts(text: str, is_c: bool) -> list[str]:
    pieces = _FIELD["c" if is_c else "python"].split(text[1:-1])
    return [ast.literal_eval(f'"{p}"' if text[0] == '"' else f"'{p}'") for p in pieces]


if __name__ == "__main__":
    for literal in literals():
        print(literal.place, literal.text, sep="\t")
