"""The exchange table of a library's type, and the use of other libraries' tables."""

import ctypes
import gc
import sys
from contextlib import suppress
from functools import partial
from typing import Any

from dlpack_conformance import _dlpack, structs
from dlpack_conformance.checks.consumers import (
    UNMAPPED,
    compact,
    expect_released,
    expect_unwritten,
    expect_values,
    offer_address,
    six,
    stays_on,
    taken,
)
from dlpack_conformance.checks.layouts import (
    LAYOUTS,
    Layout,
    check_of,
    expect_layout,
    fields_of,
)
from dlpack_conformance.checks.producers import BIG, expect_same
from dlpack_conformance.inspector import inspect_capsule, inspect_exchange_api
from dlpack_conformance.producers import CUDA, Given, Offer, Tabled, new_table
from dlpack_conformance.suite import (
    DATA,
    DEVIATION,
    ERROR,
    MEMORY,
    Allowed,
    Library,
    NotApplicable,
    allowed,
    check,
    expect,
    expect_no_growth,
    flat,
    noise,
    told,
    values_in,
)

TABLE = "DLPack 1.3, dlpack.h: DLPackExchangeAPI"
REFUSALS = (TypeError, ValueError, BufferError, RuntimeError)


def of(lib: Library) -> Any:
    """The contents of its table."""
    lib.table()
    return inspect_exchange_api(lib.exchange_api())


@check(
    "table.is-a-capsule",
    MEMORY,
    "The attribute is a capsule named 'dlpack_exchange_api'.",
    TABLE + "; dmlc/dlpack#179",
)
def is_a_capsule(lib: Library) -> None:
    capsule = lib.exchange_api()
    if capsule is None:
        raise NotApplicable("its type has no exchange table")
    expect(type(capsule).__name__ == "PyCapsule", f"it is {type(capsule).__name__}")
    name = structs.capsule_name(capsule)
    expect(name == "dlpack_exchange_api", f"its name is {name!r}")


@check(
    "table.version",
    DATA,
    "The version of the table is one that was released.",
    TABLE + "Header.version",
)
def table_version(lib: Library) -> None:
    found = of(lib)["version"]
    expect(found in ("1.2", "1.3"), f"the version is {found}")


@check(
    "table.functions",
    MEMORY,
    "All functions are there; only the one that borrows may be NULL.",
    TABLE,
)
def functions(lib: Library) -> None:
    missing = [
        name
        for name, there in of(lib)["functions"].items()
        if not there and name not in structs.MAY_BE_NULL
    ]
    expect(not missing, f"NULL: {', '.join(missing)}")


@check(
    "table.stays",
    MEMORY,
    "The table is the same whenever it is looked up: a consumer may keep the pointer.",
    TABLE + ": 'must be kept alive for the lifetime of the process'",
)
def stays(lib: Library) -> None:
    first = lib.table()
    gc.collect()
    expect(lib.table() == first, "it moved")


@check(
    "table.gives-values",
    DATA,
    "managed_tensor_from_py_object_no_sync gives the array's values.",
    TABLE,
)
def gives_values(lib: Library) -> None:
    held = from_object(lib, lib.make())
    found = values_in(held[1].tensor)
    expect(flat(found) == flat(lib.rows), f"it gave {found}")


def from_object(lib: Library, array: Any) -> Any:
    """(Taken, struct) of an array by its table."""
    status, held, error = _dlpack.call_from_object(lib.table(), array)
    expect(status == 0, f"it returned {status}: {error!r}")
    expect(held is not None, "it returned 0 and no managed tensor")
    assert held is not None
    return held, structs.managed_at(held.address, True)


@check(
    "table.sets-no-error",
    ERROR,
    "A function that returns 0 leaves no exception behind.",
    TABLE,
)
def sets_no_error(lib: Library) -> None:
    status, _, error = _dlpack.call_from_object(lib.table(), lib.make())
    expect(status == 0, f"it returned {status}: {error!r}")
    expect(error is None, f"it returned 0 and set {error!r}")


@check(
    "table.gives-a-known-version",
    DATA,
    "The managed tensor has a version that was released.",
    TABLE,
)
def gives_a_known_version(lib: Library) -> None:
    _, struct = from_object(lib, lib.make())
    found = (struct.version.major, struct.version.minor)
    expect(found[0] == 1 and found[1] <= 3, f"the version is {found}")


