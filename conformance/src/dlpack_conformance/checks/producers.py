# SPDX-License-Identifier: Apache-2.0
"""What a library exports: fields, values, lifetimes."""

import gc
import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from operator import mul
from typing import Any

from dlpack_conformance import _dlpack, structs
from dlpack_conformance.checks.consumers import NO_STRIDES, again, six
from dlpack_conformance.elements import DTYPES, FORMATS, flat, in_shape, nest, sample, shape_of
from dlpack_conformance.leaks import expect_no_growth, expect_no_leak
from dlpack_conformance.outcomes import DATA, DEVIATION, ERROR, MEMORY
from dlpack_conformance.suite import (
    Allowed,
    Failed,
    Held,
    Library,
    NotApplicable,
    Wrong,
    allowed,
    beside,
    check,
    crossed,
    due,
    expect,
    expect_error,
    needed,
    noise,
    told,
    with_keywords,
)

HEADER = "DLPack 1.3, dlpack.h"
PYTHON = "DLPack, Python specification"
ARRAY_API = "array API standard, __dlpack__"

Make = Callable[[], Any]  # a new array
Export = Callable[[Any], Held]  # of an array, in one of the ways


# ---- the arrays, and the ways in which they are exported --------------------------------------

BASE: Any = [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], [8.0, 9.0, 10.0, 11.0]]
#: The values of each view, by those of the array.
VIEWS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda rows: [list(column) for column in zip(*rows, strict=True)],
    "strided": lambda rows: [row[::2] for row in rows],
    "reversed": lambda rows: rows[::-1],
    "offset": lambda rows: [row[1:] for row in rows[1:]],
    "broadcast": lambda rows: [row[:1] * 4 for row in rows[:2]],
    "column": lambda rows: [row[1] for row in rows],
}
FLAT_VIEWS: dict[str, Callable[[Any], Any]] = {
    "strided": lambda row: row[::2],
    "offset": lambda row: row[3:],
}


def views(lib: Library) -> Iterator[tuple[str, Callable[[Any], Any], Any]]:
    """The adapter's views of an array of BASE, or of its numbers, and views of two of them, which
    have gaps, an offset, and rows of one element: (name, function, values)."""
    known = VIEWS if lib.has_rank(2) else FLAT_VIEWS if lib.has_rank(1) else {}
    found = [(name, lib.views[name], known[name]) for name in known if name in lib.views]
    values = BASE if lib.has_rank(2) else flat(BASE)
    for name, function, of in found:
        yield name, function, of(values)
    for (first, before, rows), (name, function, of) in itertools.product(found, found):
        if first == "strided" or (first == "offset" and name in ("transposed", "strided")):
            yield f"{first}, {name}", both(before, function), of(rows(values))


def both(first: Any, second: Any) -> Callable[[Any], Any]:
    return lambda array: second(first(array))


def base(lib: Library) -> Any:
    """An array that was exported once: of that nothing must be left in its views."""
    array = lib.make(BASE if lib.has_rank(2) else flat(BASE))
    again(lib, array)
    return array


def viewed(make: Make, function: Callable[[Any], Any]) -> Any:
    return function(make())


def imported(lib: Library, values: Any, producer: Callable[[], Any]) -> Any:
    """An array that was taken, if that is one of the library's own, with its values."""
    with needed("takes no such array"):
        found = lib.take(producer())
    if not isinstance(found, type(lib.make())) or lib.values(found) != values:
        raise NotApplicable(f"what it takes is a {type(found).__name__}")
    return found


def made(lib: Library, values: Any) -> Any:
    """An array of these values, if the library has such arrays."""
    with needed("has no such array"):
        array = lib.make(values)
    if (found := lib.values(array)) != values:
        raise NotApplicable(f"makes {found} of it")
    return array


def one_element(like: Any) -> Any:
    """The values of an array of one element, of as many dimensions as those of another."""
    return in_shape([7.0], [1] * len(shape_of(like)))


#: Shapes and strides of what is taken with a byte_offset, as a copy.
TAKEN = ((3,), (2,)), ((2, 1, 2, 3, 1), (1, 2, 2, 4, 12)), ((2, 3), (0, 1)), ((2, 3), (-3, 1))


def number_at(strides: Any, index: Any) -> float:
    return 6.0 + sum(map(mul, index, strides))


