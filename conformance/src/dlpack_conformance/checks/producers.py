"""What a library exports: fields, values, lifetimes."""

import gc
import itertools
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from dlpack_conformance import _dlpack, structs
from dlpack_conformance.inspector import inspect_capsule
from dlpack_conformance.suite import (
    DATA,
    DEVIATION,
    DTYPES,
    ERROR,
    FORMATS,
    MEMORY,
    Failed,
    Held,
    Library,
    NotApplicable,
    allowed,
    check,
    expect,
    expect_error,
    expect_no_growth,
    expect_no_leak,
    flat,
    needed,
    noise,
    row_major,
    sample,
    start_of,
    told,
)

HEADER = "DLPack 1.3, dlpack.h"
PYTHON = "DLPack, Python specification"
ARRAY_API = "array API standard, __dlpack__"


@check(
    "producer.device-is-a-pair",
    ERROR,
    "`__dlpack_device__()` returns two numbers, the type and the id.",
    "array API standard, __dlpack_device__",
)
def device_is_a_pair(lib: Library) -> None:
    found = lib.make().__dlpack_device__()
    expect(isinstance(found, tuple) and len(found) == 2, f"it returned {found!r}")
    expect(all(isinstance(part, int) for part in found), f"it returned {found!r}")


@check(
    "producer.device-is-the-capsules",
    DATA,
    "The device of the capsule is the one that `__dlpack_device__()` named.",
    "array API standard, __dlpack_device__",
)
def device_is_the_capsules(lib: Library) -> None:
    array = lib.make()
    said = [int(part or 0) for part in array.__dlpack_device__()]
    found = inspect_capsule(lib.either(array))["device"]
    expect(found == said, f"__dlpack_device__() is {said}, and the capsule has {found}")


@check(
    "producer.capsule",
    ERROR,
    "`__dlpack__()` returns a capsule named 'dltensor'.",
    PYTHON + ": syntax for data interchange",
)
def capsule(lib: Library) -> None:
    found = lib.export(lib.make())
    expect(type(found).__name__ == "PyCapsule", f"it returned {type(found).__name__}")
    name = structs.capsule_name(found)
    expect(name == "dltensor", f"without max_version the name is {name!r}")


@check(
    "producer.keywords",
    DEVIATION,
    "`__dlpack__` takes stream, max_version, dl_device and copy.",
    ARRAY_API + " (2023.12)",
)
def keywords(lib: Library) -> None:
    array = lib.make()
    refused = []
    for name in ("stream", "max_version", "dl_device", "copy"):
        try:
            lib.export(array, **{name: None})
        except TypeError as error:
            refused.append(f"{name} ({told(error)})")
    expect(not refused, f"refused: {'; '.join(refused)}")


@check(
    "producer.unknown-keyword",
    ERROR,
    "A keyword that `__dlpack__` does not know is a TypeError, so that a consumer can try without.",
    ARRAY_API + ": notes on max_version",
)
def unknown_keyword(lib: Library) -> None:
    array = lib.make()
    expect_error(TypeError, lambda: lib.export(array, of_the_next_standard=1), "unknown keyword")


def has_values(lib: Library, form: Callable[[Library, Any], Any]) -> None:
    array = lib.make()
    held = Held(form(lib, array))
    expect(flat(held.values()) == flat(lib.rows), f"the capsule has {held.values()}")


for _name, _form in (("legacy", Library.export), ("versioned", Library.versioned)):
    check(
        f"producer.{_name}-values",
        DATA,
        f"The elements of a {_name} capsule are those of the array.",
        HEADER + ": DLTensor",
    )(partial(has_values, form=_form))


@check(
    "producer.shape",
    DATA,
    "The shape of the capsule is the array's.",
    HEADER + ": DLTensor.shape",
)
def shape(lib: Library) -> None:
    found = inspect_capsule(lib.either(lib.make()))
    expect(found["shape"] == list(lib.shape), f"shape {lib.shape} became {found['shape']}")