@check(
    "table.agrees-with-dlpack",
    DATA,
    "The table and `__dlpack__` describe the same memory.",
    TABLE,
)
def agrees_with_dlpack(lib: Library) -> None:
    array = lib.make()
    _, struct = from_object(lib, array)
    by_table = structs.fields(struct)
    by_method = inspect_capsule(lib.either(array))
    expect_same(by_table, by_method, "by the table", "by __dlpack__")


@check(
    "table.keeps-memory",
    MEMORY,
    "The managed tensor keeps the memory when the array is gone.",
    TABLE,
)
def keeps_memory(lib: Library) -> None:
    held, struct = from_object(lib, lib.make())
    others = noise(lib)
    found = values_in(struct.tensor)
    expect(flat(found) == flat(lib.rows), f"after the array was deleted: {found}")
    held.release()
    del others


@check(
    "table.gives-back",
    MEMORY,
    "The deleter of what the table gave gives everything back.",
    TABLE,
)
def gives_back(lib: Library) -> None:
    def step() -> None:
        held, _ = from_object(lib, lib.make(BIG))
        held.release()

    expect_no_growth(step, lib.itemsize * len(BIG), "exports by the table")


@check(
    "table.deleter-any-thread",
    MEMORY,
    "The deleter of what the table gave may be called without the GIL.",
    TABLE + "; dmlc/dlpack#129",
)
def deleter_any_thread(lib: Library) -> None:
    for _ in range(4):
        held, _ = from_object(lib, lib.make())
        held.release("thread")


@check(
    "table.read-only",
    DATA,
    "An array that must not be written to has READ_ONLY by the table too, or is refused.",
    TABLE,
)
def read_only(lib: Library) -> "str | None":
    array = lib.optional("read_only")(lib.make())
    status, held, error = _dlpack.call_from_object(lib.table(), array)
    if status or held is None:
        return f"refused: {error!r}"
    flags = structs.Versioned.from_address(held.address).flags
    expect(flags & structs.READ_ONLY, f"flags are {flags:#x}")
    return None


@check(
    "table.wrong-object",
    ERROR,
    "An object of another type is refused with an exception.",
    TABLE + "; CVE-2020-15193",
)
def wrong_object(lib: Library) -> None:
    status, held, error = _dlpack.call_from_object(lib.table(), object())
    expect(status != 0, f"it returned 0 and {held!r}")
    expect(error is not None, f"it returned {status} without an exception")


# ---- borrowing --------------------------------------------------------------------------------


def borrow(lib: Library, array: Any) -> structs.Tensor:
    if not of(lib)["functions"]["dltensor_from_py_object_no_sync"]:
        raise NotApplicable("the function is NULL")
    room = structs.Tensor()
    status, _, error = _dlpack.call_borrow(lib.table(), array, ctypes.addressof(room))
    expect(status == 0, f"it returned {status}: {error!r}")
    return room


@check(
    "table.borrows-values",
    DATA,
    "dltensor_from_py_object_no_sync describes the array's values.",
    TABLE,
)
def borrows_values(lib: Library) -> None:
    array = lib.make()
    found = values_in(borrow(lib, array))
    expect(flat(found) == flat(lib.rows), f"it described {found}")


@check(
    "table.borrow-owns-nothing",
    MEMORY,
    "A borrowed description takes no reference to the array.",
    TABLE + ": 'non-owning'",
)
def borrow_owns_nothing(lib: Library) -> None:
    array = lib.make()
    borrow(lib, array)
    before = sys.getrefcount(array)
    kept = [borrow(lib, array) for _ in range(8)]
    expect(sys.getrefcount(array) == before, "references are left behind")
    del kept


@check(
    "table.borrow-agrees",
    DATA,
    "The borrowed description is of the memory that the owning one has.",
    TABLE,
)
def borrow_agrees(lib: Library) -> None:
    array = lib.make()
    room = borrow(lib, array)
    _, struct = from_object(lib, array)
    one = (room.data or 0) + room.byte_offset
    two = (struct.tensor.data or 0) + struct.tensor.byte_offset
    expect(one == two, f"they are at {one:#x} and {two:#x}")


