"""Text for a terminal."""

import sys
from collections.abc import Sequence

from fastdl._cli.words import terminal_width, wrapped

NARROWEST = 16  # columns of a table, if its words are as long


class Screen:
    """Prints headings, sentences and tables, within the width of the terminal."""

    def __init__(self, file=None) -> None:
        self.file = sys.stdout if file is None else file
        self.width = terminal_width()

    def line(self, text: str = "", indent: int = 0) -> None:
        """A wrapped text; its further lines are indented."""
        start = " " * indent
        for each in wrapped(text, self.width, start, f"{start}  "):
            self.put(each)

    def heading(self, text: str) -> None:
        self.put("")
        self.line(text)

    def field(self, name: str, text: str) -> None:
        """A name and its value, aligned in two columns."""
        for number, each in enumerate(wrapped(text, self.width - 16)):
            self.put(f"  {name if number == 0 else '':<14}{each}")

    def put(self, line: str) -> None:
        """One line; no blanks at its end, which might be beyond the last column of the terminal."""
        print(line.rstrip(), file=self.file)

    def table(
        self,
        headers: Sequence[str],
        rows: Sequence[Sequence[str]],
        right: Sequence[int] = (),
    ) -> None:
        """Columns as wide as they need to be; the widest is wrapped if they do not fit. A list if
        that would break words. `right`: the columns aligned to the right."""
        every = [headers, *rows]
        widths = [max(map(len, column)) for column in zip(*every, strict=True)]
        least = [
            min(NARROWEST, max(len(word) for text in column for word in text.split()))
            for column in zip(*every, strict=True)
        ]
        room = self.width - 2 * (len(widths) - 1)
        if sum(least) > room:
            self.records(headers, rows)
            return
        while sum(widths) > room:
            widest = max(w for w, n in zip(widths, least, strict=True) if w > n)
            widths[widths.index(widest)] -= 1
        for row in every:
            cells = [wrapped(text, column) for text, column in zip(row, widths, strict=True)]
            for i in range(max(map(len, cells))):
                texts = []
                for column, (lines, width) in enumerate(zip(cells, widths, strict=True)):
                    text = lines[i] if i < len(lines) else ""
                    texts.append(text.rjust(width) if column in right else text.ljust(width))
                self.put("  ".join(texts))

    def records(self, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table of which each row is several lines: its first cell, and the others by name."""
        for first, *others in rows:
            self.put(first)
            for name, text in zip(headers[1:], others, strict=True):
                if text:
                    self.field(name, text)