def has_no_flag(lib: Library, bits: int) -> None:
    flags = inspect_capsule(lib.versioned(lib.make()))["flags"]
    expect(not flags & bits, f"flags are {flags:#x}")


check(
    "producer.unknown-flags",
    DATA,
    "No bit of the flags is set that the version does not define.",
    HEADER + ": DLPACK_FLAG_BITMASK_*",
)(partial(has_no_flag, bits=~7))

check(
    "producer.not-padded",
    DATA,
    "SUBBYTE_TYPE_PADDED is not set for elements of whole bytes.",
    HEADER + ": DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED",
)(partial(has_no_flag, bits=structs.SUBBYTE_PADDED))


@check(
    "producer.strides-present",
    DEVIATION,
    "A capsule of version 1.2 or later has strides, unless there are no dimensions.",
    HEADER + ": DLTensor.strides; dmlc/dlpack#177",
)
def strides_present(lib: Library) -> None:
    found = inspect_capsule(lib.versioned(lib.make()))
    if tuple(map(int, found["version"].split("."))) < (1, 2):
        raise NotApplicable(f"exports version {found['version']}")
    expect(found["strides"] is not None, f"version {found['version']} without strides")


@check(
    "producer.version-is-known",
    DATA,
    "The version of a capsule is one that was released: 1.0 to 1.3.",
    HEADER + ": DLPackVersion",
)
def version_is_known(lib: Library) -> None:
    found = inspect_capsule(lib.versioned(lib.make()))["version"]
    expect(found in ("1.0", "1.1", "1.2", "1.3"), f"the version is {found}")


@check(
    "producer.scalar",
    DATA,
    "An array without dimensions has ndim 0, and one element.",
    HEADER + ": DLTensor.ndim",
)
def scalar(lib: Library) -> None:
    if lib.max_ndim == 1:
        raise NotApplicable("one dimension only")
    with needed("has no such array"):
        array = lib.make(3.0)
    if lib.values(array) != 3.0:
        raise NotApplicable(f"makes {lib.values(array)} of it")
    held = Held(lib.either(array))
    expect(held.tensor.ndim == 0, f"ndim is {held.tensor.ndim}")
    expect(held.values() == 3.0, f"the element is {held.values()}")


@check(
    "producer.empty",
    DATA,
    "An array without elements exports its shape.",
    HEADER + ": DLTensor.data",
)
def empty(lib: Library) -> None:
    with needed("has no such array"):
        array = lib.make([])
    held = Held(lib.either(array))
    found = structs.fields(held.struct)["shape"]
    expect(found == [0], f"the shape is {found}")


@check(
    "producer.one-element",
    DATA,
    "An array of one element exports it, whatever the strides.",
    HEADER + ": DLTensor.strides; numpy/numpy#20336",
)
def one_element(lib: Library) -> None:
    values = [[7.0]] if lib.max_ndim > 1 else [7.0]
    held = Held(lib.either(lib.make(values)))
    expect(held.values() == values, f"the element is {held.values()}")


@check(
    "producer.cpu-id",
    DATA,
    "The id of the host's device is 0.",
    HEADER + ": DLDevice.device_id",
)
def cpu_id(lib: Library) -> None:
    kind, number = inspect_capsule(lib.either(lib.make()))["device"]
    if kind != 1:
        raise NotApplicable(f"its arrays are on a device of type {kind}")
    expect(number == 0, f"the id is {number}")


@check(
    "producer.address",
    DATA,
    "`data` plus byte_offset is where the library says that the first element is.",
    HEADER + ": DLTensor.data, DLTensor.byte_offset",
)
def address(lib: Library) -> None:
    array = lib.make()
    expected = lib.optional("address")(array)
    found = start_of(lib.either(array))
    expect(found == expected, f"data + byte_offset is {found:#x}, the array is at {expected:#x}")