def wholes(lib: Library) -> Iterator[tuple[str, Make, Any]]:
    yield "an array", lib.make, lib.rows
    yield "an array that was taken", partial(imported, lib, lib.rows, partial(six, lib)), lib.rows
    yield "an array of its own that was taken", partial(imported, lib, lib.rows, lib.make), lib.rows
    more = {"content": lib.packed(*range(64)), "byte_offset": 6 * lib.itemsize}
    for shape, strides in TAKEN:
        if lib.has_rank(len(shape)) and (min(strides) >= 0 or "reversed" in lib.views):
            values = nest(partial(number_at, strides), shape)
            fields: Any = {"shape": shape, "strides": strides, "flags": structs.IS_COPIED, **more}
            take = partial(imported, lib, values, partial(six, lib, **fields))
            yield f"an array of strides {strides} that was taken", take, values
    for name, fields in (("legacy", {"form": "legacy"}), ("of NULL strides", NO_STRIDES)):
        take = partial(imported, lib, lib.rows, partial(six, lib, **fields))
        yield f"an array that was taken, {name}", take, lib.rows
    for name, rank in (("an array without dimensions", 0), ("a vector", 1)):
        if lib.has_rank(rank):
            values = flat(lib.rows) if rank else 3.0
            yield name, partial(made, lib, values), values
    many = in_shape(flat(lib.rows), (1,) * (lib.max_ndim - len(lib.shape)) + lib.shape)
    for what, values in (("one element", one_element(lib.rows)), ("many dimensions", many)):
        yield f"an array of {what}", partial(made, lib, values), values


def viewed_arrays(lib: Library) -> Iterator[tuple[str, Make, Any]]:
    for name, function, values in views(lib):
        yield f"the {name} view", partial(viewed, partial(base, lib), function), values


def writable_arrays(lib: Library) -> Iterator[tuple[str, Make, Any]]:
    yield from (*wholes(lib), *viewed_arrays(lib))


def is_locked(lib: Library, array: Any) -> bool:
    """Whether it is read-only, by the library's own account."""
    return getattr(lib.source, "is_read_only", lambda array: True)(array)


def locked(lib: Library, before: Any, after: Any = lambda array: array) -> Any:
    """An array that must not be written to."""
    array = before()
    again(lib, array)  # when it was not read-only
    array = after(lib.optional("read_only")(array))
    if not is_locked(lib, array):
        raise NotApplicable("it can be written to")
    return array


def taken_read_only(lib: Library) -> Any:
    array = imported(lib, lib.rows, partial(six, lib, "versioned", flags=structs.READ_ONLY))
    if not hasattr(lib.source, "is_read_only") or not is_locked(lib, array):
        raise NotApplicable("it can be written to")
    return array


def read_only_arrays(lib: Library) -> Iterator[tuple[str, Make, Any]]:
    """Those that must not be written to."""
    yield "a READ_ONLY array that was taken", partial(taken_read_only, lib), lib.rows
    for name, make, values in wholes(lib):
        yield f"{name}, read-only", partial(locked, lib, make), values
    for name, function, values in views(lib):
        view = partial(viewed, partial(base, lib), function)
        yield f"the {name} view, read-only", partial(locked, lib, view), values
        yield f"the {name} view of one", partial(locked, lib, partial(base, lib), function), values


def conjugated_arrays(lib: Library) -> Iterator[tuple[str, Make, Any]]:
    """Conjugate views of complex arrays, and views of these."""
    function = lib.optional("conjugated")
    for dtype in ("complex64", "complex128"):
        of = sample(dtype)
        values = in_shape((one.conjugate() for one in of), lib.shape)
        make = partial(lib.make, in_shape(of, lib.shape), dtype)
        found = [("", lambda array: array, values)]
        if lib.has_rank(2):
            found += [
                (f", {name}", lib.views[name], VIEWS[name](values))
                for name in VIEWS
                if name in lib.views
            ]
        for name, view, seen in found:
            seeing = partial(viewed, make, both(function, view))
            yield f"a conjugate view of {dtype}{name}", seeing, seen


def arrays(lib: Library) -> Iterator[tuple[str, Make, Any]]:
    """(name, function that makes one, values)."""
    yield from writable_arrays(lib)
    if hasattr(lib.source, "read_only"):
        yield from read_only_arrays(lib)


def empty_arrays(lib: Library) -> Iterator[tuple[str, Make, Any]]:
    empty: list[Any] = [[], [[], []]]
    for values in empty:
        if lib.has_rank(len(shape_of(values))):
            yield f"an array without elements, {values}", partial(made, lib, values), values
            take = partial(imported, lib, values, partial(six, lib, shape=shape_of(values), data=0))
            yield f"an array without elements that was taken, {values}", take, values


