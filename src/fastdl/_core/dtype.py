# SPDX-License-Identifier: Apache-2.0
"""Element types: their names, sizes and codes."""

from fastdl import _native
from fastdl._core import foreign
from fastdl._core.errors import cached, nearest, type_name

TYPE_CHECKING = False  # instead of typing's: `import fastdl` need not load that
if TYPE_CHECKING:
    from typing import Any, Protocol, SupportsIndex, TypeAlias, final, overload

    import numpy as np

    class _SupportsDType(Protocol):
        def __dlpack_data_type__(self) -> tuple[int, int, int]: ...

    # A scalar type of jax.numpy.
    class _HasNumPyDType(Protocol):
        @property
        def dtype(self) -> np.dtype[Any]: ...

    class _TorchDType(Protocol):
        @property
        def is_floating_point(self) -> bool: ...
        @property
        def is_complex(self) -> bool: ...
        @property
        def is_signed(self) -> bool: ...

    # What every `dtype` argument accepts. One literal: pyright joins none.
    _Numbers: TypeAlias = (
        tuple[SupportsIndex, SupportsIndex] | tuple[SupportsIndex, SupportsIndex, SupportsIndex]
    )
    _OfNumPy: TypeAlias = np.dtype[Any] | type[np.generic] | _HasNumPyDType
    _DTypeLike: TypeAlias = "str | _Numbers | DType | _SupportsDType | _OfNumPy | _TorchDType"
else:

    def final(cls):
        return cls


class _Fact:
    __slots__ = "bits", "code", "format", "name"

    def __init__(self, *row):
        self.name, self.code, self.bits, self.format = row


_FACTS = [_Fact(*row) for row in _native.dtype_facts()]
_BY_NAME = {fact.name: fact for fact in _FACTS}
_BY_CODE = {(fact.code, fact.bits): fact for fact in _FACTS}


