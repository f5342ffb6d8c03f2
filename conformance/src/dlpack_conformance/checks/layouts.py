"""Strides and offsets, on the consumer side. Each layout has three checks: its values, the error if
it is refused, and the release after a refusal."""

from functools import partial
from typing import Any, NamedTuple

from dlpack_conformance.checks.consumers import HEADER, compact, six, taken, taken_and_released
from dlpack_conformance.producers import Offer
from dlpack_conformance.suite import (
    DATA,
    DEVIATION,
    ERROR,
    MEMORY,
    Library,
    NotApplicable,
    allowed,
    check,
    due,
    expect,
    noise,
    told,
)

ARRAY_API = "array API standard, from_dlpack: BufferError"


class Layout(NamedTuple):
    title: str
    values: Any
    fields: dict[str, Any]  # start, past and byte_offset for elements of four bytes
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
    "every-second": Layout(
        "Every second element of one dimension",
        [0.0, 2.0, 4.0],
        {"shape": (3,), "strides": (2,)},
    ),
    "reversed": Layout(
        "An array with a negative stride",
        [[3.0, 4.0, 5.0], [0.0, 1.0, 2.0]],
        {"shape": (2, 3), "strides": (-3, 1), "start": 12},
        HEADER + ": DLTensor.strides; pytorch/pytorch#188023",
    ),
    "reversed-1d": Layout(
        "One dimension with a negative stride",
        [5.0, 4.0, 3.0, 2.0, 1.0, 0.0],
        {"shape": (6,), "strides": (-1,), "start": 20},
        HEADER + ": DLTensor.strides; pytorch/pytorch#188023",
    ),
    "broadcast": Layout(
        "An array with a stride of 0", [[0.0, 1.0, 2.0]] * 2, {"shape": (2, 3), "strides": (0, 1)}
    ),
    "overlapping": Layout(
        "An array whose rows overlap",
        [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 4.0]],
        {"shape": (3, 3), "strides": (1, 1)},
    ),
    "size-1": Layout(
        "A dimension of one element with any stride",
        [[0.0, 1.0, 2.0]],
        {"shape": (1, 3), "strides": (77, 1)},
        HEADER + ": DLTensor.strides; numpy/numpy#20336, pytorch/pytorch#99803",
    ),
    "empty": Layout(
        "An array without elements",
        [],
        {"shape": (0,), "strides": (1,), "data": 0},
        HEADER + ": DLTensor.data 'should be set to NULL'",
    ),
    "empty-odd-strides": Layout(
        "An array without elements, with any strides",
        [],
        {"shape": (0,), "strides": (-55,)},
        HEADER + ": DLTensor.strides; microsoft/onnxruntime#27450",
    ),
    "empty-of-any-size": Layout(
        "An array without elements, with more than 64 bits count in the other dimensions",
        [],
        {"shape": (0, 1 << 62, 1 << 62), "strides": (1, 1, 1)},
        HEADER + ": DLTensor.shape",
    ),
    "scalar": Layout(
        "An array without dimensions, shape and strides NULL",
        0.0,
        {"shape": None, "strides": None, "ndim": 0},
        HEADER + ": DLTensor.shape; numpy/numpy#29872",
    ),
    "five-dimensions": Layout(
        "An array of five dimensions",
        [[[ROWS]]],
        {"shape": (1, 1, 1, 2, 3), "strides": (6, 6, 6, 3, 1)},
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
    "offset": Layout(
        "A byte_offset",
        [2.0, 3.0, 4.0],
        {"shape": (3,), "strides": (1,), "byte_offset": 8},
        HEADER + ": DLTensor.byte_offset; NVIDIA/warp#1573, pytorch/pytorch#168177",
    ),
    "offset-strided": Layout(
        "A byte_offset with strides",
        [1.0, 3.0, 5.0],
        {"shape": (3,), "strides": (2,), "byte_offset": 4},
        HEADER + ": DLTensor.byte_offset",
    ),
    "offset-null-strides": Layout(
        "A byte_offset with NULL strides",
        [2.0, 3.0, 4.0],
        {"shape": (3,), "strides": None, "byte_offset": 8, "version": (1, 0)},
        HEADER + ": DLTensor.byte_offset",
    ),
    "offset-negative": Layout(
        "A byte_offset with a negative stride",
        [5.0, 4.0, 3.0],
        {"shape": (3,), "strides": (-1,), "byte_offset": 20},
        HEADER + ": DLTensor.byte_offset",
    ),
}


