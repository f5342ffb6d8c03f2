"""docs/examples/processes/train.py, over each engine."""

import pytest

from tests.support.build import ROOT
from tests.support.isolate import run_python

FOUND = {}


@pytest.mark.parametrize("engine", ["pool", "dask", "ray"])
def test_the_example(engine):
    done = run_python(ROOT / "docs/examples/processes/train.py", engine)
    assert done.returncode == 0, done.stderr
    FOUND[engine] = done.stdout.splitlines()[-1]
    assert FOUND[engine].startswith("8 batches, loss ")
    assert len(set(FOUND.values())) == 1  # the same training
