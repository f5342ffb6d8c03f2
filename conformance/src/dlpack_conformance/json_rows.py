"""Results as JSON, with a line for each row: small, and readable in a diff."""

import json
from typing import Any

LINE = 400  # characters, in which a row of results has room


def dumps(data: Any, indent: str = "") -> str:
    """The keys of dictionaries are strings."""
    line = json.dumps(data)
    if len(line) <= LINE or "{" not in line[1:] or not isinstance(data, dict | list | tuple):
        return line
    values = list(data.values()) if isinstance(data, dict) else data
    inner = indent + " "
    keys = [f"{json.dumps(key)}: " for key in data] if isinstance(data, dict) else [""] * len(data)
    parts = [key + dumps(value, inner) for key, value in zip(keys, values, strict=True)]
    begin, end = "{}" if isinstance(data, dict) else "[]"
    return f"{begin}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{end}"
