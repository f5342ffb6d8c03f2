"""The plots of the documentation, from the stored measurements, drawn by matplotlib.

python -m benchmarks.plots draws that of the README, which is kept for forges to show. Those of
docs/performance.md are drawn when the site is built: see docs/quote.py.
"""

import io
import json
import re
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.summary import rows
from fastdl._cli.bench import cost

DOCS = Path(__file__).resolve().parents[1] / "docs"

#: What a colour is for -> how it is drawn, and so it looks on a light page; how on a dark one.
COLOURS = {
    "text": ("#1f2328", "#e6edf3"),
    "soft": ("#59636e", "#9198a1"),
    "line": ("#d1d9e0", "#3d444d"),
    "ours": ("#2f6fde", "#58a6ff"),
    "other": ("#a9b4c0", "#656d76"),
    "second": ("#8250df", "#bc8cff"),
    "third": ("#bf8700", "#d29922"),
}
TEXT, SOFT, LINE, OURS, OTHER, SECOND, THIRD = (c for c, _ in COLOURS.values())
STYLE = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "fastdl",  # the same data gives the same file
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": LINE,
    "axes.labelcolor": SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": TEXT,
    "xtick.color": LINE,
    "xtick.labelcolor": SOFT,
    "ytick.color": LINE,
    "ytick.labelcolor": TEXT,
    "grid.color": LINE,
}
SMALL = {"fontsize": 9, "color": SOFT}


def load(name: str) -> dict:
    return json.loads((DOCS / f"{name}.json").read_text())


def of_the_site(words: str) -> Callable:
    """Makes of a function that draws one that puts its drawing into a page, with these words for
    who does not see it."""

    def decorate(draw: Callable[[], Figure]) -> Callable[[], Iterator[str]]:
        @wraps(draw)
        def shown() -> Iterator[str]:
            path = DOCS / "_build" / "plots" / f"{draw.__name__}.svg"
            path.parent.mkdir(parents=True, exist_ok=True)
            with matplotlib.rc_context(STYLE):
                path.write_text(in_both_themes(as_svg(draw())), "utf-8")
            yield f"![{words}]({path.relative_to(DOCS).as_posix()})"

        return shown

    return decorate


def time(nanoseconds: float) -> str:
    return cost(nanoseconds).replace("us", "µs")


def legend(axes: Axes, **options) -> None:
    axes.legend(frameon=False, fontsize=9, labelcolor=SOFT, borderaxespad=0.2, **options)


# ---- the README -----------------------------------------------------------------------------

#: What is done, what a user would call without fastdl, and the row of the report.
EXCHANGES = (
    ("fastdl.from_dlpack(ndarray)", "numpy.from_dlpack(ndarray)", "from_numpy/numpy"),
    ("fastdl.from_dlpack(torch_tensor)", "tvm_ffi.from_dlpack(torch_tensor)", "from_torch/tvm_ffi"),
    ("numpy.from_dlpack(fastdl_tensor)", "numpy.from_dlpack(ndarray)", "into_numpy/numpy"),
    ("fastdl.convert(torch_tensor, ndarray)", "torch_tensor.numpy()", "torch_to_numpy/own"),
    ("fastdl.convert(jax_array, torch)", "torch.from_dlpack(jax_array)", "jax_to_torch/own"),
    ("a C function of 3 torch tensors", "bound by tvm-ffi", "call_torch_3/tvm_ffi"),
    ("a C function of 3 ndarrays", "bound by nanobind", "call_numpy_3/nanobind"),
)


