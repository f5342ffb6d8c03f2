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


def test_a_stale_block_is_shown_and_left(folder, capsys):
    path = page(folder, "<!-- quote: example/a.c#loop -->", "```c", "for (;;)", "```")
    before = path.read_text()
    assert run(path, "--check") == 1
    assert path.read_text() == before
    shown = capsys.readouterr().err
    assert "+    if (done)" in shown
    assert "page.md" in shown


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
