"""What a library does with a correct producer."""

import gc
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from dlpack_conformance import _dlpack, structs
from dlpack_conformance.inspector import inspect_capsule
from dlpack_conformance.producers import CUDA, Offer
from dlpack_conformance.suite import (
    DATA,
    DEVIATION,
    DTYPES,
    ERROR,
    FORMATS,
    MEMORY,
    Allowed,
    Failed,
    Held,
    Library,
    NotApplicable,
    Refused,
    allowed,
    check,
    expect,
    expect_error,
    flat,
    needed,
    noise,
    packed,
    row_major,
    sample,
    start_of,
    told,
)

HEADER = "DLPack 1.3, dlpack.h"
PYTHON = "DLPack, Python specification"
ARRAY_API = "array API standard, from_dlpack"
PROTOCOL = "array API standard, __dlpack__"


def six(lib: Library, **fields: Any) -> Offer:
    """Six numbers in row-major order, of a type and in a shape that the library supports."""
    if lib.dtype not in lib.dtypes:
        raise NotApplicable("has no element type of six values")
    fields.setdefault("shape", lib.shape)
    fields.setdefault("strides", tuple(row_major(fields["shape"] or ())))
    fields.setdefault("dtype", lib.dtype_fields)
    return Offer(fields.pop("content", lib.packed(*range(6))), **fields)


def compact(lib: Library, **fields: Any) -> Offer:
    """The same for a library that imports."""
    lib.optional("from_dlpack")
    return six(lib, **fields)


def keeping(lib: Library) -> tuple[Offer, list[Any]]:
    """An offer that keeps its capsules in a list."""
    kept: list[Any] = []

    def answer(offer: Offer) -> Any:
        kept.append(offer.capsule())
        return kept[-1]

    return compact(lib, act=answer), kept


def taken(lib: Library, offer: Any, what: str = "a correct producer", **keywords: Any) -> Any:
    """The result of the library's import; Failed if it refuses."""
    try:
        return lib.take(offer, **keywords)
    except NotApplicable:
        raise
    except Exception as error:
        raise Refused(f"{what} is refused: {told(error)}") from error


def expect_values(lib: Library, result: Any, values: Any, what: str = "it") -> None:
    """Checks that the result has these values, in this shape."""
    found = lib.values(result)
    expect(found == values, f"{what} has {found}, not {values}")


def expect_released(offer: Offer, what: str = "after the result is gone") -> None:
    """Checks that each capsule was released once: by its consumer, or by its destructor."""
    expect(offer.given, "__dlpack__ was not called")
    limit = time.monotonic() + 2  # some libraries release on a thread of their own
    while 0 in (counts := offer.counts()) and time.monotonic() < limit:
        time.sleep(0.01)
    expect(all(count == 1 for count in counts), f"{what}, the deleter was called {times(counts)}")


def times(counts: list[int]) -> str:
    """How often the deleters of one producer were called."""
    return f"{' and '.join(map(str, counts))} times"


def taken_and_released(lib: Library, offer: Offer) -> "str | None":
    """Imports it and drops the result, or is refused; in both cases it must be released once."""
    said = ""
    try:
        result = lib.take(offer)
        del result
    except Exception as error:
        said = f"refused: {told(error)}"
    if offer.given:  # and the exception, which refers to everything, is gone
        expect_released(offer, "after it was refused" if said else "after the result is gone")
    return said or None


def arrives(lib: Library, what: str = "a correct producer", **fields: Any) -> None:
    """What a producer of six numbers and these fields gives is taken, with its values."""
    expect_values(lib, taken(lib, compact(lib, **fields), what), lib.rows)


def versioned_arrives(lib: Library, what: str, **fields: Any) -> None:
    """The same of a versioned capsule, if the library takes any."""
    needs_versioned(lib)
    arrives(lib, what, form="versioned", **fields)


def needs_versioned(lib: Library) -> None:
    with needed("takes no versioned capsules"):
        lib.take(compact(lib, form="versioned"))


# ---- the plain case ---------------------------------------------------------------------------


check(
    "consumer.values",
    DATA,
    "The values and the shape of a producer arrive.",
    ARRAY_API,
)(arrives)


