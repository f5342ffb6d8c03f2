# SPDX-License-Identifier: Apache-2.0
"""Reads capsules of managed tensors and exchange tables, without consuming them."""

import ctypes
from struct import Struct
from typing import Any

# The structs of DLPack 1. Another major version has other structs, after the version field.
VERSION = Struct("@2I")
TENSOR = "P3i2BH2PQ"  # data, device, ndim, element type, shape, strides, byte_offset
LEGACY = Struct(f"@{TENSOR}2P")  # then manager_ctx and deleter
VERSIONED = Struct(f"@2I2PQ{TENSOR}")  # version, manager_ctx, deleter and flags before
TABLE = Struct("@2I6P")  # version, the previous table, five functions

FLAGS = ("READ_ONLY", "IS_COPIED", "SUBBYTE_TYPE_PADDED")  # from the lowest bit on
MOST_DIMS = 64

_get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def name_of(capsule: Any) -> str:
    """The name of a capsule; ValueError for other objects."""
    return (_get_name(capsule) or b"").decode("utf-8", "replace")


def address_in(capsule: Any) -> int:
    return _get_pointer(capsule, _get_name(capsule))


def unpacked(layout: Struct, address: int) -> tuple[Any, ...]:
    return layout.unpack(ctypes.string_at(address, layout.size))


def describe_table(capsule: Any) -> dict[str, Any]:
    """The version of an exchange table, and which of its functions are present."""
    major, minor, _, allocator, _, _, borrow, stream = unpacked(TABLE, address_in(capsule))
    return {
        "version": f"{major}.{minor}",
        "lends": bool(borrow),
        "allocates": bool(allocator),
        "current_stream": bool(stream),
    }


def describe_capsule(capsule: Any) -> dict[str, Any]:
    """The fields of the managed tensor in an unconsumed capsule."""
    name = name_of(capsule)
    if name not in ("dltensor", "dltensor_versioned"):
        raise ValueError(f"expected an unconsumed DLPack capsule, got one named {name!r}")
    return {"name": name, **describe(address_in(capsule), name == "dltensor_versioned")}


def describe_export(table: Any, x: Any) -> dict[str, Any]:
    """The fields of the managed tensor that the table in a capsule makes of `x`, which is then
    released."""
    made = ctypes.c_void_p()
    from_object = unpacked(TABLE, address_in(table))[4]
    call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(from_object)
    if call(x, ctypes.addressof(made)) or not made.value:
        raise BufferError("the exchange table refused the object")
    try:
        return describe(made.value, True)
    finally:
        deleter = unpacked(VERSIONED, made.value)[3]
        if deleter:
            ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(deleter)(made.value)


def describe(address: int, versioned: bool) -> dict[str, Any]:
    """The fields of a managed tensor, by the names of the specification. Shape and strides are
    missing if ndim is invalid, and None if they are NULL."""
    version, flags = None, 0
    if versioned:
        major, minor = unpacked(VERSION, address)
        if major != 1:
            raise BufferError(f"the layout of DLPack {major}.{minor} is not known")
        _, _, context, deleter, flags, *tensor = unpacked(VERSIONED, address)
        version = f"{major}.{minor}"
    else:
        *tensor, context, deleter = unpacked(LEGACY, address)
    data, kind, number, ndim, code, bits, lanes, shape, strides, offset = tensor
    start = (data + offset) % 2**64
    found = {
        "form": "versioned" if versioned else "legacy",
        "version": version,
        "flags": flags,
        "flag_names": [name for bit, name in enumerate(FLAGS) if flags >> bit & 1],
        "data": data,
        "byte_offset": offset,
        "alignment": min(start & -start, 4096),
        "device": [kind, number],
        "ndim": ndim,
        "dtype": {"code": code, "bits": bits, "lanes": lanes},
        "deleter": bool(deleter),
        "manager_ctx": bool(context),
    }
    if 0 <= ndim <= MOST_DIMS:
        for name, pointer in (("shape", shape), ("strides", strides)):
            room = (ctypes.c_int64 * ndim).from_address(pointer) if pointer else None
            found[name] = None if room is None else [*room]
    return found
