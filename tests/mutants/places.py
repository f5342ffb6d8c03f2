"""Finds what a mutant breaks by the names of functions, in whichever file they are."""

import re
import runpy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
runpy.run_path(str(ROOT / "include/fastdl/impl/join.py"))["write"]()  # what is compiled is broken
FOLDERS = ("include/fastdl", "src/fastdl")

#: How a definition begins, in which group 1 is its name, and how it ends.
C = tuple(
    (re.compile(begins, re.MULTILINE), re.compile(ends, re.MULTILINE))
    for begins, ends in (
        (r"^(?![#/ }*{]|typedef).*?\b(\w+)\((?!.*;$)", r"^\}"),  # a function
        (r"^(?:static )?const [^(\n]*?\b(\w+)\[.*\{$", r"^\};"),  # a table
        (r"^static [^(){}\n]*?\b(\w+);", r""),  # a variable
        (r"^#define (\w+)", r"(?<!\\)$"),
    )
)
FUNCTION = re.compile(r"^( *)(?:def|cp?def [^=\n]*?) ?\b(\w+)\(", re.MULTILINE)
VALUE = re.compile(r"^([A-Z_]+) = .*$", re.MULTILINE)


class Place(NamedTuple):
    file: str
    first: int  # characters
    last: int


def definitions(text: str, suffix: str) -> Iterator[tuple[str, int, int]]:
    """(name, first, last) of what a file defines: functions, and what C and Python have beside
    them that may be broken."""
    if suffix in (".c", ".h"):
        for begins, ends in C:
            for found in begins.finditer(text):
                last = ends.search(text, found.end())
                yield found[1], found.start(), last.end() if last else len(text)
        return
    for found in FUNCTION.finditer(text):
        outside = re.compile(rf"^ {{0,{len(found[1])}}}[^\s)]", re.MULTILINE)
        last = outside.search(text, found.end())
        yield found[2], found.start(), last.start() if last else len(text)
    for found in VALUE.finditer(text):
        yield found[1], found.start(), found.end()


@cache
def places() -> dict[str, list[Place]]:
    """Where each name is defined."""
    found: dict[str, list[Place]] = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".c", ".h", ".py", ".pyx") and path.parent.name != "impl":
                file = path.relative_to(ROOT).as_posix()
                for name, first, last in definitions(path.read_text(), path.suffix):
                    found.setdefault(name, []).append(Place(file, first, last))
    return found


class NotFound(Exception):
    """A mutant that does not fit the tree: the function, or the text in it, has changed."""


@cache
def read(file: str) -> str:
    return (ROOT / file).read_text()


def broken(functions: str, changes: tuple[tuple[str, str], ...]) -> tuple[str, str]:
    """A file, and its text with the changes made. `functions`: names, separated by spaces, in one
    of which each text to be replaced must be, once. A name may have several definitions."""
    named = [place for name in functions.split() for place in places().get(name, [])]
    edits: list[tuple[int, int, str]] = []
    files = set()
    for old, new in changes:
        found = {
            (place.file, place.first + match.start())
            for place in named
            for match in re.finditer(re.escape(old), read(place.file)[place.first : place.last])
        }
        if len(found) != 1:
            raise NotFound(f"found {len(found)} times in {functions}: {old!r}")
        ((file, at),) = found
        files.add(file)
        edits.append((at, at + len(old), new))
    if len(files) != 1:
        raise NotFound(f"{functions} is in several files: {sorted(files)}")
    (file,) = files
    text = read(file)
    for first, last, new in sorted(edits, reverse=True):
        text = text[:first] + new + text[last:]
    return file, text
