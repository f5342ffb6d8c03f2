# SPDX-License-Identifier: Apache-2.0
"""Devices: their types, their names, and what fastdl can do with each."""

from fastdl import _native
from fastdl._core import foreign
from fastdl._core.errors import cached, nearest, type_name

TYPE_CHECKING = False  # instead of typing's: `import fastdl` need not load that
if TYPE_CHECKING:
    from typing import Protocol, SupportsIndex, TypeAlias, final, overload

    from fastdl._core.device_type import DeviceType as DeviceType

    class _SupportsDevice(Protocol):
        def __dlpack_device__(self) -> tuple[int, int]: ...

    class _TorchDevice(Protocol):
        @property
        def type(self) -> str: ...
        @property
        def index(self) -> int: ...

    class _JaxDevice(Protocol):
        @property
        def platform(self) -> str: ...
        @property
        def local_hardware_id(self) -> int | None: ...

    # What every `device` argument accepts. One literal: pyright joins none.
    _OfOthers: TypeAlias = _SupportsDevice | _TorchDevice | _JaxDevice
    _DeviceLike: TypeAlias = (
        "str | tuple[SupportsIndex, SupportsIndex] | Device | DeviceType | _OfOthers"
    )
else:

    def final(cls):
        return cls


class _Fact:
    __slots__ = "addresses", "host", "name", "number", "stream"

    def __init__(self, *row):
        self.number, self.name, self.host, self.addresses, self.stream = row


_BY_NUMBER = {row[0]: _Fact(*row) for row in _native.device_facts()}
_BY_NAME = {fact.name: fact.number for fact in _BY_NUMBER.values()}


def _special(name):
    return lambda self, *arguments: getattr(type(_load()), name)(_load(), *arguments)


_SPECIAL = (
    *("__call__", "__contains__", "__dir__", "__eq__", "__getitem__", "__hash__"),
    *("__instancecheck__", "__iter__", "__len__", "__or__", "__repr__", "__reversed__", "__ror__"),
    "__subclasscheck__",
)


class _Unloaded:
    """Stands in for fastdl.DeviceType until its first use, when the enumeration replaces it. A
    `__getattr__` of the package would make every `fastdl.name` slower.

    Older references to this object work like the class and equal it, but are not identical with it,
    and raise TypeError in `case DeviceType():`: write fastdl.DeviceType there.
    """

    locals().update({name: _special(name) for name in _SPECIAL})

    def __getattribute__(self, name):
        if name in ("__deepcopy__", "__reduce_ex__"):  # not those of the members
            return lambda argument: _load() if name == "__deepcopy__" else (type, (_load()(1),))
        return getattr(_load(), name)


if not TYPE_CHECKING:
    DeviceType = _Unloaded()

_members: "dict[int, DeviceType]" = {}  # by number, once the enumeration is loaded


def _load():
    """Loads the enumeration, which replaces fastdl.DeviceType."""
    from fastdl._core.device_type import DeviceType

    return DeviceType


