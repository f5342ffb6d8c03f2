"""Defects of other libraries, and what fastdl does about each: for doctor and docs/upstream.md.

The page has a program for each row that shows the defect; a test runs it, and holds page and table
together.
"""

from typing import Any, NamedTuple

from fastdl._bridges import lookup
from fastdl._core.foreign import release


class Defect(NamedTuple):
    library: str  # its package, as imported
    title: str  # what happens, as a sentence without a full stop
    seen: str  # the version in which it was seen
    remedy: str  # what fastdl does, or cannot do
    fixed: str = ""  # the first version without it


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
        "PyTorch has no read-only tensors, and gives no warning. `convert` copies such data.",
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
        "`convert(x, torch.Tensor)` preserves the element type and the shape of a buffer.",
    ),
    Defect(
        "torch",
        "A capsule that is refused for its size is freed twice",
        "2.13.0",
        "`from_dlpack` and `convert` refuse such a tensor, and free it once.",
    ),
    Defect(
        "torch",
        "A request for a device that PyTorch lacks is a NotImplementedError",
        "2.13.0",
        "`from_dlpack(x, device=...)` raises a `BufferError`.",
    ),
    Defect(
        "jax",
        "copy=True does not copy",
        "0.10.2",
        "`convert(x, jax.Array, copy=True)` makes the copy itself.",
    ),
    Defect(
        "jax",
        "Read-only arrays of other libraries are refused",
        "0.10.2",
        "JAX never writes to its arrays, so it could accept them. `convert` shares the memory of "
        "arrays whose library never writes to it, and copies other read-only data.",
    ),
    Defect(
        "jax",
        "A capsule without a deleter is an error",
        "0.10.2",
        "DLPack allows a NULL deleter, if nothing has to be freed. fastdl accepts such capsules; "
        "its own always have a deleter.",
    ),
    Defect(
        "tensorflow",
        "A tensor of strings or of handles ends the process",
        "2.21.0",
        "These have no DLPack type. fastdl checks the dtype before it requests a capsule.",
    ),
    Defect(
        "tensorflow",
        "Immutable tensors are exported as writable",
        "2.21.0",
        "A consumer of such a capsule may write to it. fastdl knows the type, and marks its "
        "tensors as read-only.",
    ),
    Defect(
        "tensorflow",
        "A capsule that is refused for its device is freed twice",
        "2.21.0",
        "`convert` refuses data on a GPU that TensorFlow does not have. `convert(x, tf.Tensor, "
        "device='cpu')` makes a copy on the host.",
    ),
    Defect(
        "tensorflow",
        "A request for the host is a RuntimeError",
        "2.21.0",
        "`from_dlpack(x, device='cpu')` works: fastdl passes no `dl_device` for data that is on "
        "the host.",
    ),
    Defect(
        "tensorflow",
        "Lanes are ignored, so half of the values are read",
        "2.21.0",
        "`convert` refuses elements of several lanes: TensorFlow has none.",
    ),
    Defect(
        "paddle",
        "Negative strides read other memory",
        "3.3.1",
        "The second row is read from memory behind the array. `convert` copies such data.",
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
        "PaddlePaddle has no uint16. `convert` raises an error.",
    ),
    Defect(
        "paddle",
        "byte_offset is ignored, so other values are read",
        "3.3.1",
        "Its exchange table ignores it too. fastdl adds the offset to the address of what it "
        "exports.",
    ),
    Defect(
        "paddle",
        "The device ID is None",
        "3.3.1",
        "fastdl reads it from the capsule, where it is right.",
    ),
    Defect(
        "paddle",
        "The table does not set the stream of the host",
        "3.3.1",
        "fastdl does not ask for the stream of host memory.",
    ),
    Defect(
        "paddle",
        "A tensor that was taken twice is never released: the process hangs",
        "3.3.1",
        "fastdl cannot prevent it. Keep the first tensor until the second is released, or make a "
        "copy: `convert(x, paddle.Tensor, copy=True)`.",
    ),
    Defect(
        "paddle",
        "The deleter is not called if manager_ctx is NULL",
        "3.3.1",
        "DLPack allows a NULL `manager_ctx`, so the memory leaks. fastdl always sets it.",
    ),
    Defect(
        "paddle",
        "Data on CUDA ends the process if Paddle was built without CUDA",
        "3.3.1",
        "`convert` refuses data on a device if Paddle was built for none. Pass `device='cpu'` for "
        "a copy on the host.",
    ),
    Defect(
        "paddle",
        "The table allocates more bytes than 64 bits can count",
        "3.3.1",
        "fastdl refuses a tensor that has elements and no memory, and asks for no such size.",
    ),
    Defect(
        "paddle",
        "numpy() of an empty tensor that NumPy cannot hold ends the process",
        "3.3.1",
        "`convert(x, numpy.ndarray)` raises a `BufferError`.",
    ),
    Defect(
        "paddle",
        "A request for a device that Paddle lacks is a NotImplementedError",
        "3.3.1",
        "`from_dlpack(x, device=...)` raises a `BufferError`.",
    ),
    Defect(
        "cuda",
        "A capsule of an unknown major version is read",
        "1.2.2",
        "Another major version may have another layout. fastdl refuses it, and exports version 1.",
    ),
    Defect(
        "mxnet",
        "Booleans are exported as integers of one bit",
        "1.9.1",
        "`asarray` and `convert` refuse them. `from_dlpack` cannot detect it in a bare capsule.",
    ),
    Defect(
        "dpnp",
        "byte_offset is ignored in host memory, so other values are read",
        "0.20.0",
        "fastdl adds the offset to the address of what it exports.",
    ),
    Defect(
        "dpnp",
        "A capsule without a deleter ends the process",
        "0.20.0",
        "DLPack allows a NULL deleter. fastdl always sets one.",
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
        "two elements of each byte swapped. `asarray` and `convert` read such tensors through "
        "TVM's `numpy()`, and `convert` does not make any. `from_dlpack` trusts the capsule.",
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
        "tvm_ffi",
        "A table of an unknown major version is called",
        "0.1.15",
        "Another major version may have other functions. fastdl calls `__dlpack__` instead.",
    ),
    Defect(
        "onnxruntime",
        "An export does not keep the memory alive",
        "1.31.1",
        "A fastdl.Tensor keeps the `OrtValue` alive, and so its memory.",
    ),
    Defect(
        "onnxruntime",
        "Booleans are exported as uint8",
        "1.31.1",
        "`convert` preserves bool in both directions.",
        fixed="1.32",
    ),
    Defect(
        "onnxruntime",
        "byte_offset is ignored, so other values are read",
        "1.31.1",
        "fastdl adds the offset to the address of what it exports.",
    ),
    Defect(
        "onnxruntime",
        "A capsule without a deleter ends the process",
        "1.31.1",
        "DLPack allows a NULL deleter. fastdl always sets one.",
    ),
    Defect(
        "onnxruntime",
        "A consumed capsule loses the exception that is pending when it dies",
        "1.31.1",
        "fastdl drops a capsule while no exception is pending.",
    ),
    Defect(
        "warp",
        "An array without dimensions is an IndexError",
        "1.19.0",
        "Warp has no such arrays. `convert` raises an error: `reshape(1)` first.",
    ),
    Defect(
        "warp",
        "byte_offset is ignored, so other values are read",
        "1.19.0",
        "fastdl adds the offset to the address of what it exports.",
    ),
    Defect(
        "warp",
        "Elements of several lanes get the strides of one, so they overlap",
        "1.19.0",
        "`convert` refuses them.",
    ),
    Defect(
        "warp",
        "A capsule loses the exception that is pending when it dies",
        "1.19.0",
        "The memory is not released then. The deleter loses the exception, too; fastdl sets it "
        "aside before it calls a deleter.",
    ),
    Defect(
        "pyarrow",
        "Booleans in a Tensor become uint8",
        "26.0.1",
        "PyArrow loses the type when it makes the Tensor, before fastdl can see it.",
    ),
    Defect(
        "pyarrow",
        "Array.from_dlpack refuses the older capsules, and so all arrays of JAX",
        "26.0.1",
        "`convert(x, pa.Array)` shares the memory of JAX.",
    ),
    Defect(
        "pyarrow",
        "Array.from_dlpack passes max_version to producers that do not know it",
        "26.0.1",
        "`convert(x, pa.Array)` asks again without it.",
    ),
    Defect(
        "mlx",
        "float64 becomes float32, so large numbers become infinity",
        "0.32.4",
        "MLX has float64 on the CPU, and there `convert` makes an array of float64.",
    ),
    Defect(
        "mlx",
        "A capsule that a producer returned can be taken twice",
        "0.32.4",
        "A producer must return a new capsule each time, as fastdl's tensors do.",
    ),
    Defect(
        "mlx",
        "The exception of a producer is lost",
        "0.32.4",
        "`convert(x, mx.array)` calls the producer itself, so its exception reaches you.",
    ),
    Defect(
        "mlx",
        "A capsule of an unknown major version is read",
        "0.32.4",
        "Another major version may have another layout. fastdl refuses it, and exports version 1.",
    ),
    Defect(
        "mpi4py",
        "A Fortran-ordered array is sent in memory order",
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
    return too_old(library, version) + [
        {
            "title": defect.title,
            "seen": defect.seen,
            "certain": release(version) == release(defect.seen),
            "remedy": defect.remedy,
        }
        for defect in DEFECTS
        if defect.library == library
        and not (defect.fixed and release(version) >= release(defect.fixed))
    ]


def too_old(library: str, version: str) -> list[dict[str, Any]]:
    """The row on a version of which convert makes no objects."""
    bridges = getattr(lookup.load(library), "BRIDGES", ())
    since = {bridge.since for bridge in bridges if () < release(version) < release(bridge.since)}
    return [
        {
            "title": f"`convert` makes its objects from version {first} on",
            "seen": version,
            "certain": True,
            "remedy": "Upgrade it. Reading its objects works anyway.",
        }
        for first in since
    ]
