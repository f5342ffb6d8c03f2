"""The tests that do not run on Windows, and why: all of them. tests/conftest.py skips them, and
fails a test that skips for another reason."""

from fnmatch import fnmatch

#: (reason, patterns of the tests that it is true of).
WINDOWS = [
    ("it has no fork", [
        "convert/test_pickling.py::test_large_tensors_between_processes[[]fork]",
        "devices/test_callbacks.py::test_a_forked_child_leaves_it_to_its_parent*",
        "devices/test_driver.py::test_a_child_that_is_forked_*",
        "docs/test_hazards.py::test_a_forked_child_has_no_driver",
        "memory/test_faults_deleter.py::test_d6_chain_in_a_child_that_was_forked*",
        "reliability/test_reliability.py::test_forks*",
    ]),
    ("it has no signals that a test could send", [
        "cli/test_cli.py::test_demo_of_a_library_that_fails*",
        "cli/test_doctor.py::test_an_interrupt_ends_quietly",
    ]),
    ("it has no POSIX shell", ["cli/test_cli.py::test_progress_without_a_standard_error"]),
    ("CPython has no configuration there to link programs with", ["core/test_interpreters.py*"]),
]  # fmt: skip
#: The same, where wine is the reason: these run on Windows itself.
WINE = [
    ("Cython's build tools cannot start a compiler outside of wine", [
        "protocol/test_refusals.py::test_wrappers_of_cython*",
    ]),
]  # fmt: skip
#: Reasons that are no platform's: other systems skip these as well.
EVERYWHERE = (
    "NumPy's own __dlpack__ does not know ml_dtypes",
    "these types have no table",
    "a CPython with a GIL",
    "DLPack has no such device",
)


def reason(nodeid: str) -> str | None:
    """Why a test does not run on Windows; None for the others."""
    for why, patterns in WINDOWS + WINE:
        if any(fnmatch(nodeid, f"tests/{pattern}") for pattern in patterns):
            return why
    return None


def known(nodeid: str, said: str) -> bool:
    """Whether a test that has skipped, with these words, may do so on Windows."""
    return reason(nodeid) is not None or any(words in said for words in EVERYWHERE)
