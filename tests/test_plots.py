"""The plots of the documentation are what benchmarks/plots.py draws from the measurements."""

import re
import shutil
import xml.etree.ElementTree as ElementTree

import pytest

from benchmarks import plots


def test_the_plots_are_those_of_the_measurements(capsys):
    assert plots.main(["--check"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("name", plots.ALL)
def test_a_plot_is_svg_in_both_themes(name):
    root = ElementTree.parse(plots.PLOTS / f"{name}.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    text = "".join(root.itertext())
    assert "prefers-color-scheme: dark" in text
    used = {word for part in root.iter() for word in part.get("class", "").split()}
    assert used
    assert all(f".{word} " in text for word in used)
    width, height = (float(root.get(key)) for key in ("width", "height"))
    for part in root.iter():
        for key, end in (("x", width), ("y", height), ("x2", width), ("y2", height)):
            assert 0 <= float(part.get(key, 0)) <= end


def test_each_plot_is_shown():
    shown = re.findall(r"\]\(plots/(\w+)\.svg\)", (plots.DOCS / "performance.md").read_text())
    assert shown == list(plots.ALL)
    assert {path.stem for path in plots.PLOTS.iterdir()} == set(plots.ALL)


def test_other_measurements_give_another_plot(tmp_path, monkeypatch, capsys):
    for file in (*plots.DOCS.glob("*.json"), *plots.PLOTS.glob("*.svg")):
        shutil.copy(file, tmp_path)
    monkeypatch.setattr(plots, "DOCS", tmp_path)
    monkeypatch.setattr(plots, "PLOTS", tmp_path)
    assert plots.main(["--check"]) == 0
    path = tmp_path / "pairs.json"
    path.write_text(re.sub(r'"fastdl": [\d.]+', '"fastdl": 77', path.read_text(), count=1))
    assert plots.main(["--check"]) == 1
    assert "pairs.svg is stale" in capsys.readouterr().out
    assert plots.main([]) == 0
    assert "77 ns" in (tmp_path / "pairs.svg").read_text()
    assert plots.main(["--check"]) == 0