def exchanges() -> Figure:
    """A line for each call, from what fastdl costs to what the other costs: on a logarithmic axis,
    its length is their ratio."""
    known = rows()
    figure = Figure((3.2, 4))
    axes = figure.add_subplot()
    axes.set_title("Time of a call: fastdl, and what it replaces", x=-0.92)
    for y, (what, peer, key) in enumerate(EXCHANGES):
        ours, theirs = known[f"python/{key}"].ours, known[f"python/{key}"].peers
        axes.plot((ours, theirs), (y, y), color=LINE, linewidth=3, zorder=1)
        for value, other, colour in ((ours, theirs, OURS), (theirs, ours, OTHER)):
            axes.plot(value, y, "o", color=colour, markersize=7)
            side, aligned = (8, "left") if value > other else (-8, "right")
            axes.annotate(
                time(value), (value, y), (side, -3.5), textcoords="offset points", ha=aligned
            )
        left = {"xycoords": axes.get_yaxis_transform(), "fontsize": 9}
        axes.annotate(what, (-0.92, y - 0.08), color=OURS, **left)
        axes.annotate(peer, (-0.92, y + 0.1), color=SOFT, va="top", **left)
    axes.set(xscale="log", xlim=(7, 12_000), ylim=(len(EXCHANGES) - 0.5, -0.5), yticks=())
    axes.set_xticks((10, 100, 1000, 10_000), ("10 ns", "100 ns", "1 µs", "10 µs"))
    axes.grid(axis="x", linestyle=":")
    axes.minorticks_off()
    axes.spines["left"].set_visible(False)
    return figure


# ---- an argument, by each tool for bindings -------------------------------------------------

PANELS = (
    ("torch tensor", "call, torch tensor", time),
    ("ndarray", "call, ndarray", time),
    ("seconds", "compile and link", lambda value: f"{value:.1f} s"),
    ("bytes", "module", lambda value: f"{value / 1000:.0f} kB"),
)


@of_the_site("Bars for cost, compilation and size of each tool")
def bindings() -> Figure:
    tools = load("bindings")["tools"]
    figure = Figure((7.4, 0.7 + 0.28 * len(tools)))
    panels = figure.subplots(1, len(PANELS), sharey=True)
    for axes, (key, heading, shown) in zip(panels, PANELS, strict=True):
        values = [known[key] for known in tools.values()]
        colours = [OURS if "fastdl" in tool else OTHER for tool in tools]
        # Costs differ a hundredfold.
        axes.set(xscale="linear" if key in ("seconds", "bytes") else "log", xticks=())
        bars = axes.barh(list(tools), [value or 1 for value in values], 0.7, color=colours)
        words = ["not taken" if value is None else shown(value) for value in values]
        axes.bar_label(bars, words, padding=3, **SMALL)
        axes.set_xlim(left=0 if axes.get_xscale() == "linear" else 1)
        axes.set_title(heading, weight="normal", **SMALL)
        axes.minorticks_off()
        axes.spines["bottom"].set_visible(False)
        axes.tick_params(length=0)
    panels[0].invert_yaxis()
    panels[0].annotate(
        "A function of one tensor, bound by each tool",
        (0, 1),
        (0, 24),
        xycoords="axes fraction",
        textcoords="offset points",
        size=11,
        weight="bold",
    )
    figure.subplots_adjust(wspace=0.75)
    return figure


# ---- more dimensions ------------------------------------------------------------------------

#: Group, subject, words, colour.
DIMENSIONS = (
    ("c/numpy_dimensions", "numpy", "np.from_dlpack(ndarray)", OTHER),
    ("c/numpy_dimensions", "fastdl", "fastdl.from_dlpack(ndarray)", OURS),
    ("c/torch_dimensions", "fastdl", "fastdl.from_dlpack(torch tensor)", SECOND),
    ("c/torch_dimensions", "torch's table", "of that, torch's own table", THIRD),
)


