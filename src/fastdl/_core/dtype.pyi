from collections.abc import Callable
from typing import Any, Protocol, SupportsIndex, TypeAlias, final, overload

import numpy as np
from typing_extensions import Self

class _SupportsDType(Protocol):
    def __dlpack_data_type__(self) -> tuple[int, int, int]: ...

# A scalar type of jax.numpy.
class _HasNumPyDType(Protocol):
    @property
    def dtype(self) -> np.dtype[Any]: ...

# A torch.dtype.
class _TorchDType(Protocol):
    @property
    def is_floating_point(self) -> bool: ...
    @property
    def is_complex(self) -> bool: ...
    @property
    def is_signed(self) -> bool: ...

# What every `dtype` argument accepts.
_DTypeLike: TypeAlias = (
    str
    | tuple[SupportsIndex, SupportsIndex]
    | tuple[SupportsIndex, SupportsIndex, SupportsIndex]
    | DType
    | _SupportsDType
    | np.dtype[Any]
    | type[np.generic]
    | _HasNumPyDType
    | _TorchDType
)

@final
class DType:
    """An element type as DLPack describes it: a code, the bits of one lane, and a number of lanes.

    Made from what people have:

    - a name: NumPy's, or else ml_dtypes' ("float32", "bool", "bfloat16", "float8_e4m3fn"), followed
      by "x4" for vectors of four lanes; or one of the array interface ("f4", "<i8");
    - a dtype of NumPy, ml_dtypes, JAX, torch or MLX, which is not imported for that; or any object
      with `__dlpack_data_type__`;
    - the numbers of a DLDataType, of one lane unless given: `DType(2, 32)`, `DType((2, 32, 1))`.
      Types that DLPack 1.3 does not name are carried along under a name made of their numbers.

    ValueError for a name or a number that is none, or a dtype that DLPack does not have; TypeError
    for other objects.

    A DType never changes. It equals everything that it could be made from. Its hash is that of its
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

    @overload
    def __new__(cls, code: _DTypeLike, bits: None = None) -> Self: ...
    @overload
    def __new__(
        cls, code: SupportsIndex, bits: SupportsIndex, lanes: SupportsIndex = 1
    ) -> Self: ...
    @property
    def code(self) -> int:
        """The DLDataTypeCode, an int."""
    @property
    def bits(self) -> int:
        """Bits of one lane."""
    @property
    def lanes(self) -> int:
        """How many numbers an element has: 1 but for vector types."""
    @property
    def name(self) -> str:
        """NumPy's name, or ml_dtypes' if NumPy has none, followed by xN for N lanes."""
    @property
    def format(self) -> str | None:
        """The PEP 3118 format of one lane, or None if it has none."""
    @property
    def itemsize(self) -> int:
        """Bytes of one element by itself; fewer than 8 bits count as 1."""
    @property
    def lane(self) -> DType:
        """The type of one lane.

        >>> fastdl.DType("float32x4").lane
        DType('float32')
        """
    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy.dtype: where NumPy looks when this is passed for a dtype.

        Of ml_dtypes if NumPy has none; of one dimension of lanes for a vector type. TypeError if
        there is none.
        """
    @property
    def __numpy_dtype__(self) -> np.dtype[Any]:
        """The numpy.dtype: where NumPy looks when this is passed for a dtype.

        Of ml_dtypes if NumPy has none; of one dimension of lanes for a vector type. TypeError if
        there is none.
        """
    def __dlpack_data_type__(self) -> tuple[int, int, int]:
        """(code, bits, lanes): how libraries exchange dtypes.

        >>> fastdl.DType("bfloat16").__dlpack_data_type__()
        (4, 16, 1)
        """
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

# What follows is only for fastdl's own Python layer.

BY_FORMAT: dict[str, DType]

def make_dtype(code: int, bits: int, lanes: int) -> DType: ...
def of_typestr(text: str) -> DType | None: ...
def typestr_of(dtype: DType) -> str | None: ...
def install(*, numpy: Callable[[DType], np.dtype[Any]]) -> None: ...
