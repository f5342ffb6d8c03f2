"""What a mutant is, and the tests that see them."""

from typing import NamedTuple

HANDSHAKE, FAULTS, DRIVERS, CAPTURES, WORKS = (
    f"tests/test_{name}.py"
    for name in "handshake handshake_faults driver_faults captures work_streams".split()
)
CONTEXTS = "tests/test_contexts.py"
TABLES, OWN, COPIES, COPYING = (
    f"tests/test_{name}.py" for name in "streams device_memory transfers copy_policy".split()
)


CAPSULES, DELETERS, DESCRIPTORS, TABLE_FAULTS, RUNTIME, VERSIONS = (
    f"tests/test_faults_{name}.py"
    for name in "capsule deleter descriptor exchange runtime version".split()
)
BUFFERS, COLLECTION, COPYING_HOST, INDEXING, PRODUCER, RESHAPING, TENSOR, VALUES = (
    f"tests/test_{name}.py"
    for name in "buffer collection copies indexing producer reshaping tensor values".split()
)
CONVERTING, EMPTY, QUICK = (
    f"tests/test_{name}.py" for name in ("convert", "empty", "quick_imports")
)

DTYPES, EXPECT, LAYOUT = (f"tests/test_{name}.py" for name in ("faults_dtype", "expect", "layout"))
NEGOTIATING, REFUSALS, OUTCOMES = (
    f"tests/test_{name}.py" for name in ("negotiation", "refusals", "same_outcome")
)

CALLBACKS = "tests/test_callbacks.py"
POINTERS = "tests/test_from_pointer.py"
RETURNED = "tests/test_results.py"
UNORDERED = "tests/test_unordered.py"
GUIDE = "tests/test_streams_guide.py::test_producer"


class Mutant(NamedTuple):
    name: str  # what it stands for
    functions: str  # what it breaks: names, separated by spaces; see places.py
    changes: tuple[tuple[str, str], ...]  # what to replace there, by what
    tests: tuple[str, ...]  # where one is expected to turn red: files, or file::test to save time


def mutant(tests, name, functions, *texts):
    """`tests`: one or several; `texts`: old, new, old, new, ..."""
    tests = (tests,) if isinstance(tests, str) else tests
    return Mutant(name, functions, tuple(zip(texts[::2], texts[1::2], strict=True)), tests)