@of_the_site("Lines of the cost by the number of dimensions")
def dimensions() -> Figure:
    medians = load("benchmarks")["medians"]
    figure = Figure((4.4, 3.2))
    axes = figure.add_subplot(title="Cost of an import by the number of dimensions")
    counts = range(1, 9)
    lines = []
    for group, subject, words, colour in DIMENSIONS:
        costs = [medians[group][f"{subject} {n}"] for n in counts]
        axes.plot(counts, costs, color=colour, linewidth=2)
        lines.append((costs[-1], words, TEXT if colour == OTHER else colour))
    axes.set(xlabel="dimensions", xlim=(1, 8), ylim=(0, None))
    axes.yaxis.set_major_formatter("{x:.0f} ns")
    axes.tick_params(axis="y", labelcolor=SOFT)
    axes.grid(axis="y")
    space, lowest = axes.get_ylim()[1] / 14, 0.0
    for height, words, colour in sorted(lines):  # labels do not overlap
        lowest = max(height, lowest)
        axes.annotate(words, (8, lowest), (8, -3), textcoords="offset points", color=colour)
        lowest += space
    return figure


# ---- copies ---------------------------------------------------------------------------------

BYTES = 4 * 2**20  # of every layout but the small ones


@of_the_site("Bars of the speed of copies, by layout")
def copies() -> Figure:
    medians = {
        group.removeprefix("copy/"): found
        for group, found in load("benchmarks")["medians"].items()
        if group.startswith("copy/") and "small" not in group
    }
    figure = Figure((5.6, 0.8 + 0.34 * len(medians)))
    axes = figure.add_subplot(title="Copies of 4 MiB on the host, in GB/s")
    places = range(len(medians))
    both = (("fastdl", "fastdl", OURS, -0.2), ("numpy", "np.copyto", OTHER, 0.2))
    for name, label, colour, shift in both:
        speeds = [BYTES / found[name] for found in medians.values()]
        bars = axes.barh([y + shift for y in places], speeds, 0.38, color=colour, label=label)
        axes.bar_label(bars, fmt="{:.1f}", padding=3, **SMALL)
    memcpy = BYTES / medians["contiguous"]["memcpy"]
    axes.axvline(memcpy, color=SOFT, linestyle="--", linewidth=1)
    axes.annotate(
        f"memcpy: {memcpy:.0f}",
        (memcpy, 0),
        (0, -12),
        xycoords=axes.get_xaxis_transform(),
        textcoords="offset points",
        ha="right",
        **SMALL,
    )
    axes.set(xticks=(), ylim=(len(medians) - 0.5, -0.5))
    axes.set_yticks(places, list(medians))
    axes.tick_params(length=0)
    axes.spines["bottom"].set_visible(False)
    legend(axes, loc="upper left", bbox_to_anchor=(0, 0), ncols=2)
    return figure


# ---- files ----------------------------------------------------------------------------------


def as_svg(figure: Figure) -> str:
    file = io.StringIO()
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(
        file,
        format="svg",
        transparent=True,
        bbox_inches="tight",
        pad_inches=0.05,
        metadata=metadata,
    )
    text = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", file.getvalue())
    return re.sub(r"(?s)<\?xml.*?<svg", "<svg", re.sub(r"[ \t]+$", "", text, flags=re.M))


def in_the_dark(svg: str) -> str:
    for light, dark in COLOURS.values():
        svg = svg.replace(light, dark)
    return svg


def in_both_themes(svg: str) -> str:
    """One file for both: its colours are variables, which follow the reader's theme."""
    sets = []
    for theme in (0, 1):
        sets.append("".join(f"--{name}: {both[theme]}; " for name, both in COLOURS.items()))
    for name, (light, _) in COLOURS.items():
        svg = svg.replace(light, f"var(--{name})")
    dark = f"@media (prefers-color-scheme: dark) {{ svg {{ {sets[1]}}} }}"
    return svg.replace("<defs>", f"<style>svg {{ {sets[0]}}}\n{dark}</style>\n<defs>", 1)


def of_the_readme() -> dict[Path, str]:
    """Two files, since a forge shows the one that suits its own theme, not that of the system."""
    with matplotlib.rc_context(STYLE):
        svg = as_svg(exchanges())
    return {DOCS / "exchanges.svg": svg, DOCS / "exchanges-dark.svg": in_the_dark(svg)}


if __name__ == "__main__":
    for path, svg in of_the_readme().items():
        path.write_text(svg, "utf-8")
