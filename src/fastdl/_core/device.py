"""Devices: their types, their names, and what fastdl may do with each."""

from collections import namedtuple
from enum import IntEnum
from functools import cached_property, lru_cache

from fastdl._core.tensor import device_facts

_Fact = namedtuple("_Fact", "number name host addresses stream")
_BY_NUMBER = {row[0]: _Fact(*row) for row in device_facts()}
_BY_NAME = {fact.name: fact.number for fact in _BY_NUMBER.values()}

#: The device types of DLPack 1.3, numbered as DLDeviceType.
DeviceType = IntEnum(
    "DeviceType", {name.upper(): number for name, number in _BY_NAME.items()}, module="fastdl"
)


class Device(namedtuple("Device", "type id")):
    """A device: `type`, a DeviceType (or an int that DLPack 1.3 does not know), and `id`.

    A tuple, so that it equals what `__dlpack_device__` returns. Made from two numbers or from
    the forms that every `device` argument accepts: "cpu", "cuda:0", (type, id), a Device. There is
    one CPU: ValueError for an id other than 0.
    """

    def __new__(cls, type, id=None):  # noqa: A002 - the field names of DLDevice
        if id is not None:
            return _requested(type, id)
        if isinstance(type, Device):
            return type
        if isinstance(type, str):
            return _parse(type)
        if isinstance(type, tuple) and len(type) == 2:
            return _requested(*type)
        if isinstance(type, DeviceType):
            return _known(int(type), 0)
        raise TypeError(
            f'expected a device as "cpu", "cuda:0", (type, id) or a Device, got {type!r}'
        )

    def __setattr__(self, name, value):
        raise AttributeError(f"a Device never changes: {name!r} cannot be set")

    @cached_property
    def is_host(self) -> bool:
        """Whether the CPU may read and write the memory with no device involved."""
        return bool(self._fact().host)

    @cached_property
    def stream_kind(self) -> int:
        """Which row of the stream tables applies: a key of fastdl._protocol.streams."""
        return self._fact().stream

    def _fact(self):
        return _BY_NUMBER.get(self.type, _UNKNOWN)

    def __str__(self):
        name = self._fact().name or f"device type {int(self.type)}"
        return f"{name}:{self.id}"

    def __repr__(self):
        return f"Device({str(self)!r})" if self._fact().name else f"Device{tuple(self)}"

    def __reduce__(self):
        return Device, (int(self.type), self.id)


_UNKNOWN = _Fact(0, None, False, False, 3)


@lru_cache(maxsize=256)
def _known(number: int, ordinal: int) -> Device:
    kind = DeviceType(number) if number in _BY_NUMBER else number
    return tuple.__new__(Device, (kind, ordinal))


def make_device(number: int, ordinal: int) -> Device:
    """The Device of a descriptor. One object for each pair, as far as memory allows."""
    return _known(number, ordinal)


def normalised(number, ordinal) -> Device:
    """The Device that a producer reports. There is one host, whatever id the producer gives it."""
    number, ordinal = _whole(number, "type"), _whole(ordinal, "id")
    return _known(number, 0 if number == DeviceType.CPU else ordinal)


def _requested(number, ordinal) -> Device:
    number, ordinal = _whole(number, "type"), _whole(ordinal, "id")
    if number == DeviceType.CPU and ordinal != 0:
        raise ValueError(f"expected the one CPU, 'cpu' or (1, 0), got CPU {ordinal}")
    return _known(number, ordinal)


def _whole(value, field: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"expected an int as device {field}, got {value!r}")
    value = value.__index__()
    if not -(2**31) <= value < 2**31:
        raise ValueError(f"expected a device {field} of 32 bits, got {value}")
    return value


def _parse(text: str) -> Device:
    name, colon, ordinal = text.partition(":")
    if name not in _BY_NAME or (colon and not (ordinal.isascii() and ordinal.isdecimal())):
        raise ValueError(
            f"expected a device such as 'cpu' or 'cuda:0', with a name out of "
            f"{', '.join(_BY_NAME)}; got {text!r}"
        )
    return _requested(_BY_NAME[name], int(ordinal or 0))


CPU = _parse("cpu")
