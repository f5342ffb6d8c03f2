"""The elements of a host tensor as Python numbers: tolist, item, int, float, in and repr."""

import struct
from collections import namedtuple
from functools import partial
from itertools import chain, starmap
from numbers import Number
from operator import index as as_integer

from fastdl._core import tensor as core
from fastdl._core.dtype import DType

_REPR_ELEMENTS = 6  # how many elements of a dimension repr shows before it leaves some out
_REPR_BUDGET = 60  # and about how many in all

# How the narrow floats are built. A sign bit, where there is one, is the highest.
# special: "ieee": the top exponent holds infinities and NaN; "fn": only all ones are NaN; "fnuz":
# negative zero is NaN; "finite": no NaN at all; "scale": 2 ** (bits - bias), all ones are NaN.
_Float = namedtuple("_Float", "exponent mantissa bias special")
_FLOATS = {
    "bfloat16": _Float(8, 7, 127, "ieee"),
    "float8_e3m4": _Float(3, 4, 3, "ieee"),
    "float8_e4m3": _Float(4, 3, 7, "ieee"),
    "float8_e4m3b11fnuz": _Float(4, 3, 11, "fnuz"),
    "float8_e4m3fn": _Float(4, 3, 7, "fn"),
    "float8_e4m3fnuz": _Float(4, 3, 8, "fnuz"),
    "float8_e5m2": _Float(5, 2, 15, "ieee"),
    "float8_e5m2fnuz": _Float(5, 2, 16, "fnuz"),
    "float8_e8m0fnu": _Float(8, 0, 127, "scale"),
    "float6_e2m3fn": _Float(2, 3, 1, "finite"),
    "float6_e3m2fn": _Float(3, 2, 3, "finite"),
    "float4_e2m1fn": _Float(2, 1, 1, "finite"),
}


def decode_float(bits: int, form: _Float) -> float:
    """The number that a narrow float of that form holds."""
    if form.special == "scale":
        return float("nan") if bits == 255 else 2.0 ** (bits - form.bias)
    sign_bit = 1 << (form.exponent + form.mantissa)
    sign = -1.0 if bits & sign_bit else 1.0
    magnitude = bits & (sign_bit - 1)
    exponent = magnitude >> form.mantissa
    fraction = magnitude & ((1 << form.mantissa) - 1)
    if form.special == "ieee" and exponent == (1 << form.exponent) - 1:
        return float("nan") if fraction else sign * float("inf")
    if form.special == "fn" and magnitude == sign_bit - 1:
        return float("nan")
    if form.special == "fnuz" and bits == sign_bit:
        return float("nan")
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - form.bias - form.mantissa)
    return sign * ((1 << form.mantissa) + fraction) * 2.0 ** (exponent - form.bias - form.mantissa)


# The struct module's letters in standard size, where those in native size mean another size there;
# and for complex types, the letters of their parts.
_STANDARD = {"l": "q", "L": "Q"}
_COMPLEX = {"complex32": "ee", "complex64": "ff", "complex128": "dd"}


def decoder(lane):
    """(bits -> number) for a type of one lane that the struct module does not read; None if its
    values mean nothing to Python."""
    if lane.name in _FLOATS:
        return partial(decode_float, form=_FLOATS[lane.name])
    if lane.name.startswith("uint"):
        return int
    if lane.name.startswith("int"):
        sign = 1 << (lane.bits - 1)
        return lambda bits: (bits ^ sign) - sign
    return None


def is_readable(dtype) -> bool:
    """Whether Python has numbers for the values of a type."""
    lane = dtype.lane
    return lane.format is not None or lane.name in _COMPLEX or decoder(lane) is not None


def bit_step(tensor) -> int:
    """The distance in bits from one element of a compact tensor to the next: the one place that
    tells packed types from padded ones. The lanes of an element always lie without gaps, low
    first."""
    dtype = tensor.dtype
    return dtype.bits * dtype.lanes if core.is_packed(tensor) else 8 * dtype.itemsize


