# SPDX-License-Identifier: Apache-2.0
"""copy= and dl_device=, on both sides."""

from collections.abc import Iterator
from contextlib import suppress
from enum import IntEnum
from functools import partial
from itertools import product
from typing import Any

from dlpack_conformance import structs
from dlpack_conformance.checks.consumers import (
    capsule_forms,
    compact,
    expect_released,
    expect_values,
    offer_address,
    raising,
    refusing_keywords,
    taken_and_released,
)
from dlpack_conformance.checks.layouts import LAYOUTS, Layout, fields_of, values_of
from dlpack_conformance.checks.producers import (
    Make,
    arrays,
    capsules,
    exports,
)
from dlpack_conformance.inspector import inspect_capsule
from dlpack_conformance.producers import CUDA
from dlpack_conformance.suite import (
    DATA,
    DEVIATION,
    ERROR,
    MEMORY,
    Held,
    Library,
    NotApplicable,
    allowed,
    check,
    due,
    expect,
    expect_error,
    told,
)

EXPORT = "array API standard, __dlpack__: copy"
DEVICE = "array API standard, __dlpack__: dl_device"
FLAG = "DLPack 1.3, dlpack.h: DLPACK_FLAG_BITMASK_IS_COPIED"
IMPORT = "array API standard, from_dlpack: copy"


@check("copy.true-is-a-copy", DATA, EXPORT, over=partial(exports, by=capsules))
def true_is_a_copy(lib: Library, make: Make, values: Any, form: Any) -> None:
    """`__dlpack__(copy=True)` exports memory of its own each time, with the same values."""
    array = make()
    with allowed(BufferError):
        first, second = (Held(form(array, copy=True)) for _ in range(2))
        own = Held(form(array))
    expect(first.start != own.start, "it is the array's own memory")
    expect(first.start != second.start, "two copies are the same memory")
    for held in (first, second):
        expect(held.values() == values, f"the copy has {held.values()}")


@check("copy.true-is-flagged", DEVIATION, FLAG, over=arrays)
def true_is_flagged(lib: Library, make: Make, values: Any) -> None:
    """A versioned capsule of a copy has IS_COPIED, and no READ_ONLY: nobody else has the memory."""
    with allowed():
        flags = inspect_capsule(lib.versioned(make(), copy=True))["flags"]
    found = flags & (structs.IS_COPIED | structs.READ_ONLY)
    expect(found == structs.IS_COPIED, f"flags are {flags:#x}")


@check("copy.false-shares", DATA, EXPORT, over=partial(exports, by=capsules))
def false_shares(lib: Library, make: Make, values: Any, form: Any) -> None:
    """`__dlpack__(copy=False)` exports the array's own memory, or raises a BufferError."""
    array = make()
    with allowed(BufferError):
        # Both at once: the memory of a copy that is gone may be that of the next.
        first, second = (Held(form(array, copy=False)) for _ in range(2))
    address = getattr(lib.source, "address", None)
    own = first.start if address is None else address(array)
    expect({first.start, second.start} == {own}, "it is other memory")
    expect(not (first.flags or 0) & structs.IS_COPIED, "it has IS_COPIED")


@check("copy.none-has-no-flag", DATA, FLAG, over=arrays)
def none_has_no_flag(lib: Library, make: Make, values: Any) -> None:
    """A capsule of the array's own memory has no IS_COPIED."""
    array = make()
    with suppress(Exception, NotApplicable):
        lib.versioned(array, copy=True)  # its flag is that of this copy only
    with allowed(BufferError):
        held = [Held(lib.versioned(array)) for _ in range(2)]
    with suppress(Exception, NotApplicable):
        held.append(Held(lib.versioned(array, dl_device=(1, 0))))
    if held[0].start != held[1].start:
        raise NotApplicable("each export is a copy")
    for one in held:
        shared = one.start == held[0].start
        expect(not shared or not one.struct.flags & structs.IS_COPIED, f"flags are {one.flags:#x}")


