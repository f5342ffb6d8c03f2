from typing import NamedTuple, SupportsIndex, TypeAlias, overload

from typing_extensions import Self

class _Fields(NamedTuple):
    code: int
    bits: int
    lanes: int

class DType(_Fields):
    @overload
    def __new__(cls, code: _DTypeLike, bits: None = None) -> Self: ...
    @overload
    def __new__(
        cls, code: SupportsIndex, bits: SupportsIndex, lanes: SupportsIndex = 1
    ) -> Self: ...
    @property
    def name(self) -> str: ...
    @property
    def lane(self) -> DType: ...
    @property
    def format(self) -> str | None: ...
    @property
    def itemsize(self) -> int: ...

# What every `dtype` argument accepts.
_DTypeLike: TypeAlias = (
    str
    | tuple[SupportsIndex, SupportsIndex]
    | tuple[SupportsIndex, SupportsIndex, SupportsIndex]
    | DType
)

BY_FORMAT: dict[str, DType]

def make_dtype(code: int, bits: int, lanes: int) -> DType: ...
