# SPDX-License-Identifier: Apache-2.0
"""The definition of a check, and helpers for checks.

A check is a function of a `Library`. It returns if the library does what the sentence says, raises
`Failed` with what happened instead, or `NotApplicable` if the library lacks the feature.
"""

import gc
import importlib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from typing import Any

from dlpack_conformance import _dlpack, structs
from dlpack_conformance.crashes import shortened
from dlpack_conformance.elements import (
    DTYPES,
    FORMATS,
    KNOWN,
    USUAL,
    in_shape,
    nest,
    packed,
    read,
    row_major,
)
from dlpack_conformance.outcomes import DATA, ERROR, MEMORY, SECTIONS, SEVERITIES
from dlpack_conformance.producers import CPU, Offer


class Failed(BaseException):
    """The library does not do what the check requires. Not an Exception, since many checks catch
    every Exception of the library."""

    severity = ""  # that of the check


class Refused(Failed):
    """The library refuses what it should take: an error that is not due, whatever else the check is
    about."""

    severity = ERROR


class Wrong(Failed):
    """Data is described wrongly, though the check is about memory."""

    severity = DATA


class Unsafe(Failed):
    """Memory is not released once, is given twice, or is less than it seems."""

    severity = MEMORY


class NotApplicable(BaseException):
    """The library lacks the feature that is checked. Not an Exception either."""


class Allowed(BaseException):
    """The library takes a liberty that the rule leaves it: the check passes, with a note. Not an
    Exception either."""


@dataclass(frozen=True)
class Check:
    """One rule, and how to check whether a library follows it."""

    id: str  # "section.name": stays the same from release to release
    severity: str  # of a failure
    sentence: str  # what a library does that follows the rule
    clause: str  # the source of the rule
    function: Callable[["Library"], "str | None"] = field(repr=False)  # returns a note, or nothing
    after: str = ""  # another check: if that one crashes, so would this one

    @property
    def section(self) -> str:
        return self.id.partition(".")[0]


CHECKS: dict[str, Check] = {}

#: What yields the cases of a check: the name of each, and arguments.
Cases = Callable[["Library"], Iterable[tuple[Any, ...]]]


