"""Tensors in MPI: two real ranks, each of which runs tests/processes/ranks.py."""

import pytest

from tests.processes.mpi import two_ranks


def ranks(what):
    return two_ranks("-m", "tests.processes.ranks", what)


@pytest.mark.parametrize(
    "what", ["buffers", "read_only", "gaps", "objects", "collectives", "windows", "shared"]
)
def test_between_two_ranks(what):
    assert ranks(what).count("done") == 2


def test_reductions_of_narrow_floats_add_bit_patterns():
    """mpi4py has no type for them: docs/upstream.md. Whatever the result is, it is not 3."""
    found = ranks("reductions")
    assert found.count("done") == 2 and "float32:3.0" in found
    assert "bfloat16:3.0" not in found and "torch:3.0" not in found


def test_packed_elements_are_refused():
    """Each would be taken for a byte."""
    assert ranks("packed").count("done") == 2
