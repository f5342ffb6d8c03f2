"""convert, numpy() and copies: what does not fit another library, or another device."""

import pickle
import sys
from types import ModuleType
from unittest import mock

import numpy as np

import fastdl
from fastdl._convert.convert import COMPACT, COPIED, DENSE, DEVICE, IMMUTABLE, POSITIVE, Bridge
from fastdl.bridges import lookup
from tests.errors.row import Group, Row
from tests.support.producers import CUDA, OPENCL, Given, OldProducer, Producer, Tabled, hostile, new


def on(device, **fields):
    """A Tensor on a device."""
    return fastdl.from_dlpack(Given(device=device, **fields).capsule())


class Library:
    """A library of which fastdl knows what `facts` say. Its `Matrix` has 2 dimensions."""

    def __init__(self, make=lambda tensor, like: tensor, **facts):
        self.module = ModuleType("fastdl.bridges.standin")
        self.module.BRIDGES = (
            Bridge(
                "standin.Array", title="Standin", classes=("standin:Array",), make=make, **facts
            ),
            Bridge("standin.Matrix", title="Standin", classes=(), make=make, ndims=(2, 2)),
        )

    def take(self, x, **keywords):
        array = type("Array", (), {"__module__": "standin"})
        libraries = {**lookup.LIBRARIES, "standin": "standin"}
        with (
            mock.patch.object(lookup, "LIBRARIES", libraries),
            mock.patch.dict(sys.modules, {"fastdl.bridges.standin": self.module}),
        ):
            return fastdl.convert(x, array, **keywords)


def frozen(x):
    x.flags.writeable = False
    return x


def refuse(tensor, like):
    raise RuntimeError("no such thing")


def silent_table():
    hostile.set_maker("fail")
    try:
        fastdl.convert(np.ones(3), new(Tabled))
    finally:
        hostile.set_maker("raise")


def without_ml_dtypes():
    with mock.patch.dict(sys.modules, {"ml_dtypes": None}):
        fastdl.empty(3, "bfloat16").numpy()


MATRIX = np.ones((2, 3), "float32")
CANNOT = "… cannot be converted to standin.Array: "
FORBIDDEN = "… cannot be converted to standin.Array without a copy, and copy=False: "
ALLOW = "Leave out `copy=False`, and convert makes the copy."
SHARE = "The same data as a neutral tensor or array: see the end of the message."

