"""The picture of docs/testing.md: every producer with every consumer. Needs matplotlib."""

from matplotlib.figure import Figure

from benchmarks.plots import of_the_site
from docs.suite import stored
from fastdl._testing import pairs


@of_the_site("Each library to each")
def picture() -> Figure:
    return pairs.figure(stored("exchanges.json"))