@check(
    "producer.shares",
    DATA,
    "Two exports of an array are of the same memory.",
    ARRAY_API + ": copy=None copies only where it must",
)
def shares(lib: Library) -> None:
    array = lib.make()
    first, second = lib.either(array), lib.either(array)
    one, two = start_of(first), start_of(second)
    expect(one == two, f"they are at {one:#x} and {two:#x}")


# ---- element types ----------------------------------------------------------------------------


def dtype_is_exported(lib: Library, dtype: str) -> None:
    values: Any = sample(dtype)
    with needed(f"exports no {dtype}"):
        array = lib.make(values, dtype)
        if flat(lib.values(array)) != values:
            raise NotApplicable(f"makes {lib.values(array)} of these values")
        capsule = lib.either(array)
    held = Held(capsule)
    code, bits, _ = FORMATS[dtype]
    found = held.tensor.code, held.tensor.bits, held.tensor.lanes
    expect(found == (code, bits, 1), f"{dtype} has {(code, bits, 1)}, and {found} was exported")
    expect(held.values() == values, f"{values} became {held.values()}")


for _name in DTYPES:
    check(
        f"dtype.export-{_name}",
        DATA,
        f"{_name} is exported with its code and bits, and its values.",
        HEADER + ": DLDataTypeCode, DLDataType",
    )(partial(dtype_is_exported, dtype=_name))


# ---- versions ---------------------------------------------------------------------------------


def answers(lib: Library, version: Any, name: str) -> None:
    found = structs.capsule_name(lib.export_or_skip(lib.make(), max_version=version))
    expect(found == name, f"it gave {found!r}")


check(
    "versions.none-is-legacy",
    ERROR,
    "max_version=None gives a legacy capsule.",
    ARRAY_API + ": max_version",
)(partial(answers, version=None, name="dltensor"))

check(
    "versions.one-is-versioned",
    DEVIATION,
    "max_version=(1, 0) gives a versioned capsule.",
    ARRAY_API + ": max_version (recommended)",
)(partial(answers, version=(1, 0), name="dltensor_versioned"))


@check(
    "versions.old-is-legacy",
    ERROR,
    "max_version=(0, 8) gives a legacy capsule, or a BufferError.",
    ARRAY_API + ": max_version",
)
def old_is_legacy(lib: Library) -> None:
    with allowed(BufferError, ""):
        answers(lib, (0, 8), "dltensor")


@check(
    "versions.next-major",
    ERROR,
    "max_version=(2, 0) gives a capsule of a version that exists, or a BufferError.",
    ARRAY_API + ": max_version; DLPack's ABI",
)
def next_major(lib: Library) -> None:
    with allowed(BufferError, ""):
        capsule = lib.export_or_skip(lib.make(), max_version=(2, 0))
    found = inspect_capsule(capsule)["version"]
    expect(found is None or found.startswith("1."), f"it gave version {found}")


@check(
    "versions.later-minor",
    ERROR,
    "max_version=(1, 99) gives the newest capsule that the library has.",
    ARRAY_API + ": max_version",
)
def later_minor(lib: Library) -> None:
    found = inspect_capsule(lib.export_or_skip(lib.make(), max_version=(1, 99)))["version"]
    expect(found is None or found in ("1.0", "1.1", "1.2", "1.3"), f"it gave version {found}")


@check(
    "versions.both-agree",
    DATA,
    "The legacy and the versioned capsule describe the same memory.",
    PYTHON,
)
def both_agree(lib: Library) -> None:
    array = lib.make()
    versioned = inspect_capsule(lib.versioned(array))
    legacy = inspect_capsule(lib.export(array))
    expect_same(legacy, versioned, "in the legacy capsule", "in the other")


def expect_same(one: Any, two: Any, here: str, there: str) -> None:
    """Checks that two descriptions are of the same memory."""
    for name in ("data", "byte_offset", "device", "dtype", "shape"):
        same = one[name] == two[name]
        expect(same, f"{name}: {one[name]} {here}, {two[name]} {there}")


