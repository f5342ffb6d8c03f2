# SPDX-License-Identifier: Apache-2.0
"""What of the tests does not run on Windows, and why: all of it. docs/interop.md links to
this. tests/conftest.py skips these, and fails what skips for another reason."""

import os
from fnmatch import fnmatch

#: (reason, patterns of the tests that it is true of).
WINDOWS = [
    ("no fork", [
        "convert/test_pickling.py::test_large_tensors_between_processes[[]fork]",
        "devices/test_callbacks.py::test_a_forked_child_leaves_it_to_its_parent*",
        "devices/test_driver.py::test_a_child_that_is_forked_*",
        "docs/test_hazards.py::test_a_forked_child_has_no_driver",
        "memory/test_faults_deleter.py::test_d6_chain_in_a_child_that_was_forked*",
        "reliability/test_reliability.py::test_forks*",
    ]),
    ("no signals that a test could send", [
        "cli/test_cli.py::test_demo_of_a_library_that_fails*",
        "cli/test_doctor.py::test_an_interrupt_ends_quietly",
        "convert/test_trees.py::test_a_long_walk_can_be_interrupted",
    ]),
    ("no POSIX shell", ["cli/test_cli.py::test_progress_without_a_standard_error"]),
    ("CPython does not say how to link programs with it", ["core/test_interpreters.py"]),
]  # fmt: skip
#: The same of wine. On Windows itself these have not been tried.
WINE = [
    ("Cython's build tools cannot start a compiler outside of wine", [
        "protocol/test_refusals.py::test_wrappers_of_cython*",
    ]),
    ("they start many processes, at three seconds each", [
        "cli/test_cli.py", "cli/test_doctor.py", "cli/test_inspect.py",
        "core/test_collection.py", "core/test_faults_runtime.py", "core/test_interrupts.py",
        "devices/test_callbacks.py", "devices/test_driver.py",
    ]),
    ("they test builds and compilers, or compile for long", [
        "header/test_abi.py", "header/test_build.py", "header/test_cpp_producers.py",
        "header/test_cython.py", "header/test_producer.py", "header/test_windows.py", "examples",
        "installed", "package",
    ]),
    ("they do not depend on the platform, or need other libraries", [
        "docs", "gpu", "interop", "mutants", "processes", "reliability",
    ]),
]  # fmt: skip
#: Reasons that are no platform's: other systems skip these as well.
EVERYWHERE = (
    "NumPy's own __dlpack__ does not know ml_dtypes",
    "these types have no table",
    "a CPython with a GIL",
    "DLPack has no such device",
    "no <mdspan> here",
)


def reason(nodeid: str) -> str | None:
    """Why a test, or a file of tests, does not run on Windows; None for the others."""
    for why, patterns in WINDOWS + (WINE if "WINEPREFIX" in os.environ else []):
        if any(fnmatch(nodeid, f"tests/{pattern}") for pattern in patterns):
            return why
    return None


def known(nodeid: str, said: str) -> bool:
    """Whether a test or file that has skipped, with these words, may do so on Windows."""
    return reason(nodeid) is not None or any(words in said for words in EVERYWHERE)


def left_out() -> list[str]:
    """The options of pytest for the files and folders of WINE, which are not even imported."""
    return [f"--ignore=tests/{n}" for _, names in WINE for n in names if "::" not in n]