def all_arrays(lib: Library) -> Iterator[tuple[str, Make, Any]]:
    """Also those without elements, which may be at any address."""
    yield from (*arrays(lib), *empty_arrays(lib))
    for name, make, values in empty_arrays(lib) if hasattr(lib.source, "read_only") else ():
        yield f"{name}, read-only", partial(locked, lib, make), values


def capsules(lib: Library) -> list[tuple[str, Callable[..., Any]]]:
    """The forms of capsule that it exports: names, and functions of an array and keywords."""
    array, found = lib.make(), []
    with suppress(Exception, NotApplicable):
        lib.export_or_skip(array)
        found.append(("legacy", lib.export_or_skip))
    with suppress(Exception, NotApplicable):
        lib.versioned(array)
        # With more keywords the capsule may be legacy: it is read as its name says.
        found.append(("versioned", partial(lib.export_or_skip, max_version=(1, 3))))
    return found


def every_way(lib: Library) -> Iterator[tuple[str, Export]]:
    yield "legacy", lambda array: Held(lib.export(array))
    yield "versioned", lambda array: Held(lib.versioned(array))
    yield "by the table", lib.by_table


def refusable(lib: Library) -> Iterator[tuple[Any, ...]]:
    """Arrays in every way, and whether it may refuse them: legacy, an array that was taken, or with
    keywords."""
    large = "a large array", partial(made, lib, big(lib)), big(lib)
    found = [*wholes(lib), *empty_arrays(lib)]
    for name, make, values, export in (
        *exports(lib, lambda lib: [*found, large], every_way),
        *exports(lib, lambda lib: found, lambda lib: (one for one in owners(lib) if "=" in one[0])),
    ):
        may_refuse = "legacy" in name or "taken" in name or "=" in name
        yield name, make, values, may_refuse, export


def ways(lib: Library) -> Iterator[tuple[str, Export]]:
    """Those in which it exports an array at all."""
    for name, export in every_way(lib):
        array = lib.make()
        with suppress(Exception, NotApplicable):
            export(array)
            yield name, export


#: Keywords with which a capsule is requested.
COPIES: tuple[dict[str, Any], ...] = ({}, {"copy": True}, {"copy": False})
REQUESTS = (
    *COPIES,
    *({"dl_device": (1, 0), **more} for more in COPIES),
    {"stream": None, "dl_device": None, "copy": None},
)


#: Those of other versions, for each form.
VERSIONS = {"legacy": ((0, 8),), "versioned": ((1, 0), (1, 2), (2, 0))}


