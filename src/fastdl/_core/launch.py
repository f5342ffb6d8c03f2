"""signer: keys that select the compiled kernel for some tensors."""

from fastdl._core.exchange import make_signer

TYPE_CHECKING = False  # instead of typing's: `import fastdl` need not load that
if TYPE_CHECKING:
    from typing import Literal, Protocol

    from typing_extensions import Buffer

    _Part = Literal["exact", "coarse"] | None

    class _Signer(Protocol):
        """What `signer` returns."""

        def __call__(self, *tensors: object, into: Buffer | None = None) -> bytes: ...


_PARTS = {None: 0, "coarse": 1, "exact": 2}  # FASTDL_LEFT_OUT, ...
_LETTERS = "pnsNSd"
_MOST_LETTERS = 15


def _part(name: str, value: object) -> int:
    if (value is not None and not isinstance(value, str)) or value not in _PARTS:
        raise ValueError(f"expected {name}='exact', 'coarse' or None, got {value!r}")
    return _PARTS[value]


def signer(
    *,
    dtype: bool = True,
    device: bool = True,
    readonly: bool = True,
    sizes: "_Part" = "exact",
    strides: "_Part" = "exact",
    alignment: int = 16,
    layout: str = "pNS",
) -> "_Signer":
    """A function like `fastdl.signature`, whose keys contain only what kernels are specialised for.

    dtype, device, readonly: whether this property is in the key.
    sizes: "exact"; "coarse": rounded up to a power of two (0, 1, 2, 3 to 4, 5 to 8, ...); None: not
        at all. The number of dimensions is always in the key.
    strides: "exact"; "coarse": only whether the tensor is contiguous in row-major and in
        column-major order; None: not at all. The stride of a dimension of size 1 never counts.
    alignment: the highest power of two, in bytes, that kernels exploit: all addresses aligned to it
        count as equal; others count by their alignment. 1: not in the key.
    layout: what a call with `into` writes for each tensor, a letter for each value: p the address;
        n the sizes and s the strides, in elements, as 32-bit integers; N and S the same with 64
        bits; d the number of dimensions, with 32 bits. Each value is at a multiple of its own size
        from the start of the buffer, as in a C struct.

    Keys of different signers cannot be compared. ValueError for other values.

    >>> key = fastdl.signer(sizes=None, strides="coarse", alignment=1)
    >>> key(np.ones((2, 3))) == key(np.ones((4, 5))) != key(np.ones((2, 3)).T)
    True
    """
    if type(alignment) is not int or not 1 <= alignment < 2**32 or alignment & (alignment - 1):
        raise ValueError(
            f"expected alignment as a power of two, 1 to 2**31 bytes, got {alignment!r}"
        )
    if not isinstance(layout, str) or set(layout) - set(_LETTERS) or len(layout) > _MOST_LETTERS:
        raise ValueError(
            f"expected a layout of at most {_MOST_LETTERS} letters of {_LETTERS!r}, got {layout!r}"
        )
    of_sizes, of_strides = _part("sizes", sizes), _part("strides", strides)
    return make_signer(dtype, device, readonly, of_sizes, of_strides, alignment, layout)
