# SPDX-License-Identifier: Apache-2.0
"""Element types, and arrays as nested lists."""

import ctypes
import struct
from collections.abc import Callable, Iterable
from typing import Any

#: name -> (code, bits, format of struct or None)
FORMATS: dict[str, tuple[int, int, "str | None"]] = {
    **{f"int{bits}": (0, bits, form) for bits, form in ((8, "b"), (16, "h"), (32, "i"), (64, "q"))},
    **{
        f"uint{bits}": (1, bits, form) for bits, form in ((8, "B"), (16, "H"), (32, "I"), (64, "Q"))
    },
    "float16": (2, 16, "e"),
    "float32": (2, 32, "f"),
    "float64": (2, 64, "d"),
    "bfloat16": (4, 16, None),
    "complex64": (5, 64, "ff"),
    "complex128": (5, 128, "dd"),
    "bool": (6, 8, "?"),
    "complex32": (5, 32, "ee"),
}
ONLY_TAKEN = ("complex32",)  # arrays of these are not made
DTYPES = tuple(name for name in FORMATS if name not in ONLY_TAKEN)

#: Of these one is the type of the checks that are not about types: whichever the library has first.
USUAL = ("float32", "int32", "float64", "int64", *(name for name in DTYPES if name != "bool"))


def all_but(*names: str) -> tuple[str, ...]:
    """The element types of a library that lacks some."""
    return tuple(name for name in DTYPES if name not in names)


KNOWN = {(code, bits, 1): name for name, (code, bits, _) in FORMATS.items()}


def sample(dtype: str) -> list[Any]:
    """Six values that every library represents exactly."""
    if dtype == "bool":
        return [True, False, True, True, False, False]
    if dtype.startswith("complex"):
        return [1 + 2j, -3j, 0.5 + 0j, 4 + 0j, 0j, -1 + 1j]
    if dtype.startswith("uint"):
        return [1, 0, 3, 7, 5, 100]
    if dtype.startswith("int"):
        return [1, 0, -2, 7, -5, 100]
    return [-1.5, 0.0, 2.0, 0.25, 8.0, -4.0]


def packed(values: Iterable[Any], dtype: str) -> bytes:
    """Values as they are in memory."""
    form, values = FORMATS[dtype][2], list(values)
    if form is None:  # bfloat16: the upper half of a float32
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    if len(form) == 2:
        return b"".join(struct.pack(f"<{form}", value.real, value.imag) for value in values)
    return struct.pack(f"<{len(values)}{form}", *values)


def unpacked(data: bytes, dtype: str) -> Any:
    """One value from memory."""
    form = FORMATS[dtype][2]
    if form is None:
        return struct.unpack("<f", b"\0\0" + data)[0]
    found = struct.unpack(f"<{form}", data)
    return complex(*found) if len(form) == 2 else found[0]


def read(start: int, shape: Iterable[int], strides: Iterable[int], dtype: str) -> Any:
    """The elements of host memory as nested lists."""
    itemsize = FORMATS[dtype][1] // 8

    def at(index: tuple[int, ...]) -> Any:
        place = start + itemsize * sum(i * s for i, s in zip(index, strides, strict=True))
        return unpacked(ctypes.string_at(place, itemsize), dtype)

    return nest(at, shape)


def nest(at: Callable[[tuple[int, ...]], Any], shape: Iterable[int]) -> Any:
    shape = list(shape)
    if not shape:
        return at(())
    if len(shape) == 1:
        return [at((i,)) for i in range(shape[0])]
    return [nest(lambda index, i=i: at((i, *index)), shape[1:]) for i in range(shape[0])]  # type: ignore[misc]


def row_major(shape: "Iterable[int]") -> list[int]:
    strides: list[int] = []
    step = 1
    for size in reversed(list(shape)):
        strides.insert(0, step)
        step *= max(size, 1)
    return strides


def in_shape(values: Iterable[Any], shape: Iterable[int]) -> Any:
    """Values in row-major order as nested lists."""
    values = iter(values)
    return nest(lambda index: next(values), shape)


def flat(values: Any) -> list[Any]:
    return [one for row in values for one in flat(row)] if isinstance(values, list) else [values]


def shape_of(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list):
        return ()
    return (len(values), *shape_of(values[0] if values else 0.0))