@final
class Device:
    """A device: its type and its number among those of that type.

    Made from any of:

    - a name: "cpu", "cuda:1"; without a number it is the first of its type, and so is a DeviceType;
    - a device of torch, JAX, CuPy, cuda.core or tvm-ffi, without importing them (CUDA's and ROCm's
      without a number are the first); or any object with `__dlpack_device__` that is not a
      tensor;
    - the two numbers of a DLDevice: `Device(2, 1)`, `Device((2, 1))`. Types unknown to DLPack 1.3
      are passed through unchanged.

    There is one CPU: ValueError for a number other than 0, and for an unknown name or a device that
    DLPack does not have. TypeError for other objects.

    A Device is immutable. It equals everything that it could be made from. Its hash is that of its
    full name, such as "cuda:0"; other forms are equal and have other hashes.

    >>> device = fastdl.empty(3).device
    >>> device
    Device('cpu:0')
    >>> device == "cpu" and device == (1, 0) and device == fastdl.DeviceType.CPU
    True
    >>> fastdl.Device("gpu:1")
    Traceback (most recent call last):
    ValueError: expected a device such as 'cpu' or 'cuda:0', got 'gpu:1': did you mean 'cuda' or \
'rocm'?
    """

    if TYPE_CHECKING:  # the slots, which nobody may set
        _name: str
        _number: int

        @property
        def id(self) -> int: ...
        @property
        def is_host(self) -> bool: ...
        @property
        def stream_kind(self) -> int: ...

    else:  # pyright would take the properties for values of the slots
        __slots__ = {
            "_name": "The full name.",
            "_number": "The type as an int.",
            "id": "Which of the devices of its type, from 0.",
            "is_host": "Whether the CPU may read and write the memory without a driver.",
            "stream_kind": "Which row of the stream tables applies: a fastdl_stream_kind.",
        }

    @property
    def type(self) -> "DeviceType | int":
        """A DeviceType, or an int that DLPack 1.3 does not know."""
        if not _members:
            _load()
        return _members.get(self._number, self._number)

    if TYPE_CHECKING:  # a block of its own: mypy ignores overloads that share one

        @overload
        def __new__(cls, type: _DeviceLike, id: None = None) -> "Device": ...
        @overload
        def __new__(cls, type: SupportsIndex, id: SupportsIndex) -> "Device": ...

    def __new__(cls, type, id=None):  # noqa: A002 - the field names of DLDevice
        if id is not None:
            return _requested(type, id)
        found = _find(type)
        if found is None:
            raise _refusal(type)
        return found

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Device is immutable: {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Device is immutable: {name!r} cannot be deleted")

    def __dlpack_device__(self) -> tuple[int, int]:
        """(device type, device id) as plain ints: how libraries exchange devices.

        >>> fastdl.Device("cuda:1").__dlpack_device__()
        (2, 1)
        """
        return self._number, self.id

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        try:
            other = None if other is None else _find(other)
        except (TypeError, ValueError):
            return NotImplemented
        if other is None:
            return NotImplemented
        return self._number == other._number and self.id == other.id

    def __hash__(self) -> int:
        return hash(self._name)

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        known = self._number in _BY_NUMBER
        return f"Device({self._name!r})" if known else f"Device{self.__dlpack_device__()}"

    def __reduce__(self) -> tuple[object, tuple[int, ...]]:
        return Device, self.__dlpack_device__()


_UNKNOWN = _Fact(0, None, False, False, 3)


def make_device(number: int, ordinal: int) -> Device:
    """The Device of two numbers that are in range: one object for the first of each known type."""
    if ordinal != 0 or number not in _BY_NUMBER:
        return _make(number, ordinal)
    return _FIRST.get(number) or _FIRST.setdefault(number, _make(number, 0))


@cached
def _make(number: int, ordinal: int) -> Device:
    fact = _BY_NUMBER.get(number, _UNKNOWN)
    self = object.__new__(Device)
    for field, value in (
        ("_number", number),
        ("id", ordinal),
        ("is_host", bool(fact.host)),
        ("stream_kind", fact.stream),
        ("_name", f"{fact.name or f'device type {number}'}:{ordinal}"),
    ):
        object.__setattr__(self, field, value)
    return self


_FIRST: "dict[int, Device]" = {}  # by number, once they were needed


def normalised(number: "SupportsIndex", ordinal: "SupportsIndex") -> Device:
    """The Device that a producer reports. There is one host, whatever id the producer gives it."""
    number, ordinal = _whole(number, "type"), _whole(ordinal, "id")
    return make_device(number, 0 if number == 1 else ordinal)


def _requested(number, ordinal) -> Device:
    number, ordinal = _whole(number, "type"), _whole(ordinal, "id")
    if number == 1 and ordinal != 0:
        raise ValueError(f"expected the one CPU, 'cpu' or (1, 0), got CPU {ordinal}")
    return make_device(number, ordinal)


def _whole(value, field: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"expected an int as device {field}, got {value!r}")
    value = value.__index__()
    if not -(2**31) <= value < 2**31:
        raise ValueError(f"expected a device {field} of 32 bits, got {value}")
    return value


# ---- objects that stand for a device -----------------------------------------------------------


def _find(x) -> "Device | None":
    """The Device that x stands for, or None; ValueError or TypeError for numbers that are wrong."""
    if type(x) is Device:  # not a proxy
        return x
    if _members and isinstance(x, _load()):
        return make_device(int(x), 0)
    if isinstance(x, str):
        numbers = _parse(x)
        return None if numbers is None else _requested(*numbers)
    if isinstance(x, tuple) and len(x) == 2:
        return _requested(*x)
    protocol = getattr(type(x), "__dlpack_device__", None)
    if protocol is not None and not hasattr(type(x), "__dlpack__"):
        return normalised(*protocol(x))
    found = foreign.device_name(x)
    if found is None:
        return None
    kind, ordinal = found
    return _requested(_BY_NAME[kind] if isinstance(kind, str) else kind, ordinal)


@cached  # of numbers: which object stands for them is decided in one place
def _parse(text: str) -> "tuple[int, int] | None":
    name, colon, ordinal = text.partition(":")
    if name not in _BY_NAME or (colon and not (ordinal.isascii() and ordinal.isdecimal())):
        return None
    return _BY_NAME[name], int(ordinal or 0)


def _refusal(x) -> Exception:
    """The exception for an object that does not stand for a device."""
    if isinstance(x, str):
        name = x.partition(":")[0]
        hint = "" if name in _BY_NAME else nearest(name, _BY_NAME, _HINTS)
        return ValueError(f"expected a device such as 'cpu' or 'cuda:0', got {x!r}{hint}")
    return TypeError(
        f'expected a device as "cpu", "cuda:0", (type, id), a Device, or a device of torch, JAX or '
        f"CuPy, got {x!r} of type {type_name(x)!r}"
    )


#: Other libraries' names of devices, and the names here that may be meant.
_HINTS = {
    "gpu": ("cuda", "rocm"),
    "hip": ("rocm",),
    "xpu": ("oneapi",),
    "mps": ("metal",),
    "host": ("cpu",),
    "pinned": ("cuda_host", "rocm_host"),
    "managed": ("cuda_managed",),
}

CPU = make_device(1, 0)
