# SPDX-License-Identifier: Apache-2.0
"""Joins the parts of fastdl.c, which are in this folder, into the one file that is compiled,
installed and vendored: include/fastdl/fastdl.c. Builds run it; to run it by hand, execute this
file."""

import os
import re
from pathlib import Path

HERE = Path(__file__).parent
# REUSE-IgnoreStart: this is text, not the licence of this file.
HEAD = "/* SPDX-License-Identifier: Apache-2.0 */\n\n"
# REUSE-IgnoreEnd


def part(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8").removeprefix(HEAD)


def joined() -> str:
    """fastdl.c of this folder with its parts in place of the lines that include them."""
    return re.sub(
        r'(?:#include "(?:private\.h|\w+\.c)"\n)+',
        lambda lines: "\n".join(map(part, re.findall(r'"(.+)"', lines[0]))),
        part("fastdl.c"),
    )


def write() -> None:
    """Replaces the file atomically if its content changes."""
    target, text = HERE.parent / "fastdl.c", joined()
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        new = target.with_suffix(f".{os.getpid()}")
        new.write_text(text, encoding="utf-8", newline="\n")
        new.replace(target)


if __name__ == "__main__":
    write()
