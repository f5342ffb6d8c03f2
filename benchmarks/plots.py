"""The plots of the documentation, from the stored measurements: python -m benchmarks.plots

Reads docs/benchmarks.json, pairs.json and bindings.json; writes docs/plots/*.svg. The same data
gives the same bytes. With --check nothing is written; what is stale is named, and the status is 1.
"""

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.svg import line, picture, polyline, rect, text
from benchmarks.timing import middle

DOCS = Path(__file__).resolve().parents[1] / "docs"
PLOTS = DOCS / "plots"


def load(name: str) -> dict:
    return json.loads((DOCS / f"{name}.json").read_text())


def cost(nanoseconds: float) -> str:
    """Two digits at least, three at most, in a unit that suits."""
    for unit, size in (("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.{0 if nanoseconds >= 100 * size else 1}f} {unit}"
    return f"{nanoseconds:.{0 if nanoseconds >= 20 else 1}f} ns"


# ---- every library to every other -----------------------------------------------------------

CELL, ROW = 88, 42


def pairs() -> Iterator[str]:
    found = load("pairs")["pairs"]
    producers = list(dict.fromkeys(pair.partition("/")[0] for pair in found))
    consumers = list(dict.fromkeys(pair.partition("/")[2] for pair in found))
    consumers.sort(key=producers.index)
    left, top = 76, 64
    width, height = left + CELL * len(consumers) + 4, top + ROW * len(producers) + 30

    def parts() -> Iterator[str]:
        yield text(0, 18, "fastdl.convert(x, to), and below it the consumer's own import", "title")
        yield text(left - 8, top - 8, "from / to", "small end")
        for column, consumer in enumerate(consumers):
            x = left + column * CELL + CELL / 2
            yield text(x, top - 8, consumer, "middle strong")
        for row, producer in enumerate(producers):
            y = top + row * ROW
            yield text(left - 8, y + ROW / 2 + 4, producer, "end strong")
            for column, consumer in enumerate(consumers):
                if known := found.get(f"{producer}/{consumer}"):
                    yield from cell(left + column * CELL, y, known)
        y = height - 12
        for x, kind, words in (
            (left, "good", "cheaper (below 0.8)"),
            (left + 160, "even", "about the same"),
            (left + 300, "bad", "dearer (above 1.25)"),
        ):
            yield rect(x, y - 11, 14, 14, kind)
            yield text(x + 20, y, words, "small")

    return picture(width, height, "Cost of an exchange for each pair of libraries", parts())


def cell(x: float, y: float, known: dict) -> Iterator[str]:
    ratio = known["ratio"]
    kind = "good" if ratio is None or ratio < 0.8 else "bad" if ratio > 1.25 else "even"
    yield rect(x + 1, y + 1, CELL - 2, ROW - 2, kind)
    yield text(x + CELL / 2, y + 18, cost(known["fastdl"]), "middle strong")
    own = "refused" if known["own"] is None else cost(known["own"])
    yield text(x + CELL / 2, y + 33, own, "middle small")


# ---- an argument, by each tool for bindings -------------------------------------------------

PANELS = (
    ("torch tensor", "call, torch tensor", cost),
    ("ndarray", "call, ndarray", cost),
    ("seconds", "compile and link", lambda value: f"{value:.1f} s"),
    ("bytes", "module", lambda value: f"{value / 1000:.0f} kB"),
)


def bindings() -> Iterator[str]:
    tools = load("bindings")["tools"]
    left, top, panel, bar, gap = 204, 62, 130, 18, 26
    width, height = left + panel * len(PANELS), top + gap * len(tools) + 4

    def parts() -> Iterator[str]:
        yield text(0, 18, "A function of one tensor, bound by each tool", "title")
        for row, tool in enumerate(tools):
            ours = "strong" if "fastdl" in tool else ""
            yield text(left - 10, top + row * gap + 14, tool, f"end {ours}".strip())
        for number, (key, heading, shown) in enumerate(PANELS):
            x = left + number * panel
            most = max(known[key] or 0 for known in tools.values())
            yield text(x, top - 12, heading, "small")
            yield line(x, top - 4, x, height - 6)
            for row, (tool, known) in enumerate(tools.items()):
                y, value = top + row * gap, known[key]
                if value is None:
                    yield text(x + 5, y + 14, "not taken", "small")
                    continue
                long = length(value, most, key) * (panel - 70)
                yield rect(x, y, long, bar, "ours" if "fastdl" in tool else "other")
                yield text(x + long + 5, y + 14, shown(value), "small")

    return picture(width, height, "Cost, time to compile and size by tool", parts())


def length(value: float, most: float, key: str) -> float:
    """The part of the axis that a bar takes: logarithmic for costs, which differ a hundredfold."""
    if key in ("seconds", "bytes"):
        return value / most
    return math.log10(max(value, 1)) / math.log10(most)


# ---- more dimensions ------------------------------------------------------------------------

#: Group of samples, subject, words, class.
DIMENSIONS = (
    ("c/numpy_dimensions", "numpy", "np.from_dlpack(ndarray)", "other"),
    ("c/numpy_dimensions", "fastdl", "fastdl.from_dlpack(ndarray)", "ours"),
    ("c/torch_dimensions", "fastdl", "fastdl.from_dlpack(torch tensor)", "second"),
    ("c/torch_dimensions", "torch's table", "of that, torch's own table", "third"),
)


def dimensions() -> Iterator[str]:
    samples = load("benchmarks")["samples"]
    left, top, wide, high = 52, 40, 330, 230
    counts = range(1, 9)
    series = [
        (words, cls, [middle(samples[group], f"{subject} {n}") for n in counts])
        for group, subject, words, cls in DIMENSIONS
    ]
    step = 50
    most = step * math.ceil(max(max(values) for _, _, values in series) / step)

    def at(n: int, value: float) -> tuple[float, float]:
        return left + (n - 1) / 7 * wide, top + high - value / most * high

    def parts() -> Iterator[str]:
        yield text(0, 18, "Cost of an import by the number of dimensions", "title")
        for value in range(0, most + 1, step):
            x, y = at(1, value)
            yield line(x, y, x + wide, y)
            yield text(x - 8, y + 4, f"{value} ns" if value == most else str(value), "small end")
        for n in counts:
            yield text(at(n, 0)[0], top + high + 18, str(n), "small middle")
        yield text(left + wide / 2, top + high + 36, "dimensions", "small middle")
        lowest = math.inf
        for words, cls, values in sorted(series, key=lambda one: one[2][-1]):
            yield polyline([at(n, value) for n, value in zip(counts, values, strict=True)], cls)
            y = min(at(8, values[-1])[1] + 4, lowest - 16)  # labels do not overlap
            lowest = y
            yield text(left + wide + 10, y, words, cls if cls != "other" else "")

    return picture(left + wide + 230, top + high + 42, "Cost by dimensions", parts())


# ---- copies ---------------------------------------------------------------------------------

BYTES = 4 * 2**20  # of every layout but the small ones


def copies() -> Iterator[str]:
    samples = {
        group.removeprefix("copy/"): found
        for group, found in load("benchmarks")["samples"].items()
        if group.startswith("copy/") and "small" not in group
    }
    speed = {
        layout: {name: BYTES / middle(found, name) for name in ("fastdl", "numpy")}
        for layout, found in samples.items()
    }
    memcpy = BYTES / middle(samples["contiguous"], "memcpy")
    most = max(memcpy, *(max(both.values()) for both in speed.values()))
    left, top, wide, gap = 176, 62, 400, 32
    height = top + gap * len(speed) + 22

    def parts() -> Iterator[str]:
        yield text(0, 18, "Copies of 4 MiB on the host, in GB/s", "title")
        yield rect(left, 30, 12, 12, "ours")
        yield text(left + 18, 41, "fastdl", "small")
        yield rect(left + 84, 30, 12, 12, "other")
        yield text(left + 102, 41, "np.copyto", "small")
        edge = left + memcpy / most * wide
        yield line(edge, top - 6, edge, height - 20, "mark")
        yield text(edge, height - 6, f"memcpy: {memcpy:.0f}", "small end")
        for row, (layout, both) in enumerate(speed.items()):
            y = top + row * gap
            yield text(left - 10, y + 17, layout, "end")
            for offset, name, cls in ((0, "fastdl", "ours"), (12, "numpy", "other")):
                long = both[name] / most * wide
                yield rect(left, y + offset, long, 11, cls)
                yield text(left + long + 5, y + offset + 10, f"{both[name]:.1f}", "small")

    return picture(left + wide + 44, height, "Speed of copies by layout", parts())


# ---- the command ----------------------------------------------------------------------------

ALL: dict[str, Callable[[], Iterator[str]]] = {
    "pairs": pairs,
    "bindings": bindings,
    "dimensions": dimensions,
    "copies": copies,
}


def stale(check: bool) -> Iterator[str]:
    """The names of the pictures that are not as the data has them; writes them unless `check`."""
    for name, drawn in ALL.items():
        path, content = PLOTS / f"{name}.svg", "\n".join(drawn()) + "\n"
        if not path.exists() or path.read_text() != content:
            yield path.name
            if not check:
                PLOTS.mkdir(exist_ok=True)
                path.write_text(content)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.plots", description=__doc__.partition("\n\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if one is stale")
    check = parser.parse_args(arguments).check
    found = list(stale(check))
    for name in found:
        print(f"{name} is stale: run python -m benchmarks.plots" if check else f"{name} drawn")
    return int(bool(found) and check)


if __name__ == "__main__":
    sys.exit(main())
