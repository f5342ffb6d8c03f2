# SPDX-License-Identifier: Apache-2.0
"""Arrow arrays made and read with ctypes alone, from the specification of the C data interface."""

import ctypes
from functools import partial


class Schema(ctypes.Structure):
    pass


class Array(ctypes.Structure):
    pass


_RELEASE_SCHEMA = ctypes.CFUNCTYPE(None, ctypes.POINTER(Schema))
_RELEASE_ARRAY = ctypes.CFUNCTYPE(None, ctypes.POINTER(Array))

Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


class Stream(ctypes.Structure):
    pass


_GET_SCHEMA = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Schema))
_GET_NEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Array))
_GET_LAST_ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(Stream))

Stream._fields_ = [
    ("get_schema", _GET_SCHEMA),
    ("get_next", _GET_NEXT),
    ("get_last_error", _GET_LAST_ERROR),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]

_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def schema_in(capsule) -> Schema:
    return Schema.from_address(_pointer(capsule, b"arrow_schema"))


def array_in(capsule) -> Array:
    return Array.from_address(_pointer(capsule, b"arrow_array"))


def children_of(struct):
    """The children of a Schema or an Array, one after the other."""
    pointers = ctypes.cast(struct.children, ctypes.POINTER(ctypes.c_void_p))
    for i in range(struct.n_children):
        yield type(struct).from_address(pointers[i])


def release(struct) -> None:
    """What a consumer does with a struct that it has moved or used."""
    kind = _RELEASE_SCHEMA if isinstance(struct, Schema) else _RELEASE_ARRAY
    kind(struct.release)(ctypes.byref(struct))


def moved(struct):
    """The struct, taken out of its place as a consumer does."""
    copy = type(struct).from_buffer_copy(struct)
    struct.release = None
    return copy


_CALLBACKS = []  # a struct that was moved is released when its producer may be gone


class Producer:
    """An object with `__arrow_c_array__` on `data`, a bytearray; counts how often each of its
    structs is released. It owns the structs, so its capsules need no destructor."""

    def __init__(self, data, format=b"f", length=None, *, valid=None, **fields):  # noqa: A002
        self.released = []
        self.data, self.valid = data, valid
        self.buffers = (ctypes.c_void_p * 2)(self._address(valid), self._address(data))
        self._releases = [
            kind(partial(self._release, self.released, name))
            for kind, name in ((_RELEASE_SCHEMA, "schema"), (_RELEASE_ARRAY, "array"))
        ]
        _CALLBACKS.extend(self._releases)
        self.schema = Schema(format=format, name=b"")
        self.schema.release = ctypes.cast(self._releases[0], ctypes.c_void_p)
        self.array = Array(length=length if length is not None else len(data) // 4, n_buffers=2)
        self.array.buffers = ctypes.cast(self.buffers, ctypes.POINTER(ctypes.c_void_p))
        self.array.release = ctypes.cast(self._releases[1], ctypes.c_void_p)
        for name, value in fields.items():
            setattr(self.schema if name in ("dictionary",) else self.array, name, value)

    @staticmethod
    def _address(data):
        return ctypes.addressof(ctypes.c_char.from_buffer(data)) if data else None

    @staticmethod
    def _release(released, name, struct):
        struct.contents.release = None
        released.append(name)

    def __arrow_c_array__(self, requested_schema=None):
        return (
            _new(ctypes.addressof(self.schema), b"arrow_schema", None),
            _new(ctypes.addressof(self.array), b"arrow_array", None),
        )


class Node:
    """An array with children or a dictionary. `valid`: its bits as an int; None: all are. `data`:
    its values, a bytearray. Other keywords are fields of the array."""

    def __init__(
        self,
        format,  # noqa: A002
        length,
        valid=None,
        children=(),
        dictionary=None,
        data=None,
        **fields,
    ):
        self.kept = [children, dictionary, data]
        bits = None if valid is None else bytearray(valid.to_bytes(16, "little"))
        buffers = (ctypes.c_void_p * 2)(Producer._address(bits), Producer._address(data))
        self.schema = Schema(format=format, name=b"", n_children=len(children))
        self.array = Array(length=length, null_count=-1, n_buffers=2, n_children=len(children))
        self.array.buffers = ctypes.cast(buffers, ctypes.POINTER(ctypes.c_void_p))
        for own, name in ((self.schema, "schema"), (self.array, "array")):
            parts = [ctypes.addressof(getattr(child, name)) for child in children]
            pointers = (ctypes.c_void_p * len(parts))(*parts)
            own.children = ctypes.cast(pointers, ctypes.c_void_p)
            self.kept += [bits, buffers, pointers]
            if dictionary is not None:
                own.dictionary = ctypes.addressof(getattr(dictionary, name))
        for name, value in fields.items():
            setattr(self.array, name, value)


class OfStream:
    """An object with `__arrow_c_stream__`, which gives these nodes, all of one form.

    failure: what the stream says when it fails, after the last. consumed: before it is read.
    given, released: kinds of structs.
    """

    def __init__(self, *nodes, failure=None, consumed=False):
        self.consumed = consumed
        self.nodes, self.form, self.given, self.released = nodes, nodes[0], [], []
        self.failure = None if failure is None else ctypes.create_string_buffer(failure)
        self._schema_release = _RELEASE_SCHEMA(lambda schema: self.released.append("schema"))
        self._array_release = _RELEASE_ARRAY(lambda array: self.released.append("array"))
        self._stream_release = _RELEASE_ARRAY(lambda stream: self.released.append("stream"))
        self._left = list(nodes)
        self.stream = Stream(
            _GET_SCHEMA(self._get_schema), _GET_NEXT(self._get_next), _GET_LAST_ERROR(self._error)
        )

    def _get_schema(self, stream, out):
        out[0] = self.form.schema
        out[0].release = ctypes.cast(self._schema_release, ctypes.c_void_p)
        self.given.append("schema")
        return 0

    def _get_next(self, stream, out):
        if not self._left:
            out[0].release = None
            return 5 if self.failure is not None else 0
        out[0] = self._left.pop(0).array
        out[0].release = ctypes.cast(self._array_release, ctypes.c_void_p)
        self.given.append("array")
        return 0

    def _error(self, stream):
        return None if self.failure is None else ctypes.addressof(self.failure)

    def __arrow_c_stream__(self, requested_schema=None):
        self._left = list(self.nodes)
        if not self.consumed:
            self.stream.release = ctypes.cast(self._stream_release, ctypes.c_void_p)
            self.given.append("stream")
        return _new(ctypes.addressof(self.stream), b"arrow_array_stream", None)


class Once(OfStream):
    """Always gives the same capsule."""

    def __init__(self, *nodes):
        super().__init__(*nodes)
        self.capsule = super().__arrow_c_stream__()

    def __arrow_c_stream__(self, requested_schema=None):
        return self.capsule


class Streamer(OfStream):
    """The same with `__array__`, as libraries of tables have it."""

    def __init__(self, *nodes, array, **keywords):
        super().__init__(*nodes, **keywords)
        self.result = array

    def __array__(self, dtype=None, copy=None):
        return self.result
