"""The harness itself: a missing library, and a child that dies, must not look like success."""

import pytest

from fastdl._bridges import drjit
from tests.support.isolate import describe, run_python

from .arrays import DRJIT_TENSORS
from .peers import require


def test_drjit_is_measured_with_every_type_that_convert_makes():
    """One that the harness leaves out would look like a refusal of DrJit's."""
    (bridge, *_) = drjit.BRIDGES
    assert set(DRJIT_TENSORS) == bridge.of("").dtypes


def test_a_missing_library_fails_where_all_are_required(monkeypatch):
    monkeypatch.setenv("FASTDL_REQUIRE_PEERS", "1")
    with pytest.raises(pytest.fail.Exception, match="no_such_library.array is not installed"):
        require("no_such_library.array")


def test_a_crash_is_named():
    child = run_python("-c", "import os; print('last words', flush=True); os.abort()")
    assert child.returncode < 0
    assert "died of SIGABRT" in describe(child)
    assert "last words" in describe(child)