GROUP = Group(
    "Converting and copying",
    "`fastdl.convert`, `Tensor.numpy()`, `to`, `copy`, `numpy.asarray` and pickles. What each "
    "library takes: [the table of convert](hazards.md#what-fastdlconvert-does-about-it). "
    "`standin.Array` stands for the type that you convert to.",
    [
        Row(
            (
                lambda: fastdl.convert(MATRIX, 5),
                lambda: fastdl.convert(MATRIX, int),
                lambda: fastdl.convert(MATRIX, pickle),
            ),
            TypeError,
            "expected the type, the module or an object of a tensor library as `like`, got …: pass "
            "one of …, a type with a DLPack exchange table, or a module with from_dlpack",
            "`fastdl.convert(x, numpy.ndarray)`, `fastdl.convert(x, torch)`, or an array like "
            "which the result should be. [How to add a library](add-a-library.md).",
        ),
        Row(
            lambda: fastdl.convert(MATRIX, type("Series", (), {"__module__": "pandas.core"})),
            TypeError,
            "expected the type, the module or an object of a tensor library as `like`, got …: "
            "…(fastdl.convert(x, numpy.ndarray)) makes one of an array",
            "Objects of pandas, polars, xarray and dask hold arrays of other libraries, and have "
            "labels or chunks besides. Make them yourself; the array shares the memory.",
        ),
        Row(
            lambda: fastdl.convert(5, np.ndarray),
            TypeError,
            "an object of type 'int' cannot be converted to numpy.ndarray: …",
            "The end of the message is that of `fastdl.asarray`: see above. A *BufferError* if it "
            "is an array that DLPack cannot describe.",
        ),
        Row(
            (
                lambda: Library(refuse).take(MATRIX),
                lambda: Library(refuse).take(fastdl.empty(3, "bfloat16")),
            ),
            BufferError,
            "… cannot be converted to standin.Array: Standin refused it (RuntimeError: no such "
            "thing). … gives … on it",
            "In brackets is what the library raised; it is the `__cause__` of the exception. "
            + SHARE,
        ),
        Row(
            lambda: fastdl.convert(on(OPENCL), new(Tabled)),
            BufferError,
            "… cannot be converted to …: … refused it (its exchange table has no streams for this "
            "device). fastdl.from_dlpack(x) gives a fastdl.Tensor on it",
            "Copy the data to the host with its own library first.",
        ),
        Row(
            silent_table,
            BufferError,
            "… cannot be converted to …: … refused it (the exchange table failed without giving a "
            "reason). …",
            "The library's exchange table is at fault. Report it there. " + SHARE,
        ),
        Row(
            lambda: Library(devices=DEVICE).take(MATRIX),
            BufferError,
            CANNOT + "standin.Array holds device memory only. Move it there first: "
            "fastdl.from_dlpack(x, device='cuda:0')",
            "convert moves nothing between devices.",
        ),
        Row(
            lambda: Library().take(on(CUDA)),
            BufferError,
            CANNOT + "standin.Array holds host memory only. Copy it to the host first: "
            "fastdl.from_dlpack(x, device='cpu')",
            "convert moves nothing between devices.",
        ),
        Row(
            (
                lambda: Library(ndims=(1, 1)).take(np.ones((2, 2, 2))),
                lambda: Library(ndims=(1, 4)).take(np.ones(())),
                lambda: Library(ndims=(0, 0)).take(np.ones(3)),
            ),
            BufferError,
            CANNOT + "standin.Array has …. Reshape it first",
            "For example `x.reshape(-1)`.",
        ),
        Row(
            lambda: Library(ndims=(1, 1)).take(MATRIX),
            BufferError,
            CANNOT + "standin.Array has 1 dimension. Convert to standin.Matrix instead",
            "The library has another type for such data: a `pyarrow.Tensor` for a matrix, say.",
        ),
        Row(
            (
                lambda: Library(dtypes={"float64"}).take(MATRIX),
                lambda: Library(dtypes={"float16"}).take(MATRIX),
            ),
            BufferError,
            CANNOT + "standin.Array has no float32. Convert the elements to … first",
            "convert never changes the element type: `x.astype(...)` or `x.to(...)` of its "
            "library.",
        ),
        Row(
            lambda: Library(dtypes={"int8", "bool"}).take(MATRIX),
            BufferError,
            CANNOT + "standin.Array has no float32. It has …",
            "Convert the elements to one of these first, with the library that they come from.",
        ),
        Row(
            lambda: Library(dtypes={"float32"}).take(fastdl.empty(3, "float32x4")),
            BufferError,
            CANNOT
            + "standin.Array has no float32x4. fastdl.convert(x, numpy.ndarray) has its lanes in a "
            "further dimension",
            "Most libraries have no vector types. Give them the array of NumPy, which shares the "
            "memory.",
        ),
        Row(
            lambda: Library(readonly=COPIED).take(frozen(MATRIX.copy()), copy=False),
            fastdl.CopyRequiredError,
            FORBIDDEN + "it is read-only, and arrays of Standin are always writable",
            ALLOW,
        ),
        Row(
            lambda: Library(readonly=IMMUTABLE).take(frozen(MATRIX.copy()), copy=False),
            fastdl.CopyRequiredError,
            FORBIDDEN + "it is read-only, but may change, and values of Standin never do",
            ALLOW,
        ),
        Row(
            (
                lambda: Library(strides=POSITIVE).take(MATRIX[::-1], copy=False),
                lambda: Library(strides=DENSE).take(MATRIX[:, ::2], copy=False),
                lambda: Library(strides=COMPACT).take(MATRIX.T, copy=False),
            ),
            fastdl.CopyRequiredError,
            FORBIDDEN + "its strides are …, and standin.Array takes …",
            ALLOW,
        ),
        Row(
            lambda: Library(alignment=64).take(
                np.frombuffer(bytearray(256), "u1")[1:65].view("f4"), copy=False
            ),
            fastdl.CopyRequiredError,
            FORBIDDEN + "its address … is not a multiple of 64, as standin.Array needs",
            ALLOW + " `fastdl.empty` aligns to 256 bytes.",
        ),
        Row(
            lambda: Library(copies=True).take(MATRIX, copy=False),
            fastdl.CopyRequiredError,
            FORBIDDEN + "standin.Array always copies such data",
            ALLOW,
        ),
        Row(
            lambda: Library().take(new(Producer)(Given(flags=2)), copy=False),
            fastdl.CopyRequiredError,
            FORBIDDEN + "its producer copied it",
            ALLOW,
        ),
        Row(
            (
                lambda: on(CUDA).numpy(),
                lambda: on(CUDA).tolist(),
                lambda: on(CUDA, shape=()).item(),
            ),
            BufferError,
            "… reads host memory, and this is a float32 tensor of shape … on cuda:0: copy it to "
            "the host first, with to('cpu') or its own library",
            "`tensor.to('cpu').numpy()`.",
        ),
        Row(
            without_ml_dtypes,
            TypeError,
            "NumPy has no type for bfloat16 by itself: install the package ml_dtypes",
            "ml_dtypes gives NumPy bfloat16, the types of 8 bits and less, and others.",
        ),
        Row(
            lambda: on((1, 0), dtype=(200, 8, 1)).numpy(),
            TypeError,
            "neither NumPy nor ml_dtypes has a type for …: use DLPack",
            "Give the tensor to a library that has the type.",
        ),
        Row(
            lambda: fastdl.DType("int4x2").dtype,  # which np.dtype asks for
            TypeError,
            "the lanes of int4x2 share bytes, which NumPy cannot describe: Tensor.numpy() unpacks "
            "them",
            "`tensor.numpy()` gives an array with one lane to a byte, which is a copy.",
        ),
        Row(
            lambda: fastdl.empty((1,) * 64, "float32x2").numpy(),
            BufferError,
            "NumPy has at most 64 dimensions, and the lanes need one more: reshape it first",
            "An array has one more dimension than a tensor of a vector type.",
        ),
        Row(
            lambda: fastdl.empty(4, "int4").__array__(copy=False),
            ValueError,
            "unpacking an int4 tensor of shape (4,) on cpu:0 needs a copy, and copy=False",
            "`numpy.asarray(tensor)` makes the copy.",
        ),
        Row(
            lambda: fastdl.empty(4).__array__("float64", copy=False),
            ValueError,
            "converting a float32 tensor of shape (4,) on cpu:0 to float64 needs a copy, and "
            "copy=False",
            "`numpy.asarray(tensor, dtype=...)` makes the copy.",
        ),
        Row(
            lambda: on(OPENCL).to("cpu"),
            BufferError,
            "a float32 tensor of shape (2, 3) on opencl:0 cannot be copied to cpu:0: fastdl copies "
            "from or to the host, and on CUDA or ROCm, not opencl:0 to cpu:0",
            "Copy it with its own library. Other reasons come from the driver: see below.",
        ),
        Row(
            lambda: fastdl.from_dlpack(
                new(OldProducer)(Given(device=OPENCL), OPENCL), device="cpu"
            ),
            BufferError,
            "data of … on … cannot be copied to … by its own library, nor by fastdl: …",
            "The `__cause__` of the exception is what its own library said.",
        ),
        Row(
            lambda: pickle.dumps(on(CUDA)),
            TypeError,
            "a float32 tensor of shape (2, 3) on cuda:0 cannot be pickled, since other processes "
            "may not reach its memory: pickle a copy on the host, to('cpu')",
            "Device memory never leaves its process silently.",
        ),
    ],
)
