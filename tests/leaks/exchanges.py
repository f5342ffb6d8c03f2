# SPDX-License-Identifier: Apache-2.0
"""Every kind of exchange a few times, in a process without NumPy, for a leak checker to look at.

The managed tensors here are one `malloc` each, and their deleter is `free`: one that fastdl does
not call is a leak, and one that it calls twice is a double free.
"""

import array
import ctypes
import gc
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import fastdl
from fastdl._protocol import consumer as _consumer
from tests.support.ctypes_dlpack import READ_ONLY, Legacy, Table, Versioned, address_in, capsule

ROUNDS = 20

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
FREE = ctypes.cast(libc.free, ctypes.c_void_p).value


def managed(shape=(2, 3), *, versioned=True, flags=0, **fields):
    """A capsule of float32; `fields` of its DLTensor say otherwise."""
    kind = Versioned if versioned else Legacy
    header = ctypes.sizeof(kind)
    address = libc.malloc(header + 256)
    ctypes.memset(address, 0, header + 256)
    self = kind.from_address(address)
    if versioned:
        self.version.major, self.version.minor = 1, 3
        self.flags = flags
    self.deleter = FREE
    dims = (ctypes.c_int64 * 8).from_address(address + header)
    for i, size in enumerate(shape):
        dims[i] = size
    tensor = self.tensor
    tensor.data = address + header + 128
    tensor.device_type, tensor.device_id = 1, 0
    tensor.ndim = len(shape)
    tensor.code, tensor.bits, tensor.lanes = 2, 32, 1
    tensor.shape = ctypes.cast(dims, ctypes.POINTER(ctypes.c_int64))
    for name, value in fields.items():
        setattr(tensor, name, value)
    return capsule(address, b"dltensor_versioned" if versioned else b"dltensor")


class New:
    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        return managed()

    def __dlpack_device__(self):
        return (1, 0)


class Draft(New):
    def __dlpack__(self, stream=None, version=None):
        return managed(versioned=version == 130)

    def __dlpack_info__(self):
        return 130


class Old(New):
    def __dlpack__(self, stream=None):
        return managed(versioned=False)


class Answering(New):
    """By a function of the keywords."""

    def __init__(self, answer):
        self.answer = answer

    def __dlpack__(self, **keywords):
        return self.answer(**keywords)


@Answering
def failing(**keywords):
    raise BufferError("not today")


def imports():
    for versioned in (True, False):
        fastdl.from_dlpack(managed(versioned=versioned))
        _consumer.from_dlpack(managed(versioned=versioned), copy=True)
    for producer in (New(), Draft(), Old()):
        fastdl.from_dlpack(producer)
        _consumer.from_dlpack(producer)
        fastdl.from_dlpack(producer, copy=True)
        fastdl.asarray(producer)


def refusals():
    for fields in ({"ndim": -1}, {"ndim": 65}, {"data": None}, {"lanes": 0}, {"bits": 7}):
        for versioned in (True, False):
            refused(BufferError, fastdl.from_dlpack, managed(versioned=versioned, **fields))
    refused(BufferError, fastdl.from_dlpack, managed((2**62, 2**62)))
    refused(BufferError, fastdl.from_dlpack, failing)
    refused(TypeError, fastdl.from_dlpack, object())
    used = managed()
    fastdl.from_dlpack(used)
    refused(ValueError, fastdl.from_dlpack, used)


def views_and_values():
    tensor = fastdl.from_dlpack(managed((2, 3, 4)))
    for key in (0, slice(None, None, -1), (..., None), (slice(1, None), -1), ()):
        repr(tensor[key])
    for key in (9, "x", (0, 0, 0, 0), (..., ...), (None,) * 62):
        refused((IndexError, TypeError), tensor.__getitem__, key)
    for row in tensor:
        row.tolist()
    tensor[0, 0, 0].item()
    tensor[:, 0].copy()
    view = memoryview(tensor)
    del tensor
    view.tolist()


def exports():
    tensor = fastdl.from_dlpack(managed())
    for keywords in ({}, {"max_version": (1, 0)}, {"version": 130}, {"copy": True}):
        tensor.__dlpack__(**keywords)  # dropped as it is
        fastdl.from_dlpack(tensor.__dlpack__(**keywords))[0]
    fastdl.from_dlpack(tensor)
    read_only = fastdl.from_dlpack(managed(flags=READ_ONLY))
    refused(BufferError, read_only.__dlpack__)
    refused(TypeError, tensor.__dlpack__, max_version=3)
    refused(BufferError, tensor.__dlpack__, dl_device=(2, 0))


def buffers():
    for source in (b"bytes", bytearray(8), array.array("d", [1.0, 2.0]), memoryview(b"abc")[::2]):
        fastdl.asarray(source)[1:].tolist()
    refused(BufferError, fastdl.asarray, (ctypes.c_char * 3)())
    fastdl.empty((4, 4), "bfloat16")
    refused(MemoryError, fastdl.empty, 2**60)


FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
TO_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.py_object))
ALLOCATE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_void_p
)
DELETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def tables():
    """The table of Tensor and the general bridge, as a C program would use them."""
    for producer in (fastdl.empty((2, 3)), New(), Old()):
        table = Table.from_address(address_in(fastdl.exchange_api(producer)))
        one, two = ctypes.c_void_p(), ctypes.c_void_p()
        assert (
            FROM_OBJECT(table.managed_tensor_from_py_object_no_sync)(producer, ctypes.byref(one))
            == 0
        )
        held = Versioned.from_address(one.value)
        prototype = ctypes.byref(held.tensor)
        assert (
            ALLOCATE(table.managed_tensor_allocator)(prototype, ctypes.byref(two), None, None) == 0
        )
        made = ctypes.py_object()
        assert TO_OBJECT(table.managed_tensor_to_py_object_no_sync)(two, ctypes.byref(made)) == 0
        assert made.value.shape == (2, 3)
        ctypes.pythonapi.Py_DecRef(made)  # the table gave a reference, and py_object took none
        DELETE(held.deleter)(one.value)
        refused(
            TypeError,
            FROM_OBJECT(table.managed_tensor_from_py_object_no_sync),
            object(),
            ctypes.byref(one),
        )


def types():
    """More types than the cache has room for. They stay, the rest of it does not."""
    for i in range(40):
        fastdl.from_dlpack(type(f"Producer{i}", (New,), {})())


def refused(errors, function, *arguments, **keywords):
    try:
        function(*arguments, **keywords)
    except errors:
        return
    raise AssertionError(f"{function} took {arguments} {keywords}")


def main():
    for exercise in (imports, refusals, views_and_values, exports, buffers, tables):
        for _ in range(ROUNDS):
            exercise()
        print(exercise.__name__, flush=True)
    types()
    assert "numpy" not in sys.modules, "NumPy leaks by itself: this process must not load it"
    gc.collect()


if __name__ == "__main__":
    main()