# ---- making objects ---------------------------------------------------------------------------


def give(lib: Library, **fields: Any) -> tuple[Given, Any]:
    """(managed tensor, what its table makes of it)."""
    given = six(lib, **fields).managed(True)
    return given, given_to(lib, given)


def given_to(lib: Library, given: Given) -> Any:
    """What its table makes of a managed tensor: status, object and exception."""
    held = _dlpack.take(given.capsule())
    result = _dlpack.call_to_object(lib.table(), held)
    if result[0]:
        held.forget()  # ownership after a failure is unspecified
    return result


@check(
    "table.makes-an-array",
    DATA,
    "managed_tensor_to_py_object_no_sync makes an array of the values.",
    TABLE,
)
def makes_an_array(lib: Library) -> None:
    _, (status, made, error) = give(lib)
    expect(status == 0, f"it returned {status}: {error!r}")
    expect(isinstance(made, type(lib.make())), f"it made {type(made).__name__}")
    expect_values(lib, made, lib.rows, "the array")


@check(
    "table.array-owns-the-tensor",
    MEMORY,
    "The array that it made releases the managed tensor once, when it is gone.",
    TABLE + ": 'ownership of the tensor is stolen'",
)
def array_owns_the_tensor(lib: Library) -> None:
    given, (status, made, error) = give(lib)
    expect(status == 0, f"it returned {status}: {error!r}")
    expect(given.deleted == 0 or flat(lib.values(made)) == flat(lib.rows), "released early")
    del made
    gc.collect()
    expect(given.deleted == 1, f"the deleter was called {given.deleted} times")


@check(
    "table.refusal-has-an-error",
    ERROR,
    "A managed tensor that it refuses is reported with an exception.",
    TABLE,
)
def refusal_has_an_error(lib: Library) -> "str | None":
    _, (status, _, error) = give(lib, dtype=(200, 32, 1))
    if status == 0:
        return "accepted"
    expect(error is not None, f"it returned {status} without an exception")
    return told(error)


@check(
    "table.refusal-does-not-release-twice",
    MEMORY,
    "A managed tensor that it refuses is released at most once by it.",
    TABLE + ": silent on failure",
)
def refusal_at_most_once(lib: Library) -> None:
    given, (status, made, _) = give(lib, dtype=(200, 32, 1))
    del made
    gc.collect()
    expect(given.deleted <= 1, f"the deleter was called {given.deleted} times")
    expect(status == 0 or given.deleted == 0, "it released what the caller still owns")


def object_in(result: Any) -> Any:
    """The object that its table made, unless it refused."""
    status, made, error = result
    if status:
        raise Allowed(f"refused: {error!r}")
    return made


def makes_a_layout(lib: Library, layout: Layout) -> None:
    _, result = give(lib, **fields_of(lib, layout))
    expect_layout(lib, object_in(result), layout)


for _name, _layout in LAYOUTS.items():
    check(
        f"table.makes-{_name}",
        DATA,
        f"{_layout.title} has its values in the array that the table makes, or is refused.",
        TABLE + "; " + _layout.clause,
        check_of(_name),
    )(partial(makes_a_layout, layout=_layout))


def given_read_only(lib: Library) -> tuple[Offer, Any]:
    """A producer of READ_ONLY memory, and the object that the table makes of it."""
    offer = six(lib, flags=structs.READ_ONLY)
    return offer, object_in(given_to(lib, offer.managed(True)))


@check(
    "table.makes-read-only",
    DATA,
    "READ_ONLY memory is not written to through the array that the table makes.",
    TABLE + "; DLPACK_FLAG_BITMASK_READ_ONLY",
)
def makes_read_only(lib: Library) -> None:
    write = lib.optional("write")
    offer, made = given_read_only(lib)
    with suppress(Exception):
        write(made, lib.numbers(50.0))
    expect_unwritten(offer)


@check(
    "table.makes-read-only-again",
    DATA,
    "The array that the table makes of READ_ONLY memory is exported as READ_ONLY again.",
    TABLE + "; DLPACK_FLAG_BITMASK_READ_ONLY",
)
def makes_read_only_again(lib: Library) -> None:
    offer, made = given_read_only(lib)
    with allowed(BufferError):
        found = inspect_capsule(lib.versioned(made))
    if found["data"] + found["byte_offset"] != offer_address(offer):
        raise Allowed("copies")
    expect(found["flags"] & structs.READ_ONLY, f"flags are {found['flags']:#x}")


