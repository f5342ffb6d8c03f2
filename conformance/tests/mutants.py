# SPDX-License-Identifier: Apache-2.0
"""Broken libraries: for each check, the reference library with one defect that it must detect.

test_mutants.py runs each check on the reference library, where it must pass, and on its mutant,
where it must not.
"""

import copy
import ctypes
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from dlpack_conformance import _dlpack, structs
from dlpack_conformance.checks.hostile import FAULTS
from dlpack_conformance.checks.layouts import LAYOUTS
from dlpack_conformance.elements import DTYPES, FORMATS, row_major
from dlpack_conformance.producers import changed_table
from dlpack_conformance.suite import Library, all_checks
from dlpack_conformance.worker import result_of
from reference import CPU, Array, Reference

Mistake = dict[str, Any]  # names in Reference, and their replacements


# ---- mistakes ---------------------------------------------------------------------------------


def changed(found: dict[str, Any], changes: dict[str, Any], by: Any = None) -> dict[str, Any]:
    """Fields with some changes. A change may be a function of an array, or else of the fields."""
    by = found if by is None else by
    return found | {k: v(by) if callable(v) else v for k, v in changes.items()}


def fields(when: Callable[[Array, bool], bool] = lambda a, v: True, **changes: Any) -> Mistake:
    """Exports with other fields."""

    def broken(self: Reference, array: Array, versioned: bool, copied: bool) -> dict[str, Any]:
        found = Reference.fields(self, array, versioned, copied)
        if when(array, versioned):
            found = changed(found, changes, array)
        if not versioned:
            found = {k: v for k, v in found.items() if k not in ("flags", "version")}
        return found

    return {"fields": broken}


def viewing(**changes: Any) -> Mistake:
    """Views that lack something that the array has."""

    def broken(x: Array) -> Array:
        made = Reference.views["offset"](x)
        vars(made).update(changes)
        return made

    return {"views": {"offset": broken}}


def view(**changes: Any) -> Mistake:
    """Reads a description wrong. A change is a function of it."""
    return {"view": lambda self, found: changed(found, changes)}


def refuse(when: Callable[[dict[str, Any]], Any] = lambda v: True, **more: Any) -> Mistake:
    """Refuses what it should take, or refuses it with another error."""
    return {"refuse": lambda self, v: "it is refused" if when(v) else "", **more}


def unchecked(*rules: str) -> Mistake:
    """Omits checks."""
    return {"unchecked": frozenset(rules)}


def twice(self: Reference, held: Any, view: dict[str, Any]) -> Any:
    struct = structs.managed_at(held.address, held.versioned)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(struct.deleter)(held.address)
    return held


EARLY: Mistake = {"hold": lambda self, held, view: held.release()}
LEAK: Mistake = {"hold": lambda self, held, view: held.forget()}


LOSE: Mistake = {"drop": lambda self, held: held.forget()}  # when it refuses
WITHOUT_COPY: Mistake = {"keywords": lambda self, copy: {"max_version": (1, 3)}}
NO_OWNER: Mistake = {"owner": lambda self, array: None}
NO_GIL: Mistake = fields(deleter=2)
UNATTACHED: Mistake = fields(deleter=4)


def at(number: int) -> Callable[[Any], int]:
    return lambda array: array.data + number


def by_copy(when: Callable[[Array, bool], bool] = lambda a, v: True) -> Mistake:
    """Exports copies."""

    def broken(self: Reference, array: Array, versioned: bool, copied: bool = False) -> Any:
        chosen = self.copied(array) if when(array, versioned) else array
        self.kept.append(chosen)  # so that each has a different address
        return Reference.managed(self, chosen, versioned, copied)

    return {"managed": broken}


def export(**replaced: Any) -> Mistake:
    """`__dlpack__` as if it had been called with these keywords instead, where they were given."""

    def broken(self: Reference, array: Array, **keywords: Any) -> Any:
        changed = {k: replaced[k] for k in keywords if k in replaced and keywords[k] is not None}
        return Reference.dlpack(self, array, **{**keywords, **changed})

    return {"dlpack": broken}


def only_stream(self: Reference, array: Array, *, stream: Any = None) -> Any:
    return Reference.dlpack(self, array)


