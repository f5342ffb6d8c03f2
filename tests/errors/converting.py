"""convert, numpy() and copies: what does not fit another library, or another device."""

import pickle
import sys
from types import ModuleType
from unittest import mock

import numpy as np
import pytest

import fastdl
from fastdl._bridges import lookup
from fastdl._convert.convert import (
    ANYWHERE,
    COMPACT,
    COPIED,
    DENSE,
    DEVICE,
    IMMUTABLE,
    POSITIVE,
    Bridge,
)
from tests.errors.row import Group, Row
from tests.support.library import libraries
from tests.support.producers import CUDA, OPENCL, Given, OldProducer, Tabled, hostile, new


def on(device, **fields):
    """A Tensor on a device."""
    return fastdl.from_dlpack(Given(device=device, **fields).capsule())


class Library:
    """A library of which fastdl knows what `facts` say. Its `Matrix` has 2 dimensions."""

    def __init__(self, make=lambda tensor, like: tensor, **facts):
        self.facts = {"make": make, **facts}

    def take(self, x, **keywords):
        loaded = ModuleType("standin")
        loaded.__version__ = "1.0"
        matrix = Bridge(
            "standin.Matrix", title="Standin", classes=(), make=self.facts["make"], ndims=(2, 2)
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "standin", loaded)
            array = libraries(patch)(name="standin", **self.facts)
            lookup.load("standin").BRIDGES += (matrix,)
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
HEADER, DATA = fastdl.encode(MATRIX)
CANNOT = "… cannot be converted to standin.Array: "
FORBIDDEN = "… cannot be converted to standin.Array without a copy, and copy=False: "
ALLOW = "Leave out `copy=False`, and convert makes the copy."
SHARE = "The same data as a neutral tensor or array: see the end of the message."

