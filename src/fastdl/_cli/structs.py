"""DLPack's structs as they are in memory, read with ctypes: see fastdl/dlpack.h.

fastdl.Tensor shows the result of an import; these show what the producer exported.
"""

import ctypes

READ_ONLY, IS_COPIED, SUBBYTE_PADDED = 1, 2, 4
FLAGS = {READ_ONLY: "READ_ONLY", IS_COPIED: "IS_COPIED", SUBBYTE_PADDED: "SUBBYTE_TYPE_PADDED"}


class Version(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)]


class Tensor(ctypes.Structure):
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
    _fields_ = [("tensor", Tensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("version", Version),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


class Table(ctypes.Structure):
    _fields_ = [
        ("version", Version),
        ("prev_api", ctypes.c_void_p),
        ("managed_tensor_allocator", ctypes.c_void_p),
        ("managed_tensor_from_py_object_no_sync", ctypes.c_void_p),
        ("managed_tensor_to_py_object_no_sync", ctypes.c_void_p),
        ("dltensor_from_py_object_no_sync", ctypes.c_void_p),
        ("current_work_stream", ctypes.c_void_p),
    ]


_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_FROM_OBJECT = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.POINTER(Versioned))
)
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def capsule_name(capsule) -> str:
    return (_name(capsule) or b"").decode("utf-8", "replace")


def table_of(capsule) -> dict:
    """The version and the optional slots of an exchange table, from its capsule."""
    table = Table.from_address(_pointer(capsule, b"dlpack_exchange_api"))
    return {
        "version": f"{table.version.major}.{table.version.minor}",
        "lends": bool(table.dltensor_from_py_object_no_sync),
        "allocates": bool(table.managed_tensor_allocator),
        "current_stream": bool(table.current_work_stream),
    }


def managed_from_table(capsule, x) -> dict:
    """The fields of the managed tensor that a table makes of `x`, released again."""
    table = Table.from_address(_pointer(capsule, b"dlpack_exchange_api"))
    managed = ctypes.POINTER(Versioned)()
    from_object = _FROM_OBJECT(table.managed_tensor_from_py_object_no_sync)
    if from_object(x, ctypes.byref(managed)) or not managed:
        raise BufferError("the exchange table refused the object")
    try:
        return fields(managed.contents.tensor, managed.contents)
    finally:
        if managed.contents.deleter:
            _DELETER(managed.contents.deleter)(ctypes.addressof(managed.contents))


def managed_in_capsule(capsule) -> dict:
    """The fields of the managed tensor in a capsule, which is not consumed."""
    name = capsule_name(capsule)
    address = _pointer(capsule, name.encode())
    if name == "dltensor_versioned":
        managed = Versioned.from_address(address)
        return fields(managed.tensor, managed)
    return fields(Legacy.from_address(address).tensor, None)


def fields(tensor: Tensor, versioned: "Versioned | None") -> dict:
    """The fields of a managed tensor, by the names of the specification."""
    ndim = tensor.ndim
    data = tensor.data or 0
    flags = versioned.flags if versioned is not None else 0
    return {
        "form": "legacy" if versioned is None else "versioned",
        "version": None
        if versioned is None
        else f"{versioned.version.major}.{versioned.version.minor}",
        "flags": flags,
        "flag_names": [name for bit, name in FLAGS.items() if flags & bit],
        "data": data,
        "byte_offset": tensor.byte_offset,
        "alignment": alignment(data + tensor.byte_offset),
        "device": [tensor.device_type, tensor.device_id],
        "ndim": ndim,
        "dtype": {"code": tensor.code, "bits": tensor.bits, "lanes": tensor.lanes},
        "shape": [tensor.shape[i] for i in range(ndim)],
        "strides": [tensor.strides[i] for i in range(ndim)] if tensor.strides else None,
    }


def alignment(address: int) -> int:
    """The greatest power of two, up to 4096, that divides an address; 0 for NULL."""
    return min(address & -address, 4096)
