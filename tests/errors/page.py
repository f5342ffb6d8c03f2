"""docs/errors.md, for docs/quote.py."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module

from tests.errors.row import Group

GROUPS = "importing converting exporting views dtypes_and_devices streams c_api installing".split()


@cache
def groups() -> list[Group]:
    return [import_module(f"tests.errors.{name}").GROUP for name in GROUPS]


def as_markdown() -> Iterator[str]:
    """All messages with their cures."""
    for group in groups():
        yield from (f"## {group.title}", "", group.text, "")
        for row in group.rows:
            yield from (f"`{row.message}`", f": *{row.error.__name__}*. {row.cure}", "")
