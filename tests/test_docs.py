"""The documentation quotes files as they are; and docs/quote.py, which sees to that, can fail."""

import sys
from pathlib import Path

import pytest

from docs import quote

ROOT = Path(__file__).parents[1]


def test_all_quotes_are_fresh(capsys):
    assert len(quote.documents()) >= 3
    assert quote.main(["--check"]) == 0, capsys.readouterr().err


# ---- quotes ---------------------------------------------------------------------------------

SOURCE = """\
/* SPDX-License-Identifier: Apache-2.0 */
int before;
    /* [loop] */
    for (;;)
        if (done)
            break;
    // [/loop]
int after;
"""
LOOP = ["for (;;)", "    if (done)", "        break;"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "example").mkdir()
    (tmp_path / "example" / "a.c").write_text(SOURCE)
    return tmp_path


def page(folder, *lines):
    path = folder / "page.md"
    path.write_text("\n".join(lines) + "\n")
    return path


def run(path, *flags):
    return quote.main([*flags, str(path)])


def test_a_part_is_written_and_then_fresh(folder, capsys):
    path = page(folder, "Text", "<!-- quote: example/a.c#loop -->", "```c", "old", "```", "more")
    assert run(path) == 0
    assert path.read_text().splitlines() == [
        *("Text", "<!-- quote: example/a.c#loop -->", "```c", *LOOP, "```", "more")
    ]
    assert run(path, "--check") == 0
    assert capsys.readouterr().err == ""


def test_a_stale_block_is_shown_and_left(folder, capsys):
    path = page(folder, "<!-- quote: example/a.c#loop -->", "```c", "for (;;)", "```")
    before = path.read_text()
    assert run(path, "--check") == 1
    assert path.read_text() == before
    shown = capsys.readouterr().err
    assert "+    if (done)" in shown
    assert "page.md" in shown


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["<!-- quote: example/b.c -->", "```", "```"], "there is no file"),
        (["<!-- quote: example/a.c#pool -->", "```", "```"], "expected the comments [pool]"),
        (["<!-- quote: example/a.c -->", "", "```", "```"], "expected a fenced block"),
        (["<!-- quote: example/a.c -->"], "expected a fenced block"),
        (["<!-- quote: example/a.c -->", "```c", "no end"], "has no end"),
        (["<!-- quote example/a.c -->", "```c", "```"], "expected a mark"),
        (["<!-- reference example/a.c -->"], "expected a mark"),
        (["<!-- site: a b -->"], "expected a mark"),
        (["<!-- generated: a:b -->"], "expected <!-- end generated -->"),
        (["<!-- generated: a b -->"], "expected a mark"),
        (["<!-- end generated -->"], "expected a mark"),
        (["<!-- generated: no.such:b -->", "<!-- end generated -->"], "cannot generate no.such:b"),
        (["<!-- generated: os.path:b -->", "<!-- end generated -->"], "cannot generate os.path:b"),
    ],
)
@pytest.mark.parametrize("flags", [[], ["--check"]])
def test_what_cannot_be_quoted(folder, capsys, lines, message, flags):
    path = page(folder, *lines)
    before = path.read_text()
    assert run(path, *flags) == 1
    assert message in capsys.readouterr().err
    assert path.read_text() == before


def test_what_a_function_yields(tmp_path, monkeypatch):
    (tmp_path / "lines_for_a_page.py").write_text("def made():\n    yield 'one'\n    yield 'two'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    path = page(
        tmp_path,
        "<!-- generated: lines_for_a_page:made -->",
        "old",
        "<!-- end generated -->",
        "end",
    )
    assert run(path, "--check") == 1
    assert run(path) == 0
    assert path.read_text().splitlines()[1:] == [
        *("", "one", "two", "", "<!-- end generated -->", "end")
    ]
    assert run(path, "--check") == 0
    del sys.modules["lines_for_a_page"]


def test_reference_of_the_public_header_is_complete():
    """Each function that the design names, each type that they take, and nothing private."""
    text = "\n".join(quote.reference(ROOT / "include/fastdl/fastdl.h"))
    functions = "import borrow release own wrap empty work_stream expect exchange_api".split()
    for name in [*functions, "view", "spec", "dim", "argument"]:
        assert text.count(f"### `fastdl_{name}`\n") == 1, name
    assert "#define FASTDL_DIM(" in text
    assert "_;" not in text
