"""The picture of the README, from docs/benchmarks.json: `python -m benchmarks.picture` writes it.

Two files, since a forge shows the one that suits the colours of the page.
"""

from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from benchmarks import report, summary

#: File -> colours of the text, of fastdl, and of what it is compared with.
THEMES = {
    "exchanges.svg": ("#1f2328", "#0969da", "#c4cbd3"),
    "exchanges-dark.svg": ("#e6edf3", "#4493f8", "#4a525c"),
}
#: What is done, what a user would call without fastdl, and the row of the report.
ROWS = (
    ("fastdl.from_dlpack(ndarray)", "numpy.from_dlpack(ndarray)", "python/from_numpy/numpy"),
    (
        "fastdl.from_dlpack(torch_tensor)",
        "tvm_ffi.from_dlpack(torch_tensor)",
        "python/from_torch/tvm_ffi",
    ),
    ("numpy.from_dlpack(fastdl_tensor)", "numpy.from_dlpack(ndarray)", "python/into_numpy/numpy"),
    ("fastdl.convert(torch_tensor, ndarray)", "torch_tensor.numpy()", "python/torch_to_numpy/own"),
    ("fastdl.convert(jax_array, torch)", "torch.from_dlpack(jax_array)", "python/jax_to_torch/own"),
    ("a C function of 3 torch tensors", "bound by tvm-ffi", "python/call_torch_3/tvm_ffi"),
    ("a C function of 3 ndarrays", "bound by nanobind", "python/call_numpy_3/nanobind"),
)

WIDTH, LEFT, RIGHT, TOP, BAR, STEP = 760, 250, 210, 30, 13, 40
FONT = "font-family='system-ui, -apple-system, Segoe UI, sans-serif' font-size='13'"


def picture(directory: Path, theme: str) -> Iterator[str]:
    """The lines of one file; rows that were not measured are left out."""
    sections, facts, _ = report.load(directory)
    known = {row.key: row for section in sections.values() for row in section}
    rows = [(what, peer, known[key]) for what, peer, key in ROWS if key in known]
    ink, ours, theirs = THEMES[theme]
    height = TOP + STEP * len(rows)
    scale = (WIDTH - LEFT - RIGHT) / max(max(row.ours, row.peers) for _, _, row in rows)
    python = facts["Python"].partition(" ")[0]
    heading = f"Time of a call from CPython {python} on an {facts['CPU']}; less is better"
    yield (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' "
        f"width='{WIDTH}' height='{height}' role='img' fill='{ink}' {FONT}>"
    )
    yield f"<title>{escape(heading)}</title>"
    yield f"<text x='{LEFT}' y='14'>{escape(heading)}</text>"
    for number, (what, peer, row) in enumerate(rows):
        y = TOP + STEP * number
        yield f"<text x='{LEFT - 10}' y='{y + BAR + 4}' text-anchor='end'>{escape(what)}</text>"
        bars = ((row.ours, ours, "fastdl"), (row.peers, theirs, peer))
        for line, (cost, colour, name) in enumerate(bars):
            top, length = y + line * (BAR + 2), max(1, round(cost * scale))
            yield f"<rect x='{LEFT}' y='{top}' width='{length}' height='{BAR}' fill='{colour}'/>"
            words = escape(f"{name}: {summary.cost(cost, row.unit)}")
            yield f"<text x='{LEFT + length + 6}' y='{top + BAR - 2}'>{words}</text>"
    yield "</svg>"


def write(directory: Path = summary.DOCS) -> None:
    for theme in THEMES:
        (directory / theme).write_text("\n".join(picture(directory, theme)) + "\n")


if __name__ == "__main__":
    write()
