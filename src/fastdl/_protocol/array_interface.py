# SPDX-License-Identifier: Apache-2.0
"""Imports over `__array_interface__`, and the code shared with `__cuda_array_interface__`."""

from operator import index

from fastdl._core import tensor as core
from fastdl._core.device import CPU
from fastdl._core.dtype import DType, of_typestr
from fastdl._core.errors import refusal, type_name
from fastdl._devices import driver

# ---- both interfaces ------------------------------------------------------------------------


class Interface:
    """The attribute `name` of `x`, a dict, whose entries are checked as they are read.

    Every error is a BufferError that names the entry.
    """

    def __init__(self, x, name: str, versions: tuple):
        self._x, self._name = x, name
        entries = getattr(x, name)
        if not isinstance(entries, dict):
            raise self.malformed("a dict", entries)
        self._entries = dict(entries)
        version = self.get("version")
        number = as_int(version)
        if number is None or number not in versions:
            raise self.malformed(f"version {' or '.join(map(str, versions))}", version)
        self.version = number
        if self.get("mask") is not None:
            raise refusal(
                BufferError,
                f"{type_name(x)!r} has a mask, which a tensor cannot express: fill the masked "
                f"elements first",
            )

    def get(self, key: str):
        return self._entries.get(key)

    def is_new(self, key: str) -> bool:
        """Whether the entry is bytes without other references, so that `x` copied its data for this
        call."""
        return isinstance(core.sole_owner(self._entries, key), bytes | bytearray)

    def malformed(self, expected: str, got) -> BufferError:
        return refusal(
            BufferError,
            f"expected {expected} in {self._name} of {type_name(self._x)!r}, got {got!r}",
        )

    def dtype(self) -> DType:
        typestr = self.get("typestr")
        dtype = of_typestr(typestr) if isinstance(typestr, str) else None
        if dtype is None:
            raise self.malformed("the typestr of a little-endian number or bool", typestr)
        return dtype

    def shape(self) -> tuple:
        return self._ints("shape", self.get("shape"))

    def strides(self, shape: tuple, itemsize: int) -> "tuple | None":
        """The strides in elements; the interface has bytes. None: row-major without gaps."""
        strides = self.get("strides")
        if strides is None:
            return None
        strides = self._ints("strides", strides)
        if len(strides) != len(shape):
            raise self.malformed(f"as many strides as dimensions ({len(shape)})", strides)
        for size, stride in zip(shape, strides, strict=True):
            if size > 1 and stride % itemsize:
                raise self.malformed(
                    f"strides in multiples of {itemsize} bytes, one element,", strides
                )
        return tuple(stride // itemsize for stride in strides)

    def pointer(self, data) -> tuple:
        """(address, whether the memory is read-only)."""
        try:
            address, readonly = data if isinstance(data, tuple) else ()
            address, readonly = as_int(address), bool(readonly)
        except (TypeError, ValueError):  # an array has no truth value
            address = None
        if address is None:
            raise self.malformed("data as (address, read-only)", data)
        if not 0 <= address < 2**64:
            raise self.malformed("an address of 64 bits", address)
        return address, readonly

    def _ints(self, what: str, values) -> tuple:
        items = values if isinstance(values, tuple) else (None,)
        ints = tuple(number for number in map(as_int, items) if number is not None)
        if len(ints) != len(items):
            raise self.malformed(f"{what} as a tuple of ints", values)
        if any(not -(2**63) <= value < 2**63 for value in ints):
            raise self.malformed(f"{what} of 64 bits", values)
        return ints


def as_int(value) -> "int | None":
    """`value` as an index; None if it is not one, such as a bool or an array of several
    elements."""
    if isinstance(value, bool):
        return None
    try:
        return index(value)
    except TypeError:
        return None


def compact_strides(shape: tuple) -> tuple:
    """Row-major strides in elements."""
    result, step = [], 1
    for size in reversed(shape):
        result.append(step)
        step = min(step * max(size, 1), 2**62)  # a shape that is too large is refused later
    return tuple(reversed(result))


# ---- __array_interface__ --------------------------------------------------------------------


def import_array(x):
    """A tensor on the memory of an object with `__array_interface__`, version 3.

    `data` may be an address or, as in Pillow, an object with a buffer: a copy if that is bytes
    without other references. BufferError if the interface is malformed, has a mask, or describes
    data that DLPack cannot.
    """
    interface = Interface(x, "__array_interface__", (3,))
    dtype, shape = interface.dtype(), interface.shape()
    strides = interface.strides(shape, dtype.itemsize)
    numbers = dtype.__dlpack_data_type__()
    copied = interface.is_new("data")
    data = interface.get("data")
    if isinstance(data, tuple):
        address, readonly = interface.pointer(data)
        strides = compact_strides(shape) if strides is None else strides
        return driver.on_memory(
            address, shape, strides, numbers, CPU.__dlpack_device__(), readonly, x
        )
    given = interface.get("offset")
    offset = 0 if given is None else as_int(given)
    if offset is None or not 0 <= offset < 2**63:
        raise interface.malformed("an offset in bytes", given)
    try:
        tensor = core.from_memory(x if data is None else data, shape, numbers, strides, offset)
    except (TypeError, ValueError) as error:
        raise interface.malformed("data that holds the elements", data) from error
    return core.mark_copied(tensor) if copied else tensor
