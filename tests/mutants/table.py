# SPDX-License-Identifier: Apache-2.0
"""The mutants: ways to break fastdl, each of which must turn a test red.

Each is one mistake that a person could make, whose effect would be memory that is lost or freed too
early, a wrong exchange, work that is not waited for, or an element at a wrong address. The files
beside this one list them, a paragraph each:

    what it stands for
    in FUNCTION, seen by TEST
    - what to replace there
    + by what

Several tests are separated by spaces. One is `streams` for all of test_streams.py, in whichever
folder it is, or `streams::test_x` to save time. What is to be replaced may have several lines;
without `+` it is removed. It must occur exactly once in the function, in whichever file that is, so
that it stays the mistake that its name says; who changes the function mends the table.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SUBJECTS = ("ownership", "negotiation", "streams", "layout")
PLACE = re.compile(r"in (\w+), seen by (.+)")

FOLDERS = ("include/fastdl", "src/fastdl")
JOINED = ROOT / "include/fastdl/fastdl.c"  # by the build, of what is broken
# How a function begins: its indentation, and its name.
C = re.compile(r"^()(?![#/ }*{]|typedef).*?\b(\w+)\((?!.*;$)", re.MULTILINE)
PYTHON = re.compile(r"^( *)(?:def|cp?def [^=\n]*?) ?\b(\w+)\(", re.MULTILINE)


class Mutant(NamedTuple):
    subject: str
    name: str
    function: str  # what it breaks
    old: str  # what to replace there
    new: str
    tests: tuple[str, ...]  # as pytest is given them


class Place(NamedTuple):
    file: str
    first: int  # characters
    last: int


class NotFound(Exception):
    """A mutant that does not fit the tree: the function, or the text in it, has changed."""


@cache
def file_of(name: str) -> str:
    """The file of the tests of a name."""
    found = [*(ROOT / "tests").rglob(f"test_{name}.py")]
    assert len(found) == 1, f"the tests of {name} are in {found}"
    return found[0].relative_to(ROOT).as_posix()


def path_of(test: str) -> str:
    file, mark, name = test.partition("::")
    return f"{file_of(file)}{mark}{name}"


def mutant(subject: str, paragraph: str) -> Mutant:
    name, place, *lines = paragraph.splitlines()
    found = PLACE.fullmatch(place)
    assert found is not None and lines, f"not a mutant:\n{paragraph}"
    old, new = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+")
    return Mutant(subject, name, found[1], old, new, tuple(map(path_of, found[2].split())))


def paragraphs(subject: str) -> list[str]:
    """All but the first, which says what the file is about."""
    text = Path(__file__).with_name(f"{subject}.txt").read_text()
    return [part.strip("\n") for part in text.split("\n\n")[1:]]


def functions(text: str, suffix: str) -> Iterator[tuple[str, int, int]]:
    """(name, first, last) of each in a file."""
    in_c = suffix in (".c", ".h")
    for begins in (C if in_c else PYTHON).finditer(text):
        end = r"^\}" if in_c else rf"^ {{0,{len(begins[1])}}}[^\s)]"
        ends = re.compile(end, re.MULTILINE).search(text, begins.end())
        yield begins[2], begins.start(), ends.start() if ends else len(text)


@cache
def places() -> dict[str, list[Place]]:
    """Where each function is defined; there may be several of a name."""
    found: dict[str, list[Place]] = {}
    for path in (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))):
        if path.suffix in (".c", ".h", ".py", ".pyx") and path != JOINED:
            for name, first, last in functions(read(path), path.suffix):
                file = path.relative_to(ROOT).as_posix()
                found.setdefault(name, []).append(Place(file, first, last))
    return found


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def broken(mutant: Mutant) -> tuple[str, str]:
    """The file that a mutant changes, and its text with the change made."""
    found = {
        (place.file, place.first + match.start())
        for place in places().get(mutant.function, ())
        for match in re.finditer(
            re.escape(mutant.old), read(ROOT / place.file)[place.first : place.last]
        )
    }
    if len(found) != 1:
        raise NotFound(f"found {len(found)} times in {mutant.function}: {mutant.old!r}")
    ((file, at),) = found
    text = read(ROOT / file)
    return file, text[:at] + mutant.new + text[at + len(mutant.old) :]


MUTANTS = [mutant(subject, text) for subject in SUBJECTS for text in paragraphs(subject)]
