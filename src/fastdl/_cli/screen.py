"""Text for a terminal: styled by rich if it is installed, plain otherwise."""

import sys
from collections.abc import Sequence

from fastdl._cli.words import terminal_width, wrapped

#: Styles of rich, by the outcome that a text names.
STYLES = {
    "zero-copy": "green",
    "works": "green",
    "copy": "yellow",
    "fails": "red",
    "refused": "magenta",
    "wrong": "bold red",
    "crashed": "bold red",
    "hung": "bold red",
    "none": "dim",
}
NARROWEST = 16  # columns of a table, if its words are as long


class Screen:
    """Prints headings, sentences and tables, within the width of the terminal."""

    def __init__(self, *, plain: bool = False, file=None) -> None:
        self.file = sys.stdout if file is None else file
        self.width = terminal_width()
        self.rich = None
        if not plain:
            try:
                from rich.console import Console
            except ImportError:
                return
            self.rich = Console(file=self.file, width=self.width, highlight=False)

    def line(self, text: str = "", style: str = "", indent: int = 0) -> None:
        """A wrapped text; its further lines are indented."""
        start = " " * indent
        for each in wrapped(text, self.width, start, f"{start}  "):
            self.put([(each, style)])

    def heading(self, text: str) -> None:
        self.put([])
        self.line(text, "bold")

    def field(self, name: str, text: str) -> None:
        """A name and its value, aligned in two columns."""
        for number, each in enumerate(wrapped(text, self.width - 16)):
            self.put([(f"  {name if number == 0 else '':<14}", "dim"), (each, "")])

    def put(self, pieces: Sequence[tuple[str, str]]) -> None:
        """One line of texts, each with its style; no blanks at its end, which might be beyond the
        last column of the terminal."""
        if self.rich is None:
            print("".join(text for text, _ in pieces).rstrip(), file=self.file)
            return
        from rich.text import Text

        line = Text()
        for text, style in pieces:
            line.append(text, STYLES.get(style, style))
        line.rstrip()
        self.rich.print(line, soft_wrap=True)

    def table(
        self,
        headers: Sequence[str],
        rows: Sequence[Sequence[str]],
        styles: Sequence[str] = (),
        right: Sequence[int] = (),
    ) -> None:
        """Columns as wide as they need to be; the widest is wrapped if they do not fit. A list if
        that would break words. `styles`: of each row. `right`: the columns aligned to the right."""
        every = [headers, *rows]
        widths = [max(map(len, column)) for column in zip(*every, strict=True)]
        least = [
            min(NARROWEST, max(len(word) for text in column for word in text.split()))
            for column in zip(*every, strict=True)
        ]
        room = self.width - 2 * (len(widths) - 1)
        if sum(least) > room:
            self.records(headers, rows, styles)
            return
        while sum(widths) > room:
            widest = max(w for w, n in zip(widths, least, strict=True) if w > n)
            widths[widths.index(widest)] -= 1
        for number, row in enumerate(every):
            style = "dim" if number == 0 else styles[number - 1] if styles else ""
            cells = [wrapped(text, column) for text, column in zip(row, widths, strict=True)]
            for i in range(max(map(len, cells))):
                pieces = []
                for column, (lines, width) in enumerate(zip(cells, widths, strict=True)):
                    text = lines[i] if i < len(lines) else ""
                    text = text.rjust(width) if column in right else text.ljust(width)
                    pieces.append((text + "  ", style if column == 0 or number == 0 else ""))
                self.put(pieces)

    def records(
        self, headers: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str]
    ) -> None:
        """A table of which each row is several lines: its first cell, and the others by name."""
        for number, (first, *others) in enumerate(rows):
            self.put([(first, styles[number] if styles else "")])
            for name, text in zip(headers[1:], others, strict=True):
                if text:
                    self.field(name, text)
