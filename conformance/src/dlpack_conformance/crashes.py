# SPDX-License-Identifier: Apache-2.0
"""How a process ended, and what it said of its end."""

import os
import re
import signal

#: A frame of faulthandler's, and of the path the last folder and the file.
PLACE = re.compile(
    r'^ *File "(?:.*[/\\])?([^/\\]+[/\\][^/\\]+)", line (\d+) in (\S+)', re.MULTILINE
)


def ending(status: int) -> str:
    if status >= 0:
        number = hex(status) if status > 255 else status  # Windows: 0xc0000005, say
        return f"the process ended with status {number}"
    try:
        name = signal.Signals(-status).name
    except ValueError:  # some have only a number
        name = f"signal {-status}"
    return f"the process died of {name}"


def shortened(text: str, most: int = 160) -> str:
    """Text of at most so many characters, which ends after a word."""
    return text if len(text) <= most else f"{text[: most - 4].rsplit(' ', 1)[0]} ..."


def no_answer(limit: float) -> str:
    return f"no answer in {limit:g} s"


class Said:
    """What is written to a file from now on."""

    def __init__(self, file: int) -> None:
        self.file, self.start = file, os.fstat(file).st_size

    def words(self) -> str:
        """The message of a crash, and the line of Python where it was, for the end of a phrase.
        Reads without moving the position, which processes share."""
        try:
            text = os.pread(self.file, 1 << 20, self.start)
        except OSError:  # it is not a file, but a terminal
            return ""
        return last_words(text.decode("utf-8", "replace"))


def last_words(text: str) -> str:
    """The message of a process that ended, and the line where faulthandler says it was."""
    before, fault, trace = text.rpartition("Fatal Python error")
    lines = [line.strip() for line in (before if fault else trace).splitlines()]
    lines = [line for line in lines if line and not line.startswith("frame #")]  # of C++
    message = lines[-1:] if fault else lines[:1]
    place = PLACE.search(trace) if fault else None
    said = "".join(f": {shortened(line, 200)}" for line in message)
    return said if place is None else f"{said}: in {place[3]}, {place[1]}:{place[2]}"
