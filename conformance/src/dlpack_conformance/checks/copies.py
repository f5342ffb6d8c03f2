# SPDX-License-Identifier: Apache-2.0
"""copy= and dl_device=, on both sides."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any

from dlpack_conformance import structs
from dlpack_conformance.checks.consumers import (
    DeviceType,
    Form,
    again,
    all_forms,
    compact,
    expect_released,
    expect_values,
    forms,
    offer_address,
    own_device,
    passed,
    requests,
)
from dlpack_conformance.checks.layouts import LAYOUTS, Layout, ascends, fields_of, values_of
from dlpack_conformance.checks.producers import (
    COPIES,
    Make,
    all_arrays,
    arrays,
    capsules,
    copying,
    exports,
)
from dlpack_conformance.elements import flat
from dlpack_conformance.outcomes import DATA, DEVIATION, ERROR
from dlpack_conformance.producers import CPU, CUDA
from dlpack_conformance.suite import (
    READABLE,
    Held,
    Library,
    NotApplicable,
    allowed,
    beside,
    check,
    due,
    expect,
)

EXPORT = "array API standard, __dlpack__: copy"
DEVICE = "array API standard, __dlpack__: dl_device"
FLAG = "DLPack 1.3, dlpack.h: DLPACK_FLAG_BITMASK_IS_COPIED"
IMPORT = "array API standard, from_dlpack: copy"


@check("copy.true-is-a-copy", DATA, EXPORT, over=partial(exports, by=copying(True)))
def true_is_a_copy(lib: Library, make: Make, values: Any, form: Any) -> None:
    """`__dlpack__(copy=True)` exports memory of its own each time, with the same values."""
    array = make()
    with allowed(BufferError):
        first, second = (Held(form(array)) for _ in range(2))
        own = Held(lib.either(array))
    expect(first.start != own.start, "it is the array's own memory")
    expect(first.start != second.start, "two copies are the same memory")
    for held in (first, second):
        expect(held.values() == values, f"the copy has {held.values()}")
    if hasattr(lib.source, "write"):
        with suppress(Exception):
            lib.source.write(array, lib.numbers(50.0))
            values = lib.values(array)
        found = Held(form(array)).values()
        expect(found == values, f"the next copy has {found}, not {values}")


@check(
    "copy.true-is-flagged", DEVIATION, FLAG, over=partial(exports, of=all_arrays, by=copying(True))
)
def true_is_flagged(lib: Library, make: Make, values: Any, form: Any) -> None:
    """A versioned capsule of a copy has IS_COPIED, and no READ_ONLY: nobody else has the memory."""
    array = make()
    with allowed():
        flags = Held(form(array)).flags
    if flags is None:
        raise NotApplicable("a legacy capsule has no flags")
    expect(flags & 3 == structs.IS_COPIED, f"flags are {flags:#x}")


@check("copy.false-shares", DATA, EXPORT, over=partial(exports, by=copying(False)))
def false_shares(lib: Library, make: Make, values: Any, form: Any) -> None:
    """`__dlpack__(copy=False)` exports the array's own memory, or raises a BufferError."""
    array = make()
    with allowed(BufferError):
        # Both at once: the memory of a copy that is gone may be that of the next.
        first, second = (Held(form(array)) for _ in range(2))
    address = getattr(lib.source, "address", None)
    own = first.start if address is None else address(array)
    expect({first.start, second.start} == {own}, "the memory is not shared")
    expect(not (first.flags or 0) & structs.IS_COPIED, "it has IS_COPIED")


@check(
    "copy.host-is-exported",
    DEVIATION,
    DEVICE + ": a tuple of an Enum and an int; kDLCPU must be supported",
    over=lambda lib: beside(beside(arrays(lib), (CPU, (DeviceType.CPU, 0))), COPIES),
)
def host_is_exported(
    lib: Library, make: Make, values: Any, device: Any, more: dict[str, Any]
) -> None:
    """`__dlpack__` accepts dl_device=(1, 0), the host, also with an Enum for the 1."""
    array, form = make(), capsules(lib)[-1][1]
    with allowed(BufferError):
        first, second = (Held(form(array, **more)) for _ in range(2))
    on_host = first.tensor.device_type in READABLE
    with allowed(() if on_host else BufferError):
        held = Held(form(array, dl_device=device, **more))
    copies = first.start != second.start or not on_host
    expect(copies or held.start == first.start, "it is a copy")
    kind = held.tensor.device_type
    expect(kind in (1, 3, 11, 13), f"the capsule is on a device of type {kind}")
    expect(held.values() == values, f"the capsule has {held.values()}")


def elsewhere(lib: Library) -> Iterator[tuple[Any, ...]]:
    sets = ({"dl_device": device, **more} for device in ((12, 0), (1, 5), CUDA) for more in COPIES)
    return beside(all_arrays(lib), sets)


@check(
    "copy.other-device",
    ERROR,
    DEVICE + ": 'must raise BufferError'",
    over=partial(exports, of=elsewhere, by=capsules),
)
def other_device(lib: Library, make: Make, values: Any, keywords: Any, form: Any) -> None:
    """A device that the library does not have raises BufferError."""
    array, device = make(), keywords["dl_device"]
    with due(BufferError):
        capsule = form(array, **keywords)
    found = Held(capsule).fields()["device"]
    expect(device == CUDA and found == [*CUDA], f"it gave a capsule on device {found}")


