# SPDX-License-Identifier: Apache-2.0
"""The picture of docs/interop.md: every producer with every consumer."""

from matplotlib.figure import Figure

from benchmarks.plots import TEXT, legend, of_the_site

from ..peers import LIBRARIES
from .cells import COPY, DIES, REFUSED, WRONG, ZERO_COPY, Cell, load
from .report import WAYS

COLOURS = {
    ZERO_COPY: "#2f9e63",
    COPY: "#f0b429",
    REFUSED: "#b9c0c9",
    WRONG: "#d64545",
    DIES: TEXT,
    None: "none",  # not measured: one is of one dimension, the other an image
}


@of_the_site("Producers by consumers")
def grid() -> Figure:
    """A panel for each way, one below the other."""
    pairs = {
        tuple(name.split("/")): Cell.parse(text).outcome
        for name, text in load()["grid"].items()
        if "/" in name
    }
    producers = [p for p in LIBRARIES if any(pair[1] == p.name for pair in pairs)]
    figure = Figure((0.34 * len(producers), 0.6 * len(producers)), layout="constrained")
    for axes, (way, words) in zip(figure.subplots(2, 1), WAYS.items(), strict=True):
        # Not every consumer is a target of convert.
        consumers = [c for c in LIBRARIES if any(pair[::2] == (way, c.name) for pair in pairs)]
        for outcome, colour in COLOURS.items():
            edge = TEXT if outcome is None else colour
            if outcome is None or outcome in pairs.values():
                axes.bar(-9, 0, color=colour, edgecolor=edge, label=outcome or "no common rank")
            for y, producer in enumerate(producers):
                places = [
                    (x - 0.46, 0.92)
                    for x, consumer in enumerate(consumers)
                    if pairs.get((way, producer.name, consumer.name)) == outcome
                ]
                axes.broken_barh(places, (y - 0.46, 0.92), facecolor=colour, edgecolor=edge)
        axes.set(title=words, aspect="equal")
        axes.set(xlim=(-0.6, len(consumers) - 0.4), ylim=(len(producers) - 0.4, -0.6))
        axes.set_xticks(range(len(consumers)), titles(consumers), rotation=60, ha="left")
        axes.set_yticks(range(len(producers)), titles(producers))
        axes.tick_params(length=0, labeltop=True, labelbottom=False, labelcolor=TEXT)
        axes.spines[:].set_visible(False)
        legend(axes, loc="upper left", bbox_to_anchor=(0, 0), ncols=len(COLOURS))
    return figure


def titles(peers) -> list[str]:
    return [peer.title.replace("`", "") for peer in peers]
