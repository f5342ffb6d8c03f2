# SPDX-License-Identifier: Apache-2.0
"""The exchange table of a library's type, and the use of other libraries' tables."""

import ctypes
import gc
import math
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from dlpack_conformance import _dlpack, structs
from dlpack_conformance.checks.consumers import compact, expect_released, expect_values, six, taken
from dlpack_conformance.checks.producers import (
    Make,
    all_arrays,
    described,
    leaving,
    one_element,
    other_arrays,
)
from dlpack_conformance.elements import FORMATS, in_shape, row_major, sample
from dlpack_conformance.leaks import expect_no_growth, expect_no_leak
from dlpack_conformance.outcomes import DATA, DEVIATION, ERROR, MEMORY
from dlpack_conformance.producers import Offer, OfferByTable, new_table
from dlpack_conformance.suite import (
    Failed,
    Held,
    Library,
    NotApplicable,
    Refused,
    Unsafe,
    allowed,
    check,
    crossed,
    expect,
    needed,
    raise_of_table,
    told,
    values_in,
)

TABLE = "DLPack 1.3, dlpack.h: DLPackExchangeAPI"
REFUSALS = (TypeError, ValueError, BufferError, RuntimeError)


def of(lib: Library) -> structs.Table:
    return structs.Table.from_address(lib.table())


@check("table.is-a-capsule", MEMORY, TABLE + "; dmlc/dlpack#179")
def is_a_capsule(lib: Library) -> None:
    """`__dlpack_c_exchange_api__` is a capsule named 'dlpack_exchange_api'."""
    capsule = lib.exchange_api()
    if capsule is None:
        expect(not hasattr(lib.make(), "__dlpack_c_exchange_api__"), "the type does not have it")
        raise NotApplicable("its type has no exchange table")
    expect(type(capsule).__name__ == "PyCapsule", f"it is {type(capsule).__name__}")
    name = structs.capsule_name(capsule)
    expect(name == "dlpack_exchange_api", f"its name is {name!r}")


@check("table.version", DATA, TABLE + "Header: version, prev_api, the lifetime of the table")
def table_version(lib: Library) -> None:
    """The version of the table, or of one in its chain of prev_api, is 1.2 or 1.3; the table stays
    where it is, and the chain ends."""
    tables = lib.tables()
    gc.collect()
    if lib.tables() != tables or structs.TableHeader.from_address(tables[-1]).prev_api:
        raise Unsafe("the table moved, or the chain of older ones does not end")
    found = [str(structs.version_at(address)) for address in tables]
    expect(not {"1.2", "1.3"}.isdisjoint(found), f"the version is {', '.join(found)}")


@check("table.functions", MEMORY, TABLE)
def functions(lib: Library) -> None:
    """All functions are there; only the one that borrows may be NULL."""
    table, slots = of(lib), [name for name in structs.SLOTS if name not in structs.MAY_BE_NULL]
    missing = [name for name in slots if not getattr(table, name)]
    expect(not missing, f"NULL: {', '.join(missing)}")


# ---- borrowing --------------------------------------------------------------------------------


def borrow(lib: Library, array: Any) -> structs.Tensor:
    if not of(lib).dltensor_from_py_object_no_sync:
        raise NotApplicable("the function is NULL")
    lib.expect_own(array)
    room = structs.Tensor.from_buffer(bytearray(b"\xff" * ctypes.sizeof(structs.Tensor)))
    status, _, error = _dlpack.call_borrow(lib.table(), array, ctypes.addressof(room))
    raise_of_table(status, error)
    return room


def borrowable(lib: Library) -> Iterator[tuple[Any, ...]]:
    yield from all_arrays(lib)
    for name in lib.dtypes:
        if name in FORMATS:
            values = in_shape(sample(name), lib.shape)
            yield name, partial(lib.make, values, name), values


