# SPDX-License-Identifier: Apache-2.0
"""What the documentation claims: each figure in a sentence was measured, and each name of the
package or the header, path and command exists.

Claims about behaviour have tests of their own: docs/hazards.md in test_hazards.py, docs/streams.md
in test_streams_guide.py, the README's example in test_readme.py.
"""

import re
import shlex
from pathlib import Path

import pytest

import fastdl
from benchmarks import summary
from fastdl import __main__ as command_line
from tests.support.layers import LAYERS

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "SECURITY", "CODE_OF_CONDUCT")),
    *(ROOT / f"{name}/README.md" for name in ("benchmarks", "tests/gpu")),
    *sorted((ROOT / "docs").glob("*.md")),
]
HEADERS = sorted((ROOT / "include" / "fastdl").glob("*.h"))
MODULES = sorted((ROOT / "src" / "fastdl").rglob("*.py*"))
SOURCES = [path for path in MODULES if path.suffix in (".py", ".pyx", ".pyi", ".pxd")]


def name_of(path):
    return str(path.relative_to(ROOT))


def prose(path):
    """A page without what docs/quote.py writes into it."""
    text = path.read_text()
    text = re.sub(r"(?s)<!-- (generated|reference): .*?<!-- end \1 -->", "", text)
    return re.sub(r"(?s)(<!-- quote: [^\n]*-->\n)(```+).*?\n\2\n", r"\1", text)


# ---- figures --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*PAGES, *HEADERS, *SOURCES], ids=name_of)
def test_each_figure_was_measured(path):
    assert summary.wrong_figures(prose(path) if path.suffix == ".md" else path.read_text()) == []


def test_every_figure_in_prose_is_used():
    text = "\n".join(path.read_text() for path in [*PAGES, *HEADERS])
    text = re.sub(r"\s+(?:\*\s+)?", " ", text)
    known = summary.rows()
    unused = [
        words for words, value in summary.PROSE.items() if f"{words} {value(known)}" not in text
    ]
    assert unused == []


# ---- names, paths, links, commands ----------------------------------------------------------


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_lead_somewhere(path):
    text = re.sub(r"(?s)```.*?```|`[^`\n]*`", "", prose(path))
    for target in re.findall(r"""(?:\]\(|\b(?:src|srcset)=")([^)\s"]+)[)"]""", text):
        if not target.startswith(("http://", "https://", "#")):
            assert (path.parent / target.partition("#")[0]).exists(), target


FOLDERS = (
    *(
        "",
        "docs",
        "include/fastdl",
        "include/fastdl/impl",
        "benchmarks",
        "tests/gpu",
        "tests/simulated",
        "src/fastdl",
    ),
    *(
        f"src/fastdl/{name}"
        for name in ("_memory", "_core", "_devices", "_protocol", "_convert", "_bridges")
    ),
)


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_files_that_are_named_exist(path):
    """Also those that a command names."""
    text = re.sub(r"(?s)```.*?```", "", prose(path))
    for name in " ".join(re.findall(r"`([^`]+)`", text)).split():
        if re.fullmatch(r"[\w./-]+\.(?:py|pyx|pyi|c|h|md|json|toml|cpp|ptx)", name):
            assert any((ROOT / folder / name).exists() for folder in FOLDERS), name


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_names_of_the_header_exist(path):
    files = [ROOT / "setup.py", *(ROOT / "include").rglob("*.[ch]*")]
    known = "\n".join(file.read_text() for file in files)
    for name in re.findall(r"`(?:fastdl|FASTDL)_\w+", prose(path)):
        assert re.search(rf"\b{name[1:]}\b", known), name


NO_NAMES = ("c", "h", "pc", "Tensors", "pyx")  # of files, and a plural


@pytest.mark.parametrize("path", [*PAGES, *HEADERS], ids=name_of)
def test_names_of_the_package_exist(path):
    """fastdl.x in Python or prose; fastdl.y of Cython is checked by compiling the examples."""
    text = prose(path) if path.suffix == ".md" else path.read_text()
    text = re.sub(r"(?s)```(?:c|cpp|cython)\n.*?```", "", text)
    for name in re.findall(r"(?<![\w/.<])fastdl\.([A-Za-z]\w*)", text):
        place = ROOT / "src/fastdl" / name
        is_module = place.is_dir() or place.with_suffix(".py").exists()
        assert name in NO_NAMES or hasattr(fastdl, name) or is_module, name
    for name in re.findall(r"(?<![\w.])(?:fastdl\.)?Tensor\.(\w+)", text):
        assert hasattr(fastdl.Tensor, name), name


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_python_in_pages_compiles(path):
    for block in re.findall(r"(?s)```python\n(?!>>>)(.*?)```", path.read_text()):
        compile(block, name_of(path), "exec")


def test_the_layers_of_the_architecture_are_those_that_are_checked():
    page = (ROOT / "docs" / "architecture.md").read_text()
    listed = re.findall(r"(?m)^\d+\. (.*?)(?: \(|$)", page.partition("<!-- layers -->")[2])
    assert listed[: len(LAYERS)] == [title for title, _ in LAYERS]


TEXTS = [*PAGES, *HEADERS, ROOT / "pyproject.toml", ROOT / "noxfile.py"]


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_commands_exist(path, capsys):
    text = path.read_text()
    for line in re.findall(r"python -m fastdl ([\w-]+(?: --\w+)*(?: FOLDER)?)", text):
        with pytest.raises(SystemExit) as ending:
            command_line.main([*shlex.split(line), "--help"])
        assert ending.value.code == 0, f"python -m fastdl {line}: {capsys.readouterr().err}"
    noxfile = (ROOT / "noxfile.py").read_text()
    sessions = set(re.findall(r"(?m)^def (\w+)\(session", noxfile))
    sessions |= set(re.findall(r'name="([\w-]+)"', noxfile))
    for session in re.findall(r"nox -s ([\w-]+)", text):
        assert session.partition("-3")[0] in sessions, session  # pythons-3.12
    for module in re.findall(r"python -m ((?:benchmarks|tests)[\w.]*)", text):
        module = module.rstrip(".").replace(".", "/")
        assert (ROOT / f"{module}.py").exists() or (ROOT / module / "__main__.py").exists(), module


def test_nothing_is_installed_by_a_name_that_no_index_has():
    pattern = r"pip install [^\n]*\bfastdlpack\b"
    texts = (path for path in TEXTS if path.name != "contributing.md")  # after a release
    assert [name_of(path) for path in texts if re.search(pattern, path.read_text())] == []
