# SPDX-License-Identifier: Apache-2.0
"""What a library does with a correct producer."""

import itertools
import mmap
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import IntEnum
from functools import partial
from math import prod
from typing import Any

from dlpack_conformance import _dlpack, structs
from dlpack_conformance.elements import (
    DTYPES,
    FORMATS,
    ONLY_TAKEN,
    flat,
    in_shape,
    packed,
    row_major,
    sample,
)
from dlpack_conformance.leaks import expect_no_leak
from dlpack_conformance.outcomes import DATA, DEVIATION, ERROR, MEMORY
from dlpack_conformance.producers import CPU, CUDA, Offer, OfferByTable, OfferToTable
from dlpack_conformance.suite import (
    Allowed,
    Failed,
    Held,
    Library,
    NotApplicable,
    Refused,
    Unsafe,
    allowed,
    beside,
    check,
    crossed,
    expect,
    expect_error,
    needed,
    noise,
    told,
    with_keywords,
)

HEADER = "DLPack 1.3, dlpack.h"
PYTHON = "DLPack, Python specification"
ARRAY_API = "array API standard, from_dlpack"
PROTOCOL = "array API standard, __dlpack__"


#: Fields of an array whose strides are NULL, which versions before 1.2 have.
NO_STRIDES: dict[str, Any] = {"strides": None, "version": (1, 0)}

NAMES = {
    "": "a producer",  # of what the library requests
    "old": "a producer that takes stream only",
    "legacy": "a legacy capsule",
    "versioned": "a versioned capsule",
    "read-only": "a read-only capsule",
    "bare legacy": "a legacy capsule by itself",
    "bare versioned": "a versioned capsule by itself",
    "table": "a table",
    "own table": "by its own table",
}


class Form(str):
    """One of NAMES, and the keywords of from_dlpack with which it is taken."""

    keywords: dict[str, Any] = {}

    @property
    def copy(self) -> "bool | None":
        return self.keywords.get("copy")

    @property
    def asks(self) -> bool:
        """Whether for more than a producer of 2021 has: then it may be refused."""
        return any(value is not None for value in self.keywords.values())


def six(lib: Library, form: str = "", **fields: Any) -> Offer:
    """Six numbers in row-major order, of a type and in a shape that the library supports, from a
    producer of a form, one of NAMES."""
    if lib.dtype not in lib.dtypes:
        raise NotApplicable("has no element type of six values")
    keywords = getattr(form, "keywords", {})
    if form == "old":
        form = ""
        fields.setdefault("act", refusing_keywords)
    if form == "read-only":
        form = "versioned"
        fields.setdefault("flags", structs.READ_ONLY)
    fields.setdefault("shape", lib.shape)
    fields.setdefault("strides", tuple(row_major(fields["shape"] or ())))
    fields.setdefault("dtype", lib.dtype_fields)
    content = fields.pop("content", lib.packed(*range(6)))
    kinds = {"table": OfferByTable, "own table": OfferToTable}
    kind = kinds.get(form)
    name = form.removeprefix("bare ") or None
    offer = kind(content, **fields) if kind else Offer(content, form=name, **fields)
    offer.keywords, offer.bare = keywords, form.startswith("bare ")
    return offer


def compact(lib: Library, form: str = "", **fields: Any) -> Offer:
    """The same for a library that imports."""
    if form == "table" and not lib.takes_tables:
        raise NotApplicable("it reads no tables")
    if form != "own table":
        lib.optional("from_dlpack")
    return six(lib, form, **fields)


def own_device(lib: Library) -> Any:
    """That of its arrays, as its from_dlpack takes it; else the name that most libraries take."""
    with suppress(Exception, NotApplicable):
        return lib.make().device
    return "cpu"


def all_forms(lib: Library, *names: str) -> Iterator[tuple[str, Form]]:
    """Those of the given names, or else all but "", with keywords of from_dlpack."""
    device = {"device": own_device(lib)}
    copy: list[dict[str, Any]] = [{"copy": copy} for copy in (True, False)]
    none = [{"copy": None}, {"device": None}]
    sets = [{}, *none, *copy, device, *({**device, **more} for more in copy)]
    for keywords, name in itertools.product(sets, names or [*NAMES][1:]):
        form = Form(name)
        form.keywords = keywords
        alone = name == "own table" or name.startswith("bare ")  # takes no keywords
        if not (alone and keywords) and (name != "old" or form.copy is not None):
            yield with_keywords(NAMES[name], keywords), form


def forms(lib: Library, *names: str) -> Iterator[tuple[str, Form]]:
    """Those that it takes."""
    for name, form in all_forms(lib, *names):
        with suppress(Exception, NotApplicable):
            lib.take(compact(lib, form))
            yield name, form


def capsule_forms(lib: Library) -> Iterator[tuple[str, Form]]:
    return (found for found in forms(lib) if "table" not in found[1])


def flagged_forms(lib: Library) -> Iterator[tuple[str, Form]]:
    flagless = ("old", "legacy", "bare legacy", "read-only")
    return (found for found in forms(lib) if found[1] not in flagless)


def requests(lib: Library) -> Iterator[tuple[str, Form]]:
    """The forms in which it asks for a capsule itself: without keywords, even if that is refused,
    and with those that it takes."""
    yield NAMES[""], Form("")
    yield from (found for found in forms(lib, "") if found[1].keywords)


def read_only_forms(lib: Library) -> Iterator[tuple[Any, ...]]:
    """(name, form, flags)."""
    for name, form in flagged_forms(lib):
        yield f"{name}, READ_ONLY", form, structs.READ_ONLY
        yield f"{name}, READ_ONLY and IS_COPIED", form, structs.READ_ONLY | structs.IS_COPIED


