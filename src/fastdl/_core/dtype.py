"""Element types: their names, sizes and codes."""

from collections import namedtuple
from functools import lru_cache

from fastdl._core.tensor import dtype_facts

_Fact = namedtuple("_Fact", "name code bits format")
_FACTS = [_Fact(*row) for row in dtype_facts()]
_BY_NAME = {fact.name: fact for fact in _FACTS}
_BY_CODE = {(fact.code, fact.bits): fact for fact in _FACTS}


class DType(namedtuple("DType", "code bits lanes")):
    """An element type as DLPack has it: a DLDataTypeCode, the bits of one lane, and lanes.

    Made from three numbers, a name ("float32", "bfloat16", "float8_e4m3fn", "float32x4" for
    four lanes) or a DType. A tuple, so that equal types are equal. Types that DLPack 1.3 does
    not name are carried along under a name made of their numbers.
    """

    __slots__ = ()

    def __new__(cls, code, bits=None, lanes=1):
        if bits is not None:
            return _known(
                _within(code, 0, 255, "code"),
                _within(bits, 1, 255, "bits"),
                _within(lanes, 1, 65535, "lanes"),
            )
        if isinstance(code, DType):
            return code
        if isinstance(code, str):
            return _parse(code)
        if isinstance(code, tuple) and len(code) in (2, 3):
            return DType(*code)
        raise TypeError(
            f'expected a dtype as "float32", (code, bits, lanes) or a DType, got {code!r}'
        )

    @property
    def name(self) -> str:
        """NumPy's name, or ml_dtypes' if NumPy has none, followed by "xN" for N lanes."""
        fact = _BY_CODE.get((self.code, self.bits))
        name = fact.name if fact else f"opaque{self.code}_{self.bits}"
        return name if self.lanes == 1 else f"{name}x{self.lanes}"

    @property
    def lane(self) -> "DType":
        """The type of one lane."""
        return self if self.lanes == 1 else _known(self.code, self.bits, 1)

    @property
    def format(self) -> "str | None":
        """The PEP 3118 format of one lane, or None if it has none."""
        fact = _BY_CODE.get((self.code, self.bits))
        return fact.format if fact else None

    @property
    def itemsize(self) -> int:
        """Bytes of one element by itself; fewer than 8 bits count as 1."""
        return (self.bits * self.lanes + 7) // 8

    def __str__(self):
        return self.name

    def __repr__(self):
        if (self.code, self.bits) in _BY_CODE:
            return f"DType({self.name!r})"
        return f"DType{tuple(self)}"

    def __reduce__(self):
        return DType, tuple(self)


@lru_cache(maxsize=256)
def _known(code: int, bits: int, lanes: int) -> DType:
    return tuple.__new__(DType, (code, bits, lanes))


def make_dtype(code: int, bits: int, lanes: int) -> DType:
    """The DType of a descriptor. One object for each triple, as far as memory allows."""
    return _known(code, bits, lanes)


def _within(value, least: int, most: int, field: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"expected an int as {field} of a dtype, got {value!r}")
    if not least <= value.__index__() <= most:
        raise ValueError(f"expected {field} of a dtype from {least} to {most}, got {value}")
    return value.__index__()


def _parse(text: str) -> DType:
    name, _, lanes = text.rpartition("x") if text not in _BY_NAME else (text, "", "1")
    if name not in _BY_NAME or not _is_count(lanes):
        raise ValueError(f"expected a dtype name out of {', '.join(_BY_NAME)}; got {text!r}")
    fact = _BY_NAME[name]
    return _known(fact.code, fact.bits, int(lanes))


def _is_count(text: str) -> bool:
    """Whether `text` is a number of lanes as in `name`."""
    return text.isascii() and text.isdecimal() and text[0] != "0" and int(text) < 65536


#: Element types by their PEP 3118 character in native size and order. 64-bit integers have two.
BY_FORMAT = {fact.format: _known(fact.code, fact.bits, 1) for fact in _FACTS if fact.format}
BY_FORMAT.update(q=_parse("int64"), Q=_parse("uint64"))