def value_error_of_legacy(
    self: Reference, array: Array, *, max_version: Any = None, **keywords: Any
) -> Any:
    try:
        return Reference.dlpack(self, array, max_version=max_version, **keywords)
    except BufferError as error:
        raise (BufferError if max_version else ValueError)(str(error)) from error


def any_keyword(self: Reference, array: Array, **keywords: Any) -> Any:
    known = {k: v for k, v in keywords.items() if k in ("max_version", "copy", "stream")}
    return Reference.dlpack(self, array, **known)


def read_only_ever_after(self: Reference, array: Array, versioned: bool, copied: bool) -> Any:
    self.kept += [1] * array.is_read_only
    found = Reference.fields(self, array, versioned, copied)
    return {**found, "flags": found["flags"] | bool(self.kept)} if versioned else found


def keeps_what_it_refuses(self: Reference, array: Array, **keywords: Any) -> Any:
    try:
        return Reference.dlpack(self, array, **keywords)
    except BufferError:
        self.kept.append(array)
        raise


def legacy_of_read_only(self: Reference, array: Array, **keywords: Any) -> Any:
    versioned = self.versioned(keywords.get("max_version"))
    return self.capsule(self.managed(array, versioned))


def refusing(keyword: str, known: Any, error: Exception) -> Mistake:
    """`__dlpack__` that raises for a keyword that is neither None nor `known`."""

    def broken(self: Reference, array: Array, **keywords: Any) -> Any:
        if keywords.get(keyword) not in (None, known):
            raise type(error)(*error.args)
        return Reference.dlpack(self, array, **keywords)

    return {"dlpack": broken}


TYPEERROR_FOR_COPIES = refusing("copy", False, TypeError("cannot copy"))
TYPEERROR_FOR_VERSIONS = refusing("max_version", None, TypeError("an int has no len()"))


def first_export_owns(self: Reference, array: Array) -> Any:
    """All exports of an array share the reference that the first has."""
    first = not hasattr(array, "exported")
    array.exported = True  # type: ignore[attr-defined]
    return array.keep if first else None


def renames_to_legacy(self: Reference, capsule: Any) -> Any:
    held = Reference.open(self, capsule)
    set_name(capsule, USED)
    return held


def overwrite(self: Reference, array: Array) -> Callable[[], None]:
    def broken() -> None:
        ctypes.memset(array.data, 0xAA, 8)

    return broken


def raises(self: Reference, array: Array) -> Callable[[], None]:
    def broken() -> None:
        raise ValueError("by the deleter")

    return broken


class _Peeked:
    """A tensor that was read without taking it."""

    def __init__(self, address: int, versioned: bool = False) -> None:
        self.address, self.versioned = address, versioned

    def release(self) -> None:
        pass

    def forget(self) -> None:
        pass


def peeks(self: Reference, capsule: Any) -> Any:
    """Reads a capsule, whatever its name is, without taking it."""
    versioned = structs.capsule_name(capsule).endswith("versioned")
    return _Peeked(structs.address_in(capsule), versioned)


def reads_only(self: Reference, x: Any, **keywords: Any) -> Any:
    """The capsule lives until it was read."""
    capsule = self.ask(x, None)
    return self.adopt(peeks(self, capsule))


def reads_and_keeps(self: Reference, x: Any, **keywords: Any) -> Any:
    """As long as the array, without a name that says so."""
    capsule = self.ask(x, None)
    made = self.adopt(peeks(self, capsule))
    made.keep = capsule
    return made


def used_too(self: Reference, capsule: Any) -> Any:
    if structs.capsule_name(capsule).startswith("used_"):
        return peeks(self, capsule)
    return _dlpack.take(capsule)


def by_prefix(self: Reference, capsule: Any) -> Any:
    if structs.capsule_name(capsule).startswith("dltensor"):
        return peeks(self, capsule)
    return _dlpack.take(capsule)


def slowly(self: Reference, capsule: Any) -> Any:
    """Checks the name and then takes the tensor: a race between threads."""
    seen = peeks(self, capsule)
    time.sleep(0.001)  # another thread runs
    return seen if structs.capsule_name(capsule).startswith("used_") else _dlpack.take(capsule)


def alone(self: Reference, x: Any, copy: Any) -> Any:
    """One thread at a time."""
    with lock:
        return Reference.ask(self, x, copy)


def keeps_producers(self: Reference, x: Any, copy: Any) -> Any:
    self.kept.append(x)
    return Reference.ask(self, x, copy)


