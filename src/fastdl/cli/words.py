"""Plain text for a terminal: its width, wrapped lines, and counted things."""

import shutil
import textwrap


def terminal_width() -> int:
    """Columns of the terminal; COLUMNS if that is set, 80 where there is none of both."""
    return max(40, shutil.get_terminal_size().columns)


def wrapped(text: str, columns: int, first: str = "", others: str = "") -> list[str]:
    """Lines of a text, at least one. `first` and `others` begin them. Words such as "read-only" and
    "--no-grid" stay whole."""
    return textwrap.wrap(
        text, columns, initial_indent=first, subsequent_indent=others, break_on_hyphens=False
    ) or [first]


def counted(number: float, one: str, many: str = "") -> str:
    """A number of things: "1 byte", "2 bytes"; `many` where that is not `one` with an s."""
    return f"{number:.15g} {one if abs(number) == 1 else many or f'{one}s'}"