def offer_of(lib: Library, layout: Layout) -> Offer:
    lib.optional("from_dlpack")
    return six(lib, **fields_of(lib, layout))


def fields_of(lib: Library, layout: Layout) -> dict[str, Any]:
    fields = dict(layout.fields)
    ndim = len(fields["shape"] or ())
    if ndim > lib.max_ndim or (lib.max_ndim == 1 and ndim == 0):
        raise NotApplicable(f"has no arrays of {ndim} dimensions")
    for name in fields.keys() & {"start", "past", "byte_offset"}:
        if fields[name] > 1:
            fields[name] = fields[name] * lib.itemsize // 4
    return {"content": lib.packed(*range(fields.pop("count", 6))), **fields}


def arrives(lib: Library, layout: Layout) -> None:
    offer = offer_of(lib, layout)
    with allowed():
        result = lib.take(offer)
    expect_layout(lib, result, layout)


def expect_layout(lib: Library, result: Any, layout: Layout) -> None:
    """Checks the values of what was taken."""
    others = noise()
    with allowed(words="taken, but not readable: "):
        found = lib.values(result)
    # Some libraries have no arrays without dimensions: one element in one dimension is accepted.
    expect(found in (layout.values, [layout.values]), f"{layout.values} became {found}")
    del others


def refusal(lib: Library, layout: Layout) -> str:
    offer = offer_of(lib, layout)
    with due(BufferError):
        lib.take(offer)
    return "accepted"


def is_released(lib: Library, layout: Layout) -> "str | None":
    return taken_and_released(lib, offer_of(lib, layout))


def check_of(name: str) -> str:
    """The check of the values of a layout."""
    section = "offset" if name.startswith("offset") else "layout"
    return f"{section}.{name.removeprefix('offset-')}"


for _name, _layout in LAYOUTS.items():
    check(
        check_of(_name),
        DATA,
        f"{_layout.title} arrives with its values, or is refused.",
        _layout.clause,
    )(partial(arrives, layout=_layout))
    check(
        f"failure.{_name}",
        DEVIATION,
        f"{_layout.title}: a refusal is a BufferError.",
        ARRAY_API,
        check_of(_name),
    )(partial(refusal, layout=_layout))
    check(
        f"ownership.{_name}",
        MEMORY,
        f"{_layout.title} is released once, whether it is taken or refused.",
        HEADER + ": DLManagedTensor.deleter",
        check_of(_name),
    )(partial(is_released, layout=_layout))


@check(
    "offset.both-forms",
    DATA,
    "byte_offset counts in legacy and in versioned capsules.",
    HEADER + ": DLTensor.byte_offset",
)
def both_forms(lib: Library) -> "str | None":
    notes = []
    for form in ("legacy", "versioned"):
        offer = offer_of(lib, LAYOUTS["offset"])
        offer.form = form
        try:
            result = lib.take(offer)
        except Exception as error:
            notes.append(f"{form} is refused: {told(error)}")
            continue
        found = lib.values(result)
        expect(found == [2.0, 3.0, 4.0], f"{form}: [2.0, 3.0, 4.0] became {found}")
    return "; ".join(notes) or None


@check(
    "layout.compact-is-taken",
    ERROR,
    "A compact array of host memory is taken, aligned to 64 bytes, whatever else is refused.",
    ARRAY_API,
)
def compact_is_taken(lib: Library) -> None:
    taken(lib, compact(lib))
