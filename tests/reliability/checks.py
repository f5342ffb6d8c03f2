# SPDX-License-Identifier: Apache-2.0
"""What fastdl must survive many times over: threads, exits, forks, no memory, deleters that do what
they like; and that nothing grows.

CHECKS names them. Each is a function of one of its cases and of a number of times, which runs in a
process of its own (see __main__.py) and raises if something is wrong.
"""

import contextlib
import gc
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

import fastdl
from dlpack_conformance.leaks import resident
from fastdl._protocol import consumer as _consumer
from tests.support import consumer
from tests.support.allocation import OPERATIONS
from tests.support.build import shared_library
from tests.support.headers import ALONE, INSTALLED
from tests.support.isolate import run_isolated
from tests.support.producers import BY_NAME, Given, Tabled
from tests.support.threads import together

HEADER, WITH_PACKAGE = ALONE["alone"], INSTALLED["installed"]
NEW = {"max_version": (1, 3)}
BATCH = 10_000
THREADS = 8


def batches(count: int, size: int) -> Iterator[int]:
    while count > 0:
        yield min(size, count)
        count -= size


class Exporting:
    """A producer in Python, as libraries have it."""

    def __init__(self, array, keywords=NEW):
        self.array, self.keywords = array, keywords

    def __dlpack__(self, *, stream=None, max_version=None):
        return self.array.__dlpack__(**self.keywords)

    def __dlpack_device__(self):
        return (1, 0)


class Handing(Exporting):
    """Hands over a capsule that somebody else may have."""

    def __dlpack__(self, **keywords):
        return self.array


def floats():
    return np.arange(6, dtype=np.float32).reshape(2, 3)


# ---- deleters on native threads -------------------------------------------------------------

TABLES = {kind: fastdl.exchange_api(kind) for kind in (fastdl.Tensor, np.ndarray, Exporting)}


def take(tensor, **keywords):
    return consumer.take(tensor.__dlpack__(**keywords))


def from_table(x):
    return consumer.from_object(TABLES[type(x)], x)


#: A further holder of the block of a tensor, which outlives it: its deleter needs no Python.
HOLDERS = {
    "versioned capsule": lambda tensor: take(tensor, **NEW),
    "legacy capsule": take,
    "exchange table": from_table,
    "view": lambda tensor: take(tensor[:1, ::2], **NEW),
    "C header": lambda tensor: consumer.take(HEADER.own(tensor)),
    "C header, package": lambda tensor: consumer.take(WITH_PACKAGE.own(tensor)),
}
#: A holder of an object that is not fastdl's: its deleter gives up the reference to that.
OWNERS = {
    "NumPy bridge": (floats, from_table),
    "general bridge": (floats, lambda array: from_table(Exporting(array))),
    "buffer": (lambda: bytearray(24), lambda buffer: take(fastdl.asarray(buffer), **NEW)),
}


def deleters(case: str, count: int) -> None:
    """Native threads, which Python does not know, run deleters at the same time. Those of HOLDERS
    run while this thread keeps the GIL, so none can have waited for it."""
    if case in OWNERS:
        make, hold = OWNERS[case]
        owner = make()
        before = sys.getrefcount(owner)
        for size in batches(count, THREADS * BATCH):
            consumer.delete_on_threads([hold(owner) for _ in range(size)], THREADS)
            assert sys.getrefcount(owner) == before
        return
    given = Given()
    tensor = fastdl.from_dlpack(given.capsule())
    for size in batches(count, THREADS * BATCH):
        consumer.delete_on_threads([HOLDERS[case](tensor) for _ in range(size)], THREADS, True)
        given.assert_alive()
    del tensor
    given.assert_released()


# ---- one capsule and several threads --------------------------------------------------------

TAKERS = {
    "from_dlpack": fastdl.from_dlpack,
    "from_dlpack, in Python": _consumer.from_dlpack,
    "C header": lambda capsule: HEADER.own(Handing(capsule)),
}


def races(case: str, count: int) -> None:
    """Four threads consume the same capsules: one of them gets each, the others an error."""
    enter = TAKERS[case]
    given = Given()
    tensor = fastdl.from_dlpack(given.capsule())
    for size in batches(count, BATCH):
        capsules = [tensor.__dlpack__(**(NEW if i % 2 else {})) for i in range(size)]
        won = [bytearray(size) for _ in range(4)]

        def consume(i, mine, capsules=capsules):
            try:
                enter(capsules[i])
            except (ValueError, TypeError):  # consumed already
                return
            mine[i] += 1

        together(
            *[lambda i, mine=mine: consume(i, mine) for mine in won], rounds=size, collect=False
        )
        assert {*map(sum, zip(*won, strict=True))} == {1}
        given.assert_alive()
    del tensor, capsules
    given.assert_released()


# ---- the end of the interpreter -------------------------------------------------------------