@check(
    "table.makes-nothing-of-the-next-major",
    DEVIATION,  # the caller has seen that the table is of version 1
    "A managed tensor of version 2.0 is refused.",
    TABLE + "; DLPackVersion: 'it is not safe to access any other field'",
)
def makes_nothing_of_the_next_major(lib: Library) -> str:
    _, (status, _, error) = give(lib, version=(2, 0))
    expect(status != 0, "version 2.0 was accepted")
    return repr(error)


@check(
    "table.makes-what-is-on-its-device",
    MEMORY,
    "Memory of another device is refused, or described as such without being read.",
    TABLE + "; DLDevice",
)
def makes_what_is_on_its_device(lib: Library) -> str:
    _, result = give(lib, device=CUDA, data=UNMAPPED)
    return stays_on(lib, object_in(result), CUDA)


# ---- allocation and streams -------------------------------------------------------------------


def allocate(lib: Library, attached: bool = True, **fields: Any) -> Any:
    """The result of the allocator for a prototype of two rows of three elements."""
    shape = fields.pop("shape", (2, 3))
    room = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    prototype = structs.Tensor()
    prototype.device_type, prototype.device_id = fields.pop("device", (1, 0))
    prototype.ndim = len(shape)
    prototype.code, prototype.bits, prototype.lanes = lib.dtype_fields
    prototype.shape = room
    return _dlpack.call_allocate(lib.table(), ctypes.addressof(prototype), attached)


@check(
    "table.allocates",
    DATA,
    "managed_tensor_allocator gives a tensor of the shape, type and device of the prototype.",
    TABLE,
)
def allocates(lib: Library) -> "str | None":
    (status, held, _), _, kind, message = allocate(lib)
    if status and kind == "NotImplementedError":
        return f"not implemented: {message}"
    expect(status == 0 and held is not None, f"it returned {status}: {kind}: {message}")
    assert held is not None
    found = structs.fields(structs.Versioned.from_address(held.address))
    expect(found["shape"] == [2, 3], f"the shape is {found['shape']}")
    dtype = tuple(found["dtype"].values())
    expect(dtype == lib.dtype_fields, f"the element type is {dtype}")
    expect(found["device"][0] == 1, f"the device is {found['device']}")
    expect(found["strides"] in (None, [3, 1]), f"the strides are {found['strides']}")
    ctypes.memset(
        found["data"] + found["byte_offset"], 1, 6 * lib.itemsize
    )  # the memory must be writable
    held.release()
    return None


@check(
    "table.allocates-without-the-gil",
    MEMORY,
    "managed_tensor_allocator may be called without the GIL.",
    TABLE + ": SetError 'may have to ensure the GIL'",
)
def allocates_without_the_gil(lib: Library) -> "str | None":
    (status, held, _), _, kind, message = allocate(lib, attached=False)
    if status:
        return f"{kind}: {message}"
    held.release("thread")
    return None


@check(
    "table.allocator-tells-errors",
    ERROR,
    "A prototype that it refuses is reported by SetError, once.",
    TABLE,
)
def allocator_tells_errors(lib: Library) -> "str | None":
    (status, held, _), calls, kind, message = allocate(lib, device=(12, 0))
    if status == 0:
        expect(held is not None, "it returned 0 and no managed tensor")
        return "it has such memory"
    expect(calls == 1, f"SetError was called {calls} times")
    expect(kind, "SetError was called without a kind")
    return f"{kind}: {message}"


@check(
    "table.allocator-refuses-overflow",
    MEMORY,
    "A prototype of more bytes than 64 bits count is refused.",
    TABLE,
)
def allocator_refuses_overflow(lib: Library) -> str:
    (status, held, _), _, kind, message = allocate(lib, shape=(1 << 33, 1 << 33))
    if held is not None:
        held.forget()
    expect(status != 0, "it allocated that")
    return f"{kind}: {message}"


@check(
    "table.host-stream",
    DATA,
    "current_work_stream gives NULL for the host.",
    TABLE,
)
def host_stream(lib: Library) -> None:
    status, stream, error = _dlpack.call_stream(lib.table(), 1, 0)
    expect(status == 0, f"it returned {status}: {error!r}")
    expect(stream == 0, f"the stream is {stream}")