# ---- streams ----------------------------------------------------------------------------------


@check(
    "streams.none",
    ERROR,
    "stream=None is taken for data on the host.",
    ARRAY_API + ": stream",
)
def stream_none(lib: Library) -> None:
    array = lib.make()
    try:
        lib.export(array, stream=None)
    except Exception as error:
        raise Failed(told(error)) from error


@check(
    "streams.host-has-none",
    DEVIATION,
    "A stream for data on the host is refused: only None is valid there.",
    ARRAY_API + ": stream",
)
def host_has_none(lib: Library) -> None:
    array = lib.make()
    if int(array.__dlpack_device__()[0]) != 1:
        raise NotApplicable("its arrays are not on the host")
    with allowed(words=""):
        lib.export(array, stream=7)
    raise Failed("stream=7 was accepted")


@check(
    "streams.refusal-keeps-the-array",
    MEMORY,
    "After a stream that was refused, the array exports as before.",
    ARRAY_API,
)
def refusal_keeps_the_array(lib: Library) -> None:
    array = lib.make()
    with suppress(Exception):
        lib.export(array, stream=7)
    held = Held(lib.either(array))
    expect(flat(held.values()) == flat(lib.rows), f"the capsule has {held.values()}")


# ---- ownership --------------------------------------------------------------------------------


@check(
    "ownership.capsule-keeps-memory",
    MEMORY,
    "A capsule keeps the memory alive when the array is gone.",
    PYTHON + ": the producer keeps the data until the deleter is called",
)
def capsule_keeps_memory(lib: Library) -> None:
    capsule = lib.either(lib.make())
    others = noise(lib)
    found = Held(capsule).values()
    expect(flat(found) == flat(lib.rows), f"after the array was deleted: {found}")
    del others


@check(
    "ownership.taken-keeps-memory",
    MEMORY,
    "A consumed capsule may die: the memory lives until the deleter is called.",
    PYTHON + ": the consumer renames the capsule; dmlc/dlpack#51",
)
def taken_keeps_memory(lib: Library) -> None:
    for form in forms(lib):
        capsule = form(lib.make())
        held = Held(capsule)
        del capsule
        others = noise(lib)
        expect(flat(held.values()) == flat(lib.rows), f"the memory has {held.values()}")
        held.release()
        del others


@check(
    "ownership.exports-are-apart",
    MEMORY,
    "Releasing one export leaves another one, and the array, as they were.",
    PYTHON,
)
def exports_are_apart(lib: Library) -> None:
    for one, other in itertools.product(forms(lib), repeat=2):
        expect_apart(lib, one, other)
        expect_apart(lib, one, other, outlives=False)


def expect_apart(lib: Library, one: Any, other: Any, outlives: bool = True) -> None:
    """Checks the same of two forms, also if the array does not outlive them."""
    array = lib.make()
    first, second = Held(one(array)), Held(other(array))
    if not outlives:
        del array
    first.release()
    others = noise(lib)
    expect(flat(second.values()) == flat(lib.rows), f"the other one has {second.values()}")
    second.release()
    if outlives and hasattr(lib.source, "values"):
        expect(flat(lib.values(array)) == flat(lib.rows), f"the array has {lib.values(array)}")
    del others


BIG = [1.0] * 65536


@check(
    "ownership.unused-capsule",
    MEMORY,
    "A capsule that nobody consumes gives its memory back when it dies.",
    PYTHON + ": the capsule's destructor; quadrants#598",
)
def unused_capsule(lib: Library) -> None:
    lib.make()
    for form in forms(lib):

        def step(form: Any = form) -> None:
            form(lib.make(BIG))

        expect_no_growth(step, lib.itemsize * len(BIG), "capsules unused")


