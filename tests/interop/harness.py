# SPDX-License-Identifier: Apache-2.0
"""Runs test files in a process of their own, and reports a crash as what it is."""

from pathlib import Path

from tests.support.isolate import describe, run_python

CASES = Path(__file__).parent / "cases"
PEER_VARIABLE = "FASTDL_TEST_PEER"
TIMEOUT = 600  # seconds; the slowest peer takes 20, the grid of the matrix 140


def run_cases(*files: str, peer: str = "", **environment: str) -> None:
    """Runs files of cases/ with pytest in one child; AssertionError with its output if one fails.

    `peer` is what cases.peer_under_test() finds there; `environment` is added to the child's.
    """
    child = run_python(
        *("-m", "pytest", "-v", "--tb=short", "-W", "error", "-p", "no:cacheprovider"),
        *(CASES / file for file in files),
        env={PEER_VARIABLE: peer, **environment},
        timeout=TIMEOUT,
    )
    assert child.returncode == 0, describe(child)


def particular(library: str) -> list[str]:
    """Files of cases/ with what is particular to a library: its name and one word. The long
    torch_compile.py is run by itself."""
    paths = [path for path in sorted(CASES.glob("*.py")) if path.stem != "torch_compile"]
    name = library.replace(".", "_")
    return [path.name for path in paths if path.stem.rpartition("_")[0] == name]
