# SPDX-License-Identifier: Apache-2.0
"""DLPack's structs as they are in memory, read with ctypes."""

import ctypes
from typing import Any

READ_ONLY, IS_COPIED, SUBBYTE_PADDED = 1, 2, 4
RELEASED = (None, "1.0", "1.1", "1.2", "1.3")  # versions; a legacy managed tensor has none
MOST_DIMS = 64  # the most that are read: a higher count is probably invalid
MAJOR = 1  # of the layouts below: of another version's struct only the version may be read


class Version(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)]

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Legacy(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("tensor", Tensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("version", Version),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


#: The functions of a table, in their order in the struct.
SLOTS = (
    "managed_tensor_allocator",
    "managed_tensor_from_py_object_no_sync",
    "managed_tensor_to_py_object_no_sync",
    "dltensor_from_py_object_no_sync",
    "current_work_stream",
)
MAY_BE_NULL = ("dltensor_from_py_object_no_sync",)


class Table(ctypes.Structure):
    """DLPackExchangeAPI."""

    _fields_ = [
        ("version", Version),
        ("prev_api", ctypes.c_void_p),
        *((slot, ctypes.c_void_p) for slot in SLOTS),
    ]


class TableHeader(ctypes.Structure):
    """DLPackExchangeAPIHeader: what a table of every version begins with."""

    _fields_ = Table._fields_[:2]


_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)


def capsule_name(capsule: Any) -> str:
    """The name of a capsule, "" if it has none; ValueError if it is not a capsule."""
    return (_name(capsule) or b"").decode("utf-8", "replace")


def address_in(capsule: Any) -> int:
    """The pointer in a capsule, whatever its name is."""
    return _pointer(capsule, _name(capsule))


def version_at(address: int) -> Version:
    """With which a versioned managed tensor begins, and a table."""
    return Version.from_address(address)


def tables_at(address: "int | None") -> list[int]:
    """The addresses of a table and of the older ones behind it, each once if they are circular."""
    found: list[int] = []
    while address and address not in found:
        found.append(address)
        address = TableHeader.from_address(address).prev_api
    return found


def managed_at(address: int, versioned: bool) -> "Versioned | Legacy":
    return (Versioned if versioned else Legacy).from_address(address)


def numbers(pointer: Any, ndim: int) -> "list[int] | None":
    """Shape or strides; None if the pointer is NULL or the count is invalid."""
    if not pointer or not 0 <= ndim <= MOST_DIMS:
        return None
    return [pointer[i] for i in range(ndim)]


def fields(managed: "Versioned | Legacy") -> dict[str, Any]:
    """The fields of a managed tensor, by the names of the specification; without shape and strides
    if ndim is invalid."""
    tensor = managed.tensor
    lists = ("shape", "strides") if 0 <= tensor.ndim <= MOST_DIMS else ()
    return {
        "version": str(managed.version) if isinstance(managed, Versioned) else None,
        "flags": managed.flags if isinstance(managed, Versioned) else 0,
        "data": tensor.data or 0,
        "byte_offset": tensor.byte_offset,
        "device": [tensor.device_type, tensor.device_id],
        "ndim": tensor.ndim,
        "dtype": {"code": tensor.code, "bits": tensor.bits, "lanes": tensor.lanes},
        **{name: numbers(getattr(tensor, name), tensor.ndim) for name in lists},
        "deleter": bool(managed.deleter),
    }


def published_table(kind: type) -> Any:
    """The attribute of a type that holds its exchange table, as it is; None if there is none."""
    for name in ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"):  # before 1.3
        for base in kind.__mro__:
            if name in vars(base):
                return vars(base)[name]
    return None
