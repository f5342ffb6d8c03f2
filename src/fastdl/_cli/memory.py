"""Which places in memory the elements of a tensor use, and in which order."""

from itertools import product
from math import prod
from typing import Any

DRAWN = 128  # at most so many places, and as many elements, are drawn one by one
COUNTED = 100_000  # at most so many elements are counted one by one


def layout_of(shape: list[int], strides: list[int]) -> dict[str, Any]:
    """The layout that shape and strides, in elements, describe.

    low, high: the first and the last place used, counted from where `data` points; both 0 for a
        tensor without elements.
    elements, places: how many there are; places is None where counting would take too long.
    words: the layout in words.
    order: for each place from low to high, the elements there, numbered in row-major order; None if
        the tensor is too large to be drawn.
    """
    size = prod(shape)
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)] if size else []
    low, high = sum(min(0, r) for r in reach), sum(max(0, r) for r in reach)
    apart: bool | None = are_apart(shape, strides) or None
    used = prod(n for n, s in zip(shape, strides, strict=True) if s) if size else 0
    places = used if apart else None
    if not apart and size <= COUNTED:
        places = len(set(positions(shape, strides)))
        apart = places == used
    order: list[list[int]] | None = None
    if max(size, high - low + 1) <= DRAWN and size:
        order = [[] for _ in range(high - low + 1)]
        for number, position in enumerate(positions(shape, strides)):
            order[position - low].append(number)
    return {
        "low": low,
        "high": high,
        "elements": size,
        "places": places,
        "words": words(shape, strides, apart),
        "order": order,
    }


def positions(shape: list[int], strides: list[int]):
    """The place of each element, in row-major order."""
    for index in product(*map(range, shape)):
        yield sum(i * s for i, s in zip(index, strides, strict=True))


def steps(shape: list[int], strides: list[int]) -> list[tuple[int, int, int]]:
    """(dimension, elements, stride) of the dimensions that have more than one element, the smallest
    steps first."""
    rows = [(d, n, s) for d, (n, s) in enumerate(zip(shape, strides, strict=True)) if n > 1]
    return sorted(rows, key=lambda row: (abs(row[2]), -row[0]))


def are_apart(shape: list[int], strides: list[int]) -> bool:
    """Whether shape and strides alone prove that no two elements share a place, except in broadcast
    dimensions: each stride is larger than the reach of the smaller ones."""
    reach = 0
    for _, n, stride in steps(shape, strides):
        if stride and abs(stride) <= reach:
            return False
        reach += (n - 1) * abs(stride)
    return True


def words(shape: list[int], strides: list[int], apart: bool | None) -> list[str]:
    if not prod(shape):
        return ["no elements"]
    rows = steps(shape, strides)
    if not rows:
        return ["one element"]
    moving = [(d, n, abs(s)) for d, n, s in rows if s]
    order = [d for d, _, _ in moving]
    found = []
    if order == sorted(order, reverse=True):
        found.append("row-major")
    elif order == sorted(order):
        found.append("column-major (transposed)")
    else:
        found.append(f"permuted: dimension {order[0]} varies fastest")
    expected, gaps = 1, []
    for d, n, stride in moving:
        if stride > expected:
            gaps.append(d)
        expected = stride * n
    if gaps:
        found.append(f"gaps along {dimensions(gaps)}")
    reversed_ = [d for d, _, s in rows if s < 0]
    if reversed_:
        found.append(f"reversed along {dimensions(reversed_)}")
    broadcast = [d for d, _, s in rows if s == 0]
    if broadcast:
        found.append(f"broadcast along {dimensions(broadcast)} (stride 0)")
    if apart is None:
        found.append("may overlap: too many elements to check")
    elif not apart:
        found.append("overlapping: elements share memory")
    if len(found) == 1:
        found.append("contiguous")
    return found


def dimensions(numbers: list[int]) -> str:
    numbers = sorted(numbers)
    if len(numbers) == 1:
        return f"dimension {numbers[0]}"
    return f"dimensions {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


# ---- drawing --------------------------------------------------------------------------------


def drawing(layout: dict[str, Any], strides: list[int], itemsize: float, width: int) -> list[str]:
    """Lines of the map, each with its offset in bytes from where `data` points."""
    order, low = layout["order"], layout["low"]
    cells = [
        "."
        if not numbers
        else f"{numbers[0]}+{len(numbers) - 1}"
        if numbers[1:]
        else f"{numbers[0]}"
        for numbers in order
    ]
    broad = max(map(len, cells)) + 1
    room = max(1, (width - 12) // broad)
    larger = [abs(s) for s in strides if 1 < abs(s) <= room]
    line = max(larger, default=min(room, 16))
    lines = []
    for first in range(0, len(cells), line):
        place = (low + first) * itemsize
        shown = "".join(cell.rjust(broad) for cell in cells[first : first + line])
        lines.append(f"{place:>+10.10g} {shown}")
    return lines
