# SPDX-License-Identifier: Apache-2.0
"""The definition of a check, and helpers for checks.

A check is a function of a `Library`. It returns if the library does what the sentence says, raises
`Failed` with what happened instead, or `NotApplicable` if the library lacks the feature.
"""

import ctypes
import gc
import importlib
import re
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from dlpack_conformance import _dlpack, structs
from dlpack_conformance.crashes import shortened
from dlpack_conformance.inspector import table_capsule

# Severities, the worst first.
MEMORY = "memory-unsafe"  # a crash; use after free, a double free, or a leak
DATA = "wrong data"  # wrong values, or a write that is not visible, or visible where it must not be
ERROR = "wrong error"  # a missing error, or one of the wrong type
DEVIATION = "deviation"  # from a recommendation, or documented by the library
INVALID = "invalid input"  # what a library does with input on which the standard is silent
SEVERITIES = (MEMORY, DATA, ERROR, DEVIATION, INVALID)

# Outcomes, the worst first.
CRASHED, TIMED_OUT, FAILED = "crashed", "timed out", "failed"
DEVIATES, PASSED, SKIPPED = "deviates", "passed", "n/a"
BAD = (CRASHED, TIMED_OUT, FAILED)
OUTCOMES = (*BAD, DEVIATES, PASSED, SKIPPED)

SECTIONS = {
    "producer": "what __dlpack__ and __dlpack_device__ return",
    "consumer": "what from_dlpack does with a correct producer",
    "dtype": "element types, both ways",
    "layout": "strides, in every form",
    "offset": "byte_offset",
    "ownership": "who frees the memory, and when",
    "readonly": "memory that must not be written to",
    "copy": "copy= and dl_device=",
    "versions": "legacy and versioned capsules, and versions to come",
    "streams": "stream=",
    "table": "the exchange table, __dlpack_c_exchange_api__",
    "threads": "several threads at once",
    "hostile": "descriptions that no correct producer gives, on which the standard is silent",
    "failure": "errors, and what is left after one",
}


class Failed(BaseException):
    """The library does not do what the check requires. Not an Exception, since many checks catch
    every Exception of the library."""


class Refused(Failed):
    """The library refuses what it should take: an error that is not due, whatever else the check is
    about."""


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
    NotApplicable if that is so of all."""
    notes, lacking, checked = [], [], False
    for name, *arguments in cases(lib):
        try:
            note = function(lib, *arguments)
        except NotApplicable as error:
            lacking.append(f"{error} ({name})")
            continue
        except Allowed as error:
            note = str(error)
        except Failed as error:
            raise type(error)(f"{name}: {error}") from error
        except Exception as error:
            raise Refused(f"{name}: {told(error)}") from error
        checked = True
        notes += [f"{note} ({name})"] if note else []
    if not checked:
        raise NotApplicable(lacking[0] if lacking else "it has no such case")
    return "; ".join(notes) or None


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
        given = getattr(self.source, "to_dlpack", None)
        return given(array, **keywords) if given else array.__dlpack__(**keywords)

    def export_or_skip(self, array: Any, **keywords: Any) -> Any:
        """NotApplicable if its export has no such keyword."""
        return self.call_or_skip(partial(self.export, array), "takes no", keywords)

    def call_or_skip(
        self, function: Callable[..., Any], words: str, keywords: dict[str, Any]
    ) -> Any:
        """Calls it with keywords. A TypeError says that there is no such keyword if its message
        does, or if None in their place is one too; otherwise it is the library's failure."""
        try:
            return function(**keywords)
        except TypeError as error:
            if not names_keyword(error, keywords) and not lacks(function, keywords):
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
        status, taken, error = _dlpack.call_from_object(self.table(), array)
        if status:
            expect(error is not None, f"it returned {status} without an exception")
            raise error
        expect(taken is not None, "it returned 0 and no managed tensor")
        expect(error is None, f"it returned 0 and set {error!r}")
        return Held(taken)

    # As a consumer.

    def take(self, x: Any, **keywords: Any) -> Any:
        if getattr(x, "to_table", False) and not keywords:
            return self.made_by_table(x.managed)
        return self.optional("from_dlpack")(x, **keywords)

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
        if status:
            expect(error is not None, f"it returned {status} without an exception")
            raise error
        expect(error is None, f"it returned 0 and set {error!r}")
        return made

    def take_or_skip(self, x: Any, **keywords: Any) -> Any:
        """NotApplicable if the library's own function has no such keyword."""
        return self.call_or_skip(partial(self.take, x), "from_dlpack takes no", keywords)

    def values(self, array: Any) -> Any:
        return self.optional("values")(array)

    def exchange_api(self) -> Any:
        """The capsule of the table of its arrays' type; None if there is none."""
        given = getattr(self.source, "exchange_api", None)
        return given() if given else table_capsule(type(self.make()))

    def table(self) -> int:
        """The address of the table of its arrays' type."""
        capsule = self.exchange_api()
        if capsule is None:
            raise NotApplicable("its type has no exchange table")
        if type(capsule).__name__ != "PyCapsule":
            raise Failed(f"the attribute is {type(capsule).__name__}, not a capsule")
        return structs.address_in(capsule)