@final
class DType:
    """An element type as DLPack describes it: a code, the bits of one lane, and a number of lanes.

    Made from any of:

    - a name: NumPy's, or else ml_dtypes' ("float32", "bool", "bfloat16", "float8_e4m3fn"), followed
      by "x4" for vectors of four lanes; or one of the array interface ("f4", "<i8");
    - a dtype of NumPy, ml_dtypes, JAX, torch or MLX, without importing them; or any object
      with `__dlpack_data_type__`;
    - the numbers of a DLDataType, of one lane unless given: `DType(2, 32)`, `DType((2, 32, 1))`.
      Types unknown to DLPack are passed through, with a name made of their numbers.

    ValueError for an unknown name, an invalid number, or a dtype that DLPack does not have;
    TypeError for other objects.

    A DType is immutable. It equals everything that it could be made from. Its hash is that of its
    name, so a dictionary by names finds it; other forms are equal and have other hashes.

    >>> import numpy as np
    >>> dtype = fastdl.empty(3, "float32").dtype
    >>> dtype
    DType('float32')
    >>> dtype == "float32" and dtype == np.float32 and dtype == (2, 32, 1)
    True
    >>> {"float32": "single"}[dtype]
    'single'
    >>> np.dtype(dtype), np.result_type(dtype, np.float64)
    (dtype('float32'), dtype('float64'))
    >>> fastdl.DType("half")
    Traceback (most recent call last):
    ValueError: expected the name of a dtype, such as 'float32', got 'half': did you mean 'float16'?
    """

    if TYPE_CHECKING:  # the slots, which nobody may set

        @property
        def code(self) -> int: ...
        @property
        def bits(self) -> int: ...
        @property
        def lanes(self) -> int: ...
        @property
        def name(self) -> str: ...
        @property
        def format(self) -> str | None: ...
        @property
        def itemsize(self) -> int: ...

    else:  # pyright would take the properties for values of the slots
        __slots__ = {
            "bits": "Bits of one lane.",
            "code": "The DLDataTypeCode, an int.",
            "format": "The PEP 3118 format of one lane, or None if it has none.",
            "itemsize": "Bytes of one element by itself; fewer than 8 bits count as 1.",
            "lanes": "How many numbers an element has: 1, except for vector types.",
            "name": "NumPy's name, or ml_dtypes' if NumPy has none, followed by xN for N lanes.",
        }

    if TYPE_CHECKING:  # a block of its own: mypy ignores overloads that share one

        @overload
        def __new__(cls, code: _DTypeLike, bits: None = None) -> "DType": ...
        @overload
        def __new__(
            cls, code: SupportsIndex, bits: SupportsIndex, lanes: SupportsIndex = 1
        ) -> "DType": ...

    def __new__(cls, code, bits=None, lanes=1):
        if bits is not None:
            return _of_numbers(code, bits, lanes)
        found = _find(code)
        if found is None:
            raise _refusal(code)
        return found

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a DType is immutable: {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a DType is immutable: {name!r} cannot be deleted")

    @property
    def lane(self) -> "DType":
        """The type of one lane.

        >>> fastdl.DType("float32x4").lane
        DType('float32')
        """
        return self if self.lanes == 1 else make_dtype(self.code, self.bits, 1)

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The numpy.dtype: NumPy reads this attribute if a DType is passed as a dtype.

        It is ml_dtypes' if NumPy has none; a vector type has a dimension of lanes. TypeError if
        there is none.
        """
        return foreign.file_on("numpy").descriptor(self)

    __numpy_dtype__ = dtype

    def __dlpack_data_type__(self) -> tuple[int, int, int]:
        """(code, bits, lanes): how libraries exchange dtypes.

        >>> fastdl.DType("bfloat16").__dlpack_data_type__()
        (4, 16, 1)
        """
        return self.code, self.bits, self.lanes

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        try:
            other = None if other is None else _find(other)
        except (TypeError, ValueError):
            return NotImplemented
        return NotImplemented if other is None else _numbers(self) == _numbers(other)

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        if (self.code, self.bits) in _BY_CODE:
            return f"DType({self.name!r})"
        return f"DType{_numbers(self)}"

    def __reduce__(self) -> tuple[object, tuple[int, ...]]:
        return DType, _numbers(self)


_numbers = DType.__dlpack_data_type__


def make_dtype(code: int, bits: int, lanes: int) -> DType:
    """The DType of three numbers that are in range: one object for each type that has a name."""
    pair = code, bits
    if lanes != 1 or pair not in _BY_CODE:
        return _make(code, bits, lanes)
    return _NAMED.get(pair) or _NAMED.setdefault(pair, _make(code, bits, 1))


@cached
def _make(code: int, bits: int, lanes: int) -> DType:
    fact = _BY_CODE.get((code, bits))
    name = fact.name if fact else f"opaque{code}_{bits}"
    self = object.__new__(DType)
    for field, value in (
        ("code", code),
        ("bits", bits),
        ("lanes", lanes),
        ("name", name if lanes == 1 else f"{name}x{lanes}"),
        ("format", fact.format if fact else None),
        ("itemsize", (bits * lanes + 7) // 8),
    ):
        object.__setattr__(self, field, value)
    return self


def _of_numbers(code, bits, lanes=1) -> DType:
    return make_dtype(
        _within(code, 0, 255, "code"),
        _within(bits, 1, 255, "bits"),
        _within(lanes, 1, 65535, "lanes"),
    )


def _within(value, least: int, most: int, field: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"expected an int as {field} of a dtype, got {value!r}")
    if not least <= value.__index__() <= most:
        raise ValueError(f"expected the {field} of a dtype from {least} to {most}, got {value}")
    return value.__index__()


# ---- names ----------------------------------------------------------------------------------


_NAMED: "dict[tuple[int, int], DType]" = {}  # by code and bits, once they were needed

_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # by the kinds of the array interfaces
_KINDS = {code: kind for kind, code in _CODES.items()}


def of_typestr(text: str) -> "DType | None":
    """The type of a little-endian typestr of the array interfaces, such as "<f4"; None for others.

    The byte order may be left out. NumPy's "f16" is a long double, and a type of its own.
    """
    plain = text[1:] if text.startswith(("<", "=", "|", ">")) else text
    kind, size = plain[:1], plain[1:]
    if kind not in _CODES or not _is_count(size) or (text[0] == ">" and size != "1"):
        return None
    pair = _CODES[kind], 8 * int(size)
    return make_dtype(*pair, 1) if pair in _BY_CODE and plain != "f16" else None


def typestr_of(dtype: DType) -> "str | None":
    """The typestr of a type in the array interfaces; None unless NumPy itself has the type."""
    if dtype.format is None or dtype.lanes != 1:
        return None
    return f"{'|' if dtype.itemsize == 1 else '<'}{_KINDS[dtype.code]}{dtype.itemsize}"


def _parse(text: str) -> "DType | None":
    name, _, lanes = text.rpartition("x")
    if text in _BY_NAME:
        name, lanes = text, "1"
    elif name not in _BY_NAME or not _is_count(lanes):
        return of_typestr(text)
    return make_dtype(_BY_NAME[name].code, _BY_NAME[name].bits, int(lanes))


def _is_count(text: str) -> bool:
    """Whether `text` is a number of lanes as in `name`."""
    return text.isascii() and text.isdecimal() and text[0] != "0" and int(text) < 65536


#: Names of types in other libraries and C, and the names here that may be meant.
_HINTS = {
    "half": ("float16",),
    "float": ("float32", "float64"),
    "single": ("float32",),
    "double": ("float64",),
    "char": ("int8", "uint8"),
    "byte": ("int8", "uint8"),
    "short": ("int16",),
    "int": ("int32", "int64"),
    "long": ("int64",),
    "complex": ("complex64", "complex128"),
    "cfloat": ("complex64",),
    "cdouble": ("complex128",),
    "fp16": ("float16",),
    "bf16": ("bfloat16",),
    "fp32": ("float32",),
    **dict.fromkeys(("float8", "fp8"), ("float8_e4m3fn", "float8_e5m2")),
    **dict.fromkeys(("float6", "fp6"), ("float6_e2m3fn", "float6_e3m2fn")),
    **dict.fromkeys(("float4", "fp4"), ("float4_e2m1fn",)),
}


# ---- objects that stand for a dtype ------------------------------------------------------------


def _find(x) -> "DType | None":
    """The DType that x stands for, or None; ValueError or TypeError for numbers that are wrong."""
    if type(x) is DType:  # not a proxy
        return x
    if isinstance(x, str):
        return _parse(x)
    if isinstance(x, tuple) and len(x) in (2, 3):
        return _of_numbers(*x)
    protocol = getattr(type(x), "__dlpack_data_type__", None)
    if protocol is not None:
        return _of_numbers(*protocol(x))
    name, lanes = foreign.dtype_name(x) or (None, 1)
    lane = None if name is None else _parse(name)
    return None if lane is None or lanes > 65535 else make_dtype(lane.code, lane.bits, lanes)


def _refusal(x) -> Exception:
    """The exception for an object that does not stand for a dtype."""
    if isinstance(x, str) and x[:1] == ">" and of_typestr(x[1:]):
        return ValueError(
            f"expected a little-endian dtype, got {x!r}, which DLPack cannot describe: use "
            f"{x[1:]!r}, and for arrays x.astype({x[1:]!r})"
        )
    if isinstance(x, str):
        return ValueError(
            f"expected the name of a dtype, such as 'float32', got {x!r}"
            f"{nearest(x, _BY_NAME, _HINTS)}"
        )
    if foreign.dtype_name(x) is not None:
        return ValueError(
            f"expected a dtype of native numbers or bools, got {x!r}, which DLPack cannot describe"
        )
    hint = nearest(x.__name__, _BY_NAME, _HINTS) if type(x) is type else ""
    return TypeError(
        f'expected a dtype as "float32", (code, bits, lanes), a DType, or a dtype of NumPy, torch '
        f"or JAX, got {x!r} of type {type_name(x)!r}{hint}"
    )
