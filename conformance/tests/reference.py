# SPDX-License-Identifier: Apache-2.0
"""A library of arrays that follows every rule, made of parts that a mutant replaces.

It tests the checks: each passes here, and fails on a mutant (mutants.py).
"""

import ctypes
from math import prod
from typing import Any

from dlpack_conformance import _dlpack, structs
from dlpack_conformance.elements import (
    FORMATS,
    KNOWN,
    flat,
    in_shape,
    packed,
    read,
    row_major,
    shape_of,
)
from dlpack_conformance.suite import dtype_of

CPU = (1, 0)


class Array:
    """Memory at `data`, kept alive by `keep`."""

    maker: "Reference"
    device = "cpu"

    def __init__(
        self,
        keep: Any,
        data: int,
        shape: Any,
        strides: Any,
        dtype: str,
        read_only: bool = False,
        base: int = 0,
    ) -> None:
        self.keep, self.data, self.dtype, self.is_read_only = keep, data, dtype, read_only
        self.shape, self.strides = tuple(shape), tuple(strides)
        self.room = (ctypes.c_int64 * (2 * len(self.shape) or 1))(*self.shape, *self.strides)
        self.base = base or data  # the start of the array that this is a view of
        self.managed: Any = None  # for a table of _dlpack.table
        self.mode = "give and raise"

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.maker.dlpack(self, **keywords)

    def __dlpack_device__(self) -> Any:
        return self.maker.device(self)

    def read(self) -> Any:
        return read(self.data, self.shape, self.strides, self.dtype)

    def view(self, shape: Any, strides: Any, start: int = 0) -> "Array":
        data = self.data + FORMATS[self.dtype][1] // 8 * start
        return type(self)(self.keep, data, shape, strides, self.dtype, self.is_read_only, self.base)