# ---- a library that reads tables --------------------------------------------------------------


def tabled(lib: Library, **changes: Any) -> tuple[Given, Any]:
    """(managed tensor, an object that has it, with a table), for a library that reads tables."""
    if not lib.takes_tables:
        raise NotApplicable("it reads no tables")
    given = six(lib).managed(True)
    return given, producing(**changes)(given)


@check(
    "table.is-read",
    DATA,
    "A library that reads tables takes an object that has one, with its values.",
    TABLE,
)
def is_read(lib: Library) -> None:
    _, producer = tabled(lib)
    expect_values(lib, taken(lib, producer, "an object with a table"), lib.rows)


@check(
    "table.what-was-read-is-released",
    MEMORY,
    "What came by a table is released once.",
    TABLE,
)
def what_was_read_is_released(lib: Library) -> None:
    given, producer = tabled(lib)
    result = taken(lib, producer, "an object with a table")
    expect(given.deleted <= 1, f"the deleter was called {given.deleted} times")
    del result, producer
    gc.collect()
    expect(given.handed == given.deleted, f"{given.handed} given, {given.deleted} released")


def producing(**changes: Any) -> type:
    """A new type with a table, and `__dlpack__` for those who need that."""

    class Both(Tabled):
        if changes:
            __dlpack_c_exchange_api__ = _dlpack.table_capsule(new_table(**changes))

        def __dlpack_device__(self) -> Any:
            return (1, 0)

        def __dlpack__(self, **keywords: Any) -> Any:
            return self.managed.capsule()

    return Both


@check(
    "table.of-the-next-major",
    MEMORY,
    "A table of version 2 is not used: `__dlpack__` is called instead, or the object refused.",
    TABLE + "Header.prev_api",
)
def of_the_next_major(lib: Library) -> None:
    before = _dlpack.table_calls()
    _, producer = tabled(lib, major=2)
    with suppress(*REFUSALS, AttributeError):
        result = lib.take(producer)
        expect_values(lib, result, lib.rows)
    expect(_dlpack.table_calls() == before, "its function was called")


@check(
    "table.with-a-null-function",
    MEMORY,
    "A table without the function that gives a tensor is not called.",
    TABLE,
)
def with_a_null_function(lib: Library) -> None:
    _, producer = tabled(lib, without="from_object")
    with allowed(words=""):
        lib.take(producer)


@check(
    "table.error-passes",
    ERROR,
    "The exception of a table's function reaches the caller, or `__dlpack__` is asked.",
    TABLE,
)
def error_passes(lib: Library) -> "str | None":
    given, producer = tabled(lib)
    producer.mode = "raise"
    try:
        lib.take(producer)
    except LookupError:
        return None
    except Exception as error:
        expect(False, f"it became {told(error)}")
    expect(given.handed > 0, "it was swallowed")
    return "__dlpack__ was asked"


@check(
    "table.number-is-not-followed",
    MEMORY,
    "An attribute that is a number, as before 1.3, is not dereferenced unless it was agreed.",
    "dmlc/dlpack#180; pytorch/pytorch#169724",
)
def number_is_not_followed(lib: Library) -> None:
    if not lib.takes_tables:
        raise NotApplicable("it reads no tables")

    class Numbered(Offer):
        __dlpack_c_exchange_api__ = 4096

    offer = compact(lib)
    offer.__class__ = Numbered
    with allowed(REFUSALS, ""):
        result = lib.take(offer)
        expect_values(lib, result, lib.rows)
        del result
        expect_released(offer)


@check(
    "table.prev-chain-ends",
    MEMORY,
    "The chain of older tables ends.",
    TABLE + "Header.prev_api",
)
def prev_chain_ends(lib: Library) -> None:
    expect(not of(lib)["chain_is_cut"], "it does not end")


@check(
    "table.strides-present",
    DEVIATION,
    "What the table gives has strides, as of version 1.2.",
    "DLPack 1.3, dlpack.h: DLTensor.strides",
)
def strides_present(lib: Library) -> None:
    _, struct = from_object(lib, lib.make())
    expect(bool(struct.tensor.strides), "strides are NULL")
