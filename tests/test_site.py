"""docs/links.py, which follows the links of the built site, finds those that lead nowhere.

That the site builds without a warning is for `nox -s docs` to say: no test needs Sphinx.
"""

import pytest

from tests.support.build import ROOT, load_module


@pytest.fixture(scope="module")
def links():
    return load_module("links", ROOT / "docs/links.py")


@pytest.fixture
def site(tmp_path):
    (tmp_path / "index.html").write_text('<h1 id="top">fastdl</h1><a href="guide/a%20b.html">')
    (tmp_path / "guide").mkdir()
    (tmp_path / "guide" / "a b.html").write_text(
        '<h1 id="one"></h1><a name="two"></a><img src="../plot.svg"><a href="#one"></a>'
        '<a href="../index.html#top"></a><a href="?x#two"></a><a href="https://example.org/#x"></a>'
    )
    (tmp_path / "plot.svg").write_text("<svg/>")
    return tmp_path


@pytest.mark.parametrize(
    "broken",
    [
        '<a href="missing.html">',
        '<a href="index.html#bottom">',
        '<a href="#bottom">',
        '<a href="guide">',
        '<img src="plot.png">',
        '<link href="style.css">',
    ],
)
def test_a_link_that_leads_nowhere(links, site, capsys, broken):
    with (site / "index.html").open("a") as page:
        page.write(f"\n{broken}")
    assert links.main([str(site)]) == 1
    said = capsys.readouterr().out
    target = broken.split('"')[1]
    assert f"index.html:2: {target}\n" in said and "1 links lead nowhere" in said
