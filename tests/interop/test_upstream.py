# SPDX-License-Identifier: Apache-2.0
"""docs/upstream.md: each program in docs/examples/defects shows a defect of a library.

If a library is not installed, its programs are skipped: nox -s matrix runs them where the libraries
are.
"""

import importlib.util
import signal

import pytest

from docs import defects as docs
from fastdl._cli import defects
from tests.support.isolate import describe, run_python

from .matrix.__main__ import surroundings
from .peers import LIBRARIES

PROGRAMS = docs.programs()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: f"{p.library}: {p.title}")
def test_defect(program):
    if importlib.util.find_spec(program.library) is None:
        pytest.skip(f"{program.library} is not installed")
    # Without -W error: what they warn of is not the matter.
    child = run_python("-W", "ignore", "-c", program.text, env=surroundings())
    expected = -getattr(signal, program.signal) if program.signal else 0
    assert child.returncode == expected, describe(child)


def test_every_program_is_read():
    texts = [path.read_text() for path in docs.FOLDER.iterdir() if path.is_file()]
    assert len(PROGRAMS) == sum(text.count("# %%") for text in texts) > 15
    assert sum(program.signal is not None for program in PROGRAMS) == sum(
        text.count("# dies of") for text in texts
    )


def test_each_defect_of_the_page_has_a_program():
    """docs/quote.py writes the lists of the page."""
    files = defects.files().items()
    assert sorted((program.library, program.title) for program in PROGRAMS) == sorted(
        (name, title) for name, file in files for title in file.DEFECTS
    )
    for _, file in files:
        assert getattr(file, "FIXED", {}).keys() <= file.DEFECTS.keys()


def test_every_library_has_an_environment():
    """So that no program is skipped everywhere."""
    known = {peer.module.partition(".")[0] for peer in LIBRARIES} | {"numpy", *defects.OTHERS}
    missing = {program.library for program in PROGRAMS} - known
    assert missing == set(), "add a row to tests/interop/peers.py"