def keeping(lib: Library, form: str) -> tuple[Offer, list[Any]]:
    """An offer that keeps its capsules in a list."""
    kept: list[Any] = []

    def answer(offer: Offer) -> Any:
        kept.append(offer.capsule())
        return kept[-1]

    return compact(lib, form, act=answer), kept


def taken(lib: Library, offer: Any, what: str = "a correct producer") -> Any:
    """The result of the library's import; Failed if it refuses."""
    try:
        return lib.take(offer)
    except Exception as error:
        raise Refused(f"{what} is refused: {told(error)}") from error


def expect_values(lib: Library, result: Any, values: Any, what: str = "it") -> None:
    """Checks that the result has these values, in this shape."""
    found = lib.values(result)
    expect(found == values, f"{what} has {found}, not {values}")


def expect_released(offer: Offer, what: str = "after the result is gone") -> None:
    """Checks that each managed tensor was released once: by its consumer, or by the destructor."""
    expect(offer.given, "__dlpack__ was not called")
    limit = time.monotonic() + 2  # some libraries release on a thread of their own
    while 0 in (counts := offer.counts()) and time.monotonic() < limit:
        time.sleep(0.01)
    if any(count != 1 for count in counts):
        raise Unsafe(f"{what}, the deleter was called {times(counts)}")


def times(counts: list[int]) -> str:
    """How often the deleters of one producer were called."""
    return f"{' and '.join(map(str, counts))} times"


def taken_and_released(lib: Library, offer: Offer) -> "str | None":
    """Imports it and drops the result, or is refused; in both cases it must be released once. The
    standard does not say who releases what its own table refuses."""
    said = ""
    try:
        lib.take_or_skip(offer, **offer.keywords)
    except Exception as error:
        said = f"refused: {told(error)}"
    if said and offer.to_table:
        expect(max(offer.counts()) <= 1, f"it was released {times(offer.counts())}")
    elif offer.given:  # and the exception, which refers to everything, is gone
        expect_released(offer, "after it was refused" if said else "after the result is gone")
    return said or None


def arrives(lib: Library, form: str = "", what: str = "a correct producer", **fields: Any) -> None:
    """What a producer of six numbers and these fields gives is taken, with its values."""
    expect_values(lib, taken(lib, compact(lib, form, **fields), what), lib.rows)


def is_left(lib: Library, result: Any, offer: Offer, capsule: Any) -> bool:
    """Whether a capsule was only read, for a copy, and left to the producer."""
    return not structs.capsule_name(capsule).startswith("used_") and copies(lib, result, offer)


def again(lib: Library, array: Any) -> "Held | None":
    """The export of what was taken, if it has one."""
    with suppress(Exception, NotApplicable):
        return Held(lib.either(array))
    return None


def every_again(lib: Library, array: Any) -> Iterator[Held]:
    """Its exports, legacy, versioned, and by the table."""
    for export in (lib.export, lib.versioned, lib.by_table):
        with suppress(Exception, NotApplicable):
            found = export(array)
            yield found if isinstance(found, Held) else Held(found)


def offer_address(offer: Offer) -> int:
    """Of the first element."""
    return _dlpack.address(offer.memories[-1]) + offer.start + offer.fields.get("byte_offset", 0)


def copies(lib: Library, result: Any, offer: Offer) -> bool:
    """Whether an array has other memory than its producer, as far as that can be seen."""
    address = getattr(lib.source, "address", None)
    if 1 in offer.counts() or (address and address(result) != offer_address(offer)):
        return True
    memory = offer.memories[-1]
    memory[: lib.itemsize] = lib.packed(50.0)
    found = flat(lib.values(result))[0]
    memory[: lib.itemsize] = lib.packed(0.0)
    return address is None and found == 0.0


def passed(lib: Library, form: str, name: str, device: Any = CPU) -> list[Any]:
    """A keyword of `__dlpack__` in each call."""
    offer = compact(lib, form, device=device, act=raising(BufferError("no")))
    with suppress(Exception):
        lib.take(offer)
    return [call.get(name) for call in offer.asked]


# ---- the plain case ---------------------------------------------------------------------------


def sizes(lib: Library) -> Iterator[tuple[Any, ...]]:
    """Each form, of arrays of several sizes: (name, form, shape, numbers, device)."""
    found = [("a table", "table"), *requests(lib), *capsule_forms(lib)]
    many = (1,) * (min(lib.max_ndim, 8) - len(lib.shape)) + lib.shape
    large = lib.padded((1 << 12, 3), 1) if lib.max_ndim > 1 else (3 << 12,)
    enum = DeviceType.CPU, 0
    for shape, device in ((lib.shape, CPU), (lib.shape, enum), (many, CPU), (large, CPU)):
        numbers = lib.numbers([float(i % 100) for i in range(prod(shape))])
        for name, form in found:
            yield f"{name}, shape {shape}, device {device}", form, shape, numbers, device


DeviceType = IntEnum("DeviceType", {"CPU": 1})


@check("consumer.values", DATA, ARRAY_API, over=sizes)
def values_arrive(lib: Library, form: str, shape: Any, numbers: Any, device: Any) -> None:
    """The values and the shape of a producer arrive, also if its device type is an Enum; a library
    that reads tables uses its table."""
    before = _dlpack.table_calls()
    offer = compact(lib, form, shape=shape, content=packed(numbers, lib.dtype), device=device)
    result = taken(lib, offer)
    expect(lib.values(result) == in_shape(numbers, shape), "it has other values")
    if 1 not in offer.counts():  # or the memory is overwritten
        one = compact(lib, form, shape=lib.padded((1,), 1), data=offer_address(offer))
        expect(flat(lib.values(taken(lib, one))) == numbers[:1], "its first element is wrong")
    expect(form != "table" or _dlpack.table_calls() > before, "the table was not used")


