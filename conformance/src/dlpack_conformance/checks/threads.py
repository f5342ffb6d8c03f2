# SPDX-License-Identifier: Apache-2.0
"""Several threads at once. These checks depend on timing: a pass proves little."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dlpack_conformance import _dlpack
from dlpack_conformance.checks.consumers import (
    Form,
    compact,
    copies,
    expect_released,
    expect_values,
    forms,
    is_left,
    keeping,
    refusing_keywords,
    requests,
)
from dlpack_conformance.checks.producers import COUNT, Export, big, owners, ways
from dlpack_conformance.elements import flat, nest
from dlpack_conformance.leaks import expect_no_loss
from dlpack_conformance.outcomes import ERROR, MEMORY
from dlpack_conformance.producers import Offer
from dlpack_conformance.suite import Library, NotApplicable, allowed, beside, check, expect, needed

PYTHON = "DLPack, Python specification"
THREADS, TIMES = 8, 50


def at_once(function: Callable[[int], Any]) -> list[Any]:
    """The results of a function on eight threads, which start together. Exceptions are returned as
    results; any other BaseException is raised here."""
    barrier = threading.Barrier(THREADS)
    results: list[Any] = [None] * THREADS

    def run(number: int) -> None:
        barrier.wait()
        try:
            results[number] = function(number)
        except BaseException as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, Exception):
            raise result
    return results


@check("threads.export", MEMORY, PYTHON + "; numpy/numpy#28883", over=owners)
def exports(lib: Library, export: Export) -> None:
    """Eight threads export one array, and others, at once, and release the exports."""
    array = lib.make()

    def work(number: int) -> Any:
        rows = nest(lambda index: float(number), (number + 1, *lib.shape[1:]))
        own = lib.make(rows)
        for _ in range(TIMES):
            held, other = export(array), export(own)
            found = held.values()
            expect(other.values() == rows, f"one found {other.values()}, not {rows}")
            held.release("without the GIL" if number % 2 else "here")
            other.release()
        return flat(found)

    for found in at_once(work):
        expect(not isinstance(found, Exception), f"one raised {found!r}")
        expect(found == flat(lib.rows), f"one found {found}")


@check("threads.import", MEMORY, PYTHON + "; numpy/numpy#28883", over=requests)
def imports(lib: Library, form: str) -> None:
    """Eight threads import arrays at once, and each is released once."""
    lib.optional("values")
    offers = [[compact(lib, form) for _ in range(TIMES)] for _ in range(THREADS)]

    def work(number: int) -> Any:
        for offer in offers[number]:
            result = lib.take(offer)
            found = lib.values(result)
            del result
        return found

    for found in at_once(work):
        expect(not isinstance(found, Exception), f"one raised {found!r}")
        expect(found == lib.rows, f"one found {found}")
    whole = offers[0][0]
    whole.given = [given for each in offers for offer in each for given in offer.given]
    expect_released(whole)


@check(
    "threads.exchanges-meet",
    ERROR,
    PYTHON + ": `__dlpack__` may run any code",
    over=lambda lib: (
        *beside(requests(lib), ("of 2021", "of 2023")),
        *beside(forms(lib, "table"), ("of 2023",)),
    ),
)
def exchanges_meet(lib: Library, form: Form, year: str) -> None:
    """While a producer's `__dlpack__` runs, its thread and another one import other arrays; all
    have their values, and the producer's memory is shared as it is without them."""
    lib.optional("values")
    found: list[Any] = []

    def take() -> None:
        try:
            found.append(lib.values(lib.take(compact(lib, form))))
        except Exception as error:
            found.append(error)

    def meeting(offer: Offer) -> Any:
        other = threading.Thread(target=take, daemon=True)
        other.start()
        other.join(10)
        if found:
            take()
        return alone(offer)

    def is_shared(act: Callable[[Offer], Any]) -> bool:
        offer = compact(lib, form, act=act)
        with allowed(Exception if form.asks or year == "of 2021" else (), ""):
            result = lib.take(offer)
        expect_values(lib, result, lib.rows)
        return not copies(lib, result, offer)

    alone: Any = refusing_keywords if year == "of 2021" else Offer.capsule
    alone = alone if form != "table" else lambda offer: offer.capsule() if offer.asked else None
    before = is_shared(alone)
    expect(is_shared(meeting) == before, f"it is shared: {not before}, alone: {before}")
    expect(found, "the other thread was blocked")
    expect(found == [lib.rows] * len(found), f"the others have {found}")


@check("threads.one-capsule", MEMORY, PYTHON + ": a capsule is consumed once; cpython#145563")
def one_capsule(lib: Library) -> None:
    """Of eight threads that import one capsule, one gets it, and it is released once."""
    for _ in range(TIMES):
        shared: list[Any] = []
        # The form that the library requests first.
        probe, kept = keeping(lib, "")
        with suppress(Exception):
            result = lib.take(probe)
            if is_left(lib, result, probe, kept[-1]):
                raise NotApplicable("copies, and leaves the capsule to the producer")
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


@check("threads.release", MEMORY, PYTHON + "; dmlc/dlpack#129", over=ways)
def release(lib: Library, export: Export) -> None:
    """Exports of one array are released by eight threads at once, and its memory with the last."""
    rows = big(lib)
    with needed("has no such array"):
        array = lib.make(rows)
    begun = time.perf_counter()
    for _ in range(16):
        export(array)
    count = min(512, 16 + int(0.2 / (time.perf_counter() - begun)))

    def step() -> None:
        array = lib.make(rows)
        held = [export(array) for _ in range(count)]
        del array
        _dlpack.release_at_once([one.taken for one in held], THREADS)

    expect_no_loss(step, lib.itemsize * COUNT)
