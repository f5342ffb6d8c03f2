"""docs/upstream.md: each program shows a defect of a library, and holds.

A program that has ended its process, or whose assertions hold, has shown it. If a library is not
installed, its programs are skipped: nox -s matrix runs them where the libraries are.
"""

import importlib.util
import re
import signal
from pathlib import Path

import pytest

from fastdl._cli import defects
from tests.support.isolate import describe, run_python

from .matrix.__main__ import surroundings
from .peers import LIBRARIES

PAGE = Path(__file__).parents[2] / "docs/upstream.md"
TEXT = PAGE.read_text().partition("## What other projects could change\n")[0]
MARK = re.compile(
    r"^#### (?P<title>[^\n]*)\n\n"
    r"<!-- defect: (?P<module>[\w.]+)(?: dies of (?P<signal>\w+))? -->\n"
    r"```python\n(?P<program>.*?)```\n",
    re.MULTILINE | re.DOTALL,
)
DEFECTS = [match.groupdict() for match in MARK.finditer(TEXT)]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda d: f"{d['module']}: {d['title']}")
def test_defect(defect):
    if importlib.util.find_spec(defect["module"].partition(".")[0]) is None:
        pytest.skip(f"{defect['module']} is not installed")
    # Without -W error: what they warn of is not the matter.
    child = run_python("-W", "ignore", "-c", defect["program"], env=surroundings())
    expected = -getattr(signal, defect["signal"]) if defect["signal"] else 0
    assert child.returncode == expected, describe(child)


def test_every_entry_is_read():
    assert len(DEFECTS) == TEXT.count("\n#### ") == TEXT.count("<!-- defect") > 15


def test_each_defect_of_the_table_has_a_program():
    """docs/quote.py writes the table of the page."""
    programs = [(defect["module"].partition(".")[0], defect["title"]) for defect in DEFECTS]
    files = defects.files().items()
    assert sorted(programs) == sorted(
        (name, title) for name, file in files for title in file.DEFECTS
    )
    for _, file in files:
        assert getattr(file, "FIXED", {}).keys() <= file.DEFECTS.keys()


def test_every_library_has_an_environment():
    """So that no program is skipped everywhere."""
    known = {peer.module.partition(".")[0] for peer in LIBRARIES} | {"numpy", *defects.OTHERS}
    missing = {defect["module"].partition(".")[0] for defect in DEFECTS} - known
    assert missing == set(), "add a row to tests/interop/peers.py"
