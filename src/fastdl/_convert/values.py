# SPDX-License-Identifier: Apache-2.0
"""A host tensor where others expect numbers or a string: int, float, index, in, repr, Arrow."""

from numbers import Number
from operator import index as as_integer

from fastdl._core import tensor as core
from fastdl._core.dtype import DType

_REPR_ELEMENTS = 6  # how many elements of a dimension repr shows before it elides some
_REPR_BUDGET = 60  # about how many in all


def number(tensor, convert, *arguments):
    """The result of `convert`, such as int or round, for the only element."""
    name = f"{convert.__name__}()"
    if tensor.size != 1:
        raise TypeError(
            f"{name} needs exactly one element, as item() does, got {core.describe(tensor)} with "
            f"{tensor.size}"
        )
    element = core.only_element(tensor, name)
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
    except (AttributeError, TypeError, ValueError, RuntimeError):  # the last is torch's
        return x


def contains(tensor, x):
    """`x in tensor`: whether an element equals x, as Python compares numbers."""
    x = _value_of(x)
    if not isinstance(x, Number if tensor.dtype.lanes == 1 else tuple):
        raise TypeError(
            f"expected a number, or a tuple of the lanes of a vector type, before 'in' a tensor of "
            f"{tensor.dtype}, got {x!r}"
        )
    return core.any_equals(tensor, x)


def not_in_arrow(tensor) -> BufferError:
    """The exception for elements that Arrow does not have."""
    from fastdl._bridges.pyarrow import NUMBERS
    from fastdl._convert.refusals import nearest_dtype

    return BufferError(f"Arrow has no type like {tensor.dtype}. {nearest_dtype(tensor, NUMBERS)}")


# ---- repr -----------------------------------------------------------------------------------


def text(tensor) -> str:
    """repr: shape, type, device, and a few values of host data."""
    facts = f"shape={tensor.shape}, dtype={tensor.dtype}, device={tensor.device}"
    if tensor.readonly:
        facts += ", readonly"
    return f"fastdl.Tensor({_values(tensor)}{facts})"


def _values(tensor) -> str:
    if not tensor.device.is_host or tensor.size == 0 or not core.has_numbers(tensor):
        return ""
    if core.is_packed(tensor):  # has no views of parts
        return f"{tensor.tolist()}, " if tensor.size <= _REPR_ELEMENTS else ""
    return f"{_excerpt(tensor, _REPR_BUDGET)}, "


def _excerpt(tensor, budget: int) -> str:
    """About `budget` elements from both ends of each dimension, at least one."""
    if tensor.ndim == 0:
        return _as_numpy_prints(tensor.item())
    n = len(tensor)
    shown = min(n, _REPR_ELEMENTS, max(budget, 1))
    head = (shown + 1) // 2
    rows = [*range(head), *range(n - (shown - head), n)]
    parts = [_excerpt(tensor[i], budget // shown) for i in rows]
    if shown < n:
        parts.insert(head, "...")
    return f"[{', '.join(parts)}]"


def _as_numpy_prints(value) -> str:
    """A number as text, with a point unless its type is an integer."""
    if isinstance(value, complex):
        imaginary = _as_numpy_prints(value.imag)
        sign = "" if imaginary.startswith("-") else "+"
        return f"{_as_numpy_prints(value.real)}{sign}{imaginary}j"
    if not isinstance(value, float):
        return str(value)
    digits, e, exponent = f"{value:.6g}".partition("e")
    return f"{digits}{'.' if digits.lstrip('-').isdigit() else ''}{e}{exponent}"