def needs_context(self: Reference, held: Any, view: dict[str, Any]) -> Any:
    context = structs.managed_at(held.address, held.versioned).manager_ctx
    return held if context else held.forget()


lock = threading.Lock()
set_name = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", ctypes.pythonapi)
)


USED = b"used_dltensor"


def ask_of_object(self: Reference, x: Any, copy: Any) -> Any:
    if not hasattr(type(x), "__dlpack__"):
        raise RuntimeError("this is not a producer")
    return Reference.ask(self, x, copy)


def wrapped(*kinds: type[BaseException], into: type[Exception]) -> Mistake:
    def broken(self: Reference, x: Any, copy: Any) -> Any:
        try:
            return Reference.ask(self, x, copy)
        except kinds as error:
            said = type(error).__name__
        raise into(f"cannot import: {said}")

    return {"ask": broken}


def keeps_refusals(self: Reference, x: Any, copy: Any) -> Any:
    """An exception refers to the capsule that its producer made."""
    try:
        return x.__dlpack__(**self.keywords(copy))
    except TypeError as error:
        self.kept.append(error)
    return self.ask_again(x)


def retries(self: Reference, x: Any, copy: Any) -> Any:
    try:
        return Reference.ask(self, x, copy)
    except BufferError:
        return Reference.ask(self, x, None)


def keyword(**given: Any) -> Mistake:
    return {"keywords": lambda self, copy: {**Reference.keywords(self, copy), **given}}


def one_keyword(self: Reference, x: Any, **keywords: Any) -> Any:
    if len(keywords) > 1:
        raise ValueError("one of them, please")
    return Reference.from_dlpack(self, x, **keywords)


def copies_always(self: Reference, x: Any, **_: Any) -> Any:
    return self.copied(Reference.from_dlpack(self, x))


def copies_of_others(self: Reference, x: Any, *, device: Any = None, copy: Any = None) -> Any:
    result = Reference.from_dlpack(self, x, device=device, copy=copy)
    return result if isinstance(x, self.kind) else self.copied(result)


def by_table_of_its_own(**changes: Any) -> Mistake:
    """Its table's to_object reads a description wrong; the rest of the library does not."""

    def broken(self: Reference) -> int:
        def to_object(held: Any) -> Any:
            found = changed(handler.look(held), changes)
            if wrong := self.wrong(found):
                raise self.error(wrong)
            return self.array(held, found)

        handler = copy.copy(self)
        handler.unchecked = frozenset({"version"})
        handler.to_object = to_object  # type: ignore[method-assign]
        return _dlpack.handled_table(handler)

    return {"table": broken}


def remembers(self: Reference, array: Array) -> Any:
    """The values when it was taken."""
    return array.__dict__.get("remembered", None) or Reference.values(self, array)


def taken_and_remembered(self: Reference, held: Any, view: dict[str, Any]) -> Any:
    made = Reference.array(self, held, view)
    made.remembered = made.read()  # type: ignore[attr-defined]
    return made


# Tables.


def with_table(make: Callable[["Reference"], int]) -> Mistake:
    return {"table": make}


def in_table(**changes: Any) -> Mistake:
    """The table's from_object exports other fields."""

    def broken(self: Reference, x: Any) -> Any:
        if not isinstance(x, Array):
            raise TypeError("not an array of this library")
        found = changed(Reference.fields(self, x, True, False), changes, x)
        return _dlpack.Managed(True, x.keep, None, **found)

    return {"from_object": broken}


def hostile_maker(mode: str) -> Callable[[Reference], int]:
    def make(self: Reference) -> int:
        _dlpack.set_maker(mode)
        return _dlpack.table()

    return make


def endless(self: Reference) -> int:
    table = _dlpack.table()
    return changed_table(table, prev=table)


def new_table(self: Reference, values: Any, dtype: str) -> Array:
    self.publish(self.table())
    return Reference.make(self, values, dtype)


ROOM = (ctypes.c_int64 * 8)()


def borrows_in_one_place(self: Reference, x: Any) -> Any:
    """All descriptions have their shape in one place."""
    ROOM[: len(x.shape)] = x.shape
    shape = {"shape": ctypes.addressof(ROOM), "ndim": len(x.shape)}
    return _dlpack.Managed(True, None, None, **Reference.fields(self, x, True, False) | shape)