def names_keyword(error: TypeError, keywords: Iterable[str]) -> bool:
    """Whether it says that one of the keywords is not known. "cannot copy" says nothing of one."""
    said = str(error)
    return "keyword" in said and any(re.search(rf"\b{name}\b", said) for name in keywords)


def lacks(function: Callable[..., Any], keywords: Iterable[str]) -> bool:
    """Whether None for them, which means that they are not given, is a TypeError too."""
    try:
        function(**dict.fromkeys(keywords))
    except TypeError:
        return True
    except Exception:
        return False
    return False


# ---- element types ----------------------------------------------------------------------------

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


def dtype_of(tensor: structs.Tensor) -> str:
    """The name of an element type that the suite can read."""
    found = tensor.code, tensor.bits, tensor.lanes
    expect(found in KNOWN, f"unknown element type: code, bits and lanes are {found}")
    return KNOWN[found]


#: Device types: the host, pinned and managed memory, and oneAPI, as on a CPU.
READABLE = (1, 3, 11, 13, 14)


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


# ---- helpers for checks -----------------------------------------------------------------------


class Held:
    """A managed tensor that the suite's own consumer holds, of a capsule or a table."""

    def __init__(self, given: Any) -> None:
        self.taken = given if isinstance(given, _dlpack.Taken) else _dlpack.take(given)
        self.struct = structs.managed_at(self.taken.address, self.taken.versioned)
        self.tensor = self.struct.tensor

    def values(self) -> Any:
        return values_in(self.tensor)

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


def resident() -> int:
    """The resident memory of this process in bytes; the peak where the system does not report
    it."""
    if sys.platform == "win32":
        counters = (ctypes.c_size_t * 9)(72)  # a PROCESS_MEMORY_COUNTERS: first its size
        ctypes.WinDLL("psapi").GetProcessMemoryInfo(ctypes.c_void_p(-1), counters, 72)
        return counters[2]
    import resource

    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except FileNotFoundError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def growth(step: Callable[[], Any], count: int, most: float) -> int:
    """The bytes that are left behind after `count` steps: 0 if it is less than `most` in one of
    three attempts, since an allocator may keep some memory once, but not each time."""
    grown = 0
    for _ in range(3):
        gc.collect()
        before = resident()
        for _ in range(count):
            step()
        gc.collect()
        grown = resident() - before
        if grown < most:
            return 0
    return grown


def expect_no_leak(step: Callable[[], Any], what: str) -> None:
    """Checks that many steps, as many as there is time for, leave nothing behind: not even 32
    bytes each if one takes microseconds."""
    begun, count = time.perf_counter(), 0
    while count < 20_000 and time.perf_counter() - begun < 0.1:
        step()
        count += 1
    count = min(max(5 * count, 1000), 100_000)
    grown = growth(step, count, max(32 * count, 1 << 20))
    if grown:
        raise Failed(f"{what}: {count} left {grown >> 10} KiB behind, {grown // count} bytes each")


def expect_no_growth(step: Callable[[], Any], size: int, what: str) -> None:
    """Checks that `step`, which uses `size` bytes, frees them."""
    begun = time.perf_counter()
    for _ in range(8):
        step()
    times = 48 if time.perf_counter() - begun < 1 else 24
    grown = growth(step, times, size * times // 3)
    if grown:
        raise Failed(f"{what}: {times} times left {grown >> 10} KiB behind")