BEFORE_EXIT = """
import sys, threading
import numpy as np
import fastdl
from tests.support import consumer
from tests.support.producers import Given, Producer
tensors = [fastdl.from_dlpack(Given().capsule()) for _ in range(50)]
tensors += [fastdl.from_dlpack(np.arange(6.0)) for _ in range(49)]
tensors.append(fastdl.from_dlpack(Producer(Given())))
arrays = [np.from_dlpack(t) for t in tensors[:50]] + [memoryview(tensors[-1])]
table = fastdl.exchange_api(fastdl.Tensor)
def held():
    for t in tensors:
        yield from (consumer.from_object(table, t), consumer.take(t.__dlpack__()))
        yield consumer.take(t[1:].__dlpack__(max_version=(1, 0)))
sys.modules["keep"] = [t.__dlpack__() for t in tensors], arrays
"""
#: How the process goes on and ends.
EXITS = {
    "live tensors, arrays and capsules": "",
    "a cycle": "tensors.append(tensors)",
    "atexit": "import atexit; atexit.register(lambda: [t.tolist() for t in tensors])",
    "an exception": "raise SystemExit(0) from ValueError(tensors)",
    "a daemon thread exchanges": """
def churn():
    while True:
        fastdl.from_dlpack(tensors[0].__dlpack__(max_version=(1, 0)))[1:].tolist()
threading.Thread(target=churn, daemon=True).start()
""",
    "deleters after finalisation": "consumer.delete_at_exit([*held()])",
    "deleters during finalisation": "consumer.delete_during_exit([*held()])",
    "their tensors are gone": "late = [*held()]; tensors.clear(); consumer.delete_at_exit(late)",
}
LATE = "deleted 300, interpreter alive: 0\n"


def exits(case: str, count: int) -> None:
    """No crash, no hang, nothing printed."""
    for _ in range(count):
        printed = run_isolated(BEFORE_EXIT + EXITS[case])
        assert printed == (LATE if "delete_at_exit" in EXITS[case] else ""), printed


# ---- fork -----------------------------------------------------------------------------------


def forks(case: str, count: int) -> None:
    """Parent and child give back what they hold, each once, and both go on, whatever other threads
    were doing."""
    given = [Given() for _ in range(20)]
    tensors = [fastdl.from_dlpack(one.capsule()) for one in given]
    held = [take(tensor, **NEW) for tensor in tensors[:10]]
    capsules = [tensor.__dlpack__() for tensor in tensors[10:]]
    stop = threading.Event()

    def exchange():
        while not stop.is_set():
            kind = type("Exporting", (Exporting,), {})  # of which fastdl knows nothing
            fastdl.from_dlpack(kind(floats()))
            consumer.delete_on_threads([from_table(floats()) for _ in range(50)], 2)

    def child():
        again = [fastdl.from_dlpack(capsule) for capsule in capsules]
        assert all(tensor.shape == (2, 3) for tensor in again)
        consumer.delete_on_threads(held, 2)
        again.clear(), tensors.clear(), capsules.clear()
        assert [one.deleted for one in given] == [1] * 20
        kind = type("Exporting", (Exporting,), {})
        assert fastdl.from_dlpack(kind(floats())).tolist()[1][2] == 5.0

    others = [threading.Thread(target=exchange) for _ in range(2 if case == "busy threads" else 0)]
    for thread in others:
        thread.start()
    try:
        done = 0
        while done < count:
            reader, writer = os.pipe()
            number = os.fork()
            if number == 0:
                status = 1
                try:
                    os.write(writer, b"!")
                    signal.alarm(60)  # ends it, if it hangs
                    child()
                    status = 0
                finally:
                    if status or others or done % 2:
                        os._exit(status)
                sys.exit()  # with all that an interpreter does at its end
            os.close(writer)
            if select.select([reader], [], [], 60)[0]:
                done += 1
                assert os.waitpid(number, 0) == (number, 0)
            else:
                # CPython 3.11 itself: its child waits for the lock of the thread states, which a
                # thread of the parent held.
                assert others and sys.version_info < (3, 12), "os.fork did not return"
                os.kill(number, signal.SIGKILL)
                os.waitpid(number, 0)
            os.close(reader)
    finally:
        stop.set()
        for thread in others:
            thread.join()
    assert [one.deleted for one in given] == [0] * 20
    for one in held:
        one.release()
    tensors.clear(), capsules.clear()
    assert [one.deleted for one in given] == [1] * 20


# ---- no memory ------------------------------------------------------------------------------


def memory(case: str, count: int) -> int:
    """Each allocation of an operation fails in turn, Python's and then C's."""
    return sweep(case, "python") + sweep(case, "malloc")


def sweep(case: str, injector: str) -> int:
    """How many fail. On Linux: the malloc that fails is preloaded."""
    preloaded = {"LD_PRELOAD": str(shared_library("failmalloc"))} if injector == "malloc" else {}
    code = f"from tests.support.allocation import sweep; sweep({case!r}, {injector!r})"
    return int(run_isolated(code, env=preloaded))