@check("consumer.takes-keywords", ERROR, ARRAY_API, over=lambda lib: all_forms(lib, "versioned"))
def takes_keywords(lib: Library, form: Form) -> None:
    """copy=None and device=None are accepted; copy= and device= together, if each alone is."""
    for name, value in ((None, None), *form.keywords.items()):
        with allowed(() if value is None and name else Exception):
            lib.take_or_skip(compact(lib, "versioned"), **({name: value} if name else {}))
    with allowed((BufferError, ValueError) if form.copy is False else ()):
        expect_values(lib, lib.take(compact(lib, form)), lib.rows)


@check("consumer.keywords", ERROR, PROTOCOL)
def keywords_are_valid(lib: Library) -> None:
    """max_version is at most 1.x; dl_device is the producer's, the requested one or the host; copy
    is as requested, or False if the library itself copies; no call affects the next."""
    plain = passed(lib, "", "copy")
    if not plain:
        raise NotApplicable("__dlpack__ is not called")
    here = CPU
    with suppress(Exception, NotApplicable):
        here = tuple(map(int, lib.make().__dlpack_device__()))
    for (what, form), device in itertools.product(requests(lib), (CPU, CUDA)):
        wanted = (device, here, CPU) if form.keywords.get("device") is not None else (device,)
        for found in passed(lib, form, "copy", device):
            right = found is form.copy or found in plain or (form.copy and found is False)
            expect(right, f"{what}: copy={found!r} is passed")
        for name in ("dl_device", "max_version"):
            for found in passed(lib, form, name, device):
                pair: Any = found if isinstance(found, tuple) and len(found) == 2 else ()
                parts = tuple(getattr(part, "value", part) for part in pair)  # of an Enum
                right = pair and all(hasattr(part, "__index__") for part in parts)
                if right:
                    newest = structs.MAJOR, 99
                    right = parts in wanted if name == "dl_device" else (0, 0) <= parts <= newest
                expect(found is None or right, f"{what}: {name}={found!r} is passed")
        found = passed(lib, "", "copy")
        expect(found == plain, f"after {what}: copy= is passed as {found}, before as {plain}")


@check(
    "consumer.released-once",
    MEMORY,
    HEADER + ": DLManagedTensor.deleter, manager_ctx",
    over=lambda lib: beside(all_forms(lib), ({}, {"manager_ctx": False})),
)
def released_once(lib: Library, form: str, fields: Any) -> "str | None":
    """The deleter is called once, at the latest when the array is gone, or was refused; also if
    manager_ctx, which is the producer's own, is NULL."""
    return taken_and_released(lib, compact(lib, form, **fields))


@check(
    "consumer.outlives-the-producer",
    MEMORY,
    PYTHON + ": the managed tensor keeps the data",
    over=forms,
)
def outlives_the_producer(lib: Library, form: str) -> None:
    """The memory is not released while the array is in use, though the producer's object and the
    capsule are gone."""
    offer = compact(lib, form)
    result = taken(lib, offer)
    del offer
    others = noise()
    expect_values(lib, result, lib.rows, "the array")
    del others


@check(
    "consumer.renames-the-capsule",
    MEMORY,
    PYTHON + ": the consumer must rename the capsule",
    over=capsule_forms,
)
def renames_the_capsule(lib: Library, form: str) -> "str | None":
    """A consumed capsule has 'used_' before its name: 'used_dltensor', or
    'used_dltensor_versioned'."""
    offer, kept = keeping(lib, form)
    result = taken(lib, offer)
    if is_left(lib, result, offer, kept[-1]) and offer.counts() == [0]:
        return "copies, and leaves the capsule to the producer"
    name = structs.capsule_name(kept[-1])
    before = "dltensor_versioned" if offer.given[-1].versioned else "dltensor"
    expect(name == f"used_{before}", f"{before!r} was accepted, and has the name {name!r}")
    return None


@check("consumer.keeps-error", ERROR, "dmlc/dlpack#130; numpy/numpy#32697", over=forms)
def keeps_error(lib: Library, form: str) -> None:
    """An array that dies while an exception is pending leaves it as it is."""
    kept = [taken(lib, compact(lib, form))]
    expect(_dlpack.drop(kept), "the exception was lost or replaced")


@check(
    "consumer.small-imports",
    MEMORY,
    HEADER + ": DLManagedTensor.deleter",
    over=lambda lib: crossed(
        (*forms(lib), *requests(lib)),
        (
            ("taken", {}),
            ("of an unknown type", {"dtype": (200, 32, 1)}),
            ("raising", {"act": raising(BufferError("no"))}),
            ("refusing keywords", {"act": refusing_keywords}),
            ("answering otherwise", {"act": lambda offer: bytearray(64)}),
            ("on another device", {"device": (999, 0)}),
            ("of no dimensions", {"shape": (), "strides": ()}),
            ("of many dimensions", {"shape": (1,) * (lib.max_ndim - len(lib.shape)) + lib.shape}),
            ("of NULL strides", NO_STRIDES),
        ),
    ),
)
def small_imports(lib: Library, form: str, changes: dict[str, Any]) -> None:
    """Imports leave nothing behind, not even a reference to the producer, when the arrays are gone,
    or were refused."""

    def step() -> None:
        device = divmod(1, 1)  # a new tuple each time
        with suppress(Exception):
            lib.take(compact(lib, form, **{"deleter": 5, "device": device, **changes}))

    if form == "own table":
        if "act" in changes:
            raise NotApplicable("it has no producer")
        with needed("who owns what it refuses is unspecified"):
            lib.take(compact(lib, form, **changes))
    expect_no_leak(step, "imports")


