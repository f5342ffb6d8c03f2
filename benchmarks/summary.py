# SPDX-License-Identifier: Apache-2.0
"""Tables of figures for other pages, from docs/benchmarks.json: see docs/quote.py.

PROSE is for figures within sentences. A test finds every figure in the documentation and in the
headers, and compares it with what was measured; one that is not here fails.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import report
from benchmarks.rows import Row

DOCS = Path(__file__).resolve().parents[1] / "docs"

# What is called, what it is compared with, and the row of the report.
EXCHANGES = (
    ("`fastdl.from_dlpack(ndarray)`", "`np.from_dlpack(ndarray)`", "python/from_numpy/numpy"),
    ("`fastdl.from_dlpack(torch_tensor)`", "`tvm_ffi.from_dlpack`", "python/from_torch/tvm_ffi"),
    ("`Tensor.__dlpack__(max_version=(1, 0))`", "NumPy's", "python/export/numpy"),
    ("`np.from_dlpack(Tensor)`", "`np.from_dlpack(ndarray)`", "python/into_numpy/numpy"),
    ("a C function of one torch tensor", "nanobind's", "python/call_torch_1/nanobind"),
    ("a C function of one torch tensor", "tvm-ffi's", "python/call_torch_1/tvm_ffi"),
    ("`import fastdl`", "`import numpy`", "import/numpy"),
)

# What is converted, by which function otherwise, and the row of the report.
CONVERSIONS = (
    ("an `ndarray` to torch", "`torch.from_numpy`", "python/numpy_to_torch/own"),
    ("a torch tensor to NumPy", "`Tensor.numpy`", "python/torch_to_numpy/own"),
    ("a `jax.Array` to torch", "`torch.from_dlpack`", "python/jax_to_torch/own"),
)

# What is borrowed, and the row of the report.
BORROWED = (
    ("a torch tensor", "borrow_torch/nanobind"),
    ("a torch tensor that C++ holds too", "borrow_torch_held/nanobind"),
    ("an `ndarray`", "borrow_numpy/nanobind"),
    ("an `ndarray`, header alone", "borrow_numpy/fastdl/header alone"),
    ("a `fastdl.Tensor`", "borrow_tensor/nanobind"),
    ("a `jax.Array`", "borrow_jax/nanobind"),
    ("a `jax.Array`, header alone", "borrow_jax/fastdl/header alone"),
)


def rows() -> dict[str, Row]:
    sections, _, _ = report.load(DOCS)
    return {row.key: row for section in sections.values() for row in section}


def table(head: tuple[str, ...], body: list[tuple[str, ...]]) -> Iterator[str]:
    for line in (head, *body):
        yield "| " + " | ".join(line) + " |"
        if line is head:
            yield "|---" * len(head) + "|"


def cost(value: float | None, unit: str = "ns") -> str:
    """Three digits at most: more would be noise."""
    if value is None:
        return ""
    return report.number(value, unit) if value >= 10 else f"{value:.1f} {unit}"


def machine(command: str, facts: dict, versions: dict) -> Iterator[str]:
    """The sentence over a table: on what, and with which versions."""
    python = facts["Python"].partition(" ")[0]
    names = {
        "numpy": "NumPy",
        "torch": "torch",
        "apache-tvm-ffi": "tvm-ffi",
        "nanobind": "nanobind",
    }
    others = ", ".join(f"{shown} {versions[name]}" for name, shown in names.items())
    yield f"One run of `python -m {command}` on {facts['cores']} cores of an {facts['CPU']}, with"
    yield f"CPython {python}, {others}."
    if float(facts["load before"]) > 1:
        yield f"The machine was busy (load {facts['load before']}): trust ratios, not costs."


def of_benchmarks() -> Iterator[str]:
    _, facts, versions = report.load(DOCS)
    return machine("benchmarks", facts, versions)


def bindings() -> Iterator[str]:
    """One function of one tensor, bound by each tool."""
    data = json.loads((DOCS / "bindings.json").read_text())
    body = [
        (
            tool,
            *(cost(known[kind]) or "refused" for kind in ("torch tensor", "ndarray")),
            f"{known['seconds']:.1f} s",
            f"{known['bytes'] / 1000:.0f} kB",
        )
        for tool, known in data["tools"].items()
    ]
    head = ("", "call, torch tensor", "call, `ndarray`", "compile and link", "module")
    run = machine("benchmarks.bindings", data["machine"], data["versions"])
    yield from (*run, "", *table(head, body))


def compared(kinds: tuple[tuple[str, str, str], ...]) -> Iterator[str]:
    known = rows()
    body = [
        (what, cost(row.ours, row.unit), f"{peer}: {cost(row.peers, row.unit)}", f"{row.ratio:.2f}")
        for what, peer, key in kinds
        for row in [known[key]]
    ]
    return table(("", "fastdl", "compared with", "ratio"), body)


def exchanges() -> Iterator[str]:
    yield from (*of_benchmarks(), "", *compared(EXCHANGES))


def conversions() -> Iterator[str]:
    """convert, and what the libraries have themselves."""
    return compared(CONVERSIONS)


def borrowing() -> Iterator[str]:
    known = rows()
    body = [
        (what, cost(row.ours), f"{row.floor}: {cost(row.floors)}")
        for what, key in BORROWED
        for row in [known[f"c/{key}"]]
    ]
    yield from (*of_benchmarks(), "", *table(("`fastdl_borrow` of", "cost", "compared with"), body))


# ---- figures in sentences -------------------------------------------------------------------


def over_table(known: dict[str, Row]) -> str:
    """What borrowing adds to the library's own table, in the worse of two cases."""
    pairs = (known[f"c/{group}/nanobind"] for group in ("borrow_torch", "borrow_torch_held"))
    return f"{math.ceil(max(row.ours - row.floors for row in pairs))} ns"