def newest(lib: Library) -> Any:
    """The newest form of capsule that it exports, as a function of an array and keywords."""
    return capsules(lib)[-1][1]


DeviceType = IntEnum("DeviceType", {"CPU": 1})


def on_devices(*devices: tuple[int, int]) -> Iterator[tuple[Any, ...]]:
    for device, more in product(devices, ({}, {"copy": True}, {"copy": False})):
        yield f"dl_device={device}, {more}", device, more


@check(
    "copy.host-is-exported",
    DEVIATION,
    DEVICE + ": a tuple of an Enum and an int; kDLCPU must be supported",
    over=lambda lib: on_devices((1, 0), (DeviceType.CPU, 0)),
)
def host_is_exported(lib: Library, device: Any, more: dict[str, Any]) -> None:
    """`__dlpack__(dl_device=(1, 0))`, the host, is taken, its type as a number or an Enum."""
    form, array = newest(lib), lib.make()
    with allowed(BufferError):
        first, second = (Held(form(array, **more)) for _ in range(2))
    held = Held(form(array, dl_device=device, **more))
    expect(first.start != second.start or held.start == first.start, "it is a copy")
    kind = held.tensor.device_type
    expect(kind in (1, 3, 11, 13), f"the capsule is on a device of type {kind}")
    expect(held.values() == lib.rows, f"the capsule has {held.values()}")


@check(
    "copy.other-device",
    ERROR,
    DEVICE + ": 'must raise BufferError'",
    over=lambda lib: on_devices((12, 0), (1, 5), CUDA),
)
def other_device(lib: Library, device: tuple[int, int], more: dict[str, Any]) -> None:
    """A device that the library does not have is a BufferError."""
    array = lib.make()
    with due(BufferError):
        capsule = newest(lib)(array, dl_device=device, **more)
    found = inspect_capsule(capsule)["device"]
    expect(device == CUDA and found == [*CUDA], f"it gave a capsule on device {found}")


# ---- from_dlpack ------------------------------------------------------------------------------


@check(
    "copy.import-is-released",
    MEMORY,
    IMPORT + "; DLManagedTensor.deleter",
    over=lambda lib: (
        (f"{name}, copy={copy}", form, copy)
        for name, form in capsule_forms(lib)
        for copy in (True, False)
    ),
)
def import_is_released(lib: Library, form: str, copy: bool) -> "str | None":
    """from_dlpack(copy=) releases the managed tensor once, whether it copies, shares or refuses."""
    return taken_and_released(lib, compact(lib, form), copy=copy)


@check("copy.import-true", DATA, IMPORT, over=arrays)
def import_true(lib: Library, make: Make, values: Any) -> None:
    """from_dlpack(copy=True) gives memory of its own."""
    address = lib.optional("address")
    array = make()
    with allowed((BufferError, ValueError)):
        first, second = (lib.take_or_skip(array, copy=True) for _ in range(2))
    expect(address(first) != address(array), "it is the array's own memory")
    expect(address(first) != address(second), "two copies are the same memory")
    expect_values(lib, first, values, "the copy")


def producers(lib: Library) -> Iterator[tuple[str, Layout]]:
    """Those that have elements, without negative strides: torch aborts on these."""
    found = {"compact": Layout("", lib.rows, {"strides": None}), **LAYOUTS}
    for (name, layout), flags in product(found.items(), (0, structs.READ_ONLY)):
        if layout.values != [] and min(layout.fields["strides"] or (0,)) >= 0:
            fields = {**layout.fields, "flags": flags}
            yield f"{name}, flags {flags}", layout._replace(fields=fields)


def copying(offer: Any) -> Any:
    if offer.asked[-1].get("copy"):
        offer.fields["flags"] = structs.IS_COPIED
    return offer.capsule()


