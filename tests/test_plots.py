"""The plots of the documentation say what was measured, in both themes, and can be read."""

import re
from itertools import combinations

import pytest

pytestmark = pytest.mark.library("matplotlib")


@pytest.fixture
def plots():
    from benchmarks import plots

    return plots


def words(svg):
    """What a plot says. Where it says it may differ between releases of matplotlib."""
    return re.findall(r">([^<>]*\S[^<>]*)</text>", svg)


def colours(svg):
    return set(re.findall(r"#[0-9a-f]{6}\b|var\(--\w+\)", svg.rpartition("</style>")[2]))


def test_the_plot_of_the_readme_is_of_the_measurements(plots):
    themes = [set(theme) for theme in zip(*plots.COLOURS.values(), strict=True)]
    for (path, svg), theme in zip(plots.of_the_readme().items(), themes, strict=True):
        assert words(path.read_text("utf-8")) == words(svg), "run python -m benchmarks.plots"
        assert len(colours(svg)) > 3
        assert colours(svg) <= theme


def test_the_site_draws_its_plots_for_both_themes(plots):
    from tests.interop.matrix import picture

    known = {f"var(--{name})" for name in plots.COLOURS} | set(picture.COLOURS.values())
    for shown in (plots.pairs, plots.bindings, plots.dimensions, plots.copies, picture.grid):
        (line,) = shown()
        path = plots.DOCS / re.fullmatch(r"!\[.+\]\((.+)\)", line)[1]
        svg = path.read_text("utf-8")
        assert len(words(svg)) > 10
        assert len(colours(svg)) > 3
        assert colours(svg) <= known


def test_no_text_is_on_another(plots):
    """By the metrics of matplotlib's own font, which is wider than those of most systems."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    of_the_site = (plots.pairs, plots.bindings, plots.dimensions, plots.copies)
    with matplotlib.rc_context(plots.STYLE):
        for draw in (plots.exchanges, *(shown.__wrapped__ for shown in of_the_site)):
            canvas = FigureCanvasAgg(draw())
            canvas.draw()
            shown = [t for t in canvas.figure.findobj(Text) if t.get_visible() and t.get_text()]
            assert len(shown) > 10
            for one, other in combinations(shown, 2):
                boxes = [text.get_window_extent().shrunk(0.98, 0.7) for text in (one, other)]
                assert not boxes[0].overlaps(boxes[1]), f"{draw.__name__}: {one}, {other}"
