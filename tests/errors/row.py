"""One row for each error: what raises it, its type and message, and what to do about it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

Deed = Callable[[], object]


class Row(NamedTuple):
    """`do` raises the error; several do it in variants of the message. Where that takes a module
    which another test builds, `do` is a text: "tests/test_x.py: what that test matches"."""

    do: Deed | tuple[Deed, ...] | str
    error: type[BaseException]
    message: str  # "…" stands for what differs from case to case
    cure: str

    @property
    def variants(self) -> tuple[Deed, ...]:
        if isinstance(self.do, str):
            return ()
        return self.do if isinstance(self.do, tuple) else (self.do,)

    def describes(self, error: BaseException) -> bool:
        pattern = ".*".join(map(re.escape, self.message.split("…")))
        return (
            type(error) is self.error and re.fullmatch(pattern, str(error), re.DOTALL) is not None
        )

    def is_met_elsewhere(self) -> bool:
        """By the test that `do` names."""
        assert isinstance(self.do, str)
        test, _, words = self.do.partition(": ")
        return words in (ROOT / test).read_text() and words in self.message


class Group(NamedTuple):
    """What a user did; `text` is Markdown, with a link to the guide."""

    title: str
    text: str
    rows: list[Row]