@check(
    "copy.import-true-of-another",
    DATA,
    IMPORT,
    over=lambda lib: (
        (f"{name}, {act.__name__}", layout, act)
        for (name, layout), act in product(producers(lib), (copying, refusing_keywords))
    ),
)
def import_true_of_another(lib: Library, layout: Layout, act: Any) -> None:
    """from_dlpack(copy=True) of another library's array is a copy, whoever makes it."""
    address = lib.optional("address")
    offer = compact(lib, act=act, **fields_of(lib, layout))
    with allowed():
        lib.take(offer)
    with allowed((BufferError, ValueError)):
        result = lib.take_or_skip(offer, copy=True)
    expect_values(lib, result, values_of(lib, layout), "the copy")
    shared = address(result) == offer_address(offer)
    passed = [call.get("copy") for call in offer.asked]
    expect(True in passed[-1:] or not shared, f"copy= was passed as {passed}, and it is shared")
    del result
    expect_released(offer)


@check("copy.import-false", DATA, IMPORT, over=arrays)
def import_false(lib: Library, make: Make, values: Any) -> None:
    """from_dlpack(copy=False) shares the memory, or raises."""
    address = lib.optional("address")
    array = make()
    with allowed((BufferError, ValueError)):
        result = lib.take_or_skip(array, copy=False)
    expect(address(result) == address(array), "it is other memory")


@check("copy.import-false-of-another", DATA, IMPORT, over=producers)
def import_false_of_another(lib: Library, layout: Layout) -> None:
    """from_dlpack(copy=False) of another library's array shares its memory, or raises."""
    address = lib.optional("address")
    offer = compact(lib, **fields_of(lib, layout))
    with allowed():
        lib.take(offer)
    with allowed((BufferError, ValueError)):
        result = lib.take_or_skip(offer, copy=False)
    expect(address(result) == offer_address(offer), "it is other memory")
    del result
    expect_released(offer)


@check("copy.import-false-error", ERROR, IMPORT)
def import_false_error(lib: Library) -> None:
    """from_dlpack(copy=False) of what is only a flagged copy is a BufferError or a ValueError."""

    def answer(offer: Any) -> Any:
        if offer.asked[-1].get("copy") is False:
            raise BufferError("this producer always copies")
        return offer.capsule()

    offer = compact(lib, act=answer, flags=structs.IS_COPIED)
    with allowed((BufferError, ValueError), ""):
        result = lib.take_or_skip(offer, copy=False)
    passed = [call.get("copy") for call in offer.asked]
    if False not in passed and not offer.asked[-1].get("max_version"):
        raise NotApplicable("copy=False is not passed on, and legacy capsules have no flag")
    del result
    expect(False, f"it was accepted; copy= was passed as {passed}")


def own_device(lib: Library) -> Any:
    """That of its arrays, as its from_dlpack takes it; else the name that most libraries take."""
    takes_device(lib)
    return getattr(lib.make() if hasattr(lib.source, "make") else None, "device", "cpu")


def takes_device(lib: Library) -> None:
    lib.take_or_skip(compact(lib), device=None)


@check("copy.import-to-the-host", DEVIATION, "array API standard, from_dlpack: device")
def import_to_the_host(lib: Library) -> "str | None":
    """from_dlpack(device=) passes dl_device to a producer on another device."""
    device = own_device(lib)
    offer = compact(lib, device=CUDA, act=raising(BufferError("only looks at the keywords")))
    with suppress(Exception):
        lib.take(offer, device=device)
    passed = [call.get("dl_device") for call in offer.asked]
    expect(not passed or any(passed), f"dl_device= was passed as {passed}")
    return None if passed else "refused without a call"


@check("copy.import-other-device", ERROR, "array API standard, from_dlpack: device")
def import_other_device(lib: Library) -> str:
    """from_dlpack(device=) with a device that does not exist is an error."""
    takes_device(lib)
    device = "no such device"

    def answer(offer: Any) -> Any:
        if offer.asked[-1].get("dl_device") is not None:  # some consumers leave it to the producer
            raise BufferError("this producer has no such device")
        return offer.capsule()

    offer = compact(lib, act=answer)
    what = f"device={device!r}"
    return told(expect_error(Exception, lambda: lib.take(offer, device=device), what))
