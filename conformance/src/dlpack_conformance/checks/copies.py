"""copy= and dl_device=, on both sides."""

from typing import Any

from dlpack_conformance import structs
from dlpack_conformance.checks.consumers import compact, expect_values, offer_address, taken
from dlpack_conformance.inspector import inspect_capsule
from dlpack_conformance.suite import (
    DATA,
    DEVIATION,
    ERROR,
    Allowed,
    Held,
    Library,
    NotApplicable,
    allowed,
    check,
    due,
    expect,
    expect_error,
    flat,
    needed,
    start_of,
    told,
)

EXPORT = "array API standard, __dlpack__: copy"
DEVICE = "array API standard, __dlpack__: dl_device"
IMPORT = "array API standard, from_dlpack: copy"


def newest(lib: Library, array: Any, **keywords: Any) -> Any:
    """The newest capsule with these keywords; NotApplicable if they are not known."""
    try:
        return lib.export_or_skip(array, max_version=(1, 3), **keywords)
    except NotApplicable:
        return lib.export_or_skip(array, **keywords)


@check(
    "copy.true-is-a-copy",
    DATA,
    "`__dlpack__(copy=True)` exports other memory, with the same values.",
    EXPORT,
)
def true_is_a_copy(lib: Library) -> None:
    array = lib.make()
    try:
        capsule = newest(lib, array, copy=True)
    except TypeError:
        raise  # it would say that there is no such keyword, and who tries without gets no copy
    except Exception as error:
        raise Allowed(f"refused: {told(error)}") from None
    own = lib.either(array)
    expect(start_of(capsule) != start_of(own), "it is the array's own memory")
    found = Held(capsule).values()
    expect(flat(found) == flat(lib.rows), f"the copy has {found}")


@check(
    "copy.true-is-flagged",
    DEVIATION,
    "A versioned capsule of a copy has IS_COPIED.",
    "DLPack 1.3, dlpack.h: DLPACK_FLAG_BITMASK_IS_COPIED",
)
def true_is_flagged(lib: Library) -> None:
    array = lib.make()
    with allowed():
        capsule = lib.versioned(array, copy=True)
    flags = inspect_capsule(capsule)["flags"]
    expect(flags & structs.IS_COPIED, f"flags are {flags:#x}")


@check(
    "copy.false-shares",
    DATA,
    "`__dlpack__(copy=False)` exports the array's own memory, or raises a BufferError.",
    EXPORT,
)
def false_shares(lib: Library) -> None:
    array = lib.make()
    with allowed(BufferError):
        # Both at once: the memory of a copy that is gone may be that of the next.
        first, second = newest(lib, array, copy=False), newest(lib, array, copy=False)
    address = getattr(lib.source, "address", None)
    own = start_of(first) if address is None else address(array)
    expect({start_of(first), start_of(second)} == {own}, "it is other memory")


@check(
    "copy.none-has-no-flag",
    DATA,
    "A capsule of the array's own memory has no IS_COPIED.",
    "DLPack 1.3, dlpack.h: DLPACK_FLAG_BITMASK_IS_COPIED",
)
def none_has_no_flag(lib: Library) -> None:
    array = lib.make()
    first, second = lib.versioned(array), lib.versioned(array)
    if start_of(first) != start_of(second):
        raise NotApplicable("each export is a copy")
    flags = inspect_capsule(first)["flags"]
    expect(not flags & structs.IS_COPIED, f"flags are {flags:#x}")


@check(
    "copy.copy-is-writable",
    DATA,
    "A capsule of a copy has no READ_ONLY: nobody else has the memory.",
    "DLPack 1.3, dlpack.h: DLPACK_FLAG_BITMASK_IS_COPIED",
)
def copy_is_writable(lib: Library) -> None:
    array = lib.make()
    with needed("makes no copies"):
        flags = inspect_capsule(lib.versioned(array, copy=True))["flags"]
    expect(not flags & structs.READ_ONLY, f"flags are {flags:#x}")


@check(
    "copy.host-is-exported",
    DEVIATION,
    "`__dlpack__(dl_device=(1, 0))`, the host, is taken.",
    DEVICE + ": kDLCPU must be supported",
)
def host_is_exported(lib: Library) -> None:
    capsule = newest(lib, lib.make(), dl_device=(1, 0))
    kind = inspect_capsule(capsule)["device"][0]
    expect(kind in (1, 3, 11, 13), f"the capsule is on a device of type {kind}")


@check(
    "copy.other-device",
    ERROR,
    "A device that the library does not have is a BufferError.",
    DEVICE + ": 'must raise BufferError'",
)
def other_device(lib: Library) -> None:
    array = lib.make()
    with due(BufferError):
        capsule = newest(lib, array, dl_device=(12, 0))
    expect(False, f"it gave a capsule on device {inspect_capsule(capsule)['device']}")