@check("table.borrows", DATA, TABLE, over=borrowable)
def borrows(lib: Library, make: Make, values: Any) -> None:
    """dltensor_from_py_object_no_sync describes an array's values, in the memory that the owning
    function gives, as long as the array exists."""
    with needed("has no such array"):
        array = make()
    with allowed(BufferError):
        room, held = borrow(lib, array), lib.by_table(array)
    found = values_in(room)
    expect(found == values, f"it described {found}")
    expect(room.strides or not room.ndim, "it described no strides")
    one, two = described(room), described(held.tensor)
    expect(
        one == two or held.struct.flags & structs.IS_COPIED, f"{one} is borrowed, and {two} given"
    )
    other = lib.make(one_element(values))
    borrow(lib, other)
    for one in other_arrays(lib):
        with suppress(Exception, NotApplicable):
            borrow(lib, one)
    found = values_in(room)
    expect(found == values, f"after another one was borrowed, {values} became {found}")


@check("table.borrow-owns-nothing", MEMORY, TABLE + ": 'non-owning'", over=leaving)
def borrow_owns_nothing(lib: Library, make: Make, values: Any) -> None:
    """A borrowed description takes no reference to the array, and no memory."""
    array = make()
    with allowed(BufferError):
        borrow(lib, array)
    before = sys.getrefcount(array)
    kept = [borrow(lib, array) for _ in range(8)]
    expect(sys.getrefcount(array) == before, "references are left behind")
    del kept
    expect_no_leak(lambda: borrow(lib, make()), "descriptions")


# ---- making objects ---------------------------------------------------------------------------


def give(lib: Library, **fields: Any) -> Any:
    """What its table makes of six numbers: status, object and exception."""
    return lib.to_object(six(lib, **fields).new(True))


@check("table.makes-an-array", DATA, TABLE)
def makes_an_array(lib: Library) -> None:
    """managed_tensor_to_py_object_no_sync makes an array of the values."""
    status, made, error = give(lib)
    raise_of_table(status, error)
    expect(isinstance(made, type(lib.make())), f"it made {type(made).__name__}")
    expect_values(lib, made, lib.rows, "the array")


@check(
    "table.makes-nothing-of-the-next-major",
    DEVIATION,
    TABLE + "; DLPackVersion: 'it is not safe to access any other field'",
)
def makes_nothing_of_the_next_major(lib: Library) -> str:
    """A managed tensor of version 2.0 is refused."""
    status, _, error = give(lib, version=(2, 0))
    expect(status != 0, "version 2.0 was accepted")
    expect(error is not None, f"it returned {status} without an exception")
    return repr(error)


# ---- allocation and streams -------------------------------------------------------------------


def allocate(lib: Library, attached: bool = True, **fields: Any) -> Any:
    """The result of the allocator for a prototype, whose strides and byte_offset mean nothing."""
    shape = fields.pop("shape", lib.shape)
    room = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    strides = (ctypes.c_int64 * max(len(shape), 1))(*range(100, 100 + len(shape)))
    prototype = structs.Tensor()
    prototype.device_type, prototype.device_id = fields.pop("device", (1, 0))
    prototype.ndim = len(shape)
    prototype.code, prototype.bits, prototype.lanes = fields.pop("dtype", lib.dtype_fields)
    prototype.shape = room if shape else None
    prototype.strides, prototype.byte_offset = strides, 1 << 32
    return _dlpack.call_allocate(lib.table(), ctypes.addressof(prototype), attached)


def prototypes(lib: Library) -> Iterator[tuple[Any, ...]]:
    for name in lib.dtypes:
        if name in FORMATS:
            yield f"{name}, {lib.shape}", lib.shape, (*FORMATS[name][:2], 1)
    for dtype in ((0, 4, 1), (*lib.dtype_fields[:2], 2)):
        yield f"{dtype}", (*lib.shape[:-1], 1 << 18), dtype
    for shape in ((), (2, 0), (3,), (2, 3, 4)):
        if lib.has_rank(len(shape)):
            yield f"{lib.dtype}, {shape}", shape, lib.dtype_fields


