"""Plain text for a terminal: its width, wrapped lines, and counted things."""

import shutil
import textwrap


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
