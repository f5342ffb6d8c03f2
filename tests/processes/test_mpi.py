# SPDX-License-Identifier: Apache-2.0
"""Tensors in MPI: two real ranks, each of which runs tests/processes/ranks.py."""

import pytest

from tests.processes.mpi import two_ranks


@pytest.mark.parametrize(
    "what",
    ["buffers", "read_only", "gaps", "packed", "objects", "collectives", "windows", "shared"],
)
def test_between_two_ranks(what):
    assert two_ranks("-m", "tests.processes.ranks", what).count("done") == 2