def _bit_fields(tensor):
    """Every lane of every element as an unsigned integer of its bits."""
    bits, lanes = tensor.dtype.bits, tensor.dtype.lanes
    data, step, mask = core.read_bytes(tensor), bit_step(tensor), (1 << bits) - 1
    for i in range(tensor.size):
        for first in range(i * step, i * step + lanes * bits, bits):
            around = data[first // 8 : (first + bits + 7) // 8]
            yield int.from_bytes(around, "little") >> first % 8 & mask


def elements(tensor):
    """The elements of a tensor in row-major order; those of several lanes as tuples."""
    lanes, lane = tensor.dtype.lanes, tensor.dtype.lane
    if lane.name in _COMPLEX:
        numbers = starmap(
            complex, struct.iter_unpack(f"<{_COMPLEX[lane.name]}", core.read_bytes(tensor))
        )
    elif lane.format is not None:
        form = _STANDARD.get(lane.format, lane.format)
        numbers = chain.from_iterable(struct.iter_unpack(f"<{form}", core.read_bytes(tensor)))
    elif (decode := decoder(lane)) is not None:
        numbers = map(decode, _bit_fields(tensor))
    else:
        raise TypeError(
            f"the values of {tensor.dtype} cannot be expressed in Python: use numpy() or DLPack"
        )
    return numbers if lanes == 1 else zip(*[numbers] * lanes, strict=True)


def tolist(tensor):
    """Nested lists, as Tensor.tolist."""
    values = elements(host(tensor, "tolist()"))
    return _nest(tensor.shape, values)


def _nest(shape, values):
    if not shape:
        return next(values)
    return [_nest(shape[1:], values) for _ in range(shape[0])]


def item(tensor):
    """The only element, as Tensor.item."""
    if tensor.size != 1:
        raise ValueError(
            f"item() needs exactly one element, got {core.describe(tensor)} with {tensor.size}"
        )
    return next(elements(host(tensor, "item()")))


def number(tensor, convert, *arguments):
    """What `convert`, such as int or round, makes of the only element."""
    name = f"{convert.__name__}()"
    if tensor.size != 1:
        raise TypeError(
            f"{name} needs exactly one element, as item() does, got {core.describe(tensor)} with "
            f"{tensor.size}"
        )
    element = next(elements(host(tensor, name)))
    try:
        return convert(element, *arguments)
    except TypeError as error:
        raise TypeError(f"{name} does not take an element of {tensor.dtype}: use item()") from error


def index(tensor):
    """Tensor.__index__. As in NumPy, neither a bool nor an array with dimensions is an index."""
    if tensor.ndim != 0 or tensor.dtype.code not in _INTEGER_CODES:
        raise TypeError(
            f"expected an integer tensor without dimensions as index or size, got "
            f"{core.describe(tensor)}: use item()"
        )
    return number(tensor, as_integer)


_INTEGER_CODES = {DType("int32").code, DType("uint32").code}


def _value_of(x):
    """The value of a scalar or one-element array of any library, a Tensor too; else `x` itself."""
    try:
        return x.item()
    except (AttributeError, TypeError, ValueError):
        return x


def contains(tensor, x):
    """`x in tensor`: whether an element equals x, as Python compares numbers."""
    x = _value_of(x)
    if not isinstance(x, Number if tensor.dtype.lanes == 1 else tuple):
        raise TypeError(
            f"expected a number, or a tuple of the lanes of a vector type, before 'in' a tensor of "
            f"{tensor.dtype}, got {x!r}"
        )
    return any(element == x for element in elements(host(tensor, "in")))


def host(tensor, what: str):
    if not tensor.device.is_host:
        raise BufferError(
            f"{what} reads host memory, and this is {core.describe(tensor)}: move it to the host "
            f"with its own library first"
        )
    return tensor


# ---- repr -----------------------------------------------------------------------------------


def text(tensor) -> str:
    """repr: shape, type, device, and a few values of host data."""
    facts = f"shape={tensor.shape}, dtype={tensor.dtype}, device={tensor.device}"
    if tensor.readonly:
        facts += ", readonly"
    return f"fastdl.Tensor({_values(tensor)}{facts})"


def _values(tensor) -> str:
    if not tensor.device.is_host or tensor.size == 0 or not is_readable(tensor.dtype):
        return ""
    if core.is_packed(tensor):  # cannot be cut into views
        return f"{tolist(tensor)}, " if tensor.size <= _REPR_ELEMENTS else ""
    return f"{_excerpt(tensor, _REPR_BUDGET)}, "


def _excerpt(tensor, budget: int) -> str:
    """About `budget` elements from both ends of each dimension, at least one."""
    if tensor.ndim == 0:
        value = item(tensor)
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    n = len(tensor)
    shown = min(n, _REPR_ELEMENTS, max(budget, 1))
    head = (shown + 1) // 2
    rows = [*range(head), *range(n - (shown - head), n)]
    parts = [_excerpt(tensor[i], budget // shown) for i in rows]
    if shown < n:
        parts.insert(head, "...")
    return f"[{', '.join(parts)}]"
