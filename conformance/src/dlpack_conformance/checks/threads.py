"""Several threads at once. These checks depend on timing: a pass proves little."""

import gc
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dlpack_conformance.checks.consumers import compact, expect_released
from dlpack_conformance.suite import (
    MEMORY,
    Held,
    Library,
    NotApplicable,
    check,
    expect,
    flat,
)

PYTHON = "DLPack, Python specification"
THREADS, TIMES = 8, 50


def at_once(function: Callable[[int], Any]) -> list[Any]:
    """The results of a function on eight threads, which start together; exceptions are returned as
    results, except NotApplicable, which is raised here."""
    barrier = threading.Barrier(THREADS)
    results: list[Any] = [None] * THREADS

    def run(number: int) -> None:
        barrier.wait()
        try:
            results[number] = function(number)
        except (Exception, NotApplicable) as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, NotApplicable):
            raise result
    return results


@check(
    "threads.export",
    MEMORY,
    "Eight threads export one array at once.",
    PYTHON + "; numpy/numpy#28883",
)
def export(lib: Library) -> None:
    array = lib.make()

    def work(number: int) -> Any:
        for _ in range(TIMES):
            held = Held(lib.either(array))
            found = held.values()
            held.release()
        return flat(found)

    for found in at_once(work):
        expect(not isinstance(found, Exception), f"one raised {found!r}")
        expect(found == flat(lib.rows), f"one found {found}")


@check(
    "threads.import",
    MEMORY,
    "Eight threads take arrays at once, and each is released once.",
    PYTHON + "; numpy/numpy#28883",
)
def imports(lib: Library) -> None:
    lib.optional("values")
    offers = [[compact(lib) for _ in range(TIMES)] for _ in range(THREADS)]

    def work(number: int) -> Any:
        for offer in offers[number]:
            result = lib.take(offer)
            found = lib.values(result)
            del result
        return found

    for found in at_once(work):
        expect(not isinstance(found, Exception), f"one raised {found!r}")
        expect(found == lib.rows, f"one found {found}")
    gc.collect()
    counts = {given.deleted for each in offers for offer in each for given in offer.given}
    expect(
        counts == {1}, f"the deleters were called {' and '.join(map(str, sorted(counts)))} times"
    )


@check(
    "threads.one-capsule",
    MEMORY,
    "Of eight threads that take one capsule, one gets it, and it is released once.",
    PYTHON + ": a capsule is consumed once; cpython#145563",
)
def one_capsule(lib: Library) -> None:
    for _ in range(TIMES):
        shared: list[Any] = []
        # The form that the library requests first.
        probe = compact(lib)
        with suppress(Exception):
            lib.take(probe)
        form = "versioned" if probe.given and probe.given[-1].versioned else "legacy"
        offer = compact(lib, form=form, act=lambda _, shared=shared: shared[0])
        shared.append(offer.capsule())
        results = at_once(lambda _, offer=offer: lib.take(offer))  # type: ignore[misc]
        won = [one for one in results if not isinstance(one, Exception)]
        expect(len(won) == 1, f"{len(won)} threads got it")
        expect(lib.values(won[0]) == lib.rows, f"the one has {lib.values(won[0])}")
        del results, won
        shared.clear()
        expect_released(offer)


@check(
    "threads.release",
    MEMORY,
    "Exports are released on eight threads at once.",
    PYTHON + "; dmlc/dlpack#129",
)
def release(lib: Library) -> None:
    held = [[Held(lib.either(lib.make())) for _ in range(4)] for _ in range(THREADS)]

    def work(number: int) -> None:
        for one in held[number]:
            one.release("thread")

    for found in at_once(work):
        expect(not isinstance(found, Exception), f"one raised {found!r}")
