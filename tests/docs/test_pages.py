# SPDX-License-Identifier: Apache-2.0
"""The sessions in the documentation, with what the `test` extra installs; tests/interop/test_pages
has the others."""

import pytest

from tests.support import pages


@pytest.mark.parametrize("page", pages.LIGHT)
def test_session(page, capsys):
    pytest.importorskip("ml_dtypes")  # of which the Python guide makes an array
    assert pages.failures(page) == 0, capsys.readouterr().out


def test_each_page_with_python_is_run():
    blocks = {path.stem for path in pages.DOCS.glob("*.md") if "\n>>> " in path.read_text()}
    assert blocks == {*pages.LIGHT, *pages.WITH_PEERS, *pages.ELSEWHERE}
    assert "python-guide" in pages.LIGHT
