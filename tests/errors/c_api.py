"""The header: what the functions of C, C++ and Cython modules raise. tests/capi/header.c calls them
for the tests, with the package and without."""

import sys
import types
from unittest import mock

import numpy as np

import fastdl
from tests.errors.importing import producer
from tests.errors.row import Group, Row
from tests.support.ctypes_dlpack import FakeProducer
from tests.support.headers import ALONE, INSTALLED
from tests.support.producers import (
    CPU,
    CUDA,
    OPENCL,
    Given,
    Lending,
    Producer,
    Tabled,
    hostile,
)
from tests.test_copied_arguments import CONVERT
from tests.test_expect import ANY_DEVICE, FLOAT64, INNER, TRAILING, WRITABLE, C, F, dtype

alone, installed = ALONE["alone"], INSTALLED["installed"]

X = np.ones((2, 3), "float32")


def expecting(x=X, **spec):
    """fastdl_expect of an argument `x`; `y` is a second one, if there is one."""
    return lambda: installed.expect([(x, "x", spec)])


def expecting_both(x, y, **spec):
    device = {"device": ANY_DEVICE}
    return lambda: installed.expect([(x, "x", device), (y, "y", {**device, **spec})])


def as_copy(x, code, bits):
    """An argument that may be converted."""
    rules = {"dtypes": [dtype(code, bits)], "rules": CONVERT}
    return lambda: installed.borrow_as(x, "x", rules)


def making(mode, act):
    """`act()` while the functions of all tables of tests that make something behave so."""

    def do():
        hostile.set_maker(mode)
        try:
            act()
        finally:
            hostile.set_maker("raise")

    return do


def requires_grad():
    torch = types.SimpleNamespace(is_grad_enabled=lambda: True)
    attributes = {"__module__": "torch", "requires_grad": True, "is_neg": lambda self: False}
    kind = type("Tensor", (Lending,), attributes)
    with mock.patch.dict(sys.modules, {"torch": torch}):
        installed.borrow_as(kind(Given()), "x", {"rules": WRITABLE})


def silent_stream():
    hostile.set_stream(-1, 0, False)
    try:
        alone.work_stream(Tabled(Given(device=CUDA)))
    finally:
        hostile.set_stream(0, 0, False)


def unordered():
    kind = type("nb_ndarray", (Producer,), {"__module__": "nanobind"})
    alone.own(kind(Given(device=CUDA), CUDA))


def lent(**fields):
    return Lending(Given(**fields))


IS = " (x is …)"
MODULE = "The extension module calls the header wrongly: report it to the module's author."