@check(
    "consumer.released-once",
    MEMORY,
    "The deleter is called once, at the latest when the array is gone.",
    HEADER + ": DLManagedTensor.deleter",
)
def released_once(lib: Library) -> None:
    offer = compact(lib)
    result = taken(lib, offer)
    counts = offer.counts()
    expect(sum(counts) <= len(counts), f"the deleter was called {times(counts)} at once")
    del result
    expect_released(offer)


@check(
    "consumer.not-released-early",
    MEMORY,
    "The memory is not released while the array is in use.",
    HEADER + ": DLManagedTensor.deleter",
)
def not_released_early(lib: Library) -> None:
    offer = compact(lib)
    result = taken(lib, offer)
    others = noise()
    expect_values(lib, result, lib.rows, "the array")
    del others


@check(
    "consumer.outlives-the-producer",
    MEMORY,
    "The array stays valid when the producer's object is gone.",
    PYTHON + ": the managed tensor keeps the data",
)
def outlives_the_producer(lib: Library) -> None:
    offer = compact(lib)
    result = taken(lib, offer)
    del offer
    others = noise()
    expect_values(lib, result, lib.rows, "the array")
    del others


@check(
    "consumer.renames-the-capsule",
    MEMORY,
    "A capsule that was taken has 'used_' before its name: 'used_dltensor', or "
    "'used_dltensor_versioned'.",
    PYTHON + ": the consumer must rename the capsule",
)
def renames_the_capsule(lib: Library) -> "str | None":
    offer, kept = keeping(lib)
    result = taken(lib, offer)
    name = structs.capsule_name(kept[-1])
    del result
    offer.counts()
    given = offer.given[-1]
    before = "dltensor_versioned" if given.versioned else "dltensor"
    if name == before:
        expect(given.deleted == given.destroyed, f"it was accepted, and has the name {name!r}")
        return "it is read, and not taken"
    expect(name == f"used_{before}", f"{before!r} was accepted, and has the name {name!r}")
    return name


@check(
    "consumer.capsule-may-die",
    MEMORY,
    "The array needs the capsule no longer: its destructor changes nothing.",
    PYTHON + ": the consumer owns the managed tensor",
)
def capsule_may_die(lib: Library) -> None:
    offer, kept = keeping(lib)
    result = taken(lib, offer)
    kept.clear()
    others = noise()
    expect_values(lib, result, lib.rows, "the array")
    del result, others
    expect_released(offer)


@check(
    "consumer.write-is-seen",
    DATA,
    "A write to the producer's memory is seen in the array, unless it is a copy.",
    ARRAY_API + ": copy",
)
def write_is_seen(lib: Library) -> "str | None":
    offer = compact(lib)
    result = taken(lib, offer)
    if 1 in offer.counts():
        return "copies"
    offer.memories[-1][: lib.itemsize] = lib.packed(50.0)
    found = flat(lib.values(result))[0]
    address = getattr(lib.source, "address", None)
    if found == 0.0 and (address is None or address(result) != offer_address(offer)):
        return "copies"
    expect(found == 50.0, f"the first element is {found}, and 50 was written")
    return None


def offer_address(offer: Offer) -> int:
    return _dlpack.address(offer.memories[-1]) + offer.start


@check(
    "consumer.write-through",
    DATA,
    "A write to the array is seen in the producer's memory, unless it is a copy or read-only.",
    ARRAY_API + ": copy",
)
def write_through(lib: Library) -> "str | None":
    write = lib.optional("write")
    offer = compact(lib)
    result = taken(lib, offer)
    if 1 in offer.counts():
        return "copies"
    address = getattr(lib.source, "address", None)
    if address is not None and address(result) != offer_address(offer):
        return "copies"
    with allowed(words="cannot be written to: "):
        write(result, lib.numbers(50.0))
    found = bytes(offer.memories[-1][: lib.itemsize])
    expect(found == lib.packed(50.0), "the producer's memory was not written to")
    return None


@check(
    "consumer.round-trip",
    DATA,
    "An array that was taken exports the same values again, and keeps their memory.",
    ARRAY_API,
)
def round_trip(lib: Library) -> None:
    lib.optional("make")
    offer = compact(lib)
    result = taken(lib, offer)
    held = Held(lib.either(result))
    del result
    others = noise()
    expect(flat(held.values()) == flat(lib.rows), f"exported again: {held.values()}")
    held.release()
    del others, held
    expect_released(offer, "after the export of it is gone")