@check("consumer.write-is-seen", DATA, ARRAY_API + ": copy", over=forms)
def write_is_seen(lib: Library, form: str) -> None:
    """Unless it is a copy, the array shows writes to the producer's memory and, unless it is
    read-only, that memory shows writes to the array."""
    offer = compact(lib, form)
    result = taken(lib, offer)
    if copies(lib, result, offer):
        raise Allowed("copies")
    offer.memories[-1][: lib.itemsize] = lib.packed(50.0)
    found = flat(lib.values(result))[0]
    expect(found == 50.0, f"the first element is {found}, and 50 was written")
    if hasattr(lib.source, "write"):
        with allowed(words="cannot be written to: "):
            lib.source.write(result, lib.numbers(60.0))
        found = bytes(offer.memories[-1][: lib.itemsize])
        expect(found == lib.packed(60.0), "the producer's memory was not written to")


@check(
    "consumer.round-trip",
    MEMORY,
    HEADER + ": DLManagedTensor.deleter",
    over=lambda lib: crossed(forms(lib), (("exported", False), ("taken again", True))),
)
def round_trip(lib: Library, form: str, takes: bool) -> None:
    """An imported array is exported, and imported again, with the same values. The memory is kept
    until all are gone, and released once."""
    offer = compact(lib, form)
    result = taken(lib, offer)
    lib.expect_own(result)
    if takes and not hasattr(result, "__dlpack__"):
        raise NotApplicable("its arrays have no __dlpack__")
    with allowed(BufferError):
        held = lib.take(result) if takes else Held(lib.either(result))
    del result
    others = noise()
    found = lib.values(held) if takes else held.values()
    expect(found == lib.rows, f"it has {found}")
    del held, others
    expect_released(offer, "after all are gone")


@check("consumer.not-a-producer", DEVIATION, ARRAY_API)
def not_a_producer(lib: Library) -> None:
    """An object without `__dlpack__` raises TypeError or AttributeError."""
    lib.optional("from_dlpack")
    device_only = type("Device", (), {"__dlpack_device__": lambda self: (1, 0)})()
    for x in (object(), device_only):
        expect_error((TypeError, AttributeError), partial(lib.take, x), type(x).__name__)


# ---- what a managed tensor may have -----------------------------------------------------------


@check(
    "consumer.null-deleter",
    ERROR,
    HEADER + ": deleter 'can be NULL'; pytorch/pytorch#43166",
    over=forms,
)
def null_deleter(lib: Library, form: str) -> None:
    """A managed tensor without a deleter is imported: there is nothing to call."""
    arrives(lib, form, "a NULL deleter", deleter=False)
    empty, scalar = {"shape": lib.padded((0,), 1)}, {"shape": (), "strides": ()}
    for fields in ({"dtype": (200, 32, 1)}, {"device": (999, 0)}, empty, scalar):
        with suppress(Exception, NotApplicable):  # refused; copied by the consumer
            lib.take(compact(lib, form, deleter=False, **fields))


def equivalents(lib: Library) -> Iterator[tuple[Any, ...]]:
    """(name, form, usual fields, others that describe the same array)."""
    scalar = {"shape": (), "strides": ()}, {"shape": None, "strides": None, "ndim": 0}
    order = {"shape": lib.shape}, {"shape": lib.shape, **NO_STRIDES}
    cube: dict[str, Any] = {"shape": (2, 3, 4), "content": lib.packed(*range(24))}
    deep = cube, {**cube, **NO_STRIDES}
    row, column = ({"shape": shape} for shape in ((1, 6), (6, 1)))
    for name, form in forms(lib):
        yield f"NULL strides of a row-major array, {name}", form, *order
        yield f"NULL strides of three dimensions, {name}", form, *deep
        yield f"NULL shape and strides of no dimensions, {name}", form, *scalar
        for shape in (lib.padded((0,), 1), lib.padded((2, 0), 1)):
            empty = {"shape": shape}
            yield f"NULL data, shape {shape}, {name}", form, empty, {**empty, "data": 0}
        yield f"any stride of one row, {name}", form, row, {**row, "strides": (77, 1)}
        yield f"any stride of one column, {name}", form, column, {**column, "strides": (1, -77)}


@check("consumer.equivalents", ERROR, HEADER + ": DLTensor", over=equivalents)
def equivalent(lib: Library, form: str, usual: dict[str, Any], other: dict[str, Any]) -> None:
    """NULL where it is allowed, and any stride of a dimension of one element, are accepted if the
    usual description of the array is."""
    if not lib.has_rank(len(usual["shape"])):
        raise NotApplicable("has no such array")
    with allowed():
        found = lib.values(lib.take(compact(lib, form, **usual)))
    expect_values(lib, taken(lib, compact(lib, form, **other), "it"), found)


def one_byte(lib: Library) -> tuple[int, int, int]:
    """An element type of which 2^32 need little memory, if any."""
    for name in ("uint8", "int8"):
        if name in lib.dtypes:
            return (*FORMATS[name][:2], 1)
    raise NotApplicable("has no elements of a byte")


@check("consumer.long", DATA, HEADER + ": DLTensor.shape", over=forms)
def long(lib: Library, form: str) -> None:
    """A dimension of more than 32 bits is exported again as it was imported, or is refused."""
    lib.optional("make")
    shape = (0, (1 << 32) + 2)
    if not lib.has_rank(2):
        raise NotApplicable("has no such array")
    with allowed():
        offer = compact(lib, form, shape=shape, strides=(shape[1], 1), dtype=one_byte(lib))
        result = lib.take(offer)
    for held in every_again(lib, result):
        found = held.fields()["shape"]
        expect(found == [*shape], f"{[*shape]} became {found}")


