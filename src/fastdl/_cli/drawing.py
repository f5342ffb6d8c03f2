"""The findings of inspect, for a terminal."""

from collections.abc import Iterator
from typing import Any

from fastdl._cli.screen import Screen
from fastdl._testing.inspector import lines_of


def show(found: dict[str, Any], screen: Screen) -> None:
    screen.line(f"{found['expression']}  ({found['type']})")
    for name, text in facts(found):
        screen.field(name, text)
    if found["managed"]:
        sender = (
            "as exported by the library" if found["managed"]["by_library"] else "made by fastdl"
        )
        screen.heading(f"Managed tensor, {sender}")
        for name, text in lines_of(found["managed"]):
            screen.field(name, text)
    if found["consumers"]:
        screen.heading("fastdl.convert to other libraries")
        rows = [
            (name, cell["outcome"], cell["reason"]) for name, cell in found["consumers"].items()
        ]
        screen.table(("library", "outcome", "reason"), rows)


def facts(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    path, dlpack, tensor = found["import_path"], found["dlpack"], found["tensor"]
    if path:
        yield "import path", path["text"]
        table = path.get("table")
        if table:
            borrows = "with" if table["lends"] else "without"
            yield "table", f"DLPack {table['version']}, {borrows} a borrowing slot"
    if dlpack:
        outcome = f"returns {dlpack['capsule']!r}"
        if dlpack["raises"]:
            outcome = f"raises {dlpack['raises']}"
        keywords = ", ".join(dlpack["keywords"]) or "no keywords"
        yield "__dlpack__", f"accepts {keywords}; {outcome}"
    if found["plan"]:
        yield from plan(found["plan"], bool(path) and path["kind"] == "buffer")
    if tensor:
        kind = "read-only" if tensor["readonly"] else "writable"
        if tensor["immutable"]:
            kind = "immutable"
        copied = "copied" if tensor["is_copied"] else "not copied"
        yield "result", f"{tensor['text']}: {kind}, {copied}"


def plan(planned: dict[str, Any], has_buffer: bool) -> Iterator[tuple[str, str]]:
    """What fastdl.from_dlpack does. `has_buffer`: which it tries before."""
    values = {n: tuple(v) if isinstance(v, list) else v for n, v in planned["keywords"].items()}
    keywords = ", ".join(f"{name}={value}" for name, value in values.items())
    steps = ["buffer"] * has_buffer
    steps.append({"__dlpack__": f"__dlpack__({keywords})"}.get(planned["path"], planned["path"]))
    steps += [planned["otherwise"]] if planned["otherwise"] else []
    yield "plan", ", otherwise ".join(steps)
    stream = "none is made to wait"
    if planned["path"] == "table":
        stream = "the work stream, if the data is on a device"
    elif planned["stream"] is not None:
        stream = f"{planned['stream']} is made to wait"
    yield "stream", stream
    yield "copy=True", f"copied by {', otherwise '.join(planned['copies'])}"
