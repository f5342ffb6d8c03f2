"""The mutants: ways to break fastdl, each of which must turn a test red.

Each is one mistake that a person could make. The files beside this one list them, a paragraph each:

    what it stands for
    in FUNCTION, seen by TEST
    - what to replace there
    + by what

Several functions or tests are separated by spaces; `places.py` says what counts as one. A test is
`streams` for all of test_streams.py, `streams::test_x` to save time, or a path. What is to be
replaced may have several lines, and there may be several such pairs; without `+` it is removed. It
must occur exactly once in its function, so that it stays the mistake that its name says; who
changes the function mends the table.
"""

import re
from pathlib import Path
from typing import NamedTuple

FILES = (
    *("core", "tensor", "header", "ordering", "drivers", "contexts", "memory", "policy", "forms"),
    *("convert", "producing", "casters"),
)
PLACE = re.compile(r"in (.+), seen by (.+)")


class Mutant(NamedTuple):
    name: str
    functions: str  # what it breaks: names, separated by spaces
    changes: tuple[tuple[str, str], ...]  # what to replace there, by what
    tests: tuple[str, ...]  # as pytest is given them


def path_of(test: str) -> str:
    if test.startswith("tests/"):
        return test
    file, mark, name = test.partition("::")
    (path,) = Path(__file__).parents[1].rglob(f"test_{file}.py")
    return f"{path.relative_to(Path(__file__).parents[2]).as_posix()}{mark}{name}"


def changes_of(lines: list[str]) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[list[str], list[str]]] = []
    for line in lines:
        sign, text = line[0], line[2:]
        if sign == "-" and (not pairs or pairs[-1][1]):
            pairs.append(([], []))
        pairs[-1][sign == "+"].append(text)
    return tuple(("\n".join(old), "\n".join(new)) for old, new in pairs)


def mutant(paragraph: str) -> Mutant:
    name, place, *lines = paragraph.splitlines()
    found = PLACE.fullmatch(place)
    assert found is not None and lines, f"not a mutant:\n{paragraph}"
    tests = tuple(map(path_of, found[2].split()))
    return Mutant(name, found[1], changes_of(lines), tests)


def paragraphs(file: str) -> list[str]:
    """All but the first, which says what the file is about."""
    text = Path(__file__).with_name(f"{file}.txt").read_text()
    return [part.strip("\n") for part in text.split("\n\n")[1:]]


MUTANTS = [mutant(paragraph) for file in FILES for paragraph in paragraphs(file)]