@check("consumer.far", DATA, HEADER + ": DLTensor.strides", over=forms)
def far(lib: Library, form: Form) -> None:
    """Elements 2^32 bytes apart, or that far from `data`, arrive, or are refused."""
    if not lib.has_rank(1) or (form.keywords and form != "versioned"):
        raise NotApplicable("has no such array, or form")
    near, step = compact(lib, form), 1 << 32
    if copies(lib, taken(lib, near), near):
        raise NotApplicable("copies, which takes minutes")
    with needed("no address space"):
        memory = mmap.mmap(-1, step + mmap.PAGESIZE)
    memory[0], memory[step] = 1, 2
    fields = {"dtype": one_byte(lib), "data": _dlpack.address(memory)}
    two = compact(lib, form, shape=(2,), strides=(step,), **fields)
    one = compact(lib, form, shape=(1,), strides=(1,), byte_offset=step, **fields)
    for offer, values in ((two, [1, 2]), (one, [2])):
        with allowed():
            result = lib.take(offer)
        for held in every_again(lib, result):
            expect(held.values() == values, f"exported, {values} became {held.values()}")
        with allowed(words="taken, but not readable: "):
            found = lib.values(result)
        expect(found == values, f"{values} became {found}")


# ---- versions ---------------------------------------------------------------------------------


@check(
    "versions.takes-legacy",
    ERROR,
    PROTOCOL + ": max_version: 'the consumer must verify the version'; apache/arrow#51122",
)
def takes_legacy(lib: Library) -> None:
    """A producer of only legacy capsules is imported, or refused with a BufferError."""
    with allowed(BufferError):
        result = lib.take(compact(lib, "legacy"))
    expect_values(lib, result, lib.rows)


check(
    "versions.takes-versioned",
    DEVIATION,
    PROTOCOL + ": max_version",
    sentence="A producer of only versioned capsules is imported.",
)(partial(arrives, form="versioned", what="a versioned capsule"))


@check("versions.asks-for-one", DEVIATION, PROTOCOL + ": max_version", over=requests)
def asks_for_one(lib: Library, form: str) -> str:
    """The consumer asks for a versioned capsule: max_version of (1, 0) or later."""
    found = passed(lib, form, "max_version")
    expect(any(isinstance(one, tuple) and one >= (1, 0) for one in found), f"asked for {found}")
    return f"asked for {found}"


def versioned_forms(lib: Library) -> Iterator[tuple[str, Form]]:
    return forms(lib, "versioned", "bare versioned", "table")


def of_next_major(lib: Library, form: str, **fields: Any) -> Offer:
    """A crash if shape or strides are read: their places may hold something else."""
    offer = compact(lib, form, version=(2, 0), ndim=2, **fields)
    offer.fields |= {"shape": UNMAPPED, "strides": UNMAPPED}
    return offer


@check(
    "versions.refuses-next-major",
    MEMORY,
    HEADER + ": DLPackVersion: 'it is not safe to access any other field', but for the deleter",
    over=versioned_forms,
)
def refuses_next_major(lib: Library, form: str) -> None:
    """A tensor of version 2.0, of unknown layout, is refused, and released once by its deleter, if
    it has one."""
    expect(taken_and_released(lib, of_next_major(lib, form)), "version 2.0 was accepted")
    with suppress(Exception):
        lib.take(of_next_major(lib, form, deleter=False))


@check(
    "versions.next-minor",
    ERROR,
    HEADER + ": DLPackVersion, flags",
    over=lambda lib: beside(flagged_forms(lib), ({"version": (1, 99)}, {"flags": 1 << 40})),
)
def next_minor(lib: Library, form: str, fields: Any) -> None:
    """Version 1.99 is imported, and so are flags not defined yet, which are not exported again."""
    result = taken(lib, compact(lib, form, **fields), "the version or the flag")
    expect_values(lib, result, lib.rows)
    held = again(lib, result)
    version = held and held.fields()["version"]
    expect(version in structs.RELEASED, f"its export has version {version}")
    flags = (held and held.flags) or 0
    expect(not flags & ~3, f"flags of its export are {flags:#x}")


# ---- read-only --------------------------------------------------------------------------------


@check("readonly.is-kept", DATA, HEADER + ": DLPACK_FLAG_BITMASK_READ_ONLY", over=read_only_forms)
def read_only_is_kept(lib: Library, form: str, flags: int) -> None:
    """Memory that is READ_ONLY is not written to through the array."""
    write = lib.optional("write")
    offer, result = taken_read_only(lib, form, flags)
    with suppress(Exception):
        write(result, lib.numbers(50.0))
    expect_unwritten(offer)


def taken_read_only(lib: Library, form: str, flags: int, **fields: Any) -> tuple[Offer, Any]:
    """A producer of READ_ONLY memory, and the array, unless the library refuses it."""
    offer = compact(lib, form, flags=flags, **fields)
    with allowed():
        result = lib.take(offer)
    if offer.copies():
        raise Allowed("passes copy=True on")
    return offer, result


def expect_unwritten(offer: Offer) -> None:
    """Checks that its memory is as it was, or was overwritten by the deleter."""
    found, content = bytes(offer.memories[-1]), offer.content
    expect(found in (content, b"\xaa" * len(content)), "the memory was written to")


@check(
    "readonly.is-told", DEVIATION, HEADER + ": DLPACK_FLAG_BITMASK_READ_ONLY", over=read_only_forms
)
def read_only_is_told(lib: Library, form: str, flags: int) -> None:
    """An array on READ_ONLY memory says that it is read-only, or is a copy."""
    is_read_only = lib.optional("is_read_only")
    offer, result = taken_read_only(lib, form, flags)
    if copies(lib, result, offer):
        raise Allowed("copies")
    expect(is_read_only(result), "the array says that it can be written to")


