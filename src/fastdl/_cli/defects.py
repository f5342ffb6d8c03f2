"""Defects of other libraries, and what fastdl does about each: for doctor and docs/upstream.md.

The page has a program for each row that shows the defect, and a test runs it.
"""

from typing import Any

from fastdl._bridges import lookup
from fastdl._core.foreign import release

#: Library, as imported -> the version in which its defects were seen.
SEEN = {
    "torch": "2.13.0",
    "jax": "0.10.2",
    "tensorflow": "2.21.0",
    "paddle": "3.3.1",
    "cuda": "1.2.2",
    "mxnet": "1.9.1",
    "dpnp": "0.20.0",
    "tvm": "0.27.0",
    "tvm_ffi": "0.1.15",
    "onnxruntime": "1.31.1",
    "warp": "1.19.0",
    "pyarrow": "26.0.1",
    "mlx": "0.32.4",
    "mpi4py": "4.1.2",
    "numpy": "2.4.6",
}

#: Library -> what happens, as a sentence without a full stop -> what fastdl does, or cannot do.
DEFECTS = {
    "torch": {
        "Negative strides end the process": "`convert` copies such data.",
        "Read-only data becomes writable": "PyTorch has no read-only tensors, and gives no "
        "warning. `convert` copies such data.",
        "Negated views export other values": "`from_dlpack` and `convert` refuse such a view and "
        "name `resolve_neg()`.",
        "asarray reads any buffer as float32": "`convert(x, torch.Tensor)` preserves the element "
        "type and the shape of a buffer.",
        "A capsule that is refused for its size is freed twice": "`from_dlpack` and `convert` "
        "refuse such a tensor, and free it once.",
        "A request for a device that PyTorch lacks is a NotImplementedError": "`from_dlpack(x, "
        "device=...)` raises a `BufferError`.",
    },
    "jax": {
        "copy=True does not copy": "`convert(x, jax.Array, copy=True)` makes the copy itself.",
        "Read-only arrays of other libraries are refused": "JAX never writes to its arrays, so it "
        "could accept them. `convert` shares the memory of arrays whose library never writes to "
        "it, and copies other read-only data.",
        "A capsule without a deleter is an error": "DLPack allows a NULL deleter, if nothing has "
        "to be freed. fastdl accepts such capsules; its own always have a deleter.",
    },
    "tensorflow": {
        "A tensor of strings or of handles ends the process": "These have no DLPack type. fastdl "
        "checks the dtype before it requests a capsule.",
        "Immutable tensors are exported as writable": "A consumer of such a capsule may write to "
        "it. fastdl knows the type, and marks its tensors as read-only.",
        "A capsule that is refused for its device is freed twice": "`convert` refuses data on a "
        "GPU that TensorFlow does not have. `convert(x, tf.Tensor, device='cpu')` makes a copy on "
        "the host.",
        "A request for the host is a RuntimeError": "`from_dlpack(x, device='cpu')` works: fastdl "
        "passes no `dl_device` for data that is on the host.",
        "Lanes are ignored, so half of the values are read": "`convert` refuses elements of "
        "several lanes: TensorFlow has none.",
    },
    "paddle": {
        "Negative strides read other memory": "The second row is read from memory behind the "
        "array. `convert` copies such data.",
        "Read-only data becomes writable": "`convert` copies such data.",
        "uint16 becomes bfloat16": "PaddlePaddle has no uint16. `convert` raises an error.",
        "byte_offset is ignored, so other values are read": "Its exchange table ignores it too. "
        "fastdl adds the offset to the address of what it exports.",
        "The device ID is None": "fastdl reads it from the capsule, where it is right.",
        "The table does not set the stream of the host": "fastdl does not ask for the stream of "
        "host memory.",
        "A tensor that was taken twice is never released: the process hangs": "fastdl cannot "
        "prevent it. Keep the first tensor until the second is released, or make a copy: "
        "`convert(x, paddle.Tensor, copy=True)`.",
        "The deleter is not called if manager_ctx is NULL": "DLPack allows a NULL `manager_ctx`, "
        "so the memory leaks. fastdl always sets it.",
        "Data on CUDA ends the process if Paddle was built without CUDA": "`convert` refuses data "
        "on a device if Paddle was built for none. Pass `device='cpu'` for a copy on the host.",
        "The table allocates more bytes than 64 bits can count": "fastdl refuses a tensor that has "
        "elements and no memory, and asks for no such size.",
        "numpy() of an empty tensor that NumPy cannot hold ends the process": "`convert(x, "
        "numpy.ndarray)` raises a `BufferError`.",
        "A request for a device that Paddle lacks is a NotImplementedError": "`from_dlpack(x, "
        "device=...)` raises a `BufferError`.",
    },
    "cuda": {
        "A capsule of an unknown major version is read": "Another major version may have another "
        "layout. fastdl refuses it, and exports version 1.",
    },
    "mxnet": {
        "Booleans are exported as integers of one bit": "`asarray` and `convert` refuse them. "
        "`from_dlpack` cannot detect it in a bare capsule.",
    },
    "dpnp": {
        "byte_offset is ignored in host memory, so other values are read": "fastdl adds the offset "
        "to the address of what it exports.",
        "A capsule without a deleter ends the process": "DLPack allows a NULL deleter. fastdl "
        "always sets one.",
    },
    "tvm": {
        "A compiled function crashes on data that is not aligned": "TVM checks the alignment of "
        "what becomes a `tvm.runtime.Tensor`, but not of arguments. What `convert` gives to TVM is "
        "aligned to 64 bytes.",
        "float4 is packed in the other order": "In DLPack the first element is in the low bits, so "
        "whoever imports the capsule sees the two elements of each byte swapped. `asarray` and "
        "`convert` read such tensors through TVM's `numpy()`, and `convert` does not make any. "
        "`from_dlpack` trusts the capsule.",
    },
    "tvm_ffi": {
        "A request for an old version is an AttributeError": "fastdl asks for version (1, 3).",
        "copy=True does not copy": "fastdl makes copies on the host itself.",
        "A table of an unknown major version is called": "Another major version may have other "
        "functions. fastdl calls `__dlpack__` instead.",
    },
    "onnxruntime": {
        "An export does not keep the memory alive": "A fastdl.Tensor keeps the `OrtValue` alive, "
        "and so its memory.",
        "Booleans are exported as uint8": "`convert` preserves bool in both directions.",
        "byte_offset is ignored, so other values are read": "fastdl adds the offset to the address "
        "of what it exports.",
        "A capsule without a deleter ends the process": "DLPack allows a NULL deleter. fastdl "
        "always sets one.",
        "A consumed capsule loses the exception that is pending when it dies": "fastdl drops a "
        "capsule while no exception is pending.",
    },
    "warp": {
        "An array without dimensions is an IndexError": "Warp has no such arrays. `convert` raises "
        "an error: `reshape(1)` first.",
        "byte_offset is ignored, so other values are read": "fastdl adds the offset to the address "
        "of what it exports.",
        "Elements of several lanes get the strides of one, so they overlap": "`convert` refuses "
        "them.",
        "A capsule loses the exception that is pending when it dies": "The memory is not released "
        "then. The deleter loses the exception, too; fastdl sets it aside before it calls a "
        "deleter.",
    },
    "pyarrow": {
        "Booleans in a Tensor become uint8": "PyArrow loses the type when it makes the Tensor, "
        "before fastdl can see it.",
        "Array.from_dlpack refuses the older capsules, and so all arrays of JAX": "`convert(x, "
        "pa.Array)` shares the memory of JAX.",
        "Array.from_dlpack passes max_version to producers that do not know it": "`convert(x, "
        "pa.Array)` asks again without it.",
    },
    "mlx": {
        "float64 becomes float32, so large numbers become infinity": "MLX has float64 on the CPU, "
        "and there `convert` makes an array of float64.",
        "A capsule that a producer returned can be taken twice": "A producer must return a new "
        "capsule each time, as fastdl's tensors do.",
        "The exception of a producer is lost": "`convert(x, mx.array)` calls the producer itself, "
        "so its exception reaches you.",
        "A capsule of an unknown major version is read": "Another major version may have another "
        "layout. fastdl refuses it, and exports version 1.",
    },
    "mpi4py": {
        "A Fortran-ordered array is sent in memory order": "A `fastdl.Tensor` is sent the same "
        "way.",
    },
    "numpy": {
        "Shared memory is unmapped under an array": "`fastdl.asarray(memory.buf)` locks the "
        "buffer: `close()` raises an error while the tensor is alive.",
    },
}

#: The first version without it, of those that a release has fixed.
FIXED = {
    ("onnxruntime", "Booleans are exported as uint8"): "1.32",
}


def of(library: str, version: str) -> list[dict[str, Any]]:
    """The defects of a library in a version. `certain` says whether it was seen in that very
    one: an older or newer one may not have it."""
    return too_old(library, version) + [
        {
            "title": title,
            "seen": SEEN[library],
            "certain": release(version) == release(SEEN[library]),
            "remedy": remedy,
        }
        for title, remedy in DEFECTS.get(library, {}).items()
        if not is_fixed(library, title, version)
    ]


def is_fixed(library: str, title: str, version: str) -> bool:
    first = FIXED.get((library, title))
    return first is not None and release(version) >= release(first)


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