def requested(lib: Library) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Its capsules, with each set of keywords that it has."""
    for name, form in capsules(lib):
        for keywords in (*REQUESTS, *({"max_version": one} for one in VERSIONS[name])):
            array = lib.make()
            with suppress(Exception, NotApplicable):
                form(array, **keywords)
                yield with_keywords(name, keywords), partial(form, **keywords)


def owners(lib: Library) -> Iterator[tuple[str, Export]]:
    """The ways, also with each set of keywords."""
    yield from ways(lib)
    for name, form in requested(lib):
        if "=" in name:
            yield name, both(form, Held)


def copying(copy: bool) -> Callable[[Library], Iterator[tuple[str, Callable[[Any], Any]]]]:
    """The capsules with this copy=, even if it is refused."""
    sets: tuple[dict[str, Any], ...] = {"copy": copy}, {"copy": copy, "dl_device": (1, 0)}
    return lambda lib: ((name, partial(f, **more)) for name, f, more in beside(capsules(lib), sets))


def owners_and_capsules(lib: Library) -> Iterator[tuple[str, Any]]:
    yield from owners(lib)
    for name, form in requested(lib):
        yield f"{name}, unused", form


def without_copies(lib: Library) -> Iterator[tuple[str, Export]]:
    """Those whose copies have IS_COPIED, as far as `may_copy` can find out."""
    for name, export in owners(lib):
        if "copy=True" not in name and not ("legacy" in name and "dl_device" in name):
            yield name, export


def exports(
    lib: Library, of: Callable[[Library], Any] = arrays, by: Callable[[Library], Any] = ways
) -> Iterator[tuple[Any, ...]]:
    """Each array in each way: (names, function that makes one, what else there is, export)."""
    return crossed(of(lib), by(lib))


plain_exports = partial(exports, of=all_arrays)
every_export = partial(exports, of=all_arrays, by=owners)
writable_exports = partial(exports, of=writable_arrays, by=without_copies)


def other_arrays(lib: Library) -> list[Any]:
    """Views of arrays of another shape, and read-only ones."""
    found = []
    if lib.has_rank(2) and lib.views:
        for lock in filter(None, (lambda x: x, getattr(lib.source, "read_only", None))):
            array = lib.make([[9.0] * 7] * 2)  # which `lock` may lock in place
            found += [*map(lock, [array, *(function(array) for function in lib.views.values())])]
    return found


def bustle(lib: Library, values: Any) -> list[Any]:
    """Other exports, in every way, and allocations that reuse memory that was freed too early."""
    other = lib.make(one_element(values))
    kept = [form(other) for _, form in requested(lib)]
    for array in other_arrays(lib):
        for _, export in ways(lib):
            with suppress(Exception, NotApplicable):
                kept.append(export(array))
    return [kept, [export(other) for _, export in owners(lib)], noise(lib)]


def exported(make: Make, export: Export) -> tuple[Any, Held]:
    """(array, its export); a BufferError is a refusal."""
    array = make()
    with allowed(BufferError):
        return array, export(array)


def expect_held(held: Held, values: Any, what: str = "the export") -> None:
    found = held.values()
    expect(found == values, f"{what} has {found}, not {values}")


def may_copy(lib: Library, array: Any, held: Held) -> bool:
    """Whether an export says that it is a copy. A legacy one cannot: then whether the versioned one
    of the same array, if there is any, is a copy, or READ_ONLY."""
    if held.flags is None:
        with suppress(Exception, NotApplicable):
            return Held(lib.versioned(array)).flags != 0
        return True
    return bool(held.flags & structs.IS_COPIED)


# ---- what __dlpack__ and __dlpack_device__ return ---------------------------------------------


@check("producer.device", DATA, "array API standard, __dlpack_device__", over=plain_exports)
def device(lib: Library, make: Make, values: Any, export: Export) -> None:
    """`__dlpack_device__()` returns the device of an export as two numbers, the type and the id."""
    array, held = exported(make, export)
    if hasattr(lib.source, "to_dlpack") and not hasattr(array, "__dlpack_device__"):
        raise NotApplicable("the adapter exports")
    said = array.__dlpack_device__()
    numbers = isinstance(said, tuple) and all(isinstance(part, int) for part in said)
    found = held.tensor.device_type, held.tensor.device_id
    expect(numbers and said == found, f"it returns {said!r}, and the export has {found}")


@check("producer.keywords", DEVIATION, ARRAY_API + " (2023.12)", over=all_arrays)
def keywords(lib: Library, make: Make, values: Any) -> None:
    """`__dlpack__` takes stream, max_version, dl_device and copy."""
    array = make()
    refused = []
    for name in ("stream", "max_version", "dl_device", "copy"):
        try:
            lib.export(array, **{name: None})
        except TypeError as error:
            refused.append(f"{name} ({told(error)})")
        except BufferError:  # legacy capsules are refused
            pass
    expect(not refused, f"refused: {'; '.join(refused)}")


@check("producer.unknown-keyword", ERROR, ARRAY_API + ": notes on max_version", over=all_arrays)
def unknown_keyword(lib: Library, make: Make, values: Any) -> None:
    """A keyword that `__dlpack__` does not have raises TypeError, so that a consumer can try
    without."""
    array = make()
    expect_error(TypeError, lambda: lib.export(array, of_the_next_standard=1), "unknown keyword")


@check("producer.values", DATA, HEADER + ": DLTensor", over=refusable)
def has_values(lib: Library, make: Make, values: Any, may_refuse: bool, export: Export) -> None:
    """An export has the shape, the element type and the elements of the array; an array that was
    not imported can be exported versioned, and by the table."""
    array = make()
    with allowed(BufferError if may_refuse else ()):
        held = export(array)
    expect_held(held, values)
    found = held.tensor.code, held.tensor.bits, held.tensor.lanes
    expect(found == lib.dtype_fields, f"the element type is {found}")


@check(
    "layout.export",
    DATA,
    HEADER + ": DLTensor.strides, DLTensor.byte_offset; pytorch/pytorch#168177",
    over=partial(exports, of=viewed_arrays, by=owners),
)
def view_is_exported(lib: Library, make: Make, values: Any, export: Export) -> None:
    """A view is exported with its values, or refused with a BufferError."""
    expect_held(exported(make, export)[1], values)


check(
    "layout.export-conjugated",
    DATA,
    "pytorch/pytorch#72792: the standard has no flag for it",
    over=partial(exports, of=conjugated_arrays, by=owners),
    sentence="A conjugate view is exported with its values, or refused with a BufferError.",
)(view_is_exported)


@check(
    "producer.description",
    DATA,
    HEADER + ": DLPackVersion, DLPACK_FLAG_BITMASK_*, DLDevice",
    over=every_export,
)
def description(lib: Library, make: Make, values: Any, export: Export) -> None:
    """An export has a released DLPack version, no flag but READ_ONLY and IS_COPIED, and device id 0
    on the host."""
    _, held = exported(make, export)
    found = held.fields()
    expect(found["version"] in structs.RELEASED, f"version {found['version']}")
    expect(not found["flags"] & ~3, f"flags are {found['flags']:#x}")
    expect(found["device"][0] != 1 or found["device"][1] == 0, f"the device is {found['device']}")


@check(
    "producer.strides-present",
    DEVIATION,
    HEADER + ": DLTensor.strides; dmlc/dlpack#177",
    over=every_export,
)
def strides_present(lib: Library, make: Make, values: Any, export: Export) -> None:
    """An export of version 1.2 or later has strides, unless there are no dimensions."""
    _, held = exported(make, export)
    found = held.fields()
    if found["version"] in (None, "1.0", "1.1"):
        raise NotApplicable("exports no such version")
    known = found["strides"] is not None or not held.tensor.ndim
    expect(known, f"version {found['version']} without strides")


@check(
    "producer.address",
    DATA,
    HEADER + ": DLTensor.data, DLTensor.byte_offset",
    over=partial(exports, by=without_copies),
)
def address(lib: Library, make: Make, values: Any, export: Export) -> None:
    """`data` plus byte_offset is where the library says that the first element is."""
    address_of = lib.optional("address")
    array, held = exported(make, export)
    expected = address_of(array)
    if held.start != expected and may_copy(lib, array, held):
        raise Allowed("copies")
    expect(
        held.start == expected,
        f"data + byte_offset is {held.start:#x}, the array is at {expected:#x}",
    )


@check(
    "producer.shares",
    DATA,
    ARRAY_API + ": copy=None copies only where it must; DLPACK_FLAG_BITMASK_IS_COPIED",
    over=partial(exports, by=without_copies),
)
def shares(lib: Library, make: Make, values: Any, export: Export) -> None:
    """Two exports of an array are of the same memory, or else have IS_COPIED."""
    array, first = exported(make, export)
    with suppress(Exception, NotApplicable):
        lib.versioned(array, copy=True)  # its flag is that of this copy only
    second = export(array)
    if first.start != second.start and may_copy(lib, array, first):
        raise Allowed("copies")
    expect(first.start == second.start, f"they are at {first.start:#x} and {second.start:#x}")
    expect(not (second.flags or 0) & structs.IS_COPIED, "they have IS_COPIED")
    expect_held(second, values, "the second one")


# ---- element types ----------------------------------------------------------------------------


def typed_exports(lib: Library) -> Iterator[tuple[Any, ...]]:
    """Of an array, and of views: (name, function that makes the view, its values, export); of one
    without dimensions there is no function."""
    found = {"an array": lambda x: x, **(VIEWS if lib.has_rank(2) else {})}
    found |= {"without dimensions": lambda x: flat(x)[0]} if lib.has_rank(0) else {}
    for (name, of), (way, export) in itertools.product(found.items(), [*owners(lib)]):
        functions = {"an array": of, "without dimensions": None, **lib.views}
        if name in functions:
            yield f"{name}, {way}", functions[name], of, export


def dtype_is_exported(lib: Library, function: Any, of: Any, export: Export, dtype: str) -> None:
    values = in_shape(sample(dtype), lib.shape)
    with needed(f"exports no {dtype}"):
        array = function(lib.make(values, dtype)) if function else lib.make(of(values), dtype)
        if (made := lib.values(array)) != of(values):
            raise NotApplicable(f"makes {made} of these values")
    with allowed(BufferError):
        held = export(array)
    code, bits, _ = FORMATS[dtype]
    found = held.tensor.code, held.tensor.bits, held.tensor.lanes
    expect(found == (code, bits, 1), f"{dtype} has {(code, bits, 1)}, and {found} was exported")
    expect_held(held, of(values))


for _name in DTYPES:
    check(
        f"dtype.export-{_name}",
        DATA,
        HEADER + ": DLDataTypeCode, DLDataType",
        over=typed_exports,
        sentence=f"{_name} is exported with its code and bits, and its values.",
    )(partial(dtype_is_exported, dtype=_name))


# ---- versions ---------------------------------------------------------------------------------


def expect_capsule(found: Any, name: str, values: Any) -> None:
    expect(type(found).__name__ == "PyCapsule", f"it returned {type(found).__name__}")
    given = structs.capsule_name(found)
    expect(given == name, f"the name is {given!r}")
    held = Held(found)
    version = held.fields()["version"]
    expect(version in structs.RELEASED, f"it is of version {version}")
    expect_held(held, values)


def asked(
    *versions: Any, of: Callable[[Library], Any] = all_arrays
) -> Callable[[Library], Iterator[tuple[Any, ...]]]:
    """Each array with each max_version, with () without one, and with more keywords."""
    sets = [
        {**more, **({} if version == () else {"max_version": version})}
        for version in versions
        for more in REQUESTS
    ]
    return lambda lib: beside(of(lib), sets)


@check("versions.old-is-legacy", ERROR, ARRAY_API + ": max_version", over=asked((0, 8), None, ()))
def old_is_legacy(lib: Library, make: Make, values: Any, keywords: dict[str, Any]) -> None:
    """Without max_version, and with None or (0, 8), `__dlpack__` returns a capsule named
    'dltensor', or raises a BufferError."""
    array = make()
    again(lib, array)
    with allowed(BufferError):
        found = lib.export_or_skip(array, **keywords)
    expect_capsule(found, "dltensor", values)


@check(
    "versions.one-is-versioned",
    DEVIATION,
    ARRAY_API + ": max_version (recommended)",
    over=asked(*((1, minor) for minor in (0, 1, 2, 3, 99)), (2, 0)),
)
def one_is_versioned(lib: Library, make: Make, values: Any, keywords: dict[str, Any]) -> None:
    """max_version=(1, 0) or later gives a versioned capsule, of a released DLPack version."""
    array = make()
    with allowed(BufferError):
        lib.export_or_skip(array, **{**keywords, "max_version": (1, 3)})
    capsule = lib.export_or_skip(array, **keywords)
    expect_capsule(capsule, "dltensor_versioned", values)


def described(tensor: structs.Tensor) -> dict[str, Any]:
    """What is the same in every description of the same memory. No elements may be anywhere."""
    shape = structs.numbers(tensor.shape, tensor.ndim) or []
    return {
        "start": (tensor.data or 0) + tensor.byte_offset if all(shape) else None,
        "device": (tensor.device_type, tensor.device_id),
        "dtype": (tensor.code, tensor.bits, tensor.lanes),
        "shape": shape,
    }


# ---- streams ----------------------------------------------------------------------------------


@check(
    "streams.none", ERROR, ARRAY_API + ": stream", over=partial(exports, of=all_arrays, by=capsules)
)
def stream_none(lib: Library, make: Make, values: Any, form: Callable[..., Any]) -> None:
    """stream=None is accepted for data on the host."""
    array = make()
    with allowed(BufferError):
        form(array)
    try:
        form(array, stream=None)
    except (Exception, NotApplicable) as error:
        raise Failed(told(error)) from error


@check("streams.host-has-none", DEVIATION, ARRAY_API + ": stream")
def host_has_none(lib: Library) -> None:
    """A stream for data on the host is refused: only None is valid there."""
    array = lib.make()
    held = Held(lib.either(array))
    if held.tensor.device_type != 1:
        raise NotApplicable("its arrays are not on the host")
    with allowed(words=""):
        lib.export(array, stream=7)
    raise Failed("stream=7 was accepted")


# ---- ownership --------------------------------------------------------------------------------


@check(
    "ownership.export-keeps-memory",
    MEMORY,
    PYTHON + ": the consumer renames the capsule; dmlc/dlpack#51",
    over=partial(exports, of=all_arrays, by=owners_and_capsules),
)
def export_keeps_memory(lib: Library, make: Make, values: Any, export: Any) -> None:
    """A capsule, and the tensor from it, keep the memory alive when the array is gone."""
    array = make()
    with allowed(BufferError):
        found = export(array)
    del array
    others = bustle(lib, values)
    held = found if isinstance(found, Held) else Held(found)
    expect_held(held, values, "after the array was deleted the export")
    held.release()
    del others


def pairs_of_exports(lib: Library) -> Iterator[tuple[Any, ...]]:
    for (one, first), (other, second) in itertools.product([*owners(lib)], repeat=2):
        yield f"{one}, and {other}", first, second


@check("ownership.exports-are-apart", MEMORY, PYTHON, over=pairs_of_exports)
def exports_are_apart(lib: Library, one: Export, other: Export) -> None:
    """Releasing one export leaves another one, and the array, as they were."""
    for outlives in (True, False):
        array = lib.make()
        first, second = one(array), other(array)
        if not outlives:
            del array
        first.release()
        others = noise(lib)
        expect_held(second, lib.rows, "the other one")
        second.release()
        if outlives and hasattr(lib.source, "values"):
            found = lib.values(array)
            expect(found == lib.rows, f"the array has {found}")
        del others


def leaving(lib: Library) -> Iterator[tuple[str, Make, Any]]:
    """The arrays, other than those that were taken, whose producer is the suite, and is kept."""
    return (one for one in all_arrays(lib) if "taken" not in one[0] or "its own" in one[0])


COUNT = 3 * 21845


def big(lib: Library) -> Any:
    """COUNT elements in a shape like the library's: images have at most a few channels."""
    ndim = len(lib.shape)
    shape = (*lib.shape[: ndim - 2], COUNT // 3, 3) if ndim > 1 else (COUNT,)
    return in_shape((float(i % 100) for i in range(COUNT)), shape)


@check(
    "ownership.released",
    MEMORY,
    HEADER + ": DLManagedTensor.deleter; apache/mahout#888",
    over=lambda lib: (*ways(lib), *(one for one in owners(lib) if one[0].endswith("copy=True"))),
)
def released(lib: Library, export: Export) -> None:
    """The deleter gives everything back, also the memory of large arrays."""
    rows = big(lib)
    with needed("has no such array"):
        lib.make(rows)

    def step() -> None:
        export(lib.make(rows)).release()

    expect_no_growth(step, lib.itemsize * COUNT, "exports released")


@check(
    "ownership.small-exports",
    MEMORY,
    HEADER + ": DLManagedTensor.deleter",
    over=partial(exports, of=leaving, by=owners_and_capsules),
)
def small_exports(lib: Library, make: Make, values: Any, export: Any) -> None:
    """Released exports, capsules that nobody consumed, and calls of `__dlpack_device__` leave
    nothing behind."""

    def step() -> None:
        array = make()
        if hasattr(array, "__dlpack_device__"):
            array.__dlpack_device__()
        with suppress(BufferError):
            export(array)  # Held releases what it has

    expect_no_leak(step, "exports", lib.make)


#: Keywords that `__dlpack__` may or must refuse.
REFUSED = (
    ("stream", 7),
    ("dl_device", (12, 0)),
    ("dl_device", 1),
    ("max_version", (0, 1)),
    ("max_version", 1),
    ("copy", "no such value"),
    ("of_the_next_standard", 1),
)


def refused_exports(lib: Library) -> Iterator[tuple[Any, ...]]:
    """Each array, with each of them, and beside other keywords."""
    others: tuple[dict[str, Any], ...] = (*COPIES, {"max_version": (1, 3)})
    sets = [*others, *({**more, key: value} for more in others for key, value in REFUSED)]
    return beside(leaving(lib), sets)


@check("ownership.refused-exports", MEMORY, PYTHON + ": BufferError", over=refused_exports)
def refused_leave_nothing(lib: Library, make: Make, values: Any, refused: dict[str, Any]) -> None:
    """An export that is refused leaves the array as it was, and nothing behind."""
    array = make()
    before = again(lib, array)
    for _ in range(8):
        with suppress(Exception):
            lib.export(array, **refused)
            raise NotApplicable("it is not refused")
        if before:
            after = Held(lib.either(array))
            was, now = (
                {**described(one.tensor), "start": None, "flags": one.flags}
                for one in (before, after)
            )
            if was != now:
                raise Wrong(f"{was} became {now}")
            expect_held(after, values)

    def step() -> None:
        with suppress(Exception):
            lib.export(make(), **refused)

    expect_no_leak(step, "exports refused", lib.make)


@check(
    "ownership.deleter-any-thread",
    MEMORY,
    PYTHON + "; dmlc/dlpack#103, #129; CV-CUDA#298",
    over=every_export,
)
def deleter_any_thread(lib: Library, make: Make, values: Any, export: Export) -> None:
    """The deleter may be called on a thread that has no Python and no GIL."""
    held = [exported(make, export)[1] for _ in range(8)]
    gc.collect()
    for one, how in zip(held, itertools.cycle(("thread", "without the GIL"))):
        one.release(how)


@check(
    "ownership.deleter-keeps-error", ERROR, "dmlc/dlpack#130; numpy/numpy#32697", over=every_export
)
def deleter_keeps_error(lib: Library, make: Make, values: Any, export: Export) -> None:
    """The deleter leaves a pending exception as it is, and sets none."""
    expect(exported(make, export)[1].release("here"), "it set an exception")
    expect(exported(make, export)[1].release("pending"), "it was lost or replaced")


@check(
    "ownership.destructor-keeps-error",
    ERROR,
    "numpy/numpy#32697; jax-ml/jax#31271",
    over=partial(exports, of=leaving, by=requested),
)
def destructor_keeps_error(lib: Library, make: Make, values: Any, form: Callable[..., Any]) -> None:
    """A capsule that dies while an exception is pending keeps the exception, and frees its memory;
    a consumed one does not touch its tensor."""
    array = make()
    with allowed(BufferError):
        unused, used = [form(array)], [form(array)]
    held = Held(used[0])
    for dying in (unused, used):
        expect(_dlpack.drop(dying), "the exception was lost or replaced")
    others = noise()
    expect_held(held, values)
    held.release()
    del others
    expect_no_leak(lambda: _dlpack.drop([form(array)]), "capsules that died")


# ---- read-only --------------------------------------------------------------------------------


@check(
    "readonly.flag",
    DATA,
    HEADER + ": DLPACK_FLAG_BITMASK_READ_ONLY; data-apis/array-api#191",
    over=partial(exports, of=read_only_arrays, by=without_copies),
)
def read_only_flag(lib: Library, make: Make, values: Any, export: Export) -> None:
    """An array that must not be written to is exported with READ_ONLY, as a copy, or not at all."""
    array, held = exported(make, export)
    if held.flags is None:
        raise NotApplicable("a legacy capsule has no flags")
    if held.flags & structs.IS_COPIED and export(array).start != held.start:
        raise Allowed("copies")
    expect(held.flags & structs.READ_ONLY, f"flags are {held.flags:#x}")


@check(
    "readonly.legacy-is-refused",
    DEVIATION,
    ARRAY_API + ": BufferError; numpy/numpy#20742",
    over=asked((0, 8), None, (), of=read_only_arrays),
)
def read_only_legacy(lib: Library, make: Make, values: Any, keywords: dict[str, Any]) -> str:
    """An array that must not be written to has no legacy capsule, or one of a copy."""
    array = make()
    with due(BufferError):
        first, second = (Held(lib.export_or_skip(array, **keywords)) for _ in range(2))
    expect(first.start != second.start, "it has one, of its own memory")
    return "copies"


@check(
    "readonly.writable-has-no-flag",
    DEVIATION,
    HEADER + ": DLPACK_FLAG_BITMASK_READ_ONLY; numpy/numpy#28599",
    over=writable_exports,
)
def writable_has_no_flag(lib: Library, make: Make, values: Any, export: Export) -> None:
    """An array that can be written to is exported without READ_ONLY."""
    lib.optional("write")
    array = make()
    is_read_only = getattr(lib.source, "is_read_only", None)
    with suppress(Exception, NotApplicable):  # the flag of this one must not be kept for the next
        export(lib.optional("read_only")(array) if is_read_only else array)
    array = make() if is_read_only and is_read_only(array) else array  # locked in place
    with allowed(BufferError):
        held = export(array)
    if held.flags is None:
        raise NotApplicable("a legacy capsule has no flags")
    locked = held.flags & structs.READ_ONLY and not (is_read_only and is_read_only(array))
    expect(not locked, f"flags are {held.flags:#x}")


@check("readonly.write-is-seen", DATA, PYTHON + ": zero-copy", over=writable_exports)
def write_is_seen(lib: Library, make: Make, values: Any, export: Export) -> None:
    """A write to the array is seen through its export, unless that has IS_COPIED."""
    write = lib.optional("write")
    array, held = exported(make, export)
    with allowed(words="cannot be written to: "):
        write(array, lib.numbers(50.0))
    found = flat(held.values())[0]
    if found != 50.0 and may_copy(lib, array, held):
        raise Allowed("copies")
    expect(found == 50.0, f"the first element is {found}, and 50 was written")