@check(
    "readonly.by-its-flag-only",
    ERROR,
    HEADER + ": DLPACK_FLAG_BITMASK_READ_ONLY",
    after="dtype.import-others",
    over=flagged_forms,
)
def by_its_flag_only(lib: Library, form: str) -> None:
    """An array is read-only by its own READ_ONLY flag only, not by another flag or array."""
    is_read_only = lib.optional("is_read_only")
    if is_read_only(taken(lib, compact(lib, form))):
        raise NotApplicable("all arrays are read-only")
    with suppress(Exception, NotApplicable):  # refused
        lib.take(compact(lib, form, flags=structs.READ_ONLY, dtype=(99, 32, 1)))
    for flags in (0, structs.IS_COPIED, 1 << 40):
        with allowed(() if flags == 0 else Exception):
            result = lib.take(compact(lib, form, flags=flags))
        expect(not is_read_only(result), f"flags {flags:#x} make it read-only")


check(
    "readonly.is-taken",
    DEVIATION,
    ARRAY_API + ": read-only; data-apis/array-api#191; jax-ml/jax#40789",
    over=flagged_forms,
    sentence="READ_ONLY memory is imported, not refused.",
)(partial(arrives, what="READ_ONLY memory", flags=structs.READ_ONLY))


def passes_through(lib: Library, offer: Offer, array: Any) -> None:
    """Checks that an array on a producer's READ_ONLY memory is exported with that flag."""
    with allowed(BufferError):
        held = Held(lib.versioned(array))
    start, memory = held.start, offer.memories[-1]
    if not 0 <= start - _dlpack.address(memory) < len(memory):
        raise Allowed("copies")
    expect(held.struct.flags & structs.READ_ONLY, f"flags are {held.flags:#x}")


# ---- streams ----------------------------------------------------------------------------------


@check("streams.consumer-passes-none", DEVIATION, PROTOCOL + ": stream", over=requests)
def consumer_passes_none(lib: Library, form: str) -> None:
    """The consumer of data on the host passes no stream, or None."""
    found = passed(lib, form, "stream")
    expect(all(stream is None for stream in found), f"stream was {found}")


@check("streams.never-zero", MEMORY, PROTOCOL + ": stream: '0 is disallowed'", over=requests)
def never_zero(lib: Library, form: str) -> str:
    """The consumer of data on CUDA never passes stream 0, which would be ambiguous."""
    found = passed(lib, form, "stream", CUDA)
    expect(not any(one is not None and one == 0 for one in found), f"stream was {found}")
    return f"stream was {found}" if found else "did not ask"


UNMAPPED = 0x7FFF00000000  # reading there crashes


def device_forms(lib: Library) -> Iterator[tuple[str, Form]]:
    """Those in which memory of another device is not to be read, for a copy, say."""
    return (found for found in forms(lib) if found[1] == "old" or not found[1].asks)


@check(
    "streams.device-is-not-read",
    MEMORY,
    HEADER + ": DLDevice; " + ARRAY_API + ": BufferError",
    over=lambda lib: (
        (f"device {device}, {name}", form, device)
        for name, form in device_forms(lib)
        for device in ((999, 0), *([] if form.asks else [CUDA]))
    ),
)
def is_not_read(lib: Library, form: str, device: tuple[int, int]) -> str:
    """Memory of another device is refused, or described as such without being read, and released
    once."""
    taken_and_released(lib, compact(lib, form, device=device, data=UNMAPPED))
    with allowed(words=""):
        result = lib.take(compact(lib, form, device=device, data=UNMAPPED))
    return stays_on(lib, result, device)


def stays_on(lib: Library, result: Any, device: tuple[int, int]) -> str:
    """Checks that an array on unmapped memory of a device is exported as that device's, if at all,
    and that its values are not read, or not from the host."""
    notes = ["taken"]
    try:
        found = Held(lib.either(result)).fields()["device"]
    except (Exception, NotApplicable) as error:
        notes.append(f"not exported ({told(error)})")
    else:
        expect(found == [*device], f"of device {[*device]}, it is exported as device {found}")
    try:
        lib.values(result)
    except (Exception, NotApplicable) as error:
        notes.append(f"not read ({told(error)})")
    else:
        notes.append("read elsewhere")
    return ", ".join(notes)


# ---- element types ----------------------------------------------------------------------------


def read_back(lib: Library, offer: Offer) -> Any:
    """The values of what the library takes of a producer, unless it refuses it, or to read it."""
    with allowed():
        result = lib.take(offer)
    with allowed(words="taken, but not readable: "):
        return lib.values(result)


def typed_cases(lib: Library) -> Iterator[tuple[str, str, str]]:
    return beside(forms(lib), ("compact", "a byte_offset", "gaps", "NULL strides"))


def dtype_is_taken(lib: Library, form: str, what: str, dtype: str) -> None:
    numbers = sample(dtype)
    content = packed(numbers, dtype)
    fields: Any = {"content": content, "dtype": (*FORMATS[dtype][:2], 1)}
    if what == "a byte_offset":
        before = packed(numbers[:1], dtype)
        fields |= {"content": before + content, "byte_offset": len(before)}
    elif what == "gaps":
        fields["content"] = packed([one for one in numbers for _ in range(2)], dtype)
        fields["strides"] = tuple(2 * stride for stride in row_major(lib.shape))
    elif what == "NULL strides":
        fields |= NO_STRIDES
    taken_and_released(lib, compact(lib, form, **fields))
    with allowed():
        result = lib.take(compact(lib, form, **fields))
    if held := again(lib, result):
        found = held.tensor.code, held.tensor.bits, held.tensor.lanes
        expect(found == fields["dtype"], f"exported again, {fields['dtype']} became {found}")
    with allowed(words="taken, but not readable: "):
        values = lib.values(result)
    expect(values == in_shape(numbers, lib.shape), f"{numbers} became {values}")
    if dtype == "bool":
        kinds = {type(value).__name__ for value in flat(values)}
        expect(all(kind.startswith("bool") for kind in kinds), f"they became {kinds}")


