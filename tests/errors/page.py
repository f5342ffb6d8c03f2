"""The messages in docs/errors.md, for docs/quote.py."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module

from tests.errors.row import Group, Row

GROUPS = (
    "importing converting exporting views dtypes_and_devices streams c_api producing commands"
).split()


@cache
def groups() -> list[Group]:
    return [import_module(f"tests.errors.{name}").GROUP for name in GROUPS]


def as_markdown() -> Iterator[str]:
    """A section for each group, and all its messages with their cures."""
    for group in groups():
        yield from (f"## {group.title}", "", group.text, "")
        yield from map(entry, group.rows)
        yield ""


def entry(row: Row) -> str:
    quote = "``" if "`" in row.message else "`"
    space = " " if row.message.startswith("`") else ""
    return f"- {quote}{space}{row.message}{quote}\n  *{row.error.__name__}*. {row.cure}"
