# SPDX-License-Identifier: Apache-2.0
"""The documentation quotes files as they are."""

import re
from pathlib import Path

import pytest

from docs import quote
from tests.windows import skipped

TESTS = Path(__file__).parents[1]


def test_all_quotes_are_fresh(capsys):
    assert len(quote.documents()) >= 3
    assert quote.main(["--check"]) == 0, capsys.readouterr().err


def test_text_of_a_forge_is_not_on_the_site():
    text = "before\n<!-- forge -->\nA forge.\n<!-- end forge -->\nafter\n"
    assert quote.complete(text, quote.ROOT) == "before\nafter\n"
    assert quote.rewritten(text, quote.ROOT) == text


@pytest.mark.parametrize("name", [n for _, some in skipped.WINDOWS + skipped.WINE for n in some])
def test_what_does_not_run_on_windows_exists(name):
    path, _, test = name.partition("::")
    (test,) = re.findall("^[a-z_0-9]*", test)
    assert any(not test or f"def {test}" in file.read_text() for file in TESTS.glob(path))