for _name in (*DTYPES, *ONLY_TAKEN):
    check(
        f"dtype.import-{_name}",
        DATA,
        HEADER + ": DLDataTypeCode, DLDataType",
        over=typed_cases,
        sentence=f"{_name} arrives with its values, and as that type, or is refused.",
    )(partial(dtype_is_taken, dtype=_name))


#: Types that the suite does not read: an opaque handle, float8, bcomplex, codes to come, and known
#: codes with other bits.
UNREAD = (
    *((3, 64), *((code, 8) for code in range(7, 15)), (18, 32), (99, 8), (99, 32)),
    *((6, 1), (6, 32), (1, 4), (4, 32), (2, 128), (0, 128), (5, 16)),
)


def unread_types(lib: Library) -> Iterator[tuple[Any, ...]]:
    for (name, form), (code, bits) in itertools.product([*forms(lib)], UNREAD):
        yield f"code {code}, {bits} bits, {name}", form, {"dtype": (code, bits, 1)}
    padded = {"dtype": (17, 4, 1), "flags": structs.SUBBYTE_PADDED}
    for name, form in flagged_forms(lib):
        yield f"float4 in a byte each, {name}", form, padded


@check("dtype.import-others", DATA, HEADER + ": DLDataTypeCode", over=unread_types)
def unread_are_taken(lib: Library, form: str, fields: dict[str, Any]) -> None:
    """A tensor of a rarer type is refused and released, or exported again with that type."""
    taken_and_released(lib, compact(lib, form, content=bytes(48), **fields))
    arrives(lib, form, "the next one")
    offer = compact(lib, form, content=bytes(48), **fields)
    with allowed():
        result = lib.take(offer)
    held = again(lib, result)
    if held is None:
        raise Allowed("taken, and not exported again")
    found = held.tensor.code, held.tensor.bits, held.tensor.lanes
    expect(found == fields["dtype"], f"{fields['dtype']} became {found}")
    flags = (held.flags or 0) & structs.SUBBYTE_PADDED
    is_copy = held.start != offer_address(offer)  # which may be packed
    expect(is_copy or flags == fields.get("flags", 0), "the flag of padded elements is lost")


@check(
    "dtype.import-int4",
    DATA,
    HEADER + ": DLDataType; DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED",
    over=forms,
)
def int4_is_taken(lib: Library, form: str) -> None:
    """Integers of four bits arrive with their values, two in a byte, or are refused."""
    taken_and_released(lib, compact(lib, form, content=b"\x01\x7e\x3b", dtype=(0, 4, 1)))
    found = read_back(lib, compact(lib, form, content=b"\x01\x7e\x3b", dtype=(0, 4, 1)))
    expect(flat(found) == [1, 0, -2, 7, -5, 3], f"[1, 0, -2, 7, -5, 3] became {flat(found)}")


@check("dtype.import-lanes", DATA, HEADER + ": DLDataType.lanes", over=forms)
def lanes_are_taken(lib: Library, form: str) -> None:
    """Elements of two lanes arrive with both, or are refused."""
    numbers = [*range(12)]  # for each element two
    code, bits, _ = lib.dtype_fields
    fields: Any = {"content": lib.packed(*numbers), "dtype": (code, bits, 2)}
    taken_and_released(lib, compact(lib, form, **fields))
    found = read_back(lib, compact(lib, form, **fields))
    # Two for each element, as another dimension, a pair, or whatever stands for two.
    if all(isinstance(one, (int, float)) for one in flat(found)):
        expect(flat(found) == numbers, f"{numbers} in pairs became {found}")


# ---- failure ----------------------------------------------------------------------------------


class OwnError(Exception):
    """What a producer raises."""


def raising(error: BaseException, always: bool = True) -> Callable[[Offer], Any]:
    """The answer of a producer that raises: always, or only if it gets more than a stream."""

    def answer(offer: Offer) -> Any:
        if always or offer.asked[-1].keys() - {"stream"}:
            raise type(error)(*error.args)  # a new one: its traceback refers to everything
        return offer.capsule()

    return answer


def raising_at_last(error: BaseException) -> Callable[[Offer], Any]:
    """The answer of a producer that takes a stream only, and raises."""

    def answer(offer: Offer) -> Any:
        refusing_keywords(offer)
        raise type(error)(*error.args)

    return answer


def error_passes(lib: Library, form: str, when: str, kind: type[BaseException]) -> None:
    error, always = kind("by the producer"), when == "always"
    last = when == "after a TypeError"
    offer = compact(lib, form, act=raising_at_last(error) if last else raising(error, always))
    try:
        lib.take(offer)
    except kind as found:
        expect("by the producer" in str(found), f"another one was raised: {told(found)}")
    except Exception as found:
        if last and all(call.keys() - {"stream"} for call in offer.asked):
            raise NotApplicable("makes no call without keywords") from found
        raise Failed(f"{kind.__name__} became {told(found)}") from found
    else:
        if not always and not any(call.keys() - {"stream"} for call in offer.asked):
            raise NotApplicable("passes no keywords")
        raise Failed(f"{kind.__name__} was swallowed")


for _name, _kind in {
    "failure.buffererror-passes": BufferError,
    "failure.any-error-passes": OwnError,
    "failure.interrupt-passes": KeyboardInterrupt,  # no Exception, so that nobody swallows it
}.items():
    check(
        _name,
        ERROR,
        ARRAY_API + ": 'must propagate'",
        over=lambda lib: beside(requests(lib), ("always", "for the keywords", "after a TypeError")),
        sentence=f"A producer's {_kind.__name__} reaches the caller; no other call hides it.",
    )(partial(error_passes, kind=_kind))