def keeps_borrowed(self: Reference, x: Any) -> Any:
    self.kept.append(x)
    return Reference.borrow(self, x)


def borrowed(**changes: Any) -> Mistake:
    def broken(self: Reference, x: Any) -> Any:
        found = changed(Reference.fields(self, x, True, False), changes, x)
        return _dlpack.Managed(True, None, None, **found)

    return {"borrow": broken}


def allocates(shape: Any = None) -> Mistake:
    def broken(self: Reference, prototype: int) -> Any:
        tensor = structs.Tensor.from_address(prototype)
        found = structs.numbers(tensor.shape, tensor.ndim) or []
        chosen = self.make([0.0] * 6, "float32")
        chosen.shape = tuple(shape or found)
        chosen.strides = tuple(row_major(chosen.shape))
        return self.managed(chosen, True)

    return {"allocate": broken}


def silent_allocator(self: Reference, prototype: int) -> Any:
    if structs.Tensor.from_address(prototype).device_type != 1:
        raise BufferError
    return Reference.allocate(self, prototype)


def swallows_table_errors(self: Reference, x: Any, *, device: Any = None, copy: Any = None) -> Any:
    try:
        return Reference.from_dlpack(self, x, device=device, copy=copy)
    except LookupError:
        pass
    raise RuntimeError("the table failed")


# Threads.


def not_at_once(name: str) -> Mistake:
    """A function that two threads must not be in."""
    function = getattr(Reference, name)
    inside: list[int] = []

    def broken(self: Reference, *arguments: Any, **keywords: Any) -> Any:
        if inside:
            raise RuntimeError("another thread is in here")
        inside.append(1)
        try:
            time.sleep(0.0005)
            return function(self, *arguments, **keywords)
        finally:
            inside.clear()

    return {name: broken}


# ---- check -> mistake -------------------------------------------------------------------------


def is_layout(name: str) -> Callable[[dict[str, Any]], bool]:
    """Whether a description is that of a layout."""
    wanted = LAYOUTS[name].fields

    def matches(found: dict[str, Any]) -> bool:
        strides = wanted["strides"]
        return tuple(found["shape"] or ()) == tuple(wanted["shape"] or ()) and found["strides"] == (
            None if strides is None else list(strides)
        )

    return matches


#: How a layout is misread: as row-major, or without its special property.
MISREAD: dict[str, Mistake] = {
    name: changes
    for names, changes in (
        (
            "transposed strided reversed broadcast broadcast-middle broadcast-last column "
            "eight-dimensions",
            {"strides": lambda v: row_major(v["shape"])},
        ),
        ("size-1 null-strides scalar unaligned misaligned", {"data": lambda v: v["data"] + 4}),
        (
            "empty empty-odd-strides empty-of-any-size",
            {"shape": lambda v: [1] * len(v["shape"]), "data": lambda v: v["data"] or id(v)},
        ),
    )
    for name in names.split()
}