GROUP = Group(
    "Functions of C, C++ and Cython modules",
    "What `fastdl.h` and its casters raise. The name of the argument, here `x` or `y`, precedes "
    "the message; on Python 3.11 and newer, an exception of a producer has the note `raised by "
    "argument x`. See [the C guide](c-guide.md), [C++ and Cython](cpp-cython.md) and [the "
    "reference](c-reference.md).",
    [
        Row(
            (lambda: alone.borrow([1.0]), lambda: installed.borrow(1.5)),
            TypeError,
            "expected a tensor, got '…', which has neither a DLPack exchange table nor "
            "__dlpack__: pass an array, such as numpy.asarray(x)",
            "torch's, or any other array, as well.",
        ),
        Row(
            (lambda: alone.borrow(None), lambda: installed.borrow("text")),
            TypeError,
            "expected a tensor, got '…', which has neither a DLPack exchange table nor __dlpack__",
            "Pass an array: NumPy's, torch's or any other.",
        ),
        Row(
            (lambda: alone.borrow(b"1234"), lambda: installed.borrow(b"1234")),
            TypeError,
            "expected a tensor, got 'bytes', which has a buffer but neither a DLPack exchange "
            "table nor __dlpack__: pass fastdl.asarray(...) of it, which shares its memory",
            "Or `numpy.frombuffer(x)`.",
        ),
        Row(
            expecting(dtypes=[FLOAT64, dtype(4, 16)]),
            TypeError,
            "x: expected float64 or bfloat16, got float32: convert it first" + IS,
            "`x.astype('float64')`, or `x.to(torch.float64)`.",
        ),
        Row(
            as_copy(X, 0, 8),
            TypeError,
            "x: expected int8, got float32: this conversion is not made on demand, so make it in "
            "its own library" + IS,
            "Floating numbers are never made integers without being told: `x.astype('int8')`.",
        ),
        Row(
            lambda: installed.borrow_as(X, "x", {"dtypes": [FLOAT64], "rules": CONVERT | WRITABLE}),
            TypeError,
            "x: expected float64, got float32: an output is not converted, so pass one of that "
            "type" + IS,
            "The caller would not see what is written to a copy.",
        ),
        Row(
            as_copy(Lending(Given(device=CUDA)), 2, 64),
            TypeError,
            "x: expected float64, got float32: only host memory is converted, so convert it in "
            "its own library" + IS,
            "`x.to(torch.float64)`, or `x.astype('float64')` of CuPy.",
        ),
        Row(
            expecting(ndim=1),
            ValueError,
            "x: expected 1 dimension, got 2: reshape it" + IS,
            "`x.reshape(-1)`.",
        ),
        Row(
            (expecting(ndim=4), expecting(ndim=-1)),
            ValueError,
            "x: expected … dimensions, got 2: reshape it" + IS,
            "`x[None]` has one dimension more.",
        ),
        Row(
            expecting(ndim=4, rules=TRAILING),
            ValueError,
            "x: expected 4 or more dimensions, got 2: reshape it" + IS,
            "`x[None]` has one dimension more.",
        ),
        Row(
            expecting(ndim=2, shape=[2, 4]),
            ValueError,
            "x: expected shape (2, 4), got (2, 3)" + IS,
            "`any` in the shape stands for every size.",
        ),
        Row(
            lambda: installed.expect(
                [
                    (X, "x", {"ndim": 2, "shape": ["m", "n"]}),
                    (X, "y", {"ndim": 2, "shape": ["n", "k"]}),
                ]
            ),
            ValueError,
            "y: expected shape (n=3, k), got (2, 3): n is 3 in x (y is …)",
            "A named size is the same in all arguments.",
        ),
        Row(
            (expecting(X.T, layout=C), expecting(layout=F), expecting(X[:, ::2], layout=C | F)),
            BufferError,
            "x: expected a …contiguous layout…, got strides …: copy it first" + IS,
            "`numpy.ascontiguousarray(x)`, `x.contiguous()`, or `x.copy()`.",
        ),
        Row(
            expecting(X[:, ::2], layout=INNER),
            BufferError,
            "x: expected a last dimension of stride 1, got strides (3, 2): copy it first" + IS,
            "`x.copy()`.",
        ),
        Row(
            expecting(fastdl.asarray(b"1234"), rules=WRITABLE),
            BufferError,
            "x: expected a writable tensor, got a read-only one: pass a copy (x is …, read-only)",
            "`x.copy()` is writable.",
        ),
        Row(
            expecting(lent(strides=(0, 1)), rules=WRITABLE),
            BufferError,
            "x: expected an output whose elements do not overlap, got strides (0, 1): pass a copy"
            + IS,
            "The result of a broadcast shares elements: `x.copy()`.",
        ),
        Row(
            expecting(lent(device=CUDA)),
            BufferError,
            "x: expected host memory, got cuda:0: move it first" + IS,
            "`fastdl.from_dlpack(x, device='cpu')`.",
        ),
        Row(
            expecting(device=2),
            BufferError,
            "x: expected cuda, got cpu:0: move it first" + IS,
            "`fastdl.from_dlpack(x, device='cuda:0')`.",
        ),
        Row(
            expecting(device=99),
            BufferError,
            "x: expected device 99, got cpu:0: move it first" + IS,
            "DLPack 1.3 has no name for the number.",
        ),
        Row(
            expecting(lent(data=4100), alignment=64),
            BufferError,
            "x: expected data aligned to 64 bytes, got an address 4 bytes past a multiple: copy it "
            "first" + IS,
            "`fastdl.empty` aligns to 256 bytes.",
        ),
        Row(
            expecting_both(X, X.astype("float64"), like=0),
            TypeError,
            "y: expected float32, as x has, got float64: convert one of them first (y is …)",
            "`y.astype(x.dtype)`.",
        ),
        Row(
            expecting_both(X, lent(device=CUDA), like=0),
            BufferError,
            "y: expected cpu:0, where x is, got cuda:0: move one of them first (y is …)",
            "`y.to(x.device)`.",
        ),
        Row(
            expecting_both(X, X[1:], no_alias=[0]),
            ValueError,
            "y: expected no memory shared with x, got an overlap: pass a copy of one (y is …)",
            "An output must not overlap an input.",
        ),
        Row(
            expecting(shape=[2, 3]),
            ValueError,
            "x: expected a specification with ndim as well as shape, got ndim 0: the function "
            "itself is at fault" + IS,
            MODULE,
        ),
        Row(
            requires_grad,
            BufferError,
            "x: expected a tensor that may be written, got one that requires grad while gradients "
            "are recorded, which would miss it: call within torch.no_grad(), or pass a detached "
            "tensor",
            "See [hazards](hazards.md#writing-to-memory-that-somebody-else-relies-on).",
        ),
        Row(
            (as_copy(np.array([300]), 0, 8), as_copy(np.array([300], "u8"), 0, 8)),
            ValueError,
            "x: expected numbers that fit int8, got 300 at index (0,)",
            "A conversion never changes an integer.",
        ),
        Row(
            as_copy(np.broadcast_to(np.float32(1), 2**50), 2, 64),
            MemoryError,
            "x: cannot allocate 9007199254740992 bytes for a copy",
            "A tensor that fits what the function expects is not copied.",
        ),
        # ---- results
        Row(
            lambda: alone.empty(X, None),
            TypeError,
            "expected a type for the result: a fastdl.Tensor can be made only after "
            "fastdl_import()",
            "Call `fastdl_import()` when the module is initialised.",
        ),
        Row(
            lambda: alone.exchange_api(int),
            TypeError,
            "expected the type of a tensor, got 'int', which has neither a DLPack exchange table "
            "nor __dlpack__",
            "`fastdl_wrap` and `fastdl_empty` take any type.",
        ),
        Row(
            (lambda: alone.empty(X, np.ndarray), lambda: alone.empty(X, bytes)),
            TypeError,
            "this type has no exchange table that could allocate: install or upgrade fastdlpack, "
            "and call fastdl_import() to allocate for it",
            "Without the package only types with a table of their own, such as torch.Tensor, "
            "allocate.",
        ),
        Row(
            lambda: alone.wrap(alone.own(X), np.ndarray),
            TypeError,
            "this type has no exchange table that could make objects: install or upgrade "
            "fastdlpack, and call fastdl_import() to get a fastdl.Tensor",
            "Without the package, only types with an exchange table of their own make objects.",
        ),
        Row(
            lambda: alone.wrap(alone.own(X[::-1]), Tabled),
            BufferError,
            "expected no negative strides for a result of type '…', whose library may end the "
            "process: copy the data, or call fastdl_import(), and it is copied",
            "PyTorch 2.13 aborts at negative strides. With the package, results are made as by "
            "`fastdl.convert`.",
        ),
        Row(
            lambda: installed.zeros(lent(device=CUDA), None),
            BufferError,
            "expected host memory to fill with zeros, got device (2, 0): call fastdl_empty, and "
            "clear the memory on the stream on which it will be used",
            "`cudaMemsetAsync`, for example.",
        ),
        Row(
            lambda: installed.empty(lent(device=OPENCL), None),
            BufferError,
            "expected a device on which fastdl allocates (the host, CUDA, ROCm), got device (4, "
            "0): allocate with its own library, and import the result",
            "Pass the type of an argument as `like`: its library allocates.",
        ),
        Row(
            making("fail", lambda: alone.empty(X, Tabled)),
            BufferError,
            "the allocator of the exchange table failed without giving a reason",
            "The library of the result's type is at fault. Report it there.",
        ),
        Row(
            making("no words", lambda: alone.empty(X, Tabled)),
            RuntimeError,
            "the allocator gave no reason",
            "The library of the result's type is at fault. Report it there.",
        ),
        Row(
            making("fail", lambda: alone.wrap(alone.own(X), Tabled)),
            BufferError,
            "the exchange table of the result's type failed without giving a reason",
            "The library of the result's type is at fault. Report it there.",
        ),
        Row(
            silent_stream,
            BufferError,
            "the exchange table of the tensor cannot tell its current stream on device (2, 0)",
            "The library of the tensor is at fault. Report it there.",
        ),
        Row(
            lambda: alone.order(Tabled(Given(device=CUDA)), 77, print),
            BufferError,
            "expected the stream that fastdl_work_stream gives, got another one, which only the "
            "package can order: call fastdl_import() first (in the main interpreter)",
            "Call `fastdl_import()` in the module's init function.",
        ),
        Row(
            lambda: installed.order(Tabled(Given(device=(14, 0))), 77, print),
            BufferError,
            "expected a tensor on a device of CUDA or ROCm, whose streams fastdl can order, got "
            "device (14, 0): work on the stream that fastdl_work_stream gives",
            "Launch on the library's own queue, or wait for it on the host.",
        ),
        # ---- what producers get wrong, in the words of the header
        Row(
            lambda: alone.borrow(producer(act=lambda self: 5)),
            TypeError,
            "expected a new DLPack capsule from __dlpack__ of '…', got 5",
            "The producer's `__dlpack__` is at fault, or returned a capsule that was consumed.",
        ),
        Row(
            lambda: alone.borrow(FakeProducer(CPU, CUDA)),
            BufferError,
            "a tensor was announced on device (1, 0) and delivered on (2, 0), where work is "
            "ordered in another way. Its producer is at fault",
            "`__dlpack_device__` and the capsule disagree. Report it to the producer's library.",
        ),
        Row(
            unordered,
            BufferError,
            "'…' ignores `stream`, so its pending work is not ordered: synchronize first, then "
            "pass fastdl.from_dlpack(x, stream=-1)",
            "Wait with the library's own synchronize function. For all else that a producer may "
            "get wrong see [importing](#importing-a-tensor).",
        ),
        # ---- modules and packages of different releases
        Row(
            "tests/test_header.py: offers no interface for C",
            ImportError,
            "the installed fastdl offers no interface for C: upgrade fastdlpack",
            "Install a newer release of fastdl.",
        ),
        Row(
            "tests/test_header.py: which is newer: upgrade the module",
            ImportError,
            "this module was compiled with fastdl.h of interface 1.0, and the installed fastdl has "
            "interface 2.0, which is newer: upgrade the module, or compile it with the header of "
            "the installed fastdl",
            "The interface has a version of its own: `FASTDL_ABI_MAJOR`.",
        ),
        Row(
            "tests/test_header.py: which is older: upgrade fastdlpack",
            ImportError,
            "this module was compiled with fastdl.h of interface 1.0, and the installed fastdl has "
            "interface 0.0, which is older: upgrade fastdlpack",
            "Install a newer release of fastdl.",
        ),
        # ---- C++ and Cython
        Row(
            "tests/test_casters.py: one that was moved from",
            ValueError,
            "expected a fastdl::owned that holds a tensor, got one that was moved from",
            MODULE,
        ),
        Row(
            "tests/test_casters.py: expected a shape of 6 elements",
            ValueError,
            "make_owned: expected a shape of 6 elements, got (2, 2)",
            MODULE,
        ),
        Row(
            "tests/test_views.py: strides are positive",
            BufferError,
            "expected a tensor whose strides are positive, as std::mdspan needs them, got one that "
            "is negative or 0: pass a copy",
            "`x.copy()`.",
        ),
        Row(
            "tests/test_cython.py: a type or None, got an object of type",
            TypeError,
            "expected a type or None, got an object of type 'int'",
            "Pass `type(x)`.",
        ),
        Row(
            "tests/test_cython.py: a type, got None",
            TypeError,
            "expected a type, got None",
            "`exchange_api` needs a type: `type(x)`.",
        ),
    ],
)
