# SPDX-License-Identifier: Apache-2.0
"""The budgets of the C API, and its rows of the report; calls.py measures."""

from dataclasses import dataclass

from benchmarks.budgets import VIEWS, Comparison, compare
from benchmarks.calls import ARGUMENTS
from benchmarks.rows import Row
from benchmarks.timing import Samples, middle


@dataclass(frozen=True)
class Source:
    """Something that fastdl_borrow takes."""

    group: str
    what: str
    floor: str
    over_floor: float | None = None  # how many times the floor it may cost
    over_nanobind: float | None = None
    nanoseconds: float | None = None


SOURCES = (
    Source("borrow_torch", "torch", "the direct call", over_floor=1.15),
    Source("borrow_torch_held", "torch, held in C++", "the direct call", over_floor=1.15),
    Source("borrow_numpy", "ndarray", "reading the struct", over_nanobind=0.15, nanoseconds=8),
    Source("borrow_tensor", "Tensor", "the direct call", over_nanobind=0.15, nanoseconds=5),
    Source("borrow_jax", "jax.Array", "__dlpack__", over_nanobind=0.3),
)


@dataclass(frozen=True)
class Result:
    """A type whose objects a C function gives back: fastdl_empty, then fastdl_wrap."""

    group: str
    what: str
    floor: str
    over_floor: float | None = None


RESULTS = (
    Result("result_numpy", "a result, ndarray", "PyArray_SimpleNew", over_floor=1.8),
    Result("result_torch", "a result, torch", "torch's table", over_floor=1.15),
    Result("result_tensor", "a result, Tensor", "its table"),
)

#: Of docs/examples/c/kernel_key.c.
KEY = Comparison("kernel_key", "the key of 3 torch tensors", "attributes", "an empty call", None)

#: What else is done with each source: subject -> what it is, in addition to fastdl_borrow.
FORMS = {
    "with fastdl_expect": "and fastdl_expect",
    "with a named size": "and fastdl_expect, a size by name",
    "limited API": "under Py_LIMITED_API",
    "header alone": "without fastdl_import()",
}


def borrowing(source: Source) -> list[Comparison]:
    group, what, floor = source.group, f"fastdl_borrow({source.what})", source.floor
    rows = [Comparison(group, what, "nanobind", floor, source.over_nanobind)]
    if source.over_floor is not None:
        rows.append(Comparison(group, what, floor, "", source.over_floor))
    for subject, form in FORMS.items():
        rows.append(Comparison(group, f"{what} {form}", "fastdl", floor, None, ours=subject))
    return rows


def calling() -> list[Comparison]:
    rows = []
    groups = {f"call_torch_{n}": f"function({n} torch)" for n in ARGUMENTS}
    groups["call_torch_3_held"] = "function(3 torch, held in C++)"
    for group, what in groups.items():
        limit = 0.35 if group.startswith("call_torch_3") else None
        cast = f"{what} by fastdl's caster"
        rows += [
            Comparison(group, what, "tvm_ffi", "torch's table", limit),
            Comparison(group, what, "nanobind", "torch's table", None),
            Comparison(group, cast, "nanobind", "torch's table", 0.1, ours="fastdl's caster"),
        ]
    for n in ARGUMENTS:
        group, what = f"call_numpy_{n}", f"function({n} ndarray)"
        cast = f"{what} by fastdl's caster"
        for peer in ("pybind11", "nanobind", "tvm_ffi"):
            rows.append(Comparison(group, what, peer, "an empty call", None))
        rows.append(
            Comparison(group, cast, "nanobind", "an empty call", None, ours="fastdl's caster")
        )
    return rows


def measured(c: Comparison, samples: Samples | str) -> bool:
    """Whether the group has these subjects: the caster needs fastdl/nanobind.h, the header alone is
    timed where it makes a difference."""
    return isinstance(samples, str) or all(name in samples[0] for name in (c.ours, c.peer))


def rows(groups: dict[str, Samples | str], check: bool, slack: float) -> list[Row]:
    found = []
    for source in SOURCES:
        for c in borrowing(source):
            if measured(c, groups[f"c/{c.group}"]):
                found.append(compare(c, "c", groups, slack))
        if source.nanoseconds is not None and not check:  # those of another machine mean nothing
            what = f"fastdl_borrow({source.what})"
            found.append(cost(source, what, groups[f"c/{source.group}"]))
    for r in RESULTS:
        c = Comparison(r.group, r.what, r.floor, "", r.over_floor)
        found.append(compare(c, "c", groups, slack))
    found += [compare(KEY, prefix, groups, slack) for prefix in VIEWS]
    for c in calling():
        for prefix in VIEWS:
            if measured(c, groups[f"{prefix}/{c.group}"]):
                found.append(compare(c, prefix, groups, slack))
    return found


def cost(source: Source, what: str, samples: Samples | str) -> Row:
    row = Row(f"c/{source.group}", what, VIEWS["c"], floor=source.floor)
    if isinstance(samples, str):
        row.failure = samples
        return row
    row.ours = row.value = middle(samples, "fastdl")
    row.floors = middle(samples, source.floor)
    row.limit, row.budget = source.nanoseconds, f"<= {source.nanoseconds:g} ns"
    return row
