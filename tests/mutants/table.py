"""The mutants: ways to break fastdl, each of which must turn a test red.

Each is one mistake that a person could make. Its text must occur exactly once in its file, so that
it stays the mistake that its name says; who changes the code mends the table.
"""

from typing import NamedTuple

CORE = "src/fastdl/_core/"
STREAMS = ("tests/test_streams.py",)
HANDSHAKE = ("tests/test_handshake.py",)


class Mutant(NamedTuple):
    name: str  # what it stands for
    file: str
    changes: tuple[tuple[str, str], ...]  # what to replace, by what
    tests: tuple[str, ...]  # where a test is expected to turn red


def mutant(name, file, *texts, tests=HANDSHAKE):
    """`texts`: old, new, old, new, ..."""
    return Mutant(name, file, tuple(zip(texts[::2], texts[1::2], strict=True)), tests)


MUTANTS = [
    # ---- events -----------------------------------------------------------------------------
    mutant(
        "a wait is ignored",
        CORE + "event.c",
        "return FDL_TRY(event->driver, failure, stream_wait, fdl_handle(stream), event->handle, 0)",
        "return event == NULL && stream == 0 && failure == NULL",
    ),
    mutant(
        "an event is recorded on the default stream",
        CORE + "event.c",
        "if (FDL_TRY(driver, failure, event_record, event->handle, fdl_handle(stream)) == 0)",
        "if (FDL_TRY(driver, failure, event_record, event->handle,"
        " fdl_handle(driver->kind == FASTDL_STREAM_CUDA)) == 0)",
    ),
    # ---- contexts ---------------------------------------------------------------------------
    mutant(
        "the context of the device is not pushed",
        CORE + "driver.c",
        "if (scope->context != context) {",
        "if (0) {",
    ),
    # ---- Python -----------------------------------------------------------------------------
    mutant(
        "stream 0 of CUDA is not made 1",
        "src/fastdl/_streams.py",
        "if kind == CUDA and stream == 0:\n        stream = 1",
        "if kind == CUDA and stream == 0:\n        pass",
        tests=STREAMS,
    ),
    mutant(
        "nothing is recorded",
        CORE + "device.pyx",
        "check(calls.work_record(work_of(tensor), stream, &failure)",
        "check(0",
    ),
]
