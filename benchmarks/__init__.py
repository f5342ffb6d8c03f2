"""The benchmarks of fastdl: `python -m benchmarks`. README.md says how to read them."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
LINE = 400  # characters, in which a row of results has room


def as_json(data, indent: str = "") -> str:
    """Results as JSON, with a line for each row."""
    line = json.dumps(data)
    values = list(data.values()) if isinstance(data, dict) else data
    if len(line) <= LINE or "{" not in line[1:]:
        return line
    inner = indent + " "
    keys = [f"{json.dumps(key)}: " for key in data] if isinstance(data, dict) else [""] * len(data)
    parts = [key + as_json(value, inner) for key, value in zip(keys, values, strict=True)]
    begin, end = "{}" if isinstance(data, dict) else "[]"
    return f"{begin}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{end}"


def load_module(name: str, path: Path) -> ModuleType:
    """The module in a file; sys.modules does not know it."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
