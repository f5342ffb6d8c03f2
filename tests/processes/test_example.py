# SPDX-License-Identifier: Apache-2.0
"""docs/examples/processes: pool.py, and train.py over each engine."""

import pytest

from tests.support.build import ROOT
from tests.support.isolate import run_python

FOUND = {}


def test_a_pool():
    done = run_python(ROOT / "docs/examples/processes/pool.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"torch.bfloat16 {number}.0" for number in range(4)]


@pytest.mark.parametrize("engine", ["pool", "dask", "ray"])
def test_the_example(engine):
    done = run_python(ROOT / "docs/examples/processes/train.py", engine)
    assert done.returncode == 0, done.stderr
    FOUND[engine] = done.stdout.splitlines()[-1]
    assert FOUND[engine].startswith("8 batches, loss ")
    assert len(set(FOUND.values())) == 1  # the same training