@check("table.allocates", DATA, TABLE, over=prototypes)
def allocates(lib: Library, shape: Any, dtype: Any) -> None:
    """managed_tensor_allocator gives a row-major tensor of the shape, type and device of the
    prototype, which can be written to, has a deleter, and is left alone by later calls."""
    (status, taken, error), calls, kind, message = allocate(lib, shape=shape, dtype=dtype)
    lacks = error is not None or kind == "NotImplementedError" or dtype != lib.dtype_fields
    if status:
        raise (NotApplicable if lacks else Refused)(f"{kind}: {message}")
    expect(error is None, f"it returned 0, and set {error!r}")
    expect(taken is not None, "it returned 0 and no managed tensor")
    expect(calls == 0, f"it returned 0, and SetError was called: {kind}: {message}")
    held = Held(taken)
    found = held.fields()
    expect((found["shape"] or []) == [*shape], f"the shape is {found['shape']}")
    expect(tuple(found["dtype"].values()) == dtype, f"the element type is {found['dtype']}")
    expect(found["device"] == [1, 0], f"the device is {found['device']}")
    expect(found["version"] in structs.RELEASED, f"version {found['version']}")
    expect(not found["flags"] & ~structs.IS_COPIED, f"flags are {found['flags']:#x}")
    expect(found["deleter"], "the deleter is NULL")
    size = math.prod(shape)
    old = (None,) if found["version"] in ("1.0", "1.1") or not shape else ()
    right = found["strides"] in (*old, row_major(shape)) or (not size and found["strides"])
    expect(right, f"the strides are {found['strides']}")
    ctypes.memset(held.start, 1, size * dtype[1] * dtype[2] // 8)
    other = allocate(lib, shape=shape, dtype=dtype)[0][1]
    expect(other is not None, "the next one is refused")
    if size and Held(other).start == held.start:
        raise Unsafe("the next one has the same memory")
    allocate(lib, shape=tuple(n + 1 for n in shape), dtype=dtype)
    expect(held.fields() == found, "the next one changed it")


def refusals(lib: Library) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "a device", {"device": (999, 0)}
    yield "a type", {"dtype": (200, 32, 1)}
    yield "elements", {"shape": (1 << 33, 1 << 33)}
    yield "bytes", {"shape": (1 << 62,), "dtype": (0, 64, 1)}


def allocations(lib: Library) -> Iterator[tuple[Any, ...]]:
    big = (*lib.shape[:-2], 1 << 14, 3) if len(lib.shape) > 1 else (3 << 14,)
    for shape in (big, lib.shape, *((2, 0),) * lib.has_rank(2)):
        yield f"{shape}", {"shape": shape}, math.prod(shape), False
    yield from ((name, fields, 0, True) for name, fields in refusals(lib))


@check("table.allocated-is-released", MEMORY, TABLE, over=allocations)
def allocated_is_released(lib: Library, fields: Any, size: int, may_refuse: bool) -> None:
    """What was allocated is freed by its deleter, and a refusal leaves nothing behind."""

    def step() -> None:
        taken = allocate(lib, **fields)[0][1]
        if taken is not None:
            taken.release()
        elif not may_refuse:
            raise NotApplicable("it is refused")

    if size > 1 << 14:
        expect_no_growth(step, lib.itemsize * size, "tensors allocated")
    else:
        expect_no_leak(step, "tensors allocated, or refused")


@check("table.allocates-without-the-gil", ERROR, TABLE + ": SetError 'may have to ensure the GIL'")
def allocates_without_the_gil(lib: Library) -> None:
    """managed_tensor_allocator needs no GIL; the deleter leaves a pending exception as it is."""
    (status, held, _), _, kind, message = allocate(lib, attached=False)
    if status and allocate(lib)[0][0]:
        raise NotApplicable(f"{kind}: {message}")
    expect(status == 0, f"{kind}: {message}")
    held.release("thread")
    held = allocate(lib)[0][1]
    expect(held is None or held.release("pending"), "its deleter lost an exception")


@check(
    "table.allocator-tells-errors",
    ERROR,
    TABLE,
    over=lambda lib: crossed(refusals(lib), (("with the GIL", True), ("without the GIL", False))),
)
def allocator_tells_errors(lib: Library, fields: dict[str, Any], attached: bool) -> "str | None":
    """A prototype that the allocator refuses is reported by SetError, once."""
    (status, held, error), calls, kind, message = allocate(lib, attached, **fields)
    expect(error is None, f"it set {error!r}")
    if status == 0:
        expect(held is not None, "it returned 0 and no managed tensor")
        expect("device" not in fields, "it gave memory of a device that does not exist")
        if "shape" in fields:
            held.forget()
            raise Unsafe("it gave more memory than there is")
        return "it has such memory"
    expect(calls == 1, f"SetError was called {calls} times")
    expect(kind.isidentifier(), f"SetError was called with the kind {kind!r}")
    return f"{kind}: {message}"


@check("table.host-stream", DATA, TABLE)
def host_stream(lib: Library) -> None:
    """current_work_stream gives NULL for the host."""
    for _ in range(2):
        status, stream, error = _dlpack.call_stream(lib.table(), 1, 0)
        expect(status == 0 and error is None, f"it returned {status}: {error!r}")
        expect(stream == 0, f"the stream is {stream}")


# ---- a library that reads tables --------------------------------------------------------------


def tabled(lib: Library, table: Any = None, **changes: Any) -> Offer:
    """A producer whose type has a table of its own, for a library that reads tables."""
    offer = compact(lib, "table")
    table = table or _dlpack.table_capsule(new_table(**changes))
    names = {**vars(OfferByTable), "__dlpack_c_exchange_api__": table}
    offer.__class__ = type("Changed", (Offer,), names)
    return offer


@check("table.of-the-next-major", MEMORY, TABLE + "Header.prev_api")
def of_the_next_major(lib: Library) -> None:
    """A table of version 2 is not used: `__dlpack__` is called instead, or the object refused."""
    with suppress(Exception):
        lib.take(tabled(lib))  # whose table is not that of another type, even at its address
    gc.collect()
    before = _dlpack.table_calls()
    for changes in ({"major": 2}, {"major": 3, "prev": new_table(major=2)}):
        with suppress(*REFUSALS, AttributeError):
            result = lib.take(tabled(lib, **changes))
            expect_values(lib, result, lib.rows)
    expect(_dlpack.table_calls() == before, "its function was called")


@check(
    "table.error-passes",
    ERROR,
    TABLE,
    over=lambda lib: ((mode, mode) for mode in ("raise", "raise, give")),
)
def error_passes(lib: Library, mode: str) -> "str | None":
    """The exception of a table's function reaches the caller, or `__dlpack__` is called, even if
    the function has stored a tensor; no reference to the producer is left behind."""
    producer: Any = tabled(lib)
    producer.mode = mode
    references = []
    for _ in range(2):
        with suppress(Exception):
            lib.take(producer)
        gc.collect()
        references.append(sys.getrefcount(producer))
    if references[0] != references[1]:
        raise Unsafe("a reference to the producer is left behind")
    try:
        lib.take(producer)
    except LookupError:
        return None
    except Exception as error:
        raise Failed(f"it became {told(error)}") from error
    expect(producer.asked, "it was swallowed")
    return "__dlpack__ was called"


@check("table.of-the-type", MEMORY, TABLE + ": an attribute of the type")
def of_the_type(lib: Library) -> None:
    """A table that an object has but its type lacks is not used: proxies have such tables."""
    if not lib.takes_tables:
        raise NotApplicable("it reads no tables")
    before, offer = _dlpack.table_calls(), compact(lib)
    vars(offer).update(__dlpack_c_exchange_api__=OfferByTable.__dlpack_c_exchange_api__)
    expect_values(lib, taken(lib, offer, "a proxy"), lib.rows)
    expect(_dlpack.table_calls() == before, "its function was called")


@check(
    "table.number-is-not-followed",
    MEMORY,
    "dmlc/dlpack#180; pytorch/pytorch#169724",
    over=lambda lib: (
        ("a number", 4096),
        ("a capsule with another name", _dlpack.table_capsule(_dlpack.table(), False)),
    ),
)
def number_is_not_followed(lib: Library, attribute: Any) -> None:
    """An attribute that is a number, as before 1.3, or a capsule with another name, is not
    dereferenced."""
    before, offer = _dlpack.table_calls(), tabled(lib, attribute)
    with allowed(REFUSALS, ""):
        result = lib.take(offer)
        expect_values(lib, result, lib.rows)
        del result
        expect_released(offer)
    expect(_dlpack.table_calls() == before, "its function was called")