@check(
    "consumer.own-arrays",
    DATA,
    "The library takes its own arrays.",
    ARRAY_API,
)
def own_arrays(lib: Library) -> None:
    array = lib.make()
    expect_values(lib, taken(lib, array, "an array of its own"), lib.rows)


@check(
    "consumer.taken-again",
    MEMORY,
    "What was taken, and is taken again from the array, is released once, when both are gone.",
    HEADER + ": DLManagedTensor.deleter",
)
def taken_again(lib: Library) -> None:
    lib.optional("make")
    offer = compact(lib)
    first = taken(lib, offer)
    second = taken(lib, first, "an array of its own")
    del first
    others = noise()
    expect_values(lib, second, lib.rows, "the array")
    del second, others
    expect_released(offer, "after both are gone")


@check(
    "consumer.not-a-producer",
    DEVIATION,
    "An object without `__dlpack__` is a TypeError or an AttributeError.",
    ARRAY_API,
)
def not_a_producer(lib: Library) -> None:
    lib.optional("from_dlpack")
    expect_error((TypeError, AttributeError), lambda: lib.take(object()), "object()")


# ---- what a managed tensor may have -----------------------------------------------------------


check(
    "consumer.null-deleter",
    ERROR,
    "A managed tensor without a deleter is taken: there is nothing to call.",
    HEADER + ": deleter 'can be NULL'; pytorch/pytorch#43166",
)(partial(arrives, what="a NULL deleter", deleter=False))


@check(
    "consumer.null-manager-ctx",
    MEMORY,
    "The deleter is called though manager_ctx, which is the producer's, is NULL.",
    HEADER + ": manager_ctx",
)
def null_manager_ctx(lib: Library) -> None:
    offer = compact(lib, manager_ctx=False)
    result = taken(lib, offer, "a NULL manager_ctx")
    expect_values(lib, result, lib.rows)
    del result
    expect_released(offer)


check(
    "consumer.null-strides",
    DATA,
    "NULL strides mean row-major order.",
    HEADER + ": DLTensor.strides (before 1.2)",
)(partial(arrives, what="NULL strides", strides=None, version=(1, 0)))


# ---- versions ---------------------------------------------------------------------------------


check(
    "versions.takes-legacy",
    ERROR,
    "A producer that has legacy capsules only is taken.",
    PROTOCOL + ": max_version: 'the consumer must verify the version'; apache/arrow#51122",
)(partial(arrives, what="a legacy capsule", form="legacy"))

check(
    "versions.takes-versioned",
    DEVIATION,
    "A producer that has versioned capsules only is taken.",
    PROTOCOL + ": max_version",
)(partial(arrives, what="a versioned capsule", form="versioned"))


@check(
    "versions.asks-for-one",
    DEVIATION,
    "The consumer asks for a versioned capsule: max_version of (1, 0) or later.",
    PROTOCOL + ": max_version",
)
def asks_for_one(lib: Library) -> "str | None":
    offer = compact(lib)
    taken(lib, offer)
    asked = [call.get("max_version") for call in offer.asked]
    expect(any(one is not None and tuple(one) >= (1, 0) for one in asked), f"asked for {asked}")
    return f"asked for {asked}"


def form_is_released(lib: Library, form: str) -> None:
    taken_and_released(lib, compact(lib, form=form))


for _form, _struct in (("legacy", "DLManagedTensor"), ("versioned", "DLManagedTensorVersioned")):
    check(
        f"versions.{_form}-is-released",
        MEMORY,
        f"A {_form} managed tensor is released once.",
        f"{HEADER}: {_struct}",
    )(partial(form_is_released, form=_form))


check(
    "versions.takes-next-minor",
    ERROR,
    "Version 1.99 is taken: a new minor version changes nothing that is there.",
    HEADER + ": DLPackVersion",
)(partial(versioned_arrives, what="version 1.99", version=(1, 99)))