@check(
    "ownership.released",
    MEMORY,
    "The deleter gives everything back.",
    HEADER + ": DLManagedTensor.deleter; apache/mahout#888",
)
def released(lib: Library) -> None:
    lib.make()
    for form in forms(lib):

        def step(form: Any = form) -> None:
            Held(form(lib.make(BIG))).release()

        expect_no_growth(step, lib.itemsize * len(BIG), "exports released")


@check(
    "ownership.small-exports",
    MEMORY,
    "Exports of an array leave nothing behind, however small, when they were released.",
    HEADER + ": DLManagedTensor.deleter",
)
def small_exports(lib: Library) -> None:
    array = lib.make()
    for form in forms(lib):
        keywords = {} if form == lib.export else {"max_version": (1, 3)}

        def step(keywords: Any = keywords) -> None:
            _dlpack.take(lib.export(array, **keywords)).release()

        expect_no_leak(step, "exports released")


def forms(lib: Library) -> list[Any]:
    """The forms in which it exports."""
    try:
        lib.versioned(lib.make())
    except (NotApplicable, TypeError):
        return [lib.export]
    return [lib.export, lib.versioned]


@check(
    "ownership.deleter-any-thread",
    MEMORY,
    "The deleter may be called on a thread that has no Python and no GIL.",
    PYTHON + "; dmlc/dlpack#103, #129; CV-CUDA#298",
)
def deleter_any_thread(lib: Library) -> None:
    for form in forms(lib):
        held = [Held(form(lib.make())) for _ in range(8)]
        gc.collect()
        for one in held:
            one.release("thread")


def releases(lib: Library, how: str, otherwise: str) -> None:
    for form in forms(lib):
        held = Held(form(lib.make()))
        expect(held.release(how), otherwise)


check(
    "ownership.deleter-keeps-error",
    ERROR,
    "The deleter leaves a pending exception as it is.",
    "dmlc/dlpack#130; numpy/numpy#32697",
)(partial(releases, how="pending", otherwise="the exception was lost or replaced"))

check(
    "ownership.deleter-sets-no-error",
    ERROR,
    "The deleter leaves no exception behind.",
    "dmlc/dlpack#130",
)(partial(releases, how="here", otherwise="it set an exception"))


@check(
    "ownership.destructor-keeps-error",
    ERROR,
    "A capsule that dies while an exception is pending leaves it as it is.",
    "numpy/numpy#32697; jax-ml/jax#31271",
)
def destructor_keeps_error(lib: Library) -> None:
    for form in forms(lib):
        capsules = [form(lib.make())]
        expect(_dlpack.drop(capsules), "the exception was lost or replaced")


@check(
    "ownership.used-capsule",
    ERROR,
    "The destructor of a consumed capsule does nothing, even while an exception is pending.",
    PYTHON + ": the consumer renames the capsule",
)
def used_capsule(lib: Library) -> None:
    for form in forms(lib):
        capsules = [form(lib.make())]
        held = Held(capsules[0])
        expect(_dlpack.drop(capsules), "the exception was lost or replaced")
        others = noise()
        expect(flat(held.values()) == flat(lib.rows), f"the memory has {held.values()}")
        held.release()
        del others


@check(
    "ownership.deleter-present",
    DEVIATION,
    "A managed tensor that owns memory has a deleter.",
    HEADER + ": DLManagedTensor.deleter",
)
def deleter_present(lib: Library) -> None:
    expect(inspect_capsule(lib.either(lib.make()))["deleter"], "the deleter is NULL")


# ---- read-only --------------------------------------------------------------------------------


def read_only_array(lib: Library) -> Any:
    return lib.optional("read_only")(lib.make())


@check(
    "readonly.flag",
    DATA,
    "An array that must not be written to is exported with READ_ONLY.",
    HEADER + ": DLPACK_FLAG_BITMASK_READ_ONLY; data-apis/array-api#191",
)
def read_only_flag(lib: Library) -> None:
    with allowed(BufferError):
        capsule = lib.versioned(read_only_array(lib))
    flags = inspect_capsule(capsule)["flags"]
    expect(flags & structs.READ_ONLY, f"flags are {flags:#x}")


