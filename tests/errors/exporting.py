"""What a Tensor cannot tell other libraries, and exchange tables that are none."""

import ctypes
import hashlib

import ml_dtypes
import numpy as np

import fastdl
from tests.errors.converting import on
from tests.errors.row import Group, Row
from tests.support.build import extension
from tests.support.producers import CUDA, hostile

consumer = extension("consumer")


def export(*arguments, tensor=None, **keywords):
    tensor = fastdl.empty(3) if tensor is None else tensor
    return tensor.__dlpack__(*arguments, **keywords)


class Stranger:
    """A type with the exchange table of another one."""


def stranger(table):
    kind = type("Stranger", (), {})
    fastdl.register_exchange_api(kind, table)
    fastdl.from_dlpack(kind())


def writable_buffer(x):
    """As `w*` of PyArg_ParseTuple asks for it."""
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p, ctypes.c_int)
    get, writable = prototype(("PyObject_GetBuffer", ctypes.pythonapi)), 1
    get(x, ctypes.create_string_buffer(256), writable)


GROUP = Group(
    "Exporting a tensor",
    "`Tensor.__dlpack__`, which other libraries call; the buffer protocol, Arrow and the array "
    "interfaces; exchange tables. [What fastdl answers](architecture.md#protocol), and [how to add "
    "a library](add-a-library.md).",
    [
        Row(
            lambda: export(tensor=fastdl.asarray(b"1234")),
            BufferError,
            "a uint8 tensor of shape (4,) on cpu:0 is read-only, which a legacy DLPack capsule "
            "cannot say: ask with max_version=(1, 0) or newer, or export a copy",
            "The consumer speaks DLPack before 1.0, whose capsules have no flags. Give it "
            "`tensor.copy()`, or upgrade it.",
        ),
        Row(
            lambda: export(tensor=fastdl.empty(8, "int4"), max_version=(1, 0)),
            BufferError,
            "an int4 tensor of shape (8,) on cpu:0 has packed elements, which need DLPack 1.1 "
            "or newer, and the consumer asked for (1, 0): pass it the bytes, fastdl.encode(x)[1]",
            "mpi4py, for instance, takes each element for a byte, past the end of the memory.",
        ),
        Row(
            lambda: consumer.borrow(fastdl.exchange_api(fastdl.Tensor), fastdl.asarray(b"1234")),
            BufferError,
            "a uint8 tensor of shape (4,) on cpu:0 is read-only, which a borrowed DLTensor cannot "
            "say: ask with max_version=(1, 0) or newer, or export a copy",
            "A consumer in C borrows by the exchange table, whose slot has no flags. Give it a "
            "copy.",
        ),
        Row(
            lambda: export(tensor=fastdl.from_dlpack(np.arange(4).astype(ml_dtypes.int4))),
            BufferError,
            "an int4 tensor of shape (4,) on cpu:0 has padded elements, which a legacy DLPack "
            "capsule cannot say: ask with max_version=(1, 0) or newer",
            "Without the flag, which legacy capsules lack, a consumer would read two elements to a "
            "byte.",
        ),
        Row(
            lambda: export(max_version=(1, 0), version=60),
            TypeError,
            "expected max_version or version, got both",
            "`version` is a draft of 2022: pass `max_version`.",
        ),
        Row(
            lambda: export(version=80),
            BufferError,
            "expected version up to 69, or 100 to 130, got 80: 70 to 99 is a layout that never "
            "shipped, and DLPack 1.3 is the newest that fastdl speaks",
            "Pass `max_version=(1, 3)` instead.",
        ),
        Row(
            lambda: export(max_version=1),
            TypeError,
            "expected max_version as (major, minor), got 1",
            "`max_version=(1, 3)`.",
        ),
        Row(
            lambda: export(max_version=(1, -1)),
            TypeError,
            "expected max_version of numbers from 0 on, got (1, -1)",
            "`max_version=(1, 3)`.",
        ),
        Row(
            lambda: export(max_version=("1", "0")),
            TypeError,
            "expected an int in max_version, got '1'",
            "`max_version=(1, 3)`.",
        ),
        Row(
            lambda: export(dl_device=5),
            TypeError,
            "expected dl_device as (type, id), got 5",
            "`dl_device=(1, 0)` is the CPU; a `fastdl.Device` will do.",
        ),
        Row(
            lambda: export(dl_device=(1, 5)),
            BufferError,
            "cannot export to dl_device (1, 5): …",
            "There is no such device: see the end of the message.",
        ),
        Row(
            lambda: memoryview(on(CUDA)),
            BufferError,
            "the buffer protocol is for host memory, and this is a float32 tensor of shape (2, 3) "
            "on cuda:0: copy it to the host first, with to('cpu') or its own library",
            "`memoryview(tensor.to('cpu'))`.",
        ),
        Row(
            lambda: memoryview(fastdl.empty(3, "bfloat16")),
            BufferError,
            "the buffer protocol has no format for bfloat16: use numpy(), which knows more types, "
            "or DLPack",
            "`numpy.asarray(tensor)` uses `numpy()`.",
        ),
        Row(
            lambda: writable_buffer(fastdl.asarray(b"1234")),
            BufferError,
            "cannot export a writable buffer of a uint8 tensor of shape (4,) on cpu:0, which is "
            "read-only: use copy() first",
            "`readinto` and `struct.pack_into` ask for one, and report only that there is none.",
        ),
        Row(
            lambda: hashlib.sha256(fastdl.empty((2, 3)).T),
            BufferError,
            "cannot export a contiguous buffer of …, whose strides are …: use copy() first",
            "For example by hashlib, or by code that takes bytes.",
        ),
        Row(
            lambda: on(CUDA, shape=(3,)).__arrow_c_array__(),
            BufferError,
            "__arrow_c_array__ is for host memory, and this is a float32 tensor of shape (3,) on "
            "cuda:0: copy it to the host first, with to('cpu') or its own library",
            "`pyarrow.array(tensor.to('cpu'))`.",
        ),
        Row(
            lambda: fastdl.empty((2, 3)).__arrow_c_array__(),
            BufferError,
            "an Arrow array has one dimension, and this is a float32 tensor of shape (2, 3) on "
            "cpu:0: export its rows",
            "`tensor.reshape(-1)`, or `fastdl.convert(tensor, pyarrow.Tensor)`.",
        ),
        Row(
            lambda: fastdl.empty(3, "complex64").__arrow_c_array__(),
            BufferError,
            "Arrow has no type like complex64: convert the values first",
            "`tensor.view('float32')` has the real and imaginary parts one after the other.",
        ),
        Row(
            lambda: fastdl.empty(3, "bfloat16").__array_interface__,
            AttributeError,
            "a bfloat16 tensor of shape (3,) on cpu:0 has no __array_interface__: use DLPack",
            "The array interfaces have only NumPy's own types, and host memory. `hasattr` works.",
        ),
        Row(
            lambda: fastdl.empty(3).__cuda_array_interface__,
            AttributeError,
            "a float32 tensor of shape (3,) on cpu:0 has no __cuda_array_interface__: it is not "
            "CUDA memory",
            "`tensor.to('cuda:0')` first. `hasattr` works.",
        ),
        Row(
            lambda: on(CUDA, dtype=(4, 16, 1)).__cuda_array_interface__,
            AttributeError,
            "__cuda_array_interface__ has no name for bfloat16: use DLPack",
            "Give the tensor to a library that takes DLPack.",
        ),
        Row(
            lambda: fastdl.exchange_api(5),
            TypeError,
            "expected a tensor type or a tensor, got 'int', which has neither an exchange table "
            "nor __dlpack__",
            "Pass an array or its type.",
        ),
        Row(
            lambda: fastdl.register_exchange_api("Stranger", fastdl.exchange_api(np.ndarray)),
            TypeError,
            "expected a type, got an object of type 'str'",
            "The first argument is the class whose objects the table takes.",
        ),
        Row(
            lambda: fastdl.register_exchange_api(Stranger, "table"),
            TypeError,
            "expected a capsule 'dlpack_exchange_api' or an address, got 'str'",
            "The capsule that the library publishes as `__dlpack_c_exchange_api__`.",
        ),
        Row(
            lambda: fastdl.register_exchange_api(Stranger, -1),
            ValueError,
            "expected the address of an exchange table, got -1",
            "A wrong address may crash the process: prefer a capsule.",
        ),
        Row(
            lambda: fastdl.register_exchange_api(
                Stranger, hostile.table_capsule(hostile.table(major=2))
            ),
            ValueError,
            "expected an exchange table of DLPack 1.x whose mandatory functions are all set; this "
            "one, and those before it, are not",
            "The table is of a version that fastdl does not know, or is incomplete.",
        ),
        Row(
            lambda: stranger(fastdl.exchange_api(fastdl.Tensor)),
            TypeError,
            "expected a fastdl.Tensor, got …: this is fastdl.Tensor's exchange table",
            "Its functions take objects of one type. Register a table that takes yours.",
        ),
        Row(
            lambda: stranger(fastdl.exchange_api(np.ndarray)),
            TypeError,
            "expected a numpy.ndarray, got …: this exchange table is NumPy's",
            "Its functions take arrays of NumPy. Register a table that takes your type.",
        ),
    ],
)
