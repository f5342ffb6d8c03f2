"""The plot of the README says what was measured, in both themes. Those of the site are drawn anew
each time."""

import re

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