# ---- deleters that do what they like --------------------------------------------------------


def fail():
    raise LookupError("from the deleter")


def reenter():
    tensor = fastdl.from_dlpack(floats())
    assert fastdl.from_dlpack(tensor[1:].__dlpack__(**NEW)).tolist() == [[3.0, 4.0, 5.0]]


def chain(length=60):
    """Each deletes the next."""
    if length:
        fastdl.from_dlpack(Given(on_delete=lambda: chain(length - 1)).capsule())


ACTS = {"raise": fail, "re-enter": reenter, "collect": gc.collect, "delete the next": chain}


def acts(case: str, count: int) -> None:
    """A deleter is called once, whatever it does, by every way into fastdl, of a tensor that was
    taken and of one that was refused; what it raises is reported as unraisable."""
    caught, ways = [], [*BY_NAME.values()]
    sys.unraisablehook = lambda args: caught.append(args.exc_type)
    gc.collect()
    gc.freeze()
    for i in range(count):
        way = ways[i % len(ways)]
        refused = i // len(ways) % 2
        given = way.given(on_delete=ACTS[case], shape=(-1,) if refused else (2, 3))
        with contextlib.suppress(BufferError):
            way.bring(given)
            assert not refused, way
        assert (given.deleted, given.destroyed, given.owner()) == (1, 0, None)
    assert caught == [LookupError] * (count if case == "raise" else 0)


# ---- growth ---------------------------------------------------------------------------------


class Refusing(Exporting):
    """Its table, NumPy's, refuses it; so does everything else."""

    __dlpack_c_exchange_api__ = fastdl.exchange_api(np.ndarray)

    def __dlpack__(self, **keywords):
        raise BufferError("not today")

    def __dlpack_device__(self):
        raise KeyError("no device")


def refused(x):
    try:
        fastdl.from_dlpack(x)
    except BufferError:
        return
    raise AssertionError("not refused")


array, tensor = floats(), fastdl.from_dlpack(floats())
legacy, without_copy = Exporting(array, {}), Exporting(array)
PATHS: dict[str, Callable[[], Any]] = {
    "NumPy bridge": lambda: fastdl.from_dlpack(array),
    "general bridge": lambda: fastdl.from_dlpack(without_copy),
    "general bridge, legacy": lambda: fastdl.from_dlpack(legacy),
    "general bridge, copy=False": lambda: fastdl.from_dlpack(without_copy, copy=False),
    "versioned capsule": lambda: fastdl.from_dlpack(tensor.__dlpack__(max_version=(1, 3))),
    "legacy capsule": lambda: fastdl.from_dlpack(tensor.__dlpack__()),
    "in Python": lambda: _consumer.from_dlpack(array),
    "numpy.from_dlpack": lambda: np.from_dlpack(tensor),
    "exchange table": lambda: from_table(tensor).release(),
    "view": lambda: tensor[1:, ::2],
    "copy": tensor.copy,
    "convert": lambda: fastdl.convert(tensor, np.ndarray),
    "buffer": lambda: fastdl.asarray(memoryview(tensor)),
    "C header": lambda: HEADER.own(array),
    "C header, package": lambda: WITH_PACKAGE.own(array),
    "refused": lambda: refused(refusing),
    "malformed": lambda: refused(malformed),
}
refusing, malformed = Refusing(array), Tabled(Given(shape=(-1,)))


def growth(case: str, count: int) -> None:
    """Neither the memory of the process nor the number of Python's blocks grows. One byte of each
    exchange would be seen from a million on; of fewer, what malloc gives at least. Python itself
    comes and goes by some hundred blocks."""
    step = PATHS[case]
    for _ in repeat(None, count // 10):  # pools and caches fill
        step()
    gc.collect()
    blocks, before = sys.getallocatedblocks(), resident()
    for _ in repeat(None, count):
        step()
    gc.collect()
    blocks, grown = sys.getallocatedblocks() - blocks, resident() - before
    assert blocks < 1000, f"{blocks} blocks of Python's more"
    assert grown < 2**20, f"{grown} bytes more"


class Check(NamedTuple):
    function: Callable
    cases: tuple[str, ...]
    count: int  # of each case
    what: str


CHECKS = {
    check.function.__name__: check
    for check in (
        Check(deleters, (*HOLDERS, *OWNERS), THREADS * 10**6, "deleters on eight native threads"),
        Check(races, (*TAKERS,), 10**6, "capsules that four threads consume at once"),
        Check(exits, (*EXITS,), 125, "interpreters that exit"),
        Check(forks, ("no threads", "busy threads"), 500, "forks"),
        Check(memory, (*OPERATIONS,), 1, "allocations that fail"),
        Check(acts, (*ACTS,), 10**5, "deleters that misbehave"),
        Check(growth, (*PATHS,), 10**7, "exchanges without growth"),
    )
}
