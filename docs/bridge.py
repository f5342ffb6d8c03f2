# SPDX-License-Identifier: Apache-2.0
"""What describes a library to fastdl.convert, from the docstring of Bridge: see docs/quote.py."""

import re
from collections.abc import Iterator

from fastdl._bridges.bridge import Bridge


def as_markdown() -> Iterator[str]:
    """A row for each argument: "name: what it is. other: ..." in the docstring."""
    _, _, text = Bridge.__doc__.partition("\n\n")
    names = re.compile(r"(?:^|(?<=\. ))(\w+): ")
    parts = names.split(" ".join(text.split()))[1:]
    yield from ("| argument | meaning |", "|---|---|")
    for name, meaning in zip(parts[::2], parts[1::2], strict=True):
        yield f"| `{name}` | {meaning.strip()} |"
