# SPDX-License-Identifier: Apache-2.0
"""Strides and offsets, on the consumer side."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from math import prod
from typing import Any, NamedTuple

from dlpack_conformance import structs
from dlpack_conformance.checks.consumers import (
    HEADER,
    PYTHON,
    again,
    compact,
    every_again,
    expect_released,
    expect_values,
    forms,
    passes_through,
    read_only_forms,
    taken_and_released,
    taken_read_only,
)
from dlpack_conformance.checks.producers import views
from dlpack_conformance.elements import FORMATS, row_major
from dlpack_conformance.outcomes import DATA, DEVIATION, MEMORY
from dlpack_conformance.producers import Offer
from dlpack_conformance.suite import (
    Allowed,
    Library,
    NotApplicable,
    allowed,
    beside,
    check,
    crossed,
    due,
    expect,
    noise,
)


class Layout(NamedTuple):
    title: str
    values: Any
    fields: dict[str, Any]  # start and past for elements of four bytes
    clause: str = HEADER + ": DLTensor.strides"


ROWS = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
LAYOUTS = {
    "transposed": Layout(
        "A transposed array",
        [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]],
        {"shape": (3, 2), "strides": (1, 3)},
    ),
    "strided": Layout(
        "An array with gaps",
        [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]],
        {"count": 12, "shape": (2, 3), "strides": (6, 2)},
    ),
    "reversed": Layout(
        "An array with negative strides",
        [[5.0, 4.0, 3.0], [2.0, 1.0, 0.0]],
        {"shape": (2, 3), "strides": (-3, -1), "start": 20},
        HEADER + ": DLTensor.strides; pytorch/pytorch#188023",
    ),
    "broadcast": Layout(
        "An array with a stride of 0", [[0.0, 1.0, 2.0]] * 2, {"shape": (2, 3), "strides": (0, 1)}
    ),
    "broadcast-middle": Layout(
        "An array with a stride of 0 between others",
        [[[0.0, 1.0, 2.0]] * 2, [[6.0, 7.0, 8.0]] * 2],
        {"count": 12, "shape": (2, 2, 3), "strides": (6, 0, 1)},
    ),
    "broadcast-last": Layout(
        "An array with a last stride of 0",
        [[0.0] * 3, [1.0] * 3],
        {"shape": (2, 3), "strides": (1, 0)},
    ),
    "size-1": Layout(
        "A dimension of one element with any stride",
        [[0.0, 1.0, 2.0]],
        {"shape": (1, 3), "strides": (77, 1)},
        HEADER + ": DLTensor.strides; numpy/numpy#20336, pytorch/pytorch#99803",
    ),
    "column": Layout(
        "One column of an array", [[0.0], [3.0]], {"shape": (2, 1), "strides": (3, 1)}
    ),
    "null-strides": Layout(
        "An array with NULL strides, which mean row-major order,",
        ROWS,
        {"shape": (2, 3), "strides": None, "version": (1, 0)},
        HEADER + ": DLTensor.strides (before 1.2)",
    ),
    "empty": Layout(
        "An array without elements",
        [[], []],
        {"shape": (2, 0), "strides": (1, 1), "data": 0},
        HEADER + ": DLTensor.data 'should be set to NULL'",
    ),
    "empty-odd-strides": Layout(
        "An array without elements and with any strides",
        [],
        {"shape": (0,), "strides": (-55,)},
        HEADER + ": DLTensor.strides; microsoft/onnxruntime#27450",
    ),
    "empty-of-any-size": Layout(
        "An empty array whose other sizes multiply to over 64 bits",
        [],
        {"shape": (0, 1 << 62, 1 << 62), "strides": (1, 1, 1)},
        HEADER + ": DLTensor.shape",
    ),
    "scalar": Layout(
        "An array of 0 dimensions with NULL shape and strides",
        0.0,
        {"shape": None, "strides": None, "ndim": 0},
        HEADER + ": DLTensor.shape; numpy/numpy#29872",
    ),
    "eight-dimensions": Layout(
        "A transposed array of eight dimensions",
        [[[[[[[[0.0, 3.0]]]]]], [[[[[[1.0, 4.0]]]]]], [[[[[[2.0, 5.0]]]]]]]],
        {"shape": (1, 3, 1, 1, 1, 1, 1, 2), "strides": (6, 1, 6, 6, 6, 6, 6, 3)},
    ),
    "unaligned": Layout(
        "An array that is aligned to its elements only",
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
        {"shape": (6,), "strides": (1,), "past": 4},
        HEADER + ": DLTensor.data: alignment is not to be relied upon; dmlc/dlpack#99",
    ),
    "misaligned": Layout(
        "An array that is not aligned to its elements",
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
        {"shape": (6,), "strides": (1,), "past": 1},
        HEADER + ": DLTensor.data: alignment is not to be relied upon; dmlc/dlpack#99",
    ),
}


def fields_of(lib: Library, layout: Layout, skipped: int = 0, odd: int = 0) -> dict[str, Any]:
    """The fields of a layout for `six`, in as many dimensions as the library has at least, with a
    byte_offset of some elements, and of `odd` bytes, which are not in `data`."""
    fields = {**layout.fields, "byte_offset": skipped * lib.itemsize + odd}
    ndim = len(fields["shape"] or ())
    if (ndim and not lib.has_rank(max(ndim, lib.min_ndim))) or (not ndim and not lib.has_rank(0)):
        raise NotApplicable(f"has no arrays of {ndim} dimensions")
    for name in fields.keys() & {"start", "past"}:
        if fields[name] > 1:
            fields[name] = fields[name] * lib.itemsize // 4
    for name in fields.keys() & {"shape", "strides"}:
        if fields[name]:
            fields[name] = lib.padded(fields[name], 1)
    fields["start"] = fields.get("start", 0) - odd
    return {"content": lib.packed(*[9] * skipped, *range(fields.pop("count", 6))), **fields}


def values_of(lib: Library, layout: Layout) -> Any:
    """The values of a layout, in those dimensions."""
    values = layout.values
    for _ in range(lib.min_ndim - len(layout.fields["shape"] or ())):
        values = [values]
    return values


def ascends(layout: Layout) -> bool:
    """Whether it has no negative strides: torch aborts on these."""
    return min(layout.fields["strides"] or (0,)) >= 0


OFFSETS = {"skipped": 2}, {"odd": 1}


def arrives(lib: Library, form: str, offset: dict[str, int], layout: Layout) -> None:
    fields = fields_of(lib, layout, **offset)
    taken_and_released(lib, compact(lib, form, **fields))
    with allowed():
        result = lib.take(compact(lib, form, **fields))
    others: Any = noise()
    with suppress(Exception, NotApplicable):  # another one, while the first is there
        turned = (*(fields["shape"] or ()),)[::-1]
        if all(turned):
            content = lib.packed(*range(prod(turned)))
            others += [lib.take(compact(lib, form, shape=turned, content=content))]
    with allowed(words="taken, but not readable: "):
        found = lib.values(result)
    # Some libraries have no arrays without dimensions: one element in one dimension is accepted.
    values = values_of(lib, layout)
    expect(found in (values, [values]), f"{values} became {found}")
    if held := again(lib, result):
        expect(held.values() in (values, [values]), f"exported, it has {held.values()}")
    del others


def offset_forms(layout: Layout, lib: Library) -> Iterator[tuple[Any, ...]]:
    return beside(forms(lib), ({},) if ascends(layout) else ({}, *OFFSETS))


for _name, _one in LAYOUTS.items():
    _rule = f"{_one.title} arrives and leaves with its values, or is refused, and is released once."
    check(f"layout.{_name}", DATA, _one.clause, over=partial(offset_forms, _one), sentence=_rule)(
        partial(arrives, layout=_one)
    )


check(
    "offset.offset",
    DATA,
    HEADER + ": DLTensor.byte_offset; NVIDIA/warp#1573, pytorch/pytorch#168177",
    over=lambda lib: (
        (f"{what}, {name}", form, offset, layout)
        for what, form, offset in beside(forms(lib), OFFSETS)
        for name, layout in LAYOUTS.items()
        if "data" not in layout.fields and ascends(layout)
    ),
    sentence="The elements of an array in any layout are counted from its byte_offset.",
)(arrives)


@check(
    "failure.layouts",
    DEVIATION,
    "array API standard, from_dlpack: BufferError",
    after="layout.reversed",
    over=lambda lib: LAYOUTS.items(),
)
def refused_layouts(lib: Library, layout: Layout) -> str:
    """Refusing a layout raises BufferError."""
    with due(BufferError):
        lib.take(compact(lib, **fields_of(lib, layout)))
    return "accepted"


# ---- views of what was taken ------------------------------------------------------------------


def views_of_forms(lib: Library) -> Iterator[tuple[Any, ...]]:
    skipped = ("from its start", 0), ("with a byte_offset", 1)
    yield from crossed(crossed(forms(lib), skipped), views(lib))


def taken_base(lib: Library, form: str, skipped: int, **fields: Any) -> tuple[Offer, Any]:
    """A producer of the numbers of BASE, and the array, if views of it can be made."""
    fields["shape"] = (3, 4) if lib.has_rank(2) else (12,)
    fields["byte_offset"] = skipped * lib.itemsize
    offer = compact(lib, form, content=lib.packed(*[9] * skipped, *range(12)), **fields)
    with allowed():
        result = lib.take(offer)
    if hasattr(lib.source, "make"):
        lib.expect_own(result)
    return offer, result


@check(
    "layout.views", MEMORY, PYTHON + ": the consumer owns the managed tensor", over=views_of_forms
)
def views_of_taken(lib: Library, form: str, skipped: int, function: Any, values: Any) -> None:
    """A view of an imported array keeps its memory, is exported, and releases it once."""
    offer, result = taken_base(lib, form, skipped)
    view = function(result)
    del result
    others = noise()
    expect_values(lib, view, values, "the view")
    exports = [*every_again(lib, view)]
    del view
    others += noise()
    while exports:
        expect(exports[0].values() == values, f"exported, the view has {exports[0].values()}")
        exports.pop(0).release()
    del others
    expect_released(offer, "after the view is gone")


def types_of(lib: Library) -> Iterator[tuple[str, Layout]]:
    """A layout of each element type, without values."""
    fields = {"shape": lib.shape, "strides": tuple(row_major(lib.shape)), "count": 32}
    for name in (name for name in FORMATS if name in lib.dtypes):
        yield name, Layout("", [], {**fields, "dtype": (*FORMATS[name][:2], 1)})


@check(
    "readonly.passes-through",
    DATA,
    HEADER + ": DLPACK_FLAG_BITMASK_READ_ONLY",
    over=lambda lib: crossed((*LAYOUTS.items(), *types_of(lib)), read_only_forms(lib)),
)
def read_only_passes_through(lib: Library, layout: Layout, form: str, flags: int) -> None:
    """An array on READ_ONLY memory is exported as READ_ONLY again, as a copy, or not at all."""
    offer, result = taken_read_only(lib, form, flags, **fields_of(lib, layout))
    lib.expect_own(result)
    passes_through(lib, offer, result)


@check(
    "readonly.views",
    DATA,
    HEADER + ": DLPACK_FLAG_BITMASK_READ_ONLY",
    over=lambda lib: (
        (name, form, *more)
        for name, form, *more in views_of_forms(lib)
        if form not in ("old", "legacy", "bare legacy")
    ),
)
def read_only_views(lib: Library, form: str, skipped: int, function: Any, values: Any) -> None:
    """A view of an array on READ_ONLY memory is exported as READ_ONLY, as a copy, or not at all."""
    lib.optional("make")
    offer, result = taken_base(lib, form, skipped, flags=structs.READ_ONLY)
    if offer.copies():
        raise Allowed("passes copy=True on")
    passes_through(lib, offer, function(result))