def mistakes() -> dict[str, Mistake]:
    """A mistake for each check."""
    found: dict[str, Mistake] = {
        "producer.device": {"device": lambda self, array: (2, 0)},
        "producer.values": fields(lambda a, v: not v, data=at(4)),
        "producer.description": fields(flags=8),
        "producer.keywords": {"dlpack": only_stream},
        "producer.unknown-keyword": {"dlpack": any_keyword},
        "producer.strides-present": fields(strides=None),
        "producer.address": fields(data=at(4)),
        "producer.shares": by_copy(),
        "versions.one-is-versioned": {"versioned": lambda self, version: False},
        "versions.old-is-legacy": {"versioned": lambda self, version: version is not None},
        "streams.none": {"dlpack": lambda self, array: Reference.dlpack(self, array)},
        "streams.host-has-none": export(stream=None),
        "ownership.export-keeps-memory": {"capsule": lambda self, m: m.capsule(destructor=2)}
        | {"on_delete": overwrite},
        "ownership.refused-exports": {"dlpack": keeps_what_it_refuses},
        "ownership.exports-are-apart": {"owner": first_export_owns},
        "ownership.small-exports": {
            "owner": lambda self, array: self.kept.append(bytes(64)) or array.keep
        },
        "ownership.released": {"owner": lambda self, array: self.kept.append(array.keep)},
        "ownership.deleter-any-thread": UNATTACHED,
        "ownership.deleter-keeps-error": fields(deleter=3),
        "ownership.destructor-keeps-error": {"capsule": lambda self, m: m.capsule(destructor=3)},
        "readonly.flag": fields(flags=0),
        "readonly.legacy-is-refused": {"dlpack": legacy_of_read_only},
        "readonly.writable-has-no-flag": fields(flags=1),
        "readonly.write-is-seen": by_copy(),
        "layout.export": fields(lambda a, v: len(a.shape) == 1, strides=(1,)),
        "layout.export-conjugated": {"conjugated": lambda self, array: array},
        "offset.offset": view(byte_offset=lambda v: 0),
        "layout.views": viewing(keep=None),
        "consumer.values": view(data=lambda v: v["data"] + 4),
        "consumer.released-once": {"hold": twice},
        "consumer.outlives-the-producer": EARLY,
        "consumer.renames-the-capsule": {"open": renames_to_legacy},
        "consumer.write-is-seen": {"array": taken_and_remembered, "values": remembers},
        "consumer.round-trip": NO_OWNER,
        "consumer.small-imports": LEAK,
        "consumer.equivalents": refuse(lambda v: v["shape"] is None),
        "consumer.long": view(shape=lambda v: [n & 0xFFFFFFFF for n in v["shape"]]),
        "consumer.far": view(
            strides=lambda v: v["strides"] and [n & 0xFFFFFFFF for n in v["strides"]]
        ),
        "consumer.keeps-error": {
            "hold": lambda self, held, v: (
                held,
                _dlpack.Managed(True, 0, None).capsule(destructor=3),
            )
        },
        "consumer.not-a-producer": {"ask": ask_of_object},
        "consumer.null-deleter": refuse(lambda v: not v["deleter"]),
        "versions.takes-legacy": refuse(lambda v: v["version"] is None, error=ValueError),
        "versions.takes-versioned": refuse(lambda v: v["version"] is not None),
        "versions.asks-for-one": {"keywords": lambda self, copy: {}},
        "consumer.takes-keywords": {"from_dlpack": one_keyword},
        "consumer.keywords": {"keywords": lambda self, copy: {"max_version": [1, 3]}},
        "versions.refuses-next-major": unchecked("version"),
        "versions.next-minor": refuse(lambda v: v["flags"] > 7),
        "readonly.is-kept": view(flags=lambda v: 0),
        "readonly.is-told": {"is_read_only": lambda self, array: False},
        "readonly.by-its-flag-only": view(flags=lambda v: v["flags"] and 1),
        "readonly.views": viewing(is_read_only=False),
        "readonly.is-taken": refuse(lambda v: v["flags"] & 1),
        "readonly.passes-through": fields(flags=0),
        "streams.consumer-passes-none": keyword(stream=-1),
        "streams.never-zero": keyword(stream=0),
        "streams.device-is-not-read": unchecked("device"),
        "dtype.import-others": view(
            dtype=lambda v: (1, 8, 1) if v["dtype"][0] in (7, 10) else v["dtype"]
        ),
        "dtype.import-int4": view(dtype=lambda v: (0, 8, 1) if v["dtype"][1] == 4 else v["dtype"]),
        "dtype.import-lanes": view(dtype=lambda v: (*v["dtype"][:2], 1)),
        "failure.layouts": refuse(is_layout("reversed"), error=RuntimeError),
        "failure.buffererror-passes": wrapped(BufferError, into=RuntimeError),
        "failure.any-error-passes": wrapped(Exception, into=RuntimeError),
        "failure.interrupt-passes": wrapped(KeyboardInterrupt, into=BufferError),
        "failure.typeerror-is-told": wrapped(TypeError, into=TypeError),
        "failure.device-error-passes": {"ask_device": swallowing},
        "failure.another-answer": {"open": by_prefix} | unchecked(*ALL_RULES),
        "failure.used-capsule": {"open": used_too},
        "failure.stream-only-producer": {
            "ask_again": lambda self, x: x.__dlpack__(**self.keywords(None))
        },
        "failure.refused-with-no-error-pending": {
            "drop": lambda self, held: held.release("pending")
        },
        "copy.true-is-a-copy": export(copy=None),
        "copy.true-is-flagged": fields(flags=0),
        "copy.false-shares": export(copy=True),
        "copy.host-is-exported": refusing("dl_device", None, BufferError("there are no devices")),
        "copy.other-device": refusing("dl_device", CPU, TypeError("there is no such device")),
        "copy.import-own": {"from_dlpack": lambda self, x, **_: Reference.from_dlpack(self, x)},
        "copy.import-of-another": WITHOUT_COPY,
        "copy.import-is-passed-on": WITHOUT_COPY,
        "copy.import-other-device": {"check_device": lambda self, device: None},
        "copy.import-false-error": {"ask": retries},
        "table.is-a-capsule": {"publishes": "another_api"},
        "table.version": with_table(lambda self: changed_table(Reference.table(self), minor=7)),
        "table.functions": with_table(
            lambda self: changed_table(Reference.table(self), without="stream")
        ),
        "table.borrows": borrowed(data=at(4)),
        "table.borrow-owns-nothing": {"borrow": keeps_borrowed},
        "table.makes-an-array": view(data=lambda v: v["data"] + 4),
        "table.makes-nothing-of-the-next-major": by_table_of_its_own(version=(1, 3)),
        "table.allocates": allocates(shape=(3, 2)),
        "table.allocated-is-released": {
            "owner": lambda self, array: self.kept.append(array.keep) or array.keep
        },
        "table.allocates-without-the-gil": with_table(hostile_maker("attached")),
        "table.allocator-tells-errors": {"allocate": silent_allocator},
        "table.host-stream": {"stream": lambda self, kind, number: 5},
        "table.of-the-next-major": {"is_usable": lambda self, table: True},
        "table.error-passes": {"from_dlpack": swallows_table_errors},
        "table.of-the-type": {"owner_of_table": lambda self, x: x},
        "table.number-is-not-followed": {
            "table_of_number": lambda self, number: number if isinstance(number, int) else 0
        },
        "threads.export": not_at_once("dlpack"),
        "threads.import": not_at_once("adopt"),
        "threads.exchanges-meet": {"ask": alone},
        "threads.one-capsule": {"open": slowly},
        "threads.release": NO_GIL,
    }
    for name, (code, bits, _) in FORMATS.items():
        if name in DTYPES:
            found[f"dtype.export-{name}"] = fields(dtype=(code ^ 1, bits, 1))
        found[f"dtype.import-{name}"] = view(data=lambda v: v["data"] + v["dtype"][1] // 8)
    for name in LAYOUTS:
        found[f"layout.{name}"] = view(**MISREAD[name])
    for name in FAULTS:
        found[f"hostile.{name}"] = OVERLOOKED.get(name, unchecked(*RULES.get(name, ())))
    return found


def swallowing(self: Reference, x: Any) -> Any:
    try:
        return x.__dlpack_device__()
    except Exception:
        return CPU


#: The rules of Reference.wrong that reject a description.
RULES = {
    name: rules.split()
    for names, rules in (
        ("ndim-negative ndim-huge", "ndim"),
        ("shape-null", "shape"),
        ("dimension-negative", "dimension stride"),
        ("dimension-beside-zero", "dimension"),
        ("size-overflows size-is-huge", "size stride"),
        ("stride-overflows", "stride"),
        ("address-below-zero", "stride"),
        ("offset-overflows", "offset stride"),
        ("data-null", "data stride"),
        ("code-unknown bits-zero", "dtype"),
    )
    for name in names.split()
}
ALL_RULES = {rule for rules in RULES.values() for rule in rules} | {"version", "device"}
#: Mutants that read what must not be read.
OVERLOOKED: dict[str, Mistake] = {
    name: {"refuse": lambda self, v: ctypes.string_at(1, 4) and ""}
    for name in ("lanes-four", "device-unknown", "shape-null")
}


def library(check: str) -> Library:
    """The reference library with the mistake for a check; "" for none."""
    changes = mistakes()[check] if check else {}
    return Library(type("Mutant", (Reference,), changes)(), "reference")


# ---- the run ----------------------------------------------------------------------------------


def main() -> None:
    """A runner.Process, which is asked what checks find on the reference library, and on that with
    their mistake."""
    checks = all_checks()
    for line in sys.stdin:
        (name,) = json.loads(line)
        found = {
            kind: result_of(checks[name], library(mistake), 120)["outcome"]
            for kind, mistake in (("reference", ""), ("mutant", name))
        }
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
