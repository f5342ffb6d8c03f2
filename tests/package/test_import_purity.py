"""`import fastdl` imports the standard library and fastdl, and nothing else."""

import json
import sys

import pytest

from tests.support.isolate import run_isolated

PROGRAM = """
import json, sys
before = set(sys.modules)
{statement}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def modules_added_by(statement: str) -> set[str]:
    """What a statement adds to sys.modules in a fresh interpreter with this one's search path."""
    return set(json.loads(run_isolated(PROGRAM.format(statement=statement))))


def foreign(modules: set[str]) -> set[str]:
    """Those that are neither fastdl's nor the standard library's."""
    own = {"fastdl", "cython_runtime"}  # Cython keeps its state in modules without a file
    return {
        name
        for name in modules
        if (top := name.partition(".")[0]) not in own
        and top not in sys.stdlib_module_names
        and not top.startswith("_cython_")
    }


def test_import_fastdl_imports_no_other_package():
    added = modules_added_by("import fastdl")
    assert "fastdl" in added
    assert foreign(added) == set()


def test_what_is_slow_to_import_stays_unloaded():
    slow = {"typing", "inspect", "dataclasses", "multiprocessing"}
    assert not slow & modules_added_by("import fastdl")


def test_bridges_to_libraries_stay_unloaded():
    added = modules_added_by("import fastdl")
    assert not {name for name in added if name.startswith("fastdl._bridges._")}


@pytest.mark.parametrize(
    "use",
    [
        "fastdl.empty((2, 3))",
        "repr(fastdl.asarray(bytearray(8)))",
        "fastdl.asarray(b'12').tolist()",
        "fastdl.from_dlpack(fastdl.empty(3).__dlpack__())",
        "fastdl.from_dlpack(fastdl.empty(3), copy=True)[1:].copy()",
        "memoryview(fastdl.empty(3))",
        "fastdl.exchange_api(fastdl.Tensor)",
    ],
)
def test_work_without_a_library_imports_none(use):
    assert foreign(modules_added_by(f"import fastdl; {use}")) == set()
