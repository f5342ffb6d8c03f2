"""Indexing, views, and values of a Tensor in Python."""

import operator

import numpy as np

import fastdl
from tests.errors.converting import on
from tests.errors.row import Group, Row

MATRIX = fastdl.from_dlpack(np.arange(6, dtype="float32").reshape(2, 3))
SCALAR = fastdl.from_dlpack(np.array(1.5))
FOURS = fastdl.empty(4, "int4")
ODD = (1, 0)


def described(words):
    return f"a float32 tensor of shape (2, 3) on cpu:0 cannot be {words}"


GROUP = Group(
    "Indexing, views and values",
    "`tensor[...]`, `reshape`, `flatten`, `permute`, `T`, `mT`, `squeeze`, `unsqueeze`, `expand`, "
    "`view`; `item`, `tolist`, `int`, `in`, `==`. A Tensor has views and no arithmetic: for all "
    "else, convert it. See [the Python guide](python-guide.md#a-tensor).",
    [
        Row(
            lambda: MATRIX[2],
            IndexError,
            "index 2 is out of bounds for dimension 0 of size 2",
            "Indices begin at 0; negative ones count from the end.",
        ),
        Row(
            lambda: MATRIX[0, 0, 0],
            IndexError,
            "expected no more indices than dimensions (2), got 3",
            "See `tensor.shape`. A new dimension: `None`.",
        ),
        Row(
            lambda: MATRIX[..., ...],
            IndexError,
            "expected at most one Ellipsis in an index, got 2",
            "Write `:` for all but one of them.",
        ),
        Row(
            lambda: MATRIX[(None,) * 63],
            IndexError,
            "expected a view of at most 64 dimensions, got 65",
            "Leave out some `None`.",
        ),
        Row(
            (lambda: MATRIX[[0, 1]], lambda: MATRIX[np.array([0, 1])]),
            TypeError,
            "expected integers, slices, None or Ellipsis as indices, got …: a Tensor has basic "
            "indexing only; for more, index the array that numpy() or fastdl.convert gives",
            "Lists, arrays and masks: `tensor.numpy()[...]`, for example.",
        ),
        Row(
            lambda: FOURS[0],
            BufferError,
            "an int4 tensor of shape (4,) on cpu:0 cannot be indexed: its elements share bytes, so "
            "use numpy() first",
            "Two `int4` share a byte, so an element has no address.",
        ),
        Row(
            lambda: MATRIX.reshape("x"),
            TypeError,
            "expected ints as shape, got 'str'",
            "Sizes and axes are ints, one by one or in one sequence.",
        ),
        Row(
            lambda: MATRIX.reshape((1,) * 65),
            ValueError,
            "expected at most 64 ints as shape, got 65",
            "DLPack's limit in fastdl is 64 dimensions.",
        ),
        Row(
            lambda: MATRIX.reshape(4, 2),
            ValueError,
            described("reshaped to (4, 2): expected a shape of as many elements"),
            "One size may be -1: it is computed.",
        ),
        Row(
            lambda: MATRIX.reshape(-1, -1),
            ValueError,
            described("reshaped to (-1, -1): expected sizes from 0, one of which may be -1"),
            "Give all sizes but one.",
        ),
        Row(
            lambda: MATRIX.T.reshape(6),
            fastdl.CopyRequiredError,
            "… cannot be reshaped to (6,): its strides allow no view of that shape: use "
            "copy().reshape(...)",
            "`reshape` never copies silently.",
        ),
        Row(
            lambda: MATRIX.permute(0, 0),
            ValueError,
            described("permuted by (0, 0): expected each of its dimensions once"),
            "`permute(1, 0)` for two dimensions.",
        ),
        Row(
            lambda: MATRIX[None].T,
            ValueError,
            "… cannot be permuted by (1, 0): T is for two dimensions: use mT for the last two of "
            "more, or permute(...) for any number",
            "All dimensions reversed: `tensor.permute(*reversed(range(tensor.ndim)))`.",
        ),
        Row(
            lambda: MATRIX[0].mT,
            ValueError,
            "… cannot be permuted by (1, 0): mT is for two dimensions or more",
            "A vector as a column: `tensor.unsqueeze(-1)`.",
        ),
        Row(
            lambda: MATRIX.squeeze(0),
            ValueError,
            described("squeezed along (0,): expected dimensions of size 1, each once"),
            "`squeeze()` without an argument takes all dimensions of size 1.",
        ),
        Row(
            lambda: MATRIX.unsqueeze(3),
            ValueError,
            described(
                "unsqueezed at (3,): expected an axis from 0 to its number of dimensions, or a "
                "negative one that counts from the end of the result"
            ),
            "The axis is that of the result: -1 is its last dimension.",
        ),
        Row(
            lambda: MATRIX.reshape(*[1] * 63, 6).unsqueeze(0),
            ValueError,
            "… cannot be unsqueezed at (0,): expected a tensor of fewer than 64 dimensions",
            "DLPack's limit in fastdl is 64 dimensions.",
        ),
        Row(
            lambda: MATRIX.expand(4, 3),
            ValueError,
            described(
                "expanded to (4, 3): only dimensions of size 1 can be expanded: pass -1 or "
                "the same size for others, and new dimensions in front"
            ),
            "The rules are those of broadcasting.",
        ),
        Row(
            lambda: MATRIX.view("float64"),
            ValueError,
            described(
                "viewed as float64: expected a last dimension whose bytes are a multiple of the "
                "new element size"
            ),
            "`tensor.shape[-1] * tensor.itemsize` is the size of a row in bytes.",
        ),
        Row(
            lambda: MATRIX[:, ::2].view("int16"),
            fastdl.CopyRequiredError,
            "… cannot be viewed as int16: its last dimension has gaps: use copy().view(...)",
            "A copy has no gaps.",
        ),
        Row(
            lambda: MATRIX[:, :2].view("float64"),
            fastdl.CopyRequiredError,
            "… cannot be viewed as float64: its strides are not a multiple of the new element "
            "size: use copy().view(...)",
            "A copy has no gaps.",
        ),
        Row(
            lambda: fastdl.asarray(bytearray(32))[1:25].view("float64"),
            fastdl.CopyRequiredError,
            "… cannot be viewed as float64: its address is not aligned for such elements: use "
            "copy().view(...)",
            "Compiled code may crash at unaligned numbers. A copy is aligned to 256 bytes.",
        ),
        Row(
            lambda: FOURS.view("int8"),
            BufferError,
            "… cannot be viewed as int8: sub-byte elements share bytes and cannot be reinterpreted"
            ': use numpy() first, or name a type whose lanes fill bytes, such as "int4x2"',
            "`numpy()` unpacks the elements, one to a byte.",
        ),
        Row(
            lambda: FOURS.reshape(2, 2).T,
            BufferError,
            "… cannot be permuted by (1, 0): its elements share bytes, so only row-major "
            "order is defined: use numpy() first",
            "Other views of such elements have no descriptor in DLPack.",
        ),
        Row(
            lambda: MATRIX.is_contiguous("K"),
            ValueError,
            "expected order 'C' or 'F', got 'K'",
            "C is row-major, F is column-major.",
        ),
        Row(
            lambda: MATRIX.item(),
            ValueError,
            "item() needs exactly one element, got a float32 tensor of shape (2, 3) on cpu:0 with "
            "6",
            "`tensor[0, 0].item()`, or `tolist()` for all.",
        ),
        Row(
            lambda: int(MATRIX),
            TypeError,
            "int() needs exactly one element, as item() does, got a float32 tensor of shape (2, 3) "
            "on cpu:0 with 6",
            "`float`, `complex` and `round` take one element, too.",
        ),
        Row(
            lambda: int(fastdl.from_dlpack(np.array(1j))),
            TypeError,
            "int() does not take an element of complex128: use item()",
            "`item()` gives Python's number for it.",
        ),
        Row(
            lambda: [1, 2][SCALAR],
            TypeError,
            "expected an integer tensor without dimensions as index or size, got a float64 tensor "
            "of shape () on cpu:0: use item()",
            "As in NumPy, neither a bool nor an array with dimensions is an index.",
        ),
        Row(
            lambda: "x" in MATRIX,
            TypeError,
            "expected a number, or a tuple of the lanes of a vector type, before 'in' a tensor of "
            "float32, got 'x'",
            "`in` compares numbers.",
        ),
        Row(
            lambda: on(ODD, dtype=(200, 8, 1)).tolist(),
            TypeError,
            "the values of … cannot be expressed in Python: use numpy() or DLPack",
            "fastdl does not know the type.",
        ),
        Row(
            lambda: bool(MATRIX),
            TypeError,
            "a fastdl.Tensor has no truth value: use item() or size",
            "`if tensor.size:`, or `if tensor.item():` for the value of one element.",
        ),
        Row(
            lambda: MATRIX == 5,
            TypeError,
            "== and != of a fastdl.Tensor and 'int' are not defined: compare values with "
            "numpy.array_equal(tensor.numpy(), other), objects with 'is'",
            "`==` neither compares elements nor answers False silently.",
        ),
        Row(
            (lambda: MATRIX + 1, lambda: -MATRIX, lambda: MATRIX < 1),
            TypeError,
            "a fastdl.Tensor has no operator '…', since fastdl moves tensors and does not compute: "
            "use an array on the same memory, as numpy.from_dlpack(tensor) or "
            "fastdl.convert(tensor, ...) gives it",
            "`numpy.from_dlpack(tensor) + 1` on the host; also on a GPU: "
            "`fastdl.convert(tensor, torch.Tensor) + 1`.",
        ),
        Row(
            lambda: operator.setitem(MATRIX, 0, 1),
            TypeError,
            "a fastdl.Tensor has no assignment: write through an array on the same memory, as in "
            "tensor.numpy()[...] = x on the host",
            "On a GPU: `fastdl.convert(tensor, torch.Tensor, copy=False)[...] = x`. Read-only data "
            "first needs `copy()`.",
        ),
        Row(
            lambda: operator.delitem(MATRIX, 0),
            TypeError,
            "elements of a fastdl.Tensor cannot be deleted: index those to keep",
            "`tensor[1:]`, for example.",
        ),
        Row(
            lambda: fastdl.Tensor([1]),
            TypeError,
            "a fastdl.Tensor is not made by calling its type: use fastdl.from_dlpack(x) for an "
            "array of another library, fastdl.asarray(x) for a buffer too, "
            "fastdl.asarray(numpy.array(x)) for numbers, fastdl.empty(shape) for memory",
            "See [the Python guide](python-guide.md).",
        ),
        Row(
            lambda: len(SCALAR),
            TypeError,
            "len() needs at least one dimension, got a tensor of none: use item()",
            "Its number of elements is `size`.",
        ),
        Row(
            lambda: list(SCALAR),
            TypeError,
            "iteration needs at least one dimension, got a tensor of none: use item()",
            "`tolist()` gives the number.",
        ),
    ],
)
