# SPDX-License-Identifier: Apache-2.0
"""The plot of the README, from the stored measurements, and how plots of the site are shown.

python -m benchmarks.plots draws that of the README, which is kept for forges to show. Those of the
site are drawn when it is built: see docs/quote.py.
"""

import io
import re
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.summary import rows

DOCS = Path(__file__).resolve().parents[1] / "docs"

#: What a colour is for -> how it is drawn, and so it looks on a light page; how on a dark one.
COLOURS = {
    "text": ("#1f2328", "#e6edf3"),
    "soft": ("#59636e", "#9198a1"),
    "line": ("#d1d9e0", "#3d444d"),
    "ours": ("#2f6fde", "#58a6ff"),
    "other": ("#a9b4c0", "#656d76"),
}
TEXT, SOFT, LINE, OURS, OTHER = (c for c, _ in COLOURS.values())
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
    """Three digits: more would be noise."""
    units = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1))
    unit, size = next(each for each in units if nanoseconds >= 0.9995 * each[1] or each[1] == 1)
    return f"{nanoseconds / size:.3g} {unit}"


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
