# SPDX-License-Identifier: Apache-2.0
"""The findings of inspect, for a terminal."""

from collections.abc import Iterator
from typing import Any

from fastdl._cli.screen import Screen, counted


def show(found: dict[str, Any], screen: Screen) -> None:
    screen.line(f"{found['expression']}  ({found['type']})")
    for name, text in facts(found):
        screen.field(name, text)
    if found["managed"]:
        sender = (
            "as exported by the library" if found["managed"]["by_library"] else "made by fastdl"
        )
        screen.heading(f"Managed tensor, {sender}")
        for name, text in managed(found["managed"]):
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
        yield from plan(found["plan"], path["text"] if path else "")
    if tensor:
        kind = "read-only" if tensor["readonly"] else "writable"
        if tensor["immutable"]:
            kind = "immutable"
        copied = "copied" if tensor["is_copied"] else "not copied"
        yield "result", f"{tensor['text']}: {kind}, {copied}"


def plan(planned: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """The plan of fastdl.from_dlpack. `path`: the text on the import path of the type."""
    values = {n: tuple(v) if isinstance(v, list) else v for n, v in planned["keywords"].items()}
    keywords = ", ".join(f"{name}={value}" for name, value in values.items())
    steps = [path] if path == "its buffer" else []
    texts = {"__dlpack__": f"__dlpack__({keywords})", "table": path}
    steps.append(texts.get(planned["path"], planned["path"]))
    steps += [planned["otherwise"]] if planned["otherwise"] else []
    yield "plan", ", otherwise ".join(steps)
    stream = "no stream waits"
    if planned["path"] == "table":
        stream = "the work stream, if the data is on a device"
    elif planned["stream"] is not None:
        stream = f"stream {planned['stream']} waits"
    yield "stream", stream
    yield "copy=True", f"copied by {', otherwise '.join(planned['copies'])}"


def managed(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A managed tensor, as describe_capsule reads it."""
    form = "legacy, without version and flags"
    if fields["version"]:
        names = " | ".join(fields["flag_names"]) or "none"
        form = f"version {fields['version']}, flags {fields['flags']:#x} ({names})"
    yield "form", form
    aligned = f"first element aligned to {counted(fields['alignment'], 'byte')}"
    yield "data", f"{fields['data']:#x}, {aligned}" if fields["data"] else "NULL"
    yield "byte_offset", str(fields["byte_offset"])
    (kind, number), numbers = fields["device"], fields["dtype"]
    yield "device", f"type {kind}, id {number}: {fields['device_name']}"
    dtype = ", ".join(f"{name} {value}" for name, value in numbers.items())
    yield "dtype", f"{dtype}: {fields['dtype_name']}"
    yield "ndim", str(fields["ndim"])
    yield "shape", dimensions(fields, "shape")
    strides = fields.get("strides")
    yield "strides", dimensions(fields, "strides") + (" elements" if strides is not None else "")
    if strides is not None:
        size = numbers["bits"] * numbers["lanes"] / 8
        in_bytes = [format(stride * size, ".15g") for stride in strides]
        yield "", f"{in_brackets(in_bytes)} bytes"
    for name in ("manager_ctx", "deleter"):
        yield name, "present" if fields[name] else "NULL"


def dimensions(fields: dict[str, Any], name: str) -> str:
    """Shape or strides."""
    if name not in fields:
        return "not read"
    if fields[name] is None:
        return "NULL: row-major" if name == "strides" and fields["ndim"] else "NULL"
    return in_brackets(fields[name])


def in_brackets(values: list[Any]) -> str:
    """As Python prints a tuple."""
    return f"({', '.join(map(str, values))}{',' if len(values) == 1 else ''})"
