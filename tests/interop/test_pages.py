# SPDX-License-Identifier: Apache-2.0
"""The sessions in the documentation that need large libraries, each in a process of its own."""

import pytest

from tests.support.isolate import run_isolated
from tests.support.pages import WITH_PEERS

from .peers import require


@pytest.mark.parametrize("page", WITH_PEERS)
def test_session(page):
    for library in sorted(WITH_PEERS[page] - {"fastdl"}):
        require(library)
    run_isolated(
        f"""
        from tests.support import pages
        assert pages.failures({page!r}) == 0
        """
    )
