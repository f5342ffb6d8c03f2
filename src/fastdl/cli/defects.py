"""Defects of other libraries, and what fastdl does about each: for doctor and docs/upstream.md.

The page has a program for each row that shows the defect; a test runs it, and holds page and table
together.
"""

import re
from typing import Any, NamedTuple


class Defect(NamedTuple):
    library: str  # its package, as imported
    title: str  # what happens, as a sentence without a full stop
    seen: str  # the version in which it was seen
    remedy: str  # what fastdl does, or cannot do
    mended: str = ""  # the first version without it


DEFECTS = (
    Defect(
        "torch",
        "Negative strides end the process",
        "2.13.0",
        "`convert` copies such data.",
    ),
    Defect(
        "torch",
        "Read-only data becomes writable",
        "2.13.0",
        "PyTorch has no read-only tensors, and says nothing. `convert` copies such data.",
    ),
    Defect(
        "torch",
        "Negated views export other values",
        "2.13.0",
        "`from_dlpack` and `convert` refuse such a view and name `resolve_neg()`.",
    ),
    Defect(
        "torch",
        "asarray reads any buffer as float32",
        "2.13.0",
        "`convert(x, torch.Tensor)` keeps the element type and the shape of a buffer.",
    ),
    Defect(
        "jax",
        "copy=True does not copy",
        "0.10.2",
        "`convert(x, jax.Array, copy=True)` makes the copy itself.",
    ),
    Defect(
        "jax",
        "Read-only arrays of others are refused",
        "0.10.2",
        "JAX never writes to its arrays, and could take them. `convert` shares the memory of "
        "arrays whose library never writes to it, and copies other read-only data.",
    ),
    Defect(
        "tensorflow",
        "A tensor of strings ends the process",
        "2.21.0",
        "Strings have no DLPack type. `convert` looks at the dtype before it asks for a capsule.",
    ),
    Defect(
        "tensorflow",
        "Immutable tensors are exported as writable",
        "2.21.0",
        "Whoever imports such a capsule may write. fastdl knows the type, and marks its "
        "tensors as read-only.",
    ),
    Defect(
        "paddle",
        "Negative strides read other memory",
        "3.3.1",
        "The second row comes from behind the array. `convert` copies such data.",
    ),
    Defect(
        "paddle",
        "Read-only data becomes writable",
        "3.3.1",
        "`convert` copies such data.",
    ),
    Defect(
        "paddle",
        "uint16 becomes bfloat16",
        "3.3.1",
        "PaddlePaddle has no uint16. `convert` refuses it and says so.",
    ),
    Defect(
        "mxnet",
        "Booleans are exported as integers of one bit",
        "1.9.1",
        "fastdl takes the capsule at its word, and `convert` refuses such elements.",
    ),
    Defect(
        "tvm",
        "A compiled function crashes on data that is not aligned",
        "0.27.0",
        "TVM checks the alignment of what becomes a `tvm.runtime.Tensor`, but not of "
        "arguments. What `convert` gives to TVM is aligned to 64 bytes.",
    ),
    Defect(
        "tvm",
        "float4 is packed in the other order",
        "0.27.0",
        "In DLPack the first element is in the low bits, so whoever imports the capsule sees the "
        "two elements of each byte exchanged. `asarray` and `convert` read such tensors through "
        "TVM's `numpy()`, and `convert` makes none. `from_dlpack` takes the capsule at its word.",
    ),
    Defect(
        "tvm_ffi",
        "A request for an old version is an AttributeError",
        "0.1.15",
        "fastdl asks for version (1, 3).",
    ),
    Defect(
        "tvm_ffi",
        "copy=True does not copy",
        "0.1.15",
        "fastdl makes copies on the host itself.",
    ),
    Defect(
        "onnxruntime",
        "An export does not keep the memory",
        "1.31.1",
        "A fastdl.Tensor keeps the `OrtValue`, and so its memory.",
    ),
    Defect(
        "onnxruntime",
        "Booleans are exported as uint8",
        "1.31.1",
        "`convert` gives bool, and tells ONNX Runtime that the bytes are bool.",
    ),
    Defect(
        "warp",
        "An array without dimensions is an IndexError",
        "1.19.0",
        "`convert` gives an array of one element.",
    ),
    Defect(
        "pyarrow",
        "Booleans in a Tensor become uint8",
        "26.0.1",
        "PyArrow loses the type when it makes the Tensor, before fastdl can see it.",
    ),
    Defect(
        "mlx",
        "float64 becomes float32, so large numbers become infinity",
        "0.32.4",
        "MLX has float64 on the CPU, and there `convert` makes an array of float64.",
    ),
    Defect(
        "mpi4py",
        "Fortran order is sent as it lies in memory",
        "4.1.2",
        "A `fastdl.Tensor` is sent the same way.",
    ),
    Defect(
        "numpy",
        "Shared memory is unmapped under an array",
        "2.4.6",
        "`fastdl.asarray(memory.buf)` locks the buffer: `close()` raises an error while the "
        "tensor is alive.",
    ),
)


def of(library: str, version: str) -> list[dict[str, Any]]:
    """The defects of a library in a version. `certain` says whether it was seen in that very
    one: an older or newer one may not have it."""
    return [
        {
            "title": defect.title,
            "seen": defect.seen,
            "certain": release(version) == release(defect.seen),
            "remedy": defect.remedy,
        }
        for defect in DEFECTS
        if defect.library == library
        and not (defect.mended and release(version) >= release(defect.mended))
    ]


def release(version: str) -> tuple[int, ...]:
    """The numbers of a version, without what follows them: (2, 13, 0) of "2.13.0+cpu"."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(number) for number in found[0].split(".")) if found else ()
