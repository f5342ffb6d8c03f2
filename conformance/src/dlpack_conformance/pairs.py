# SPDX-License-Identifier: Apache-2.0
"""Every producer with every consumer, in one process: values, aliasing, read-only, owners."""

import contextlib
import sys
from collections.abc import Iterator
from itertools import product
from typing import Any

from dlpack_conformance.adapters import in_order
from dlpack_conformance.elements import flat, in_shape
from dlpack_conformance.runner import WORKER, Process
from dlpack_conformance.suite import Library, NotApplicable, noise, told

# Outcomes, from best to worst.
SHARED, COPIED, REFUSED, WRONG, DIES = "shared", "copied", "refused", "wrong", "dies"
LEGEND = {
    SHARED: "the address stays, and a write is seen where the producer can write",
    COPIED: "the values arrive in other memory, or the consumer does not tell its address",
    REFUSED: "an exception",
    WRONG: "other values, or memory that is freed early",
    DIES: "the process ends, or hangs",
}

Found = dict[str, Any]


def outcome(producer: Library, consumer: Library) -> dict[str, str]:
    """The result of importing an array of one library into the other; empty if one of them does not
    have that side."""
    try:
        return pair(producer, consumer)
    except NotApplicable:
        return {}
    except BaseException as error:
        return {"outcome": REFUSED, "note": f"not comparable: {told(error)}"}


def pair(producer: Library, consumer: Library) -> dict[str, str]:
    """The result of importing an array of one library into the other."""
    rows = producer.rows
    if not consumer.has_rank(len(producer.shape)):
        rows = in_shape(flat(rows), consumer.shape)
    array = aligned(producer, rows)
    try:
        result = consumer.take(array)
    except Exception as error:
        if producer.values(array) != rows:
            return {"outcome": WRONG, "note": "the array changed"}
        return {"outcome": REFUSED, "note": told(error)}
    try:
        found = consumer.values(result)
    except Exception as error:
        return {"outcome": REFUSED, "note": f"taken, but not readable: {told(error)}"}
    if found != rows:
        return {"outcome": WRONG, "note": f"{rows} became {found}"}
    addresses = [getattr(side.source, "address", None) for side in (producer, consumer)]
    try:
        places = [of(one) for of, one in zip(addresses, (array, result), strict=True) if of]
    except Exception:  # its result for host memory may be another library's array
        places = []
    shared = len(places) == 2 and places[0] == places[1]
    notes = [] if len(places) == 2 else ["no address to compare"]
    write = getattr(producer.source, "write", None)
    if shared and write is not None:
        write(array, 50.0)
        if flat(consumer.values(result))[0] != 50.0:
            return {"outcome": WRONG, "note": "a write to the array is not seen"}
        write(array, 0.0)
    is_read_only = getattr(consumer.source, "is_read_only", None)
    if is_read_only is not None:
        with contextlib.suppress(Exception):
            notes += ["read-only"] if is_read_only(result) else []
    del array
    others = noise(producer)
    if consumer.values(result) != rows:
        return {"outcome": WRONG, "note": "the memory was freed under the array"}
    del others
    return {"outcome": SHARED if shared else COPIED, "note": ", ".join(notes)}


def aligned(lib: Library, rows: Any) -> Any:
    """An array aligned to 64 bytes, if the library can make one: some consumers copy unaligned
    arrays."""
    address, kept = getattr(lib.source, "address", None), []
    for attempt in range(48):
        array = lib.make(rows)
        if address is None or address(array) % 64 == 0:
            break
        kept += [array, bytearray(64 * (attempt % 7) + 8)]
    return array


# ---- all of them ------------------------------------------------------------------------------


class Together(Process):
    """A process that has imported several libraries, and is started again when it ends."""

    def __init__(self, limit: float) -> None:
        super().__init__([sys.executable, *WORKER])
        self.limit = limit
        self.loaded: list[str] = []

    def find(self, *question: Any) -> dict[str, Any]:
        if self.child is None:
            for name in self.loaded:
                self.ask(self.limit, "load", name, False)
        answer = self.ask(self.limit, *question)
        return {"outcome": DIES, "note": self.close(self.limit)[1]} if answer is None else answer


def measure(names: list[str], limit: float = 90.0) -> Found:
    """{"libraries": {name: version and title}, "absent": {name: reason}, "pairs":
    {"producer/consumer": outcome and note}, "interrupted": whether Ctrl-C came before the last}"""
    libraries: dict[str, Any] = {}
    found: Found = {"libraries": {}, "absent": {}, "pairs": {}, "interrupted": False}
    together = Together(limit)
    try:
        for name in in_order(names):
            facts = together.find("load", name, False)
            if "title" in facts:
                libraries[name] = {key: facts[key] for key in ("version", "title")}
                together.loaded.append(name)
            else:
                found["absent"][name] = facts.get("note") or facts["error"]
        for producer, consumer in product(together.loaded, repeat=2):
            if cell := together.find("pair", producer, consumer):  # both have that side
                found["pairs"][f"{producer}/{consumer}"] = cell
    except KeyboardInterrupt:
        found["interrupted"] = True
    finally:
        together.close()
    found["libraries"] = {name: libraries[name] for name in names if name in libraries}
    return found


# ---- output -----------------------------------------------------------------------------------


LETTERS = {SHARED: "=", COPIED: "c", REFUSED: "-", WRONG: "W", DIES: "X"}


def lines(found: Found) -> Iterator[str]:
    """The grid for a terminal, with its legend."""
    names = list(found["libraries"])
    width = max(map(len, names), default=0)
    yield "rows produce, columns consume"
    yield " " * width + "".join(f"{number:>4}" for number in range(1, len(names) + 1))
    for number, producer in enumerate(names, 1):
        cells = [found["pairs"].get(f"{producer}/{consumer}") for consumer in names]
        letters = "".join(f"{LETTERS[cell['outcome']] if cell else ' ':>4}" for cell in cells)
        yield f"{producer:<{width}}{letters}  {number}"
    for outcome, meaning in LEGEND.items():
        count = sum(cell["outcome"] == outcome for cell in found["pairs"].values())
        yield f"{LETTERS[outcome]} {outcome}: {meaning} ({count})"
    for name, note in found["absent"].items():
        yield f"not loaded: {name}: {note}"
    if found.get("interrupted"):  # absent from what the documentation shows
        yield "interrupted: the rest is missing"