@check(
    "copy.import-true",
    DATA,
    "from_dlpack(copy=True) gives memory of its own.",
    IMPORT,
)
def import_true(lib: Library) -> None:
    address = lib.optional("address")
    array = lib.make()
    result = lib.take_or_skip(array, copy=True)
    expect(address(result) != address(array), "it is the array's own memory")
    expect_values(lib, result, lib.rows, "the copy")


@check(
    "copy.import-true-of-another",
    DATA,
    "from_dlpack(copy=True) of another library's array is a copy, whoever makes it.",
    IMPORT,
)
def import_true_of_another(lib: Library) -> None:
    address = lib.optional("address")
    copied: list[bool] = []

    def answer(offer: Any) -> Any:
        copied.append(offer.asked[-1].get("copy") is True)
        if copied[-1]:
            offer.fields["flags"] = structs.IS_COPIED
        return offer.capsule()

    offer = compact(lib, act=answer)
    with allowed((BufferError, ValueError)):
        result = lib.take_or_skip(offer, copy=True)
    expect_values(lib, result, lib.rows, "the copy")
    shared = address(result) == offer_address(offer)
    expect(copied[-1] or not shared, "it is the producer's memory, and no copy was asked for")


@check(
    "copy.import-false",
    DATA,
    "from_dlpack(copy=False) shares the memory, or raises.",
    IMPORT,
)
def import_false(lib: Library) -> None:
    address = lib.optional("address")
    array = lib.make()
    with allowed((BufferError, ValueError)):
        result = lib.take_or_skip(array, copy=False)
    expect(address(result) == address(array), "it is other memory")


@check(
    "copy.import-false-of-another",
    DATA,
    "from_dlpack(copy=False) of another library's array shares its memory, or raises.",
    IMPORT,
)
def import_false_of_another(lib: Library) -> None:
    address = lib.optional("address")
    offer = compact(lib)
    with allowed((BufferError, ValueError)):
        result = lib.take_or_skip(offer, copy=False)
    expect(address(result) == offer_address(offer), "it is other memory")


@check(
    "copy.import-false-error",
    ERROR,
    "from_dlpack(copy=False) where a copy is needed is a BufferError or a ValueError.",
    IMPORT,
)
def import_false_error(lib: Library) -> None:
    def answer(offer: Any) -> Any:
        if offer.asked[-1].get("copy") is False:
            raise BufferError("this producer always copies")
        return offer.capsule()

    offer = compact(lib, act=answer)
    with allowed((BufferError, ValueError), ""):
        result = lib.take_or_skip(offer, copy=False)
    passed = [call.get("copy") for call in offer.asked]
    if False not in passed:
        raise NotApplicable("copy=False is not passed on: the memory is compared, if anything")
    del result
    expect(False, f"it was accepted; copy= was passed as {passed}")


@check(
    "copy.passed-on",
    DEVIATION,
    "from_dlpack passes copy= on to the producer, or makes the copy itself.",
    IMPORT,
)
def passed_on(lib: Library) -> "str | None":
    offer = compact(lib)
    result = lib.take_or_skip(offer, copy=True)
    passed = [call.get("copy") for call in offer.asked]
    if True in passed:
        return "passed on"
    address = lib.optional("address")
    expect(address(result) != offer_address(offer), f"copy= was passed as {passed}")
    return "copies itself"


@check(
    "copy.unasked",
    DATA,
    "from_dlpack does not ask for a copy that it was not told to make.",
    IMPORT + "=None",
)
def unasked(lib: Library) -> None:
    offer = compact(lib)
    lib.take(offer)
    passed = [call.get("copy") for call in offer.asked]
    expect(True not in passed, f"copy= was passed as {passed}")


@check(
    "copy.import-own-device",
    DEVIATION,
    "from_dlpack(device=) accepts the device of the library's own arrays for data on the host.",
    "array API standard, from_dlpack: device",
)
def import_own_device(lib: Library) -> str:
    takes_device(lib)
    try:
        array = lib.make()
        device = getattr(array, "device", None) or array.__dlpack_device__()
    except NotApplicable:
        device = "cpu"
    result = taken(lib, compact(lib), f"device={device!r}", device=device)
    expect_values(lib, result, lib.rows)
    return f"device={device!r}"


def takes_device(lib: Library) -> None:
    lib.take_or_skip(compact(lib), device=None)


@check(
    "copy.import-other-device",
    ERROR,
    "from_dlpack(device=) with a device that does not exist is an error.",
    "array API standard, from_dlpack: device",
)
def import_other_device(lib: Library) -> str:
    takes_device(lib)
    device = "no such device"

    def answer(offer: Any) -> Any:
        if offer.asked[-1].get("dl_device") is not None:  # some consumers leave it to the producer
            raise BufferError("this producer has no such device")
        return offer.capsule()

    offer = compact(lib, act=answer)
    what = f"device={device!r}"
    return told(expect_error(Exception, lambda: lib.take(offer, device=device), what))