@check(
    "versions.refuses-next-major",
    MEMORY,
    "Version 2.0 is refused: its layout is not known.",
    HEADER + ": DLPackVersion: 'it is not safe to access any other field'",
)
def refuses_next_major(lib: Library) -> None:
    needs_versioned(lib)
    offer = compact(lib, form="versioned", version=(2, 0))
    with allowed(words=""):
        lib.take(offer)
    raise Failed("version 2.0 was accepted")


@check(
    "versions.next-major-is-buffererror",
    DEVIATION,
    "The refusal of version 2.0 is a BufferError.",
    PYTHON + ": BufferError",
)
def next_major_is_buffererror(lib: Library) -> None:
    needs_versioned(lib)
    offer = compact(lib, form="versioned", version=(2, 0))
    expect_error(BufferError, lambda: lib.take(offer), "version 2.0")


@check(
    "versions.next-major-is-released",
    MEMORY,
    "A managed tensor of version 2.0 is released once: its deleter is where it was.",
    HEADER + ": DLPackVersion: 'the consumer must call the deleter'",
)
def next_major_is_released(lib: Library) -> None:
    needs_versioned(lib)
    taken_and_released(lib, compact(lib, form="versioned", version=(2, 0)))


check(
    "versions.unknown-flags",
    ERROR,
    "Flags that are not defined yet are ignored.",
    HEADER + ": flags",
)(partial(versioned_arrives, what="an unknown flag", flags=1 << 40))


# ---- read-only --------------------------------------------------------------------------------


@check(
    "readonly.is-kept",
    DATA,
    "Memory that is READ_ONLY is not written to through the array.",
    HEADER + ": DLPACK_FLAG_BITMASK_READ_ONLY",
)
def read_only_is_kept(lib: Library) -> None:
    write = lib.optional("write")
    offer, result = taken_read_only(lib)
    with suppress(Exception):
        write(result, lib.numbers(50.0))
    expect_unwritten(offer)


def taken_read_only(lib: Library) -> tuple[Offer, Any]:
    """A producer of READ_ONLY memory, and the array, unless the library refuses it."""
    needs_versioned(lib)
    offer = compact(lib, form="versioned", flags=structs.READ_ONLY)
    with allowed():
        result = lib.take(offer)
    return offer, result


def expect_unwritten(offer: Offer) -> None:
    """Checks that its memory is as it was, or was overwritten by the deleter."""
    found, content = bytes(offer.memories[-1]), offer.content
    expect(found in (content, b"\xaa" * len(content)), "the memory was written to")


@check(
    "readonly.is-told",
    DEVIATION,
    "An array on READ_ONLY memory says that it is read-only, or is a copy.",
    HEADER + ": DLPACK_FLAG_BITMASK_READ_ONLY",
)
def read_only_is_told(lib: Library) -> None:
    is_read_only = lib.optional("is_read_only")
    offer, result = taken_read_only(lib)
    if 1 in offer.counts():
        raise Allowed("copies")
    expect(is_read_only(result), "the array says that it can be written to")


check(
    "readonly.is-taken",
    DEVIATION,
    "READ_ONLY memory is taken, not refused.",
    ARRAY_API + ": read-only; data-apis/array-api#191; jax-ml/jax#40789",
)(partial(versioned_arrives, what="READ_ONLY memory", flags=structs.READ_ONLY))


@check(
    "readonly.passes-through",
    DATA,
    "An array on READ_ONLY memory is exported as READ_ONLY again.",
    HEADER + ": DLPACK_FLAG_BITMASK_READ_ONLY",
)
def read_only_passes_through(lib: Library) -> None:
    lib.optional("make")
    offer, result = taken_read_only(lib)
    capsule = lib.versioned(result)
    if start_of(capsule) != offer_address(offer):
        raise Allowed("copies")
    flags = inspect_capsule(capsule)["flags"]
    expect(flags & structs.READ_ONLY, f"flags are {flags:#x}")


# ---- streams ----------------------------------------------------------------------------------


@check(
    "streams.consumer-passes-none",
    DEVIATION,
    "The consumer of data on the host passes no stream, or None.",
    PROTOCOL + ": stream",
)
def consumer_passes_none(lib: Library) -> "str | None":
    offer = compact(lib)
    taken(lib, offer)
    asked = [call.get("stream") for call in offer.asked]
    expect(all(stream is None for stream in asked), f"stream was {asked}")
    return None


