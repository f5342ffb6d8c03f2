"""The elements of a host tensor as Python numbers: tolist, item and repr."""

import struct
from collections import namedtuple

from fastdl._core import tensor as core

_REPR_ELEMENTS = 6  # how many elements of a dimension repr shows before it leaves some out

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


def _decode_int(bits: int, width: int, signed: bool) -> int:
    return bits - (1 << width) if signed and bits >> (width - 1) else bits


def decoder(dtype):
    """(bits -> number) for one lane of `dtype`; TypeError if its values mean nothing to Python."""
    lane = dtype._replace(lanes=1) if dtype.lanes != 1 else dtype
    size = lane.itemsize
    if lane.name in ("complex64", "complex128", "complex32"):
        part = {8: "e", 4: "e", 16: "d"}[size] if size != 8 else "f"
        pair = struct.Struct(f"<2{part}")
        return lambda bits: complex(*pair.unpack(bits.to_bytes(size, "little")))
    if lane.format is not None and lane.format in "efd?":
        one = struct.Struct(f"<{lane.format}")
        return lambda bits: one.unpack(bits.to_bytes(size, "little"))[0]
    if lane.name in _FLOATS:
        form = _FLOATS[lane.name]
        return lambda bits: decode_float(bits, form)
    if lane.name.startswith(("int", "uint")):
        return lambda bits: _decode_int(bits, lane.bits, lane.name[0] == "i")
    raise TypeError(f"the values of {dtype} cannot be expressed in Python: use numpy() or DLPack")


def elements(tensor):
    """The elements of a tensor in row-major order; those of several lanes as tuples."""
    dtype = tensor.dtype
    decode = decoder(dtype)
    data = core.read_bytes(tensor)
    mask = (1 << dtype.bits) - 1
    packed = tensor.nbytes != tensor.size * tensor.itemsize or dtype.bits * dtype.lanes % 8
    if packed and tensor.nbytes == tensor.size * tensor.itemsize and not core.is_packed(tensor):
        packed = False
    width = dtype.bits * dtype.lanes if packed else 8 * tensor.itemsize
    stream = int.from_bytes(data, "little") if packed else None
    for i in range(tensor.size):
        if packed:
            bits = (stream >> (i * width)) & ((1 << width) - 1)
        else:
            start = i * tensor.itemsize
            bits = int.from_bytes(data[start : start + tensor.itemsize], "little")
        lanes = [decode((bits >> (k * dtype.bits)) & mask) for k in range(dtype.lanes)]
        yield lanes[0] if dtype.lanes == 1 else tuple(lanes)


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
    if not tensor.device.is_host or tensor.size == 0:
        return ""
    try:
        decoder(tensor.dtype)
    except TypeError:
        return ""
    if core.is_packed(tensor):  # cannot be cut into views
        return f"{tolist(tensor)}, " if tensor.size <= _REPR_ELEMENTS else ""
    return f"{_excerpt(tensor, _REPR_ELEMENTS)}, "


def _excerpt(tensor, most: int) -> str:
    if tensor.ndim == 0:
        value = item(tensor)
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    n = len(tensor)
    if n <= most:
        parts = [_excerpt(row, most) for row in tensor]
    else:
        half = most // 2
        rows = [tensor[i] for i in range(half)] + [tensor[i] for i in range(n - half, n)]
        parts = [_excerpt(row, 2) for row in rows]
        parts.insert(half, "...")
    return f"[{', '.join(parts)}]"
