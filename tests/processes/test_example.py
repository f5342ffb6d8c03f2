"""docs/examples/processes/train.py, over each engine."""

import subprocess
import sys

import pytest

from tests.support.build import ROOT

FOUND = {}


@pytest.mark.parametrize("engine", ["pool", "dask", "ray"])
def test_the_example(engine):
    done = subprocess.run(
        [sys.executable, ROOT / "docs/examples/processes/train.py", engine],
        capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    FOUND[engine] = done.stdout.splitlines()[-1]
    assert FOUND[engine].startswith("8 batches, loss ")
    assert len(set(FOUND.values())) == 1  # the same training
