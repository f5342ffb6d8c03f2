"""Text for a terminal."""

from collections.abc import Sequence

from fastdl._cli.words import terminal_width, wrapped


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
