"""signer: keys that tell which compiled kernel serves some tensors."""

from fastdl._core.exchange import make_signer

TYPE_CHECKING = False  # as in typing, which `import fastdl` can do without
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
    """A function like `fastdl.signature`, whose keys contain what kernels are compiled for.

    dtype, device, readonly: whether keys differ if the tensors do in that.
    sizes: "exact"; "coarse": up to which power of two (0, 1, 2, 3 to 4, 5 to 8, ...); None: not at
        all. The number of dimensions is always in the key.
    strides: "exact"; "coarse": whether the tensor is contiguous in row-major order, and whether in
        column-major order; None: not at all. The stride of a dimension of size 1 never counts.
    alignment: the highest power of two, in bytes, that kernels make use of: addresses that are
        multiples of it have equal keys, and so have others that are multiples of the same smaller
        power of two. 1: not in the key.
    layout: what a call with `into` writes for each tensor, a letter for each value: p the address;
        n the sizes and s the strides, in elements, as 32-bit integers; N and S the same with 64
        bits; d the number of dimensions, with 32 bits. Each value is at a multiple of its own size
        from the start of the buffer, as in a struct of C.

    Keys of different signers say nothing about each other. ValueError for other values.

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