@check(
    "streams.never-zero",
    MEMORY,
    "The consumer of data on CUDA never passes stream 0, which has no meaning there.",
    PROTOCOL + ": stream: '0 is disallowed'",
)
def never_zero(lib: Library) -> str:
    offer = compact(lib, device=CUDA, act=raising(BufferError("only looks at how it is asked")))
    with suppress(Exception):
        lib.take(offer)
    asked = [call.get("stream") for call in offer.asked]
    expect(not any(one is not None and one == 0 for one in asked), f"stream was {asked}")
    return f"stream was {asked}" if asked else "did not ask"


UNMAPPED = 0x7FFF00000000  # reading there crashes


def is_not_read(lib: Library, device: tuple[int, int]) -> str:
    with allowed(words=""):
        result = lib.take(compact(lib, device=device, data=UNMAPPED))
    return stays_on(lib, result, device)


def stays_on(lib: Library, result: Any, device: tuple[int, int]) -> str:
    """Checks that an array on unmapped memory of a device is exported as that device's, if at all,
    and that its values are not read, or not from the host."""
    notes = ["taken"]
    try:
        found = inspect_capsule(lib.either(result))["device"]
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
    del result
    gc.collect()
    return ", ".join(notes)


check(
    "streams.device-is-not-read",
    MEMORY,
    "Memory of another device is refused, or described without being read.",
    ARRAY_API + ": BufferError",
)(partial(is_not_read, device=CUDA))

check(
    "streams.unknown-device-is-not-read",
    MEMORY,
    "Memory of a device of type 999 is refused, or described as such without being read.",
    HEADER + ": DLDevice; " + ARRAY_API + ": BufferError",
)(partial(is_not_read, device=(999, 0)))


@check(
    "streams.device-is-released",
    MEMORY,
    "A managed tensor of another device is released once, whether it is taken or not.",
    HEADER + ": DLManagedTensor.deleter",
)
def device_is_released(lib: Library) -> "str | None":
    return taken_and_released(lib, compact(lib, device=CUDA, data=UNMAPPED))


# ---- element types ----------------------------------------------------------------------------


def read_back(lib: Library, offer: Offer) -> Any:
    """The values of what the library takes of a producer, unless it refuses it, or to read it."""
    with allowed():
        result = lib.take(offer)
    with allowed(words="taken, but not readable: "):
        return lib.values(result)


def dtype_is_taken(lib: Library, dtype: str) -> None:
    lib.optional("from_dlpack")
    numbers = sample(dtype)
    code, bits, _ = FORMATS[dtype]
    offer = Offer(packed(numbers, dtype), shape=(6,), strides=(1,), dtype=(code, bits, 1))
    found = read_back(lib, offer)
    expect(found == numbers, f"{numbers} became {found}")


for _name in DTYPES:
    check(
        f"dtype.import-{_name}",
        DATA,
        f"{_name} arrives with its values, or is refused.",
        HEADER + ": DLDataTypeCode, DLDataType",
    )(partial(dtype_is_taken, dtype=_name))


@check(
    "dtype.import-lanes",
    DATA,
    "Elements of two lanes arrive with both, or are refused.",
    HEADER + ": DLDataType.lanes",
)
def lanes_are_taken(lib: Library) -> None:
    numbers = [*range(12)]
    code, bits, _ = lib.dtype_fields
    offer = compact(lib, content=lib.packed(*numbers), dtype=(code, bits, 2))
    found = read_back(lib, offer)
    # Two for each element, as another dimension, a pair, or whatever stands for two.
    if all(isinstance(one, (int, float)) for one in flat(found)):
        expect(flat(found) == numbers, f"{numbers} in pairs became {found}")


# ---- failure ----------------------------------------------------------------------------------


class Mishap(Exception):
    """What a producer raises."""


def raising(error: BaseException) -> Callable[[Offer], Any]:
    def answer(offer: Offer) -> Any:
        raise type(error)(*error.args)  # a new one: its traceback refers to everything

    return answer


@check(
    "failure.buffererror-passes",
    ERROR,
    "The BufferError of a producer reaches the caller.",
    ARRAY_API + ": 'must propagate'",
)
def buffererror_passes(lib: Library) -> None:
    offer = compact(lib, act=raising(BufferError("by the producer")))
    error = expect_error(BufferError, lambda: lib.take(offer), "BufferError in __dlpack__")
    expect("by the producer" in str(error), f"another one was raised: {told(error)}")


