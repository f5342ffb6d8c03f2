# SPDX-License-Identifier: Apache-2.0
"""Text for a terminal: its width, wrapped lines, counted things and tables."""

import shutil
import textwrap
from collections.abc import Sequence


def terminal_width() -> int:
    """Columns of the terminal: COLUMNS if it is set; 80 without a terminal."""
    return max(40, shutil.get_terminal_size().columns)


def wrapped(text: str, columns: int, first: str = "", others: str = "") -> list[str]:
    """The lines of a text, at least one, after the indents `first` and `others`. Words such as
    "read-only" and "zero-copy" are not broken."""
    return textwrap.wrap(
        text, columns, initial_indent=first, subsequent_indent=others, break_on_hyphens=False
    ) or [first]


def counted(number: float, one: str, many: str = "") -> str:
    """A number and a noun: "1 byte", "2 bytes"; `many` if the plural is not `one` with an s."""
    return f"{number:.15g} {one if abs(number) == 1 else many or f'{one}s'}"


class Screen:
    """Prints headings and sentences, within the width of the terminal, and tables."""

    def __init__(self) -> None:
        self.width = terminal_width()

    def line(self, text: str = "", indent: int = 0) -> None:
        """A wrapped text; its further lines are indented."""
        start = " " * indent
        print("\n".join(wrapped(text, self.width, start, f"{start}  ")))

    def heading(self, text: str) -> None:
        print()
        self.line(text)

    def field(self, name: str, text: str) -> None:
        """A name and its value, aligned in two columns."""
        print("\n".join(wrapped(text, self.width, f"  {name:<14}", " " * 16)))

    def table(
        self,
        headers: Sequence[str],
        rows: Sequence[Sequence[str]],
        right: Sequence[int] = (),
    ) -> None:
        """Columns as wide as they need to be. `right`: those aligned to the right."""
        every = [headers, *rows]
        widths = [max(map(len, column)) for column in zip(*every, strict=True)]
        for row in every:
            texts = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
            for column in right:
                texts[column] = row[column].rjust(widths[column])
            print("  ".join(texts).rstrip())