@check(
    "failure.typeerror-is-told",
    ERROR,
    ARRAY_API + ": max_version: 'except TypeError'; IntelPython/dpctl#1789",
    over=requests,
)
def typeerror_is_told(lib: Library, form: Form) -> None:
    """A TypeError from inside a producer reaches the caller with its message, though the consumer
    may ask again without keywords first."""
    offer = compact(lib, form, act=raising(TypeError("inside of the producer")))
    kind = Exception if form.asks else TypeError
    error = expect_error(kind, lambda: lib.take(offer), "TypeError in __dlpack__")
    chain: list[str] = []
    one: BaseException | None = error
    while one is not None and len(chain) < 8:
        chain.append(str(one))
        one = one.__cause__ or one.__context__
    expect(any("inside of the producer" in text for text in chain), f"it became {told(error)}")


@check(
    "failure.device-error-passes",
    ERROR,
    ARRAY_API,
    over=lambda lib: crossed(requests(lib), (("own", OwnError), ("a BufferError", BufferError))),
)
def device_error_passes(lib: Library, form: str, kind: type[Exception]) -> "str | None":
    """An exception of `__dlpack_device__` reaches the caller, if the method is called."""
    offer = compact(lib, form)
    called = []

    class Lost(Offer):
        def __dlpack_device__(self) -> Any:
            called.append(True)
            raise kind("no device")

    offer.__class__ = Lost
    try:
        lib.take(offer)
    except kind:
        return None
    except Exception as error:
        raise Failed(f"it became {told(error)}") from error
    expect(not called, "it was swallowed")
    return "__dlpack_device__ is not called"


def refusing_keywords(offer: Offer) -> Any:
    """The answer of a producer of 2021, which has made a capsule before it refuses."""
    capsule = offer.capsule()
    unknown = offer.asked[-1].keys() - {"stream"}
    if unknown:
        raise TypeError(f"__dlpack__() got an unexpected keyword argument {min(unknown)!r}")
    return capsule


def named(name: str, offer: Offer) -> Any:
    return offer.new("versioned" in name).capsule(name)


def wrong_answers(lib: Library) -> Iterator[tuple[Any, ...]]:
    answers: dict[str, Callable[[Offer], Any]] = {
        "None": lambda offer: None,
        "a number": lambda offer: 1 << 20,
        "the capsule of a table": lambda offer: _dlpack.table_capsule(_dlpack.table()),
        "a capsule with another name": partial(named, "dltensor_2"),
        "a versioned capsule with another name": partial(named, "dltensor_versioned_2"),
        "a capsule without a name": lambda offer: offer.new(False).capsule(None),
    }
    found = [*requests(lib), *forms(lib, "bare legacy", "bare versioned")]
    for (name, form), (what, act) in itertools.product(found, answers.items()):
        yield f"{what}, of {name}", form, act


@check("failure.another-answer", MEMORY, PYTHON + ": the capsule's name", over=wrong_answers)
def another_answer(lib: Library, form: str, act: Any) -> None:
    """A `__dlpack__` that returns anything but a capsule with one of the two names raises an error,
    and a capsule with another name is left to its owner."""
    offer = compact(lib, form, act=act)
    expect_error(Exception, lambda: lib.take(offer), "the answer")
    if offer.given:
        expect_released(offer, "after the error")


@check(
    "failure.used-capsule",
    MEMORY,
    PYTHON + ": a capsule is consumed once",
    over=lambda lib: (*requests(lib), *capsule_forms(lib)),
)
def used_capsule(lib: Library, form: str) -> None:
    """A capsule that was consumed already is refused."""
    kept: list[Any] = []

    def answer(offer: Offer) -> Any:
        kept[:] = kept or [offer.capsule()]
        return kept[0]

    offer = compact(lib, form, act=answer)
    first = lib.take(offer)
    if is_left(lib, first, offer, kept[0]):
        raise NotApplicable("copies, and leaves the capsule to the producer")
    expect_error(Exception, lambda: lib.take(offer), "a consumed capsule")
    expect_values(lib, first, lib.rows, "the array of the first exchange")
    del first
    kept.clear()
    expect_released(offer)


@check(
    "failure.stream-only-producer",
    ERROR,
    ARRAY_API + ": 'except TypeError' and the notes on max_version",
    over=requests,
)
def stream_only_producer(lib: Library, form: Form) -> None:
    """A producer of 2021, whose `__dlpack__` takes only stream, is imported; what it made
    before it refused a keyword is released."""
    taken_and_released(lib, compact(lib, form, act=refusing_keywords))

    class Old(Offer):
        def __dlpack__(self, *, stream: Any = None) -> Any:  # type: ignore[override]
            self.asked.append({"stream": stream})
            return self.capsule()

    offer = compact(lib, form)
    offer.__class__ = Old
    with allowed(Exception if form.asks else BufferError):  # it has legacy capsules only
        result = lib.take(offer)
    expect_values(lib, result, lib.rows)
    expect(offer.asked[-1]["stream"] is None, f"the stream is {offer.asked[-1]['stream']}")


@check(
    "failure.refused-with-no-error-pending",
    ERROR,
    "Python: code that runs with an exception pending may lose it; dmlc/dlpack#130",
    after="hostile.dimension-negative",
    over=lambda lib: beside(
        (one for one in (*requests(lib), *forms(lib)) if one[1] != "own table"),
        ({"shape": (-3, 2)}, {"dtype": (200, 32, 1)}, {"device": (999, 0)}, {"version": (2, 0)}),
    ),
)
def refused_with_no_error_pending(lib: Library, form: str, fields: dict[str, Any]) -> None:
    """The deleter of what is refused is called without an exception pending."""
    offer = compact(lib, form, **fields)
    with suppress(Exception):
        lib.take(offer)
        raise Allowed("taken")
    pending = [given.error_was_pending and not given.destroyed for given in offer.given]
    expect(not any(pending), "an exception was pending")