@check(
    "failure.any-error-passes",
    ERROR,
    "Any exception of a producer reaches the caller as it is.",
    ARRAY_API,
)
def any_error_passes(lib: Library) -> None:
    offer = compact(lib, act=raising(Mishap("by the producer")))
    expect_error(Mishap, lambda: lib.take(offer), "an exception in __dlpack__")


@check(
    "failure.interrupt-passes",
    ERROR,
    "A KeyboardInterrupt in a producer reaches the caller.",
    "Python: KeyboardInterrupt is no Exception, so that nobody swallows it",
)
def interrupt_passes(lib: Library) -> None:
    offer = compact(lib, act=raising(KeyboardInterrupt()))
    try:
        lib.take(offer)
    except KeyboardInterrupt:
        return
    except Exception as error:
        raise Failed(f"it became {told(error)}") from error
    raise Failed("it was swallowed")


@check(
    "failure.typeerror-is-told",
    ERROR,
    "A TypeError from inside a producer reaches the caller with its message, though the consumer "
    "may ask again without keywords first.",
    ARRAY_API + ": max_version: 'except TypeError'; IntelPython/dpctl#1789",
)
def typeerror_is_told(lib: Library) -> None:
    offer = compact(lib, act=raising(TypeError("inside of the producer")))
    error = expect_error(TypeError, lambda: lib.take(offer), "TypeError in __dlpack__")
    chain: list[str] = []
    one: BaseException | None = error
    while one is not None and len(chain) < 8:
        chain.append(str(one))
        one = one.__cause__ or one.__context__
    expect(any("inside of the producer" in text for text in chain), f"it became {told(error)}")


@check(
    "failure.device-error-passes",
    ERROR,
    "An exception of `__dlpack_device__` reaches the caller, if the method is called.",
    ARRAY_API,
)
def device_error_passes(lib: Library) -> "str | None":
    offer = compact(lib)
    called = []

    class Lost(Offer):
        def __dlpack_device__(self) -> Any:
            called.append(True)
            raise Mishap("no device")

    offer.__class__ = Lost
    try:
        lib.take(offer)
    except Mishap:
        return None
    except Exception as error:
        raise Failed(f"it became {told(error)}") from error
    expect(not called, "it was swallowed")
    return "__dlpack_device__ is not called"


def answers(lib: Library, answer: Any, what: str) -> None:
    offer = compact(lib, act=lambda offer: answer)
    expect_error(Exception, lambda: lib.take(offer), f"__dlpack__ returned {what}")


check(
    "failure.none-instead-of-a-capsule",
    ERROR,
    "A `__dlpack__` that returns None is an error.",
    PYTHON,
)(partial(answers, answer=None, what="None"))

check(
    "failure.number-instead-of-a-capsule",
    MEMORY,
    "A `__dlpack__` that returns a number is an error: it is no address.",
    PYTHON,
)(partial(answers, answer=1 << 20, what="a number"))


@check(
    "failure.another-capsule",
    MEMORY,
    "A capsule with the name of something else is refused.",
    PYTHON + ": the name of the capsule",
)
def another_capsule(lib: Library) -> None:
    capsule = _dlpack.table_capsule(_dlpack.table())
    answers(lib, capsule, "the capsule of a table")


@check(
    "failure.another-capsule-is-untouched",
    MEMORY,
    "A capsule that was refused for its name keeps its name.",
    PYTHON,
)
def another_is_untouched(lib: Library) -> None:
    capsule = _dlpack.table_capsule(_dlpack.table())
    offer = compact(lib, act=lambda offer: capsule)
    with suppress(Exception):
        lib.take(offer)
    name = structs.capsule_name(capsule)
    expect(name == "dlpack_exchange_api", f"its name is {name!r}")