@check(
    "readonly.legacy-is-refused",
    DEVIATION,
    "An array that must not be written to has no legacy capsule, which cannot say so.",
    ARRAY_API + ": BufferError; numpy/numpy#20742",
)
def read_only_legacy(lib: Library) -> "str | None":
    array = read_only_array(lib)
    error = expect_error(BufferError, lambda: lib.export(array), "legacy export of read-only data")
    return told(error)


@check(
    "readonly.writable-has-no-flag",
    DEVIATION,
    "An array that can be written to is exported without READ_ONLY.",
    HEADER + ": DLPACK_FLAG_BITMASK_READ_ONLY; numpy/numpy#28599",
)
def writable_has_no_flag(lib: Library) -> None:
    lib.optional("write")
    has_no_flag(lib, structs.READ_ONLY)


@check(
    "readonly.write-is-seen",
    DATA,
    "A write to the array is seen through its capsule.",
    PYTHON + ": zero-copy",
)
def write_is_seen(lib: Library) -> None:
    write = lib.optional("write")
    array = lib.make()
    held = Held(lib.either(array))
    write(array, lib.numbers(50.0))
    expect(flat(held.values())[0] == 50.0, f"the capsule has {held.values()}")


# ---- views ------------------------------------------------------------------------------------

BASE: Any = [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]
VIEWS: dict[str, Any] = {
    "transposed": [[0.0, 4.0], [1.0, 5.0], [2.0, 6.0], [3.0, 7.0]],
    "strided": [[0.0, 2.0], [4.0, 6.0]],
    "reversed": [[4.0, 5.0, 6.0, 7.0], [0.0, 1.0, 2.0, 3.0]],
    "offset": [[5.0, 6.0, 7.0]],
    "broadcast": [[0.0] * 4, [4.0] * 4],
}
FLAT_BASE: Any = [float(i) for i in range(8)]
FLAT_VIEWS: dict[str, Any] = {
    "strided": [0.0, 2.0, 4.0, 6.0],
    "offset": [float(i) for i in range(3, 8)],
}


def viewed(lib: Library, name: str) -> tuple[Any, Any]:
    """(a view, its values)."""
    if name not in lib.views:
        raise NotApplicable(f"the adapter has no view {name}")
    base, found = (BASE, VIEWS) if lib.max_ndim > 1 else (FLAT_BASE, FLAT_VIEWS)
    return lib.views[name](lib.make(base)), found[name]


def view_is_exported(lib: Library, name: str) -> None:
    array, expected = viewed(lib, name)
    with allowed(BufferError):
        capsule = lib.either(array)
    held = Held(capsule)
    expect(held.values() == expected, f"{expected} became {held.values()}")


for _name in VIEWS:
    check(
        f"layout.export-{_name}",
        DATA,
        f"A {_name} view is exported with its values, or refused with a BufferError.",
        HEADER + ": DLTensor.strides",
    )(partial(view_is_exported, name=_name))


@check(
    "layout.export-compact-strides",
    DATA,
    "The strides of a compact array are those of row-major order, where there are any.",
    HEADER + ": DLTensor.strides",
)
def compact_strides(lib: Library) -> None:
    found = inspect_capsule(lib.either(lib.make()))["strides"]
    expect(found in (None, row_major(lib.shape)), f"strides are {found}")


@check(
    "offset.export",
    DATA,
    "A view that begins inside an array is exported from there, by data or by byte_offset.",
    HEADER + ": DLTensor.byte_offset; pytorch/pytorch#168177",
)
def offset_is_exported(lib: Library) -> None:
    view, values = viewed(lib, "offset")
    found, expected = flat(Held(lib.either(view)).values())[0], flat(values)[0]
    expect(found == expected, f"the first element is {found}, not {expected}")