# ---- from_dlpack ------------------------------------------------------------------------------


def own_imports(lib: Library) -> Iterator[tuple[Any, ...]]:
    devices: tuple[dict[str, Any], ...] = {}, {"device": own_device(lib)}
    return beside(all_arrays(lib), [{**where, **copy} for where in devices for copy in COPIES])


@check("copy.import-own", DATA, IMPORT, over=own_imports)
def import_own(lib: Library, make: Make, values: Any, keywords: dict[str, Any]) -> None:
    """from_dlpack of the library's own array has the array's values: with copy=True in new memory,
    with copy=False in the array's; shared memory stays read-only."""
    is_read_only = getattr(lib.source, "is_read_only", lambda array: False)
    array, copy = make(), keywords.get("copy")
    with allowed(Exception if copy is None else (BufferError, ValueError)):
        first, second = (lib.take_or_skip(array, **keywords) for _ in range(2))
    expect_values(lib, first, values)
    address = getattr(lib.source, "address", None)
    if address is None or not flat(values):
        return
    shared = address(first) == address(array)
    expect(shared is not copy, f"copy={copy}, and it is {'the same' if shared else 'other'} memory")
    expect(not copy or address(first) != address(second), "two copies are the same memory")
    expect(not shared or is_read_only(first) or not is_read_only(array), "it is not read-only")


def copies_of_others(lib: Library) -> Iterator[tuple[Any, ...]]:
    """Each form with copy=, of each layout that has elements."""
    taken = [one for one in (*requests(lib), *forms(lib)) if one[1].copy is not None]
    compact = Layout("", lib.rows, {"shape": lib.shape, "strides": None})
    for (name, form), (what, layout) in product(taken, {"compact": compact, **LAYOUTS}.items()):
        if flat(layout.values) and ascends(layout):
            yield f"{name}, {what}", form, layout


@check("copy.import-of-another", DATA, IMPORT, over=copies_of_others)
def import_of_another(lib: Library, form: Form, layout: Layout) -> None:
    """from_dlpack(copy=True) of another library's array is a copy, whoever makes it; copy=False
    shares its memory, or raises."""
    address = lib.optional("address")
    offer = compact(lib, form, **fields_of(lib, layout))
    with allowed():
        result = lib.take(offer)
    expect_values(lib, result, values_of(lib, layout))
    shared = address(result) == offer_address(offer)
    if form.copy:
        expect(offer.copies() or not shared, "copy=True is not passed on, and the memory is shared")
    else:
        expect(shared, "the memory is not shared")
    del result
    expect_released(offer)


@check(
    "copy.import-false-error",
    ERROR,
    IMPORT,
    over=lambda lib: (found for found in all_forms(lib, "", "table") if found[1].copy is False),
)
def import_false_error(lib: Library, form: str) -> None:
    """from_dlpack(copy=False) raises BufferError or ValueError if it receives a flagged copy."""

    def answer(offer: Any) -> Any:
        if offer.asked[-1].get("copy") is False:
            raise BufferError("this producer always copies")
        return offer.capsule()

    act = None if form == "table" else answer
    offer = compact(lib, form, act=act, flags=structs.IS_COPIED)
    with allowed((BufferError, ValueError), ""):
        lib.take_or_skip(compact(lib), copy=False)
        result = lib.take(offer)
    asked = [call.get("copy") for call in offer.asked]
    if asked and form == "table":
        raise NotApplicable("it does not use the table")
    if asked and False not in asked and not offer.asked[-1].get("max_version"):
        raise NotApplicable("copy=False is not passed on, and legacy capsules have no flag")
    del result
    expect(False, f"it was accepted; copy= was passed as {asked}")


@check(
    "copy.import-is-passed-on",
    DEVIATION,
    "array API standard, from_dlpack: device, copy",
    over=lambda lib: (one for one in requests(lib) if one[1].keywords),
)
def import_is_passed_on(lib: Library, form: Form) -> None:
    """from_dlpack passes on copy=False, and device= as dl_device if the producer is elsewhere."""
    for key, name, device in (("device", "dl_device", CUDA), ("copy", "copy", CPU)):
        is_due = form.keywords.get(key) not in (None, True)
        found = passed(lib, form, name, device) if is_due else []
        is_passed = not found or any(one is not None for one in found)
        expect(is_passed, f"{name}= was passed as {found}")


@check(
    "copy.import-other-device",
    ERROR,
    "array API standard, from_dlpack: device",
    over=lambda lib: (
        (f"device={device!r}, {what}", name, device)
        for device in ("no such device", "cuda:99", (2, 99), CUDA)
        for what, name in (("a producer", ""), ("its own array", "own"), ("a table", "table"))
    ),
)
def import_other_device(lib: Library, name: str, device: Any) -> str:
    """from_dlpack(device=) with a device that does not exist raises an error."""
    lib.take_or_skip(compact(lib), device=None)

    def answer(offer: Any) -> Any:
        if offer.asked[-1].get("dl_device") not in (None, CPU):  # left to the producer
            raise BufferError("this producer has no such device")
        return offer.capsule()

    with allowed(words=""):
        act = None if name == "table" else answer
        offer = lib.make() if name == "own" else compact(lib, name, act=act)
        result = lib.take(offer, device=device)
    expect(device == CUDA, "it is taken")
    held = again(lib, result)
    expect(not held or held.tensor.device_type in (CUDA[0], 10), "it is not on that device")
    return "taken"