@check(
    "failure.used-capsule",
    MEMORY,
    "A capsule that was consumed already is refused.",
    PYTHON + ": a capsule is consumed once",
)
def used_capsule(lib: Library) -> None:
    kept: list[Any] = []

    def answer(offer: Offer) -> Any:
        if not kept:
            kept.append(offer.capsule())
        return kept[0]

    offer = compact(lib, act=answer)
    first = taken(lib, offer)
    offer.counts()
    name, given = structs.capsule_name(kept[0]), offer.given[0]
    if not name.startswith("used_") and given.deleted == given.destroyed:
        raise NotApplicable("it reads the capsule without taking it")
    expect_error(Exception, lambda: lib.take(offer), "a consumed capsule")
    expect_values(lib, first, lib.rows, "the array of the first exchange")
    del first
    expect_released(offer)


@check(
    "failure.stream-only-producer",
    ERROR,
    "A producer of 2021, whose `__dlpack__` takes stream and nothing else, is taken.",
    ARRAY_API + ": 'except TypeError' and the notes on max_version",
)
def stream_only_producer(lib: Library) -> None:
    class Old(Offer):
        def __dlpack__(self, *, stream: Any = None) -> Any:  # type: ignore[override]
            self.asked.append({"stream": stream})
            return self.capsule()

    offer = compact(lib)
    offer.__class__ = Old
    expect_values(lib, taken(lib, offer, "a producer without max_version"), lib.rows)


@check(
    "failure.refused-attempts-are-released",
    MEMORY,
    "What a producer made before it refused a keyword is released, when the consumer asks again.",
    PYTHON,
)
def refused_attempts(lib: Library) -> "str | None":
    def answer(offer: Offer) -> Any:
        capsule = offer.capsule()
        unknown = offer.asked[-1].keys() - {"stream"}
        if unknown:
            raise TypeError(f"__dlpack__() got an unexpected keyword argument {min(unknown)!r}")
        return capsule

    offer = compact(lib, act=answer)
    note = taken_and_released(lib, offer)
    asked = any(call.keys() - {"stream"} for call in offer.asked)
    return note if asked else "passes no keyword that could be refused"


@check(
    "failure.refused-with-no-error-pending",
    ERROR,
    "The deleter of what is refused is called without an exception pending.",
    "Python: code that runs with an exception pending may lose it; dmlc/dlpack#130",
    "hostile.dimension-negative",
)
def refused_with_no_error_pending(lib: Library) -> None:
    offer = compact(lib, shape=(-3, 2), strides=(2, 1))
    with suppress(Exception):
        lib.take(offer)
        raise Allowed("taken")
    expect(not any(given.error_was_pending for given in offer.given), "an exception was pending")


@check(
    "failure.no-reference-to-the-producer",
    MEMORY,
    "After a refusal nothing keeps the producer.",
    "Python: references",
)
def no_reference(lib: Library) -> None:
    def attempt(offer: Any) -> None:
        with suppress(Exception):
            lib.take(offer)

    attempt(compact(lib, act=raising(BufferError("no"))))  # caches of the type
    offer = compact(lib, act=raising(BufferError("no")))
    before = sys.getrefcount(offer)
    for _ in range(8):
        attempt(offer)
    gc.collect()
    after = sys.getrefcount(offer)
    expect(after - before < 4, f"{after - before} references more after 8 refusals")


# ---- capsules themselves ----------------------------------------------------------------------


def capsule_is_taken(lib: Library, form: str) -> None:
    function = lib.optional("from_capsule")
    offer = compact(lib, form=form)
    capsule = offer.capsule()
    try:
        result = function(capsule)
    except Exception as error:
        raise Refused(f"a {form} capsule is refused: {told(error)}") from error
    expect_values(lib, result, lib.rows)
    del result, capsule
    expect_released(offer)


for _form in ("legacy", "versioned"):
    check(
        f"versions.{_form}-capsule",
        DEVIATION,
        f"A function that takes capsules takes {_form} ones.",
        PYTHON,
    )(partial(capsule_is_taken, form=_form))


@check(
    "failure.capsule-twice",
    MEMORY,
    "A function that takes capsules refuses one that was consumed.",
    PYTHON + ": a capsule is consumed once",
)
def capsule_twice(lib: Library) -> None:
    function = lib.optional("from_capsule")
    offer = compact(lib, form="legacy")
    kept = [offer.capsule()]
    first = function(kept[0])
    expect_error(Exception, lambda: function(kept[0]), "a consumed capsule")
    del first
    kept.clear()
    expect_released(offer)