GROUP = Group(
    "Converting and copying",
    "`fastdl.convert`, `Tensor.numpy()`, `to`, `copy`, `numpy.asarray`, pickles, `encode` and "
    "`decode`. What each library takes: "
    "[the table of convert](hazards.md#what-fastdlconvert-does-about-it). "
    "`standin.Array` stands for the type that you convert to.",
    [
        Row(
            (
                lambda: fastdl.convert(MATRIX, 5),
                lambda: fastdl.convert(MATRIX, int),
                lambda: fastdl.convert(MATRIX, pickle),
            ),
            TypeError,
            "expected the type, the module, the name or an object of a tensor library as `like`, "
            "got …: pass one of …, a type with a DLPack exchange table, or a module with "
            "from_dlpack",
            "`fastdl.convert(x, numpy.ndarray)`, `fastdl.convert(x, torch)`, or an array like "
            "which the result should be. [How to add a library](add-a-library.md).",
        ),
        Row(
            lambda: fastdl.convert(MATRIX, type("Series", (), {"__module__": "pandas.core"})),
            TypeError,
            "expected the type, the module, the name or an object of a tensor library as `like`, "
            "got …: …(fastdl.convert(x, numpy.ndarray)) makes one of an array",
            "Objects of pandas, polars, xarray and dask hold arrays of other libraries, and also "
            "have labels or chunks. Make them yourself; the array shares the memory.",
        ),
        Row(
            (
                lambda: fastdl.convert(MATRIX, "tourch"),
                lambda: fastdl.convert(MATRIX, "an unknown library"),
            ),
            ValueError,
            "expected …, numpy.ndarray, …, or the name of their package, got …",
            "A name is that of a library or of its type, such as `'torch'` or `'jax.Array'`. For "
            "any other library, pass its module or its type.",
        ),
        Row(
            lambda: fastdl.convert(MATRIX, "cupy"),
            ModuleNotFoundError,
            "expected a library that is installed, got 'cupy': CuPy is not. Install it, or "
            "convert to another library",
            "In the environment of this Python. What it is called on the package index is in its "
            "own documentation: `torch`, but `cupy-cuda13x`, `paddlepaddle`, `warp-lang`.",
        ),
        Row(
            (
                lambda: fastdl.convert(MATRIX, np.float64),
                lambda: fastdl.convert(MATRIX, np.dtype("float64")),
                lambda: fastdl.convert(MATRIX, fastdl.DType("float64")),
            ),
            TypeError,
            "expected the type, the module, the name or an object of a tensor library as `like`, "
            "got …: convert changes no elements: fastdl.convert(x, numpy.ndarray).astype('float64')"
            " does",
            "As the message says. `like` chooses the library alone.",
        ),
        Row(
            lambda: fastdl.convert(MATRIX, "float64"),
            ValueError,
            "expected the name of a tensor library, got 'float64': convert changes no elements: "
            "fastdl.convert(x, numpy.ndarray).astype('float64') does",
            "As the message says. `like` chooses the library alone.",
        ),
        Row(
            lambda: fastdl.convert(MATRIX, "pandas"),
            ValueError,
            "expected the name of a tensor library, got 'pandas': …(fastdl.convert(x, "
            "numpy.ndarray)) makes one of an array",
            "Make it yourself, as above.",
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
            CANNOT + "standin.Array holds device memory only. To copy it there, pass the device to "
            "convert, such as device='cuda:0'",
            "convert moves nothing to another device unless you name one.",
        ),
        Row(
            lambda: Library().take(on(CUDA)),
            BufferError,
            CANNOT + "standin.Array holds host memory only. To copy it there, pass device='cpu' to "
            "convert",
            "convert moves nothing to the host unless you ask for it.",
        ),
        Row(
            lambda: Library(devices=DEVICE).take(MATRIX, device="cpu"),
            BufferError,
            "standin.Array holds device memory only, got device='cpu:0': pass a device of its own, "
            "or leave out `device`",
            "The library has no arrays on the host: convert to `numpy.ndarray`, for example.",
        ),
        Row(
            lambda: Library().take(MATRIX, device="cuda:1"),
            BufferError,
            "standin.Array holds host memory only, got device='cuda:1': pass device='cpu', or "
            "convert to a library that has that device",
            "`fastdl.convert(x, torch.Tensor, device='cuda:1')`, for example.",
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
            lambda: Library(since="2.0").take(MATRIX),
            BufferError,
            CANNOT + "expected Standin … or newer, got …. Upgrade it; convert reads arrays of "
            "older versions, but makes none",
            "Install a newer version: [hazards](hazards.md) has a table of them.",
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
            CANNOT + "standin.Array has no float32. Convert the elements to … first: "
            "fastdl.convert(x, numpy.ndarray).astype(…)",
            "convert never changes the element type. `x.astype(...)` or `x.to(...)` of its own "
            "library does as well.",
        ),
        Row(
            lambda: Library(dtypes={"float64"}, devices=ANYWHERE).take(on(CUDA)),
            BufferError,
            CANNOT + "standin.Array has no float32. Convert the elements to … first: "
            "fastdl.convert(x, torch.Tensor).to(torch.…)",
            "The same on a device: any library that computes there will do.",
        ),
        Row(
            lambda: Library(dtypes={"int8", "bool"}).take(MATRIX),
            BufferError,
            CANNOT + "standin.Array has no float32. It has …",
            "Convert the elements to one of these first, with the library that they come from.",
        ),
        Row(
            lambda: Library(dtypes={"int8"}).take(fastdl.empty(3, "int128")),
            BufferError,
            CANNOT + "standin.Array has no int128. Convert the elements to int8 first, in the "
            "library that made them",
            "Neither NumPy nor torch has both types.",
        ),
        Row(
            lambda: Library(dtypes={"float32"}).take(fastdl.empty(3, "float32x4")),
            BufferError,
            CANNOT + "standin.Array has no float32x4. fastdl.asarray(x).view('float32') has its "
            "lanes as elements",
            "Most libraries have no vector types. Give them the view, which shares the memory.",
        ),
        Row(
            lambda: Library(dtypes={"float32"}).take(fastdl.empty((), "float32x4")),
            BufferError,
            CANNOT
            + "standin.Array has no float32x4. fastdl.convert(x, numpy.ndarray) has its lanes in a "
            "further dimension",
            "Without a last dimension, with gaps in it, or with lanes that share bytes, there is "
            "no such view. NumPy's array shares the memory, unless lanes share bytes.",
        ),
        Row(
            lambda: Library(dtypes={"float32"}, devices=ANYWHERE).take(
                on(CUDA, dtype=(2, 32, 4), shape=())
            ),
            BufferError,
            CANNOT
            + "standin.Array has no float32x4. fastdl.convert(x, numpy.ndarray, device='cpu') has "
            "its lanes in a further dimension",
            "The same for memory of a device: NumPy gets a copy.",
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
            lambda: fastdl.empty(4).to("float64"),
            TypeError,
            "expected a device such as 'cpu' or 'cuda:0', got the dtype float64: fastdl moves "
            "tensors and converts no values; do that in the tensor's own library, or on the host "
            "with numpy.from_dlpack(tensor).astype(...)",
            "On a GPU: `fastdl.convert(tensor, torch.Tensor).to(torch.float64)`, for example.",
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
            "may not reach its memory: pickle a copy on the host, to('cpu'), or what shares its "
            "memory and can be pickled: fastdl.convert(x, torch.Tensor) with torch.multiprocessing "
            "or Ray, fastdl.convert(x, cupy.ndarray) with Dask; a CUDA-aware MPI takes the tensor "
            "itself",
            "Device memory never leaves its process silently: see "
            "[processes and clusters](processes.md#devices).",
        ),
        Row(
            lambda: fastdl._unpickle(DATA, (2, 32, 1), (2, 3), "C", False, "7.0.0", "more"),
            ValueError,
            f"expected a pickle in the form of fastdl {fastdl.__version__} or older, got one of "
            "7.0.0: upgrade fastdlpack here",
            "A newer release of fastdl pickled it.",
        ),
        Row(
            lambda: fastdl.encode(on(CUDA)),
            BufferError,
            "expected a tensor on the host, got a float32 tensor of shape (2, 3) on cuda:0: encode "
            "a copy, to('cpu')",
            "A header and bytes are made of host memory.",
        ),
        Row(
            (lambda: fastdl.decode(b"PK", DATA), lambda: fastdl.decode(HEADER[:9], DATA)),
            ValueError,
            "expected a header of fastdl.encode, got … bytes, first …",
            "The two parts were exchanged, or what arrived was not sent by `encode`.",
        ),
        Row(
            lambda: fastdl.decode(HEADER[:3] + b"\2" + HEADER[4:], DATA),
            ValueError,
            "expected version 1 of the header, got 2: upgrade fastdlpack here",
            "A newer release of fastdl sent it.",
        ),
        Row(
            lambda: fastdl.decode(HEADER[:-1], DATA),
            ValueError,
            "expected a header of 26 bytes for 2 dimensions, and flags from 0 to 3, got 25 bytes "
            "and flags 0",
            "Not all of the header arrived, or more than that.",
        ),
        Row(
            lambda: fastdl.decode(HEADER, DATA[:-1]),
            ValueError,
            "elements from byte 0 to 24 are not all in a buffer of 23 bytes",
            "Not all of the data arrived.",
        ),
        Row(
            lambda: fastdl.decode(HEADER[:5] + b"\0" + HEADER[6:], DATA),
            ValueError,
            "a buffer cannot hold a tensor with …",
            "The header was changed on the way.",
        ),
    ],
)
