"""What inspect found, for a terminal."""

from collections.abc import Iterator
from typing import Any

from fastdl._core.dtype import DType
from fastdl.cli import memory
from fastdl.cli.screen import Screen
from fastdl.cli.words import counted


def show(found: dict[str, Any], screen: Screen) -> None:
    screen.put([(found["expression"], "bold"), (f"  ({found['type']})", "")])
    for name, text in facts(found):
        screen.field(name, text)
    if found["managed"]:
        sender = "as the library sent it" if found["managed"]["by_library"] else "made by fastdl"
        screen.heading(f"The managed tensor, {sender}")
        for name, text in fields(found["managed"]):
            screen.field(name, text)
    if found["memory"]:
        screen.heading("The memory")
        show_memory(found, screen)
    if found["consumers"]:
        screen.heading("What fastdl.convert gives to others")
        rows = [
            (name, cell["outcome"], cell["reason"]) for name, cell in found["consumers"].items()
        ]
        screen.table(
            ("library", "outcome", "why"),
            rows,
            [cell["outcome"] for cell in found["consumers"].values()],
        )


def facts(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    way, dlpack, tensor = found["way"], found["dlpack"], found["tensor"]
    if way:
        yield "imported by", way["text"]
        table = way.get("table")
        if table:
            lends = "lends tensors" if table["lends"] else "does not lend tensors"
            yield "table", f"DLPack {table['version']}, {lends}"
    if dlpack:
        outcome = f"gives {dlpack['capsule']!r}"
        if dlpack["raises"]:
            outcome = f"raises {dlpack['raises']}"
        keywords = ", ".join(dlpack["keywords"]) or "no keywords"
        yield "__dlpack__", f"takes {keywords}; {outcome}"
    if tensor:
        kind = "read-only" if tensor["readonly"] else "writable"
        if tensor["immutable"]:
            kind += ", its values never change"
        copied = "a copy" if tensor["is_copied"] else "no copy"
        yield "gives", f"{tensor['text']}: {kind}, {copied}"


def fields(managed: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The names and values of a managed tensor."""
    dtype, device = managed["dtype"], managed["device"]
    form = "legacy, without version and flags"
    if managed["form"] == "versioned":
        names = " | ".join(managed["flag_names"]) or "none"
        form = f"version {managed['version']}, flags {managed['flags']:#x} ({names})"
    yield "form", form
    aligned = f"aligned to {counted(managed['alignment'], 'byte')}" if managed["data"] else "NULL"
    yield "data", f"{managed['data']:#x}, {aligned}"
    yield "byte_offset", str(managed["byte_offset"])
    yield "device", f"type {device[0]}, id {device[1]}: {managed['device_name']}"
    name = dtype_name(dtype)
    yield "dtype", f"code {dtype['code']}, bits {dtype['bits']}, lanes {dtype['lanes']}: {name}"
    yield "ndim", str(managed["ndim"])
    yield "shape", numbers(managed["shape"])
    strides = managed["strides"]
    if strides is None:
        yield "strides", "NULL: row-major"
    else:
        size = dtype["bits"] * dtype["lanes"] / 8
        yield "strides", f"{numbers(strides)} elements"
        yield "", f"{numbers([format(s * size, '.15g') for s in strides])} bytes"


def dtype_name(dtype: dict[str, int]) -> str:
    try:
        return str(DType((dtype["code"], dtype["bits"], dtype["lanes"])))
    except (TypeError, ValueError, BufferError):
        return "unknown"


def numbers(values: list) -> str:
    return f"({', '.join(map(str, values))}{',' if len(values) == 1 else ''})"


def show_memory(found: dict[str, Any], screen: Screen) -> None:
    layout, tensor = found["memory"], found["tensor"]
    itemsize, strides, shape = tensor["itemsize"], tensor["strides"], tensor["shape"]
    screen.field("layout", "; ".join(layout["words"]))
    count, places = layout["elements"], layout["places"]
    span = layout["high"] - layout["low"] + 1 if count else 0
    used = "" if places is None else f", {places} of {counted(span, 'place')} used"
    elements, each = counted(count, "element"), counted(itemsize, "byte")
    screen.field("span", f"{elements} of {each}{used}: {counted(span * itemsize, 'byte')}")
    if layout["low"]:
        behind = counted(-layout["low"] * itemsize, "byte")
        screen.field("", f"`data` points {behind} behind the first")
    if layout["order"] is None:
        for dimension, size, stride in memory.steps(shape, strides):
            screen.field(
                f"dimension {dimension}",
                f"{size} elements, {counted(stride * itemsize, 'byte')} from one to the next",
            )
        return
    screen.line("bytes from `data`; elements numbered in row-major order; . not used", "dim", 2)
    for line in memory.drawing(layout, strides, itemsize, screen.width):
        screen.put([(line, "")])
    if any(len(place) > 1 for place in layout["order"]):
        screen.line("0+2: element 0, and two more at the same place", "dim", 2)
