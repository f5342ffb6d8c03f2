"""Producers by consumers: fastdl.convert from each library to each other.

All libraries are in one process, since that is how they are used, imported in an order that works.
Where that process crashes or hangs, the cell records it, and another process does the rest.
"""

from collections.abc import Callable
from typing import Any

from fastdl._bridges import lookup
from fastdl._cli import processes
from fastdl._cli.libraries import Library
from fastdl._cli.processes import Ending, Job

OUTCOMES = {  # in the order of a legend
    "zero-copy": "the same memory",
    "copy": "the same values in new memory",
    "refused": "an exception, with a reason",
    "wrong": "wrong values",
    "crashed": "the process crashed or hung",
    "none": "a library does not work here",
}


def takes(library: Library) -> bool:
    """Whether fastdl.convert can make arrays of a library."""
    return bool(getattr(lookup.load(library.name), "BRIDGES", ()))


def measure(chosen: list[Library], limit: float, on_end: Callable[..., None]) -> dict[str, Any]:
    """{"producers": names, "consumers": names, "cells": {producer: {consumer: cell}}}, where a cell
    has an "outcome", one of OUTCOMES, and a "reason". `on_end` is called as each process ends."""
    producers = {library.name: library.sample for library in chosen}
    consumers = [library.name for library in chosen if takes(library)]
    steps, without = run_pairs(producers, consumers, limit, on_end)
    for name in without:
        steps |= run_apart(name, producers, consumers, steps, limit, on_end)
    left_out = {
        name: steps[f"import {name}"]
        for name in producers
        if isinstance(steps.get(f"import {name}"), dict)
    }
    cells: dict[str, dict[str, dict[str, str]]] = {}
    for producer in producers:
        failed = left_out.get(producer) or steps.get(f"sample of {producer}")
        row = cells[producer] = {}
        for consumer in consumers:
            found = steps.get(f"{producer} > {consumer}") or failed or left_out.get(consumer)
            row[consumer] = as_cell(found, producer if failed else consumer)
    return {"producers": list(producers), "consumers": consumers, "cells": cells}


def as_cell(found: "dict[str, str] | None", library: str) -> dict[str, str]:
    if found is None:
        return {"outcome": "none", "reason": "not reached"}
    if "error" in found:
        return {"outcome": "none", "reason": f"{library}: {found['error']}"}
    return found


def run_pairs(producers, consumers, limit, on_end) -> tuple[dict[str, Any], list[str]]:
    """The results of all steps, over as many processes as it takes, since each crash is the result
    of one step; and the libraries that had to be left out."""
    known: dict[str, Any] = {}
    without: list[str] = []
    while True:
        arguments = {
            "producers": {n: s for n, s in producers.items() if n not in without},
            "consumers": [name for name in consumers if name not in without],
            "skip": [step for step in known if " > " in step],
        }
        steps, ending, seconds = processes.run(Job("conversions", "pairs", arguments), limit)
        on_end("conversions", seconds, ending)
        known.update(steps)
        if ending is None or ending.step in known or ending.step == "start":
            return known, without  # at the start: another attempt would fail too
        known[ending.step] = crash(ending)
        kind, _, name = ending.step.rpartition(" ")
        if kind in ("import", "sample of"):
            without.append(name)


def run_apart(name, producers, consumers, known, limit, on_end) -> dict[str, Any]:
    """The steps of a library that crashed a process with all others in it: in a process with each
    of the others, if it works alone."""
    found: dict[str, Any] = {}
    for other in (name, *(each for each in producers if each != name)):
        pair = {n: producers[n] for n in producers if n in (name, other)}
        steps, failed = run_pairs(pair, [n for n in pair if n in consumers], limit, on_end)
        if other == name and failed:
            return {}
        fresh = {step: value for step, value in steps.items() if " > " in step}
        found |= {step: value for step, value in fresh.items() if step not in known}
        if failed:
            ended = steps.get(f"sample of {failed[0]}") or steps[f"import {failed[0]}"]
            found |= dict.fromkeys((f"{name} > {other}", f"{other} > {name}"), ended)
    return found


def crash(ending: Ending) -> dict[str, str]:
    where = "" if " > " in ending.step else f", in: {ending.step}"
    return {"outcome": "crashed", "reason": f"{ending.reason}{where}"}