class Reference:
    """The library. For the purpose of each method see its caller, and Library in suite.py."""

    title = "the reference library"
    distribution = "dlpack-conformance"
    takes_tables = True
    publishes = "dlpack_exchange_api"
    unchecked: frozenset[str] = frozenset()  # rules that are not checked
    error: type[Exception] = BufferError  # of a refusal

    views = {
        "transposed": lambda x: x.view(x.shape[::-1], x.strides[::-1]),
        "strided": lambda x: x.view(
            (x.shape[0], -(-x.shape[1] // 2)), (x.strides[0], 2 * x.strides[1])
        ),
        "reversed": lambda x: x.view(
            x.shape, (-x.strides[0], x.strides[1]), (x.shape[0] - 1) * x.strides[0]
        ),
        "offset": lambda x: x.view(tuple(n - 1 for n in x.shape), x.strides, sum(x.strides)),
        "broadcast": lambda x: x.view((2, 4), (x.strides[0], 0)),
        "column": lambda x: x.view(x.shape[:1], x.strides[:1], x.strides[1]),
    }

    def __init__(self) -> None:
        self.kind = type("Array", (Array,), {"maker": self})
        self.publish(self.table())
        self.kept: list[Any] = []
        self.wanted: Any = None  # the device that from_dlpack was given

    def publish(self, table: int) -> None:
        capsule = _dlpack.table_capsule(table, self.publishes == "dlpack_exchange_api")
        self.kind.__dlpack_c_exchange_api__ = capsule  # type: ignore[attr-defined]

    def table(self) -> int:
        return _dlpack.handled_table(self)

    # ---- its arrays

    def make(self, values: Any, dtype: str) -> Array:
        shape = shape_of(values)
        memory = bytearray(packed(flat(values), dtype) or b"\0")
        return self.kind(memory, _dlpack.address(memory), shape, row_major(shape), dtype)

    def values(self, array: Array) -> Any:
        return array.read()

    def address(self, array: Array) -> int:
        return array.data

    def conjugated(self, array: Array) -> Array:
        values = [value.conjugate() for value in flat(array.read())]
        return self.make(in_shape(values, array.shape), array.dtype)

    def read_only(self, array: Array) -> Array:
        view = array.view(array.shape, array.strides)
        view.is_read_only = True
        return view

    def is_read_only(self, array: Array) -> bool:
        return array.is_read_only

    def write(self, array: Array, value: float) -> None:
        if array.is_read_only:
            raise ValueError("the array is read-only")
        content = packed([value], array.dtype)
        ctypes.memmove(array.data, content, len(content))

    # ---- as a producer

    def device(self, array: Array) -> Any:
        return CPU

    def dlpack(
        self,
        array: Array,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: Any = None,
    ) -> Any:
        if stream is not None:
            raise BufferError("the host has no streams")
        if dl_device not in (None, CPU):
            raise BufferError("there is no such device")
        versioned = self.versioned(max_version)
        if copy:
            array = self.copied(array)
        elif array.is_read_only and not versioned:
            raise BufferError("a legacy capsule cannot say that the array is read-only")
        return self.capsule(self.managed(array, versioned, bool(copy)))

    def versioned(self, max_version: Any) -> bool:
        return max_version is not None and max_version[0] >= 1

    def copied(self, array: Array) -> Array:
        strides, size = row_major(array.shape), FORMATS[array.dtype][1] // 8 * prod(array.shape)
        if array.strides != tuple(strides):
            return self.make(array.read(), array.dtype)
        memory = bytearray(ctypes.string_at(array.data, size) or b"\0")
        return self.kind(memory, _dlpack.address(memory), array.shape, strides, array.dtype)

    def managed(self, array: Array, versioned: bool, copied: bool = False) -> Any:
        fields = {"deleter": 5, **self.fields(array, versioned, copied)}
        return _dlpack.Managed(versioned, self.owner(array), self.on_delete(array), **fields)

    def owner(self, array: Array) -> Any:
        return array.keep

    def on_delete(self, array: Array) -> Any:
        return None

    def fields(self, array: Array, versioned: bool, copied: bool) -> dict[str, Any]:
        code, bits, _ = FORMATS[array.dtype]
        fields: dict[str, Any] = {
            "data": array.data,
            "shape": array.shape or None,
            "strides": array.strides if array.shape else None,
            "dtype": (code, bits, 1),
        }
        if versioned:
            fields["flags"] = structs.READ_ONLY * array.is_read_only + structs.IS_COPIED * copied
        return fields

    def capsule(self, managed: Any) -> Any:
        return managed.capsule()

    # ---- as a consumer

    def from_dlpack(self, x: Any, *, device: Any = None, copy: Any = None) -> Array:
        self.check_device(device)
        self.wanted = CPU if device in ("cpu", CPU) else None
        table = self.table_of(x)
        if table:
            status, held, error = _dlpack.call_from_object(table, x)
            if status or held is None:
                raise error or BufferError("the table gave nothing")
            if copy is False and self.look(held)["flags"] & structs.IS_COPIED:
                held.release()
                raise BufferError("this is a copy")
            result = self.adopt(held)
            return self.copied(result) if copy else result
        return self.adopt(self.open(self.ask(x, copy)))

    def check_device(self, device: Any) -> None:
        if device not in (None, "cpu", CPU):
            raise ValueError("there is no such device")

    def from_capsule(self, capsule: Any) -> Array:
        return self.adopt(self.open(capsule))

    def table_of(self, x: Any) -> int:
        """The address of a usable table; 0 if there is none."""
        capsule = getattr(self.owner_of_table(x), "__dlpack_c_exchange_api__", None)
        if type(capsule).__name__ != "PyCapsule":
            return self.table_of_number(capsule)
        if structs.capsule_name(capsule) != "dlpack_exchange_api":
            return 0
        address = structs.address_in(capsule)
        return address if self.is_usable(structs.Table.from_address(address)) else 0

    def owner_of_table(self, x: Any) -> Any:
        return type(x)

    def table_of_number(self, number: Any) -> int:
        return 0

    def is_usable(self, table: structs.Table) -> bool:
        return table.version.major == 1 and bool(table.managed_tensor_from_py_object_no_sync)

    def keywords(self, copy: Any) -> dict[str, Any]:
        wanted = {"copy": copy, "dl_device": self.wanted}
        return {"max_version": (1, 3), **{k: v for k, v in wanted.items() if v is not None}}

    def ask(self, x: Any, copy: Any) -> Any:
        if not hasattr(type(x), "__dlpack__"):
            raise TypeError(f"{type(x).__name__} is not a producer")
        self.ask_device(x)
        try:
            return x.__dlpack__(**self.keywords(copy))
        except TypeError as error:
            if "keyword" not in str(error):
                raise
        capsule = self.ask_again(x)
        return self.copied(self.adopt(self.open(capsule))).__dlpack__() if copy else capsule

    def ask_device(self, x: Any) -> Any:
        return x.__dlpack_device__()

    def ask_again(self, x: Any) -> Any:
        return x.__dlpack__()

    def open(self, capsule: Any) -> Any:
        if type(capsule).__name__ != "PyCapsule":
            raise TypeError(f"__dlpack__ returned {type(capsule).__name__}")
        return _dlpack.take(capsule)

    def adopt(self, held: Any) -> Array:
        try:
            return self.to_object(held)
        except self.error:
            self.drop(held)
            raise

    def drop(self, held: Any) -> None:
        held.release()

    def look(self, held: Any) -> dict[str, Any]:
        """The fields of the managed tensor, with tuples of numbers."""
        managed = structs.managed_at(held.address, held.versioned)
        if held.versioned and managed.version.major != 1 and "version" not in self.unchecked:
            raise self.error("the layout of this version is not known")
        found = structs.fields(managed)
        version = found["version"]
        return {
            **found,
            "version": version and tuple(map(int, version.split("."))),
            "device": tuple(found["device"]),
            "dtype": tuple(found["dtype"].values()),
            "shape": found.get("shape", []),
            "strides": found.get("strides"),
        }

    def view(self, view: dict[str, Any]) -> dict[str, Any]:
        return view

    def refuse(self, view: dict[str, Any]) -> str:
        return ""

    def wrong(self, view: dict[str, Any]) -> str:
        """Why a description is invalid; "" if it is valid."""
        shape = view["shape"] or []
        strides = view["strides"] if view["strides"] is not None else row_major(shape)
        size = 1
        for n in shape:
            size *= n
        least = sum(min(0, (n - 1) * s) for n, s in zip(shape, strides, strict=False))
        most = sum(max(0, (n - 1) * s) for n, s in zip(shape, strides, strict=False))
        item = max(view["dtype"][1] // 8, 1)
        start = view["data"] + view["byte_offset"]
        rules = {
            "version": view["version"] is None or view["version"][0] == 1,
            "device": view["device"][0] == 1,
            "ndim": 0 <= view["ndim"] <= structs.MOST_DIMS,
            "shape": view["shape"] is not None or view["ndim"] == 0,
            "dimension": all(n >= 0 for n in shape),
            "dtype": view["dtype"] in KNOWN,
            "size": size * item < 1 << 62,
            "data": view["data"] != 0 or size == 0,
            "offset": start < 1 << 63,
            "stride": not size or (start + least * item >= 0 and start + most * item < 1 << 63),
        }
        return next(
            (name for name, kept in rules.items() if not kept and name not in self.unchecked), ""
        )

    def array(self, held: Any, view: dict[str, Any]) -> Array:
        shape = view["shape"] or []
        strides = view["strides"] if view["strides"] is not None else row_major(shape)
        return self.kind(
            self.hold(held, view),
            view["data"] + view["byte_offset"],
            shape,
            strides,
            KNOWN.get(view["dtype"], "float32"),
            bool(view["flags"] & structs.READ_ONLY),
        )

    def hold(self, held: Any, view: dict[str, Any]) -> Any:
        return held

    # ---- its table

    def from_object(self, x: Any) -> Any:
        if not isinstance(x, Array):
            raise TypeError(f"{type(x).__name__} is not an array of this library")
        return self.managed(x, True)

    def to_object(self, held: Any) -> Any:
        view = self.view(self.look(held))
        wrong = self.refuse(view) or self.wrong(view)
        if wrong:
            raise self.error(wrong)
        return self.array(held, view)

    def borrow(self, x: Any) -> Any:
        """Shape and strides are those of the array, so nothing is left behind."""
        room = {"ndim": len(x.shape), "shape": ctypes.addressof(x.room)}
        room["strides"] = room["shape"] + 8 * len(x.shape)
        return _dlpack.Managed(True, None, None, **self.fields(x, True, False) | room, deleter=5)

    def allocate(self, prototype: int) -> Any:
        tensor = structs.Tensor.from_address(prototype)
        shape = structs.numbers(tensor.shape, tensor.ndim) or []
        size = tensor.bits // 8
        for n in shape:
            size *= n
        if tensor.device_type != 1:
            raise BufferError("there is no such device")
        if size >= 1 << 48:
            raise MemoryError("there is no such memory")
        array = self.kind(bytearray(size), 0, shape, row_major(shape), dtype_of(tensor))
        array.data = _dlpack.address(array.keep)
        return self.managed(array, True)

    def stream(self, kind: int, number: int) -> Any:
        return 0