def check(
    name: str,
    severity: str,
    clause: str,
    *,
    after: str = "",
    over: "Cases | None" = None,
    sentence: str = "",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function as a check: of a library, or of each of several cases. Its docstring is
    the sentence."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        whole = function if over is None else partial(each, function, over)
        rule = sentence or " ".join((function.__doc__ or "").split())
        made = Check(name, severity, rule, clause, whole, after)
        if name in CHECKS or made.section not in SECTIONS or severity not in SEVERITIES:
            raise ValueError(f"{name}: a check with this name exists, or its section does not")
        CHECKS[name] = made
        return function

    return register


def all_checks() -> dict[str, Check]:
    """Every check, by section."""
    importlib.import_module("dlpack_conformance.checks")
    order = list(SECTIONS)
    return dict(sorted(CHECKS.items(), key=lambda item: order.index(item[1].section)))


def each(function: Callable[..., Any], cases: Cases, lib: "Library") -> "str | None":
    """Calls a function for each case. What one case lacks, or is free to do, ends only that one.
    NotApplicable if that is so of all. Nothing must be left of other uses after the first."""
    notes: dict[str, list[str]] = {}  # and the cases of each
    lacking = []
    for number, (name, *arguments) in enumerate(cases(lib)):
        if number == 1:
            lib.use()
        try:
            note = function(lib, *arguments) or ""
        except NotApplicable as error:
            lacking.append(f"{error} ({name})")
            continue
        except Allowed as error:
            note = str(error)
        except Failed as error:
            raise type(error)(f"{name}: {error}") from error
        except Exception as error:
            raise Refused(f"{name}: {told(error)}") from error
        notes.setdefault(note, []).append(name)
    if not notes:
        raise NotApplicable(lacking[0] if lacking else "it has no such case")
    return "; ".join(f"{note} ({shown(names)})" for note, names in notes.items() if note) or None


def with_keywords(name: str, keywords: dict[str, Any]) -> str:
    """The name of a case."""
    return ", ".join((name, *(f"{key}={value}" for key, value in keywords.items())))


def crossed(cases: Iterable[Any], others: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Each case with what each of others adds to it."""
    for (name, *case), (what, *more) in product([*cases], [*others]):
        yield f"{name}, {what}", *case, *more


def beside(cases: Iterable[Any], others: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Each case with each set of keywords, or each of other things."""
    for (name, *case), more in product([*cases], [*others]):
        said = with_keywords(name, more) if isinstance(more, dict) else f"{name}, {more}"
        yield said, *case, more


def shown(names: list[str]) -> str:
    """The first of them, and how many more there are."""
    return f"{names[0]}, and {len(names) - 1} more" if len(names) > 1 else names[0]


def expect(condition: Any, otherwise: str) -> None:
    if not condition:
        raise Failed(otherwise)


Kinds = type[BaseException] | tuple[type[BaseException], ...]


def expect_error(kinds: Kinds, function: Callable[[], Any], what: str) -> BaseException:
    """The exception of a call that must raise one of `kinds`."""
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    names = " or ".join(kind.__name__ for kind in kinds)
    try:
        function()
    except kinds as error:
        return error
    except Exception as error:
        raise Failed(f"{what}: {names} is due, and {told(error)} was raised") from error
    raise Failed(f"{what}: {names} is due, and nothing was raised")


@contextmanager
def allowed(kinds: Kinds = Exception, words: str = "refused: ") -> Iterator[None]:
    """The rule leaves it to the library to raise one of `kinds` in this block."""
    try:
        yield
    except kinds as error:
        raise Allowed(f"{words}{told(error)}") from None


@contextmanager
def due(kind: type[Exception]) -> Iterator[None]:
    """A library that raises in this block has to raise this."""
    with allowed(kind, ""):
        try:
            yield
        except kind:
            raise
        except Exception as error:
            raise Failed(f"a {kind.__name__} is due, and {told(error)} was raised") from error


@contextmanager
def needed(what: str) -> Iterator[None]:
    """A library that raises in this block lacks what the check needs."""
    try:
        yield
    except Exception as error:
        raise NotApplicable(f"{what}: {told(error)}") from error


def told(error: BaseException) -> str:
    """An exception in a line."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
    return f"{type(error).__name__}: {shortened(lines[0].strip())}".rstrip(": ")


# ---- a library --------------------------------------------------------------------------------


class Refusing:
    """A producer that raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU

    def __dlpack__(self, **keywords: Any) -> Any:
        raise self.error


class Library:
    """A library through its adapter, a module or any object: README.md says which names it has."""

    def __init__(self, source: Any, name: str) -> None:
        self.source, self.name = source, name

        def get(key: str, default: Any = None) -> Any:
            return getattr(source, key, default)

        self.title: str = get("title", name)
        self.distribution: str = get("distribution", name.partition(".")[0])
        self.min_ndim: int = get("min_ndim", 0)
        self.max_ndim: int = get("max_ndim", 8)
        self.forks: bool = get("forks", True)
        self.takes_tables: bool = get("takes_tables", False)
        self.dtypes: tuple[str, ...] = tuple(get("dtypes", DTYPES))
        self.views: dict[str, Callable[[Any], Any]] = get("views", {})
        self.deviations: dict[str, str] = get("deviations", {})
        if get("prepare"):
            source.prepare()
        self.shape = self.padded((2, 3) if self.max_ndim > 1 else (6,), 1)
        # Of the checks that are not about element types: bool has too few values.
        self.dtype = next((name for name in USUAL if name in self.dtypes), "float32")
        code, bits, _ = FORMATS[self.dtype]
        self.itemsize, self.dtype_fields = bits // 8, (code, bits, 1)
        self.rows = self.numbers(in_shape(map(float, range(6)), self.shape))

    def padded(self, sizes: Iterable[int], by: int) -> tuple[int, ...]:
        """Shape or strides with as many dimensions as the library's arrays have at least."""
        sizes = tuple(sizes)
        return (by,) * (self.min_ndim - len(sizes)) + sizes

    def has_rank(self, ndim: int) -> bool:
        """Whether its arrays can have so many dimensions."""
        return self.min_ndim <= ndim <= self.max_ndim and (ndim > 0 or self.max_ndim > 1)

    def version(self) -> str:
        try:
            return version(self.distribution)
        except PackageNotFoundError:
            return getattr(self.source, "__version__", "")

    def optional(self, name: str) -> Callable[..., Any]:
        function = getattr(self.source, name, None)
        if function is None:
            raise NotApplicable(f"the adapter has no {name}")
        return function

    # As a producer.

    def make(self, values: Any = None, dtype: str = "") -> Any:
        make = self.optional("make")
        if (dtype or self.dtype) not in self.dtypes:
            raise NotApplicable(f"no {dtype or self.dtype}")
        values = self.rows if values is None else values
        return make(values, dtype) if dtype else make(self.numbers(values), self.dtype)

    def numbers(self, values: Any) -> Any:
        """Whole numbers as `dtype` has them."""
        if "int" not in self.dtype:
            return values
        return [*map(self.numbers, values)] if isinstance(values, list) else int(values)

    def packed(self, *values: Any) -> bytes:
        """Whole numbers of `dtype` as they are in memory."""
        return packed(self.numbers([*values]), self.dtype)

    def export(self, array: Any, **keywords: Any) -> Any:
        # New tuples, so that it is seen if they are kept.
        keywords = {key: (*v,) if type(v) is tuple else v for key, v in keywords.items()}
        given = getattr(self.source, "to_dlpack", None)
        return given(array, **keywords) if given else array.__dlpack__(**keywords)

    def export_or_skip(self, array: Any, **keywords: Any) -> Any:
        """NotApplicable if its export has no such keyword."""
        return self.call_or_skip(partial(self.export, array), "takes no", keywords)

    def call_or_skip(
        self, function: Callable[..., Any], words: str, keywords: dict[str, Any]
    ) -> Any:
        """Calls it with keywords. A TypeError says that there is no such keyword if its message
        does, or if None for them is one too, and the call without them is not; otherwise it is the
        library's failure."""
        try:
            return function(**keywords)
        except TypeError as error:
            lacks = refuses(function, dict.fromkeys(keywords)) and not refuses(function, {})
            if not lacks and not names_keyword(error, keywords):
                raise
            raise NotApplicable(f"{words} {', '.join(keywords)}: {told(error)}") from error

    def versioned(self, array: Any, **keywords: Any) -> Any:
        """Its versioned capsule."""
        capsule = self.export_or_skip(array, max_version=(structs.MAJOR, 3), **keywords)
        if structs.capsule_name(capsule) != "dltensor_versioned":
            raise NotApplicable("exports legacy capsules only")
        return capsule

    def either(self, array: Any) -> Any:
        """Its versioned capsule, or else the legacy one. A TypeError is the failure of checks that
        ask for versioned ones."""
        try:
            return self.versioned(array)
        except (NotApplicable, TypeError):
            return self.export(array)

    def by_table(self, array: Any) -> "Held":
        """What its table gives; the exception of a refusal."""
        self.expect_own(array)
        status, taken, error = _dlpack.call_from_object(self.table(), array)
        raise_of_table(status, error)
        expect(taken is not None, "it returned 0 and no managed tensor")
        return Held(taken)

    # As a consumer.

    def take(self, x: Any, **keywords: Any) -> Any:
        if isinstance(x, Offer):
            keywords = {**x.keywords, **keywords}
            if x.to_table:
                return self.made_by_table(x.managed)
            if x.bare:
                return self.optional("from_capsule")(x.__dlpack__())
        return self.optional("from_dlpack")(x, **keywords)

    def use(self) -> None:
        """Lets it export and import read-only arrays, refuse exports, and a producer refuse it."""
        kind: dict[str, Any] = {"shape": self.shape, "dtype": self.dtype_fields}
        read_only = Offer(self.packed(*range(6)), form="versioned", flags=structs.READ_ONLY, **kind)
        for keywords in ({}, {"copy": True}, {"copy": False}):
            for producer in (Refusing(BufferError()), Refusing(TypeError("keyword")), read_only):
                with suppress(Exception, NotApplicable):
                    self.optional("from_dlpack")(producer, **keywords)
            with suppress(Exception, NotApplicable):
                self.export(self.make(), max_version=(1, 3), dl_device=(12, 0), **keywords)
            with suppress(Exception, NotApplicable):
                array = self.optional("read_only")(self.make())
                self.export(array, max_version=(1, 3), **keywords)

    def to_object(self, given: Any) -> Any:
        """Status, object and exception of its table's function for a managed tensor."""
        held = _dlpack.take(given.capsule())
        result = _dlpack.call_to_object(self.table(), held)
        if result[0]:
            held.forget()  # ownership after a failure is unspecified
        return result

    def made_by_table(self, given: Any) -> Any:
        """What its table makes of a managed tensor; the exception of a refusal."""
        status, made, error = self.to_object(given)
        raise_of_table(status, error)
        return made

    def take_or_skip(self, x: Any, **keywords: Any) -> Any:
        """NotApplicable if the library's own function has no such keyword."""
        return self.call_or_skip(partial(self.take, x), "from_dlpack takes no", keywords)

    def values(self, array: Any) -> Any:
        return self.optional("values")(array)

    def expect_own(self, array: Any) -> None:
        """NotApplicable if it is of another type than those that it makes: the functions of a table
        are only for objects of its type."""
        if not isinstance(array, type(self.make())):
            raise NotApplicable(f"what it takes is a {type(array).__name__}")

    def exchange_api(self) -> Any:
        """The capsule of the table of its arrays' type; None if there is none."""
        given = getattr(self.source, "exchange_api", None)
        return given() if given else structs.published_table(type(self.make()))

    def tables(self) -> list[int]:
        """The addresses of the table of its arrays' type, and of the older ones behind it."""
        capsule = self.exchange_api()
        if capsule is None:
            raise NotApplicable("its type has no exchange table")
        if type(capsule).__name__ != "PyCapsule":
            raise Failed(f"the attribute is {type(capsule).__name__}, not a capsule")
        return structs.tables_at(structs.address_in(capsule))

    def table(self) -> int:
        """The address of the newest table whose layout is known."""
        known = [at for at in self.tables() if structs.version_at(at).major == structs.MAJOR]
        if not known:
            raise NotApplicable("its type has no exchange table of a known layout")
        return known[0]


def raise_of_table(status: int, error: "BaseException | None") -> None:
    """The exception of a table's function; Refused if its status says otherwise."""
    if status and error is not None:
        raise error
    said = "without an exception" if error is None else f"and set {error!r}"
    if status or error is not None:
        raise Refused(f"it returned {status} {said}")


def names_keyword(error: TypeError, keywords: dict[str, Any]) -> bool:
    """Whether it says that one of the keywords is not known. "cannot copy" says nothing of one."""
    said = str(error)
    words = "|".join(("no keyword arguments", *keywords))
    return bool(keywords and "keyword" in said and re.search(rf"\b({words})\b", said))


def refuses(function: Callable[..., Any], keywords: dict[str, Any]) -> bool:
    """Whether a call raises a TypeError."""
    try:
        function(**keywords)
    except Exception as error:
        return isinstance(error, TypeError)
    return False


# ---- what is exported -------------------------------------------------------------------------


#: Device types: the host, pinned and managed memory, and oneAPI, as on a CPU.
READABLE = (1, 3, 11, 13, 14)


def dtype_of(tensor: structs.Tensor) -> str:
    """The name of an element type that the suite can read."""
    found = tensor.code, tensor.bits, tensor.lanes
    expect(found in KNOWN, f"unknown element type: code, bits and lanes are {found}")
    return KNOWN[found]


def values_in(tensor: structs.Tensor) -> Any:
    """The elements of a tensor in host memory as nested lists, by the rules of the standard."""
    if tensor.device_type not in READABLE:
        raise NotApplicable(f"memory of device type {tensor.device_type} is not read")
    ndim = tensor.ndim
    expect(0 <= ndim <= structs.MOST_DIMS, f"ndim is {ndim}")
    expect(ndim == 0 or tensor.shape, "shape is NULL")
    shape = structs.numbers(tensor.shape, ndim) or []
    strides = structs.numbers(tensor.strides, ndim) or row_major(shape)
    expect(all(n >= 0 for n in shape), f"shape is {shape}")
    return read((tensor.data or 0) + tensor.byte_offset, shape, strides, dtype_of(tensor))


class Held:
    """A managed tensor that the suite's own consumer holds, of a capsule or a table."""

    def __init__(self, given: Any) -> None:
        self.taken = given if isinstance(given, _dlpack.Taken) else _dlpack.take(given)
        self.struct = structs.managed_at(self.taken.address, self.taken.versioned)
        self.struct.owner = self.taken  # whoever has it, or its tensor, has the memory
        self.tensor = self.struct.tensor

    def values(self) -> Any:
        return values_in(self.tensor)

    def fields(self) -> dict[str, Any]:
        return structs.fields(self.struct)

    @property
    def flags(self) -> "int | None":
        """None if it is a legacy one."""
        return self.struct.flags if isinstance(self.struct, structs.Versioned) else None

    @property
    def start(self) -> int:
        """The address of the first element."""
        return (self.tensor.data or 0) + self.tensor.byte_offset

    def release(self, how: str = "here") -> bool:
        return self.taken.release(how)


def noise(lib: "Library | None" = None) -> list[Any]:
    """Allocations that reuse memory that was freed too early, by `lib` if it is given."""
    gc.collect()
    made = [bytearray(b"\xaa" * size) for size in (4, 8, 12, 16, 24, 32, 48, 64, 96, 128) * 40]
    return [*made, *(lib.make(nest(lambda index: 9.0, lib.shape)) for _ in range(8) if lib)]