def borrowed(group: str) -> Callable[[dict[str, Row]], str]:
    return lambda known: f"{known[f'c/{group}/nanobind'].ours:.0f} ns"


def expecting(known: dict[str, Row]) -> str:
    """What a specification adds to borrowing, at most."""
    spent = [
        known[f"c/{group}/fastdl/{form}"].ours - known[f"c/{group}/nanobind"].ours
        for group in ("borrow_torch", "borrow_torch_held", "borrow_numpy", "borrow_tensor")
        for form in ("with fastdl_expect", "with a named size")
    ]
    return f"{math.ceil(max(spent))} ns"


#: The words before a figure -> the figure.
PROSE: dict[str, Callable[[dict[str, Row]], str]] = {
    "table plus": over_table,
    "adds": over_table,
    "NumPy's arrays": borrowed("borrow_numpy"),
    "fastdl.Tensor": borrowed("borrow_tensor"),
    "borrowing costs": borrowed("borrow_numpy"),
    "for a NumPy array,": borrowed("borrow_tensor"),
    "Costs up to": expecting,
}

FIGURE = re.compile(r"(?P<figure>\d[\d.,]*(?: to \d[\d.,]*)?\s(?:ns|us|µs|ms|s|GB/s|times)\b)")


def wrong_figures(text: str) -> list[str]:
    """The figures of a text that no benchmark produced."""
    known = rows()
    text = re.sub(r"\s+(?:\*\s+)?", " ", text)  # also over the ends of lines in a C comment
    found = []
    for match in FIGURE.finditer(text):
        before = text[: match.start()].rstrip()
        right = [value(known) for words, value in PROSE.items() if before.endswith(words)]
        if match["figure"] not in right:
            source = "nothing in PROSE of benchmarks/summary.py produces it"
            if right:
                source = f"{right[0]} was measured (docs/benchmarks.json)"
            found.append(f"...{before[-40:]} {match['figure']}: {source}")
    return found
