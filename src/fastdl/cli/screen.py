"""Text for a terminal: with rich if it is installed, plain otherwise."""

import re
import sys
from collections.abc import Sequence

from fastdl.cli.words import terminal_width, wrapped

#: Styles of rich, by what a text says.
STYLES = {
    "zero-copy": "green",
    "works": "green",
    "copy": "yellow",
    "fails": "red",
    "refused": "magenta",
    "wrong": "bold red",
    "died": "bold red",
    "hung": "bold red",
    "none": "dim",
}
ANSI = re.compile(r"\x1b\[[0-9;]*m")


class Screen:
    """Prints headings, sentences, tables and grids, within the width of the terminal."""

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
        """A text, wrapped; the lines after the first are indented."""
        start = " " * indent
        for each in wrapped(text, self.width, start, f"{start}  "):
            self.put([(each, style)])

    def heading(self, text: str) -> None:
        self.put([])
        self.put([(text, "bold")])

    def field(self, name: str, text: str) -> None:
        """A name and what it stands for, aligned below each other."""
        for number, each in enumerate(wrapped(text, self.width - 16)):
            self.put([(f"  {name if number == 0 else '':<14}", "dim"), (each, "")])

    def put(self, pieces: Sequence[tuple[str, str]]) -> None:
        """One line of texts, each with its style."""
        if self.rich is None:
            print("".join(text for text, _ in pieces).rstrip(), file=self.file)
            return
        from rich.text import Text

        line = Text()
        for text, style in pieces:
            line.append(text, STYLES.get(style, style))
        self.rich.print(line, soft_wrap=True)

    def table(
        self,
        headers: Sequence[str],
        rows: Sequence[Sequence[str]],
        styles: Sequence[str] = (),
        right: Sequence[int] = (),
    ) -> None:
        """Columns as wide as they need to be; the widest gives way, and is wrapped, if they do not
        fit. `styles`: of each row. `right`: the columns that are aligned to the right."""
        every = [headers, *rows]
        widths = [max(len(row[i]) for row in every) for i in range(len(headers))]
        room = self.width - 2 * (len(widths) - 1)
        while sum(widths) > room and max(widths) > 8:
            widths[widths.index(max(widths))] -= 1
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
