"""from_dlpack and asarray: what they do not take."""

import numpy as np

import fastdl
from tests.errors.row import Group, Row
from tests.support import arrow
from tests.support.build import extension
from tests.support.ctypes_dlpack import FakeProducer
from tests.support.frameworks import simulated
from tests.support.headers import ALONE
from tests.support.producers import (
    CUDA,
    DraftProducer,
    Given,
    Nulls,
    Producer,
    Tabled,
    new,
    tensors_of_pyarrow,
)


def producer(kind=Producer, *, act=None, device=(1, 0), info=130, **fields):
    """An object of a type that fastdl has not seen, on a managed tensor with these fields."""
    return new(kind)(Given(**fields), device, act, info=info)


class Interface:
    """An object with one array interface, whose dict has these `changes`."""

    def __init__(self, name="__array_interface__", **changes):
        self.array = np.arange(6, dtype="<i4").reshape(2, 3)
        setattr(self, name, {**self.array.__array_interface__, **changes})


def pointers():
    return extension("exporter").exporter(bytes(16), "B", 1, (2, 3), (8, 1), suboffsets=(0, -1))


def released():
    view = memoryview(b"abc")
    view.release()
    return view


class Named:
    """An element type of OpenVINO or tinygrad."""

    fmt = None

    def __init__(self, name):
        self.name = name

    def get_type_name(self):
        return self.name


def tensor_of(library, *, kind="Tensor", **attributes):
    return type(kind, (), {"__module__": library, **attributes})()


class Arrow:
    def __init__(self, answer):
        self.answer = answer

    def __arrow_c_array__(self):
        return self.answer


class Series:
    """As those of pandas: what it has, `__array__` says."""

    __module__ = "pandas.core.series"

    dtype = type("Int64Dtype", (), {"__module__": "pandas"})()

    def __init__(self, answer, missing=()):
        self.answer, self.missing = answer, missing

    def isna(self):
        return np.array(self.missing)

    def __array__(self, dtype=None, copy=None):
        return self.answer


Series.__module__ = "pandas"


def lazy_view():
    """A torch tensor whose negative bit is set, as fastdl sees it."""
    attributes = {"__module__": "torch", "__qualname__": "Tensor", "is_neg": lambda self: True}
    kind = type("Tensor", (Tabled,), {**attributes, "is_conj": lambda self: False})
    fastdl.from_dlpack(kind(Given(dtype=(5, 64, 1), shape=(3,))))


def not_asked(library, **attributes):
    from tests.test_quick_imports import NAMES, NotAsked, named

    return named(*NAMES[library], NotAsked, **attributes)()


def traced():
    """A tensor of torch.compile: it has elements and no memory."""
    kind = type("FakeTensor", (Tabled,), {"__module__": "torch._subclasses.fake_tensor"})
    fastdl.from_dlpack(kind(Given(data=0)))


class Other:
    """An object that exposes no memory."""


def without_ordinals():
    """Memory of a CUDA library, on a machine whose driver cannot be queried."""
    fastdl.asarray(Interface("__cuda_array_interface__", data=(64, False)))


def unknown_address():
    with simulated("cuda"):
        fastdl.asarray(Interface("__cuda_array_interface__", data=(64, False)))


def both(make):
    """Through the package, and through a module of C without it."""
    return lambda: fastdl.from_dlpack(make()), lambda: ALONE["alone"].borrow(make())


def consumed_twice():
    capsule = np.arange(3.0).__dlpack__()
    fastdl.from_dlpack(capsule)
    fastdl.from_dlpack(capsule)


def taken_arrow(again=2):
    made = arrow.Producer(bytearray(12))
    for _ in range(again):
        fastdl.asarray(made)


GOT = ": got shape …, strides …, byte_offset …, dtype (code …, bits …, lanes …), device (…, …). "
AT_FAULT = "The library that made the tensor describes it wrongly. Report it there."


def fault(words, cure=AT_FAULT, **fields):
    return Row(
        lambda: fastdl.from_dlpack(Given(**fields).capsule()),
        BufferError,
        f"the tensor has {words}",
        cure,
    )


def interface(words, cure, name="__array_interface__", **changes):
    return Row(
        lambda: fastdl.asarray(Interface(name, **changes)),
        BufferError,
        f"expected {words} in {name} of …, got …",
        cure,
    )


WRONG_DICT = "The interface is malformed. Report it to the library of the object."

GROUP = Group(
    "Importing a tensor",
    "`fastdl.from_dlpack(x)` and `fastdl.asarray(x)`; the latter takes more kinds of objects: see "
    "[the Python guide](python-guide.md#asarray-for-everything-else). `fastdl.from_pointer`.",
    [
        Row(
            lambda: fastdl.from_dlpack([1.0, 2.0]),
            TypeError,
            "expected a DLPack producer or capsule, got 'list', which has neither __dlpack__ nor "
            "an exchange table",
            "Pass an array. Lists and numbers: `fastdl.asarray(numpy.asarray(x))`.",
        ),
        Row(
            lambda: fastdl.from_dlpack(b"1234"),
            TypeError,
            "expected a DLPack producer or capsule, got …, which has neither __dlpack__ nor an "
            "exchange table: pass fastdl.asarray(...) of it, which shares its memory",
            "`fastdl.asarray(x)` takes buffers, too.",
        ),
        Row(
            lambda: fastdl.from_dlpack(Interface()),
            TypeError,
            "expected a DLPack producer or capsule, got …, which has neither __dlpack__ nor an "
            "exchange table: pass fastdl.asarray(...) of it, which reads …",
            "`fastdl.asarray(x)` takes the older array interfaces, too.",
        ),
        Row(
            (
                lambda: fastdl.asarray([1.0, 2.0]),
                lambda: fastdl.asarray(np.ndarray),
                lambda: fastdl.asarray(Other()),
            ),
            TypeError,
            "expected a tensor, an array or a buffer, got …, which has neither __dlpack__ nor "
            "__cuda_array_interface__, a buffer, __array_interface__, __arrow_c_array__ or "
            "__array__…",
            "A list has no memory to share: make an array of it first. Objects of other libraries "
            "often have a method for that, such as `to_numpy`.",
        ),
        Row(
            lambda: fastdl.from_dlpack(np.ones(3), copy="yes"),
            TypeError,
            "expected copy=None, True or False, got 'yes'",
            "`fastdl.convert` and `Tensor.__dlpack__` take the same three.",
        ),
        Row(
            lambda: fastdl.from_dlpack(producer(device=CUDA), device="cpu", copy=False),
            fastdl.CopyRequiredError,
            "data of … on cuda:0 needs a copy to be on cpu:0, and copy=False",
            "Leave out `copy=False`, or import without `device`, which shares the memory.",
        ),
        Row(
            lambda: fastdl.from_dlpack(Tabled(Given(device=CUDA)), device="cpu", copy=False),
            fastdl.CopyRequiredError,
            "a float32 tensor of shape (2, 3) on cuda:0 needs a copy to be on cpu:0, and "
            "copy=False",
            "Leave out `copy=False`. A consumer that calls `__dlpack__(dl_device=..., copy=False)` "
            "gets it, too.",
        ),
        Row(
            lambda: fastdl.from_dlpack(producer(flags=2), copy=False),
            fastdl.CopyRequiredError,
            "… was copied by its producer in spite of copy=False: pass copy=None to accept the "
            "copy",
            "The producer could not share its memory, and says so in the IS_COPIED flag.",
        ),
        Row(
            lambda: fastdl.from_dlpack(np.ma.array([1, 2], mask=[0, 1])),
            BufferError,
            "the array has masked elements (1 of 2), which a tensor cannot express: pass "
            "x.filled(...) or x.compressed()",
            "Pass the mask as a second tensor: `numpy.ma.getmaskarray(x)`. See "
            "[hazards](hazards.md#wrong-values).",
        ),
        Row(
            lambda: fastdl.asarray(Interface(mask=np.ones(6))),
            BufferError,
            "… has a mask, which a tensor cannot express: fill the masked elements first",
            "Pass the mask as a second tensor.",
        ),
        Row(
            lambda: fastdl.asarray(
                arrow.Producer(bytearray(12), valid=bytearray([5]), null_count=1)
            ),
            BufferError,
            "the Arrow array has nulls (1 of 3 values), which a tensor cannot express: fill or "
            "drop them first",
            "`array.fill_null(0)` or `array.drop_null()` in PyArrow.",
        ),
        Row(
            (
                lambda: fastdl.asarray(Series(np.ones(3), missing=[False, True])),
                lambda: fastdl.from_dlpack(tensors_of_pyarrow(Producer)(Given(), storage=Nulls(1))),
            ),
            BufferError,
            "… has missing values (… in all), which a tensor cannot express: fill or drop them "
            "first",
            "`series.fillna(0)` or `series.dropna()` in pandas, `fill_null` in polars.",
        ),
        Row(
            lambda: fastdl.asarray(arrow.Streamer(arrow.Node(b"u", 3), array=np.ones(3))),
            BufferError,
            "expected data whose missing values can be counted, got … of a kind whose cannot: fill "
            "or drop them, and convert it to plain numbers first",
            "fastdl counts them in numbers, bools, and arrays, structs and dictionaries of those.",
        ),
        Row(
            lambda: fastdl.from_dlpack(np.array(["text"], dtype=object)),
            BufferError,
            "expected an array of native numbers or bools, got one of object, which DLPack cannot "
            "describe: convert the values first",
            "Text, dates, records, Python objects and other byte orders are not in DLPack. Dates: "
            "`x.view('int64')`. Byte order: `x.astype(x.dtype.newbyteorder('='))`.",
        ),
        Row(
            lambda: fastdl.asarray(memoryview(b"1234").cast("c")),
            BufferError,
            "expected a buffer of native numbers or bools, got format 'c' with itemsize 1, "
            "which DLPack cannot describe: convert the values first",
            "Text, dates and records are not in DLPack. Single bytes: `memoryview(x).cast('B')`.",
        ),
        Row(
            lambda: fastdl.asarray(pointers()),
            BufferError,
            "expected a buffer of elements, got one of pointers to them (with suboffsets), which "
            "DLPack cannot describe: copy the data first",
            "Such a buffer has its rows in several places.",
        ),
        Row(
            lambda: fastdl.asarray(released()),
            BufferError,
            "cannot get the buffer of 'memoryview': operation forbidden on released memoryview "
            "object",
            "The object has released its memory, or is closed: the cause is its own exception.",
        ),
        Row(
            lambda: fastdl.from_dlpack(np.zeros(3, "f4,i1")["f0"]),
            BufferError,
            "expected strides in multiples of 4 bytes, one element, got … in dimension 0 of an "
            "array of float32: copy the array first",
            "A field of a record array: `x['field'].copy()`.",
        ),
        Row(
            lambda: fastdl.asarray(memoryview(np.zeros(3, "f4,i1")["f0"])),
            BufferError,
            "expected strides in multiples of 4 bytes, one element, got 5 in dimension 0: copy the "
            "array first",
            "A field of a record, for example. `numpy.array(x)` copies what has a buffer.",
        ),
        Row(
            lazy_view,
            BufferError,
            "expected a tensor whose memory holds its values, got a lazy view of type "
            "'torch.Tensor' with its neg bit set: call resolve_neg() first",
            "Likewise its conj bit, with `resolve_conj()`. See [hazards](hazards.md#wrong-values).",
        ),
        Row(
            traced,
            BufferError,
            "expected a tensor with memory, got a tracer (torch FakeTensor, JAX Tracer): call this "
            "outside of torch.compile, jax.jit and their like, or make it a custom operator there "
            "(torch.library.custom_op, jax.pure_callback)",
            "While a function is traced its arguments have no values. See [custom "
            "operators](custom-operators.md).",
        ),
        Row(
            consumed_twice,
            ValueError,
            "the DLPack capsule has been consumed already: a capsule can be imported once; call "
            "__dlpack__ again for another",
            "Pass the array itself, not its capsule.",
        ),
        Row(
            lambda: fastdl.from_dlpack(fastdl.exchange_api(fastdl.Tensor)),
            TypeError,
            "expected a capsule named 'dltensor' or 'dltensor_versioned', got one named …",
            "The capsule is of another protocol.",
        ),
        Row(
            lambda: fastdl.from_dlpack(np.ones(3).__dlpack__(), stream=1),
            TypeError,
            "expected no stream with a capsule: the exchange was ordered when its producer made it",
            "Pass the array itself, or pass `stream` to its `__dlpack__`.",
        ),
        Row(
            both(lambda: not_asked("tensorflow", dtype=type("T", (), {"name": "string"}))),
            BufferError,
            "expected numbers, got a tensor of dtype …, which DLPack cannot describe: pass numbers "
            "that stand for its values",
            "TensorFlow has such tensors: encode strings as numbers first, pass the value of a "
            "variable, not its handle, and dequantize (`tf.quantization.dequantize`) what is "
            "quantised, or take its integers with `tf.bitcast`. torch exports its integers of 1 to "
            "7 bits as int8 and uint8: `x.view(torch.int8)` has their bytes.",
        ),
        Row(
            both(lambda: not_asked("jax", is_deleted=lambda self: True)),
            BufferError,
            "expected an array with memory, got one that was deleted, perhaps donated to a "
            "function: use what that function returned",
            "JAX deletes arrays that `donate_argnums` names, and those whose `delete` was called.",
        ),
        # ---- what the producer gets wrong
        Row(
            lambda: fastdl.from_dlpack(producer(act=lambda self: 5)),
            TypeError,
            "expected a DLPack capsule, got 'int': __dlpack__ must return a PyCapsule",
            "The producer's `__dlpack__` is at fault. Report it to its library.",
        ),
        Row(
            both(lambda: type("Half", (), {"__dlpack__": lambda self: None})()),
            TypeError,
            "expected a DLPack producer, got '…', which has __dlpack__ but not __dlpack_device__",
            "DLPack asks for both methods. `fastdl.from_dlpack(x.__dlpack__())` does without.",
        ),
        Row(
            both(lambda: producer(device="cpu")),
            TypeError,
            "expected (device type, device id) from __dlpack_device__ of '…', got 'cpu'",
            "The producer's `__dlpack_device__` must return two ints, such as `(1, 0)`.",
        ),
        Row(
            lambda: fastdl.from_dlpack(FakeProducer((1, 0), CUDA)),
            BufferError,
            "… announced data on cpu:0 and delivered …, where work is ordered in another way. Its "
            "producer is at fault",
            "`__dlpack_device__` and the capsule disagree. Report it to the producer's library.",
        ),
        Row(
            lambda: fastdl.from_dlpack(producer(version=(2, 0))),
            BufferError,
            "expected DLPack 1.x, got a tensor of version 2.0: ask its producer for "
            "max_version=(1, 3)",
            "A newer DLPack, which fastdl does not know: upgrade fastdlpack.",
        ),
        Row(
            both(lambda: producer(DraftProducer, info="130")),
            TypeError,
            "expected an int from __dlpack_info__ of '…', got '130'",
            "The producer's `__dlpack_info__`, of a draft of 2022, is at fault.",
        ),
        Row(
            both(lambda: producer(DraftProducer, info=50)),
            BufferError,
            "expected 60 or more from __dlpack_info__ of '…', got 50: no version in common",
            "The producer is older than DLPack 0.6: upgrade it.",
        ),
        Row(
            both(lambda: Tabled(Given(), "fail")),
            BufferError,
            "the exchange table of '…' failed without giving a reason",
            "A function of the producer's exchange table failed and raised nothing. Report it to "
            "its library.",
        ),
        fault(
            "a negative dimension" + GOT + "Its producer is at fault; a copy made there may help",
            shape=(2, -1),
        ),
        fault("a device type that is not positive: got …", device=(0, 0)),
        fault("a number of dimensions outside 0 to 64: got …", ndim=65),
        fault("an element size that its type code does not have: got …", dtype=(2, 24, 1)),
        fault("0 lanes: got …", dtype=(2, 32, 0)),
        fault("dimensions but a NULL shape: got …", shape=None, ndim=2),
        fault("more bytes than a 64-bit count can hold: got …", shape=(2**40, 2**40)),
        fault("strides that reach outside the address space: got …", strides=(2**62, 1)),
        fault(
            "strides over elements that share bytes: only row-major order is defined: got …",
            "Packed sub-byte elements have no strides in DLPack: `x.contiguous()` of its library.",
            dtype=(0, 4, 1),
            strides=(1, 2),
        ),
        fault(
            "an address or byte_offset that leads outside the address space: got …",
            byte_offset=2**64 - 8,
        ),
        fault("elements but a NULL data pointer: got …", data=0),
        # ---- addresses
        Row(
            lambda: fastdl.from_pointer(None, 3, "int8"),
            TypeError,
            "expected an address as an int, got None: of an array of ctypes pass "
            "ctypes.addressof(x), of a pointer ctypes.cast(x, ctypes.c_void_p).value",
            "None is what ctypes has for NULL: the function that should have returned memory has "
            "failed.",
        ),
        Row(
            lambda: fastdl.from_pointer(-1, 3, "int8"),
            BufferError,
            "expected an address of 64 bits, got -1",
            "Some functions return -1 where they fail, as mmap does.",
        ),
        Row(
            lambda: fastdl.from_pointer(64, 3, "int8", deleter=0),
            TypeError,
            "expected deleter=None or a function without arguments, got 0",
            "Bind its arguments: `functools.partial(free, address)`.",
        ),
        Row(
            lambda: fastdl.from_pointer(64, (2, 3), "int8", strides=(3,)),
            BufferError,
            "expected as many strides as dimensions (2), got 1: (3,)",
            "Pass a stride for each dimension, in elements, or None for row-major order.",
        ),
        Row(
            (
                lambda: fastdl.from_pointer(64, 2**64, "int8"),
                lambda: fastdl.from_pointer(64, 3, "int8", strides=-(2**64)),
            ),
            BufferError,
            "expected ints of 64 bits as …, got …",
            "Sizes and strides of DLPack have 64 bits.",
        ),
        Row(
            lambda: fastdl.from_pointer(64, (2, -3), "int8"),
            BufferError,
            "expected arguments that describe a tensor, got a negative dimension: shape (2, -3), "
            "strides (…, 1), int8 on cpu:0 at 0x40",
            "There is no such tensor; the words for what is wrong are those above, of tensors that "
            "another library describes.",
        ),
        # ---- older interfaces
        Row(
            lambda: fastdl.asarray(type("Odd", (), {"__array_interface__": 5})()),
            BufferError,
            "expected a dict in __array_interface__ of …, got 5",
            WRONG_DICT,
        ),
        interface("version 3", WRONG_DICT, version=2),
        interface(
            "the typestr of a little-endian number or bool",
            "Text, dates and other byte orders are not in DLPack: convert the values first.",
            typestr=">i4",
        ),
        interface("shape as a tuple of ints", WRONG_DICT, shape=[2, 3]),
        interface("shape of 64 bits", WRONG_DICT, shape=(2**64,)),
        interface("as many strides as dimensions (2)", WRONG_DICT, strides=(4,)),
        interface(
            "strides in multiples of 4 bytes, one element,",
            "Copy the array first.",
            strides=(13, 4),
        ),
        interface("data as (address, read-only)", WRONG_DICT, data=(None, False)),
        interface("an address of 64 bits", WRONG_DICT, data=(2**64, False)),
        interface("an offset in bytes", WRONG_DICT, data=bytearray(24), offset=-1),
        interface("data that holds the elements", WRONG_DICT, data=bytearray(4)),
        interface(
            "a stream as None, 1, 2 or a handle",
            WRONG_DICT,
            "__cuda_array_interface__",
            stream=0,
        ),
        Row(
            unknown_address,
            BufferError,
            "expected an address that the CUDA driver knows in __cuda_array_interface__ of …, got "
            "…",
            "The memory has been freed, or is not CUDA's.",
        ),
        Row(
            without_ordinals,
            BufferError,
            "… exports __cuda_array_interface__, which does not say on which device, and the "
            "driver cannot be queried: …",
            "Install the CUDA driver, or upgrade the library to one that has `__dlpack__`.",
        ),
        Row(
            lambda: fastdl.asarray(Arrow((1, 2))),
            TypeError,
            "expected two capsules from __arrow_c_array__ of …, got (1, 2)",
            "The library's `__arrow_c_array__` is at fault.",
        ),
        Row(
            lambda: fastdl.asarray(arrow.Producer(bytearray(12), dictionary=4096)),
            BufferError,
            "expected an Arrow array of plain numbers, got a dictionary: decode it first",
            "`array.dictionary_decode()` in PyArrow.",
        ),
        Row(
            lambda: fastdl.asarray(arrow.Producer(bytearray(12), b"b")),
            BufferError,
            "expected an Arrow array of plain numbers, got bools, which Arrow stores as bits: cast "
            "them to uint8 first",
            "`array.cast('uint8')` in PyArrow.",
        ),
        Row(
            lambda: fastdl.asarray(arrow.Producer(bytearray(12), b"u")),
            BufferError,
            "expected an Arrow array of plain numbers, got one of format 'u': convert the values "
            "first",
            "Text, dates and nested types are not in DLPack. Dates: `array.cast('int64')`.",
        ),
        Row(
            lambda: fastdl.asarray(arrow.Producer(bytearray(12), n_buffers=3)),
            BufferError,
            "expected an Arrow array of two buffers and no children, got length 3, offset 0, "
            "n_buffers 3, n_children 0. Its producer is at fault",
            "The library that made the Arrow array describes it wrongly. Report it there.",
        ),
        Row(
            lambda: fastdl.asarray(tensor_of("openvino", element_type=Named("u4"))),
            BufferError,
            "expected an openvino.Tensor of numbers of whole bytes, got elements of type …: "
            "convert them first",
            "OpenVINO's packed types have no equal in DLPack, or another order of the bits.",
        ),
        Row(
            lambda: fastdl.asarray(tensor_of("mxnet", kind="NDArray", dtype=np.bool_)),
            BufferError,
            "expected an mxnet.nd.NDArray of numbers, got elements of type …, which MXNet exports "
            "as others: convert them first, with x.astype('uint8')",
            "MXNet says that its booleans are integers of one bit.",
        ),
        Row(
            lambda: fastdl.asarray(tensor_of("tinygrad", dtype=Named("uint128"))),
            BufferError,
            "expected a tinygrad.Tensor of numbers or bools, got elements of type …: cast them "
            "first",
            "`x.cast('float32')`.",
        ),
        Row(
            lambda: fastdl.asarray(arrow.Streamer(arrow.Node(b"l", 1), failure=b"reset")),
            BufferError,
            "reading the Arrow stream failed: …",
            "The message is that of the library that made the stream.",
        ),
        Row(
            taken_arrow,
            ValueError,
            "the Arrow capsules have been consumed already: call __arrow_c_array__ again for "
            "others",
            "Pass the array itself, not its capsules.",
        ),
        Row(
            lambda: fastdl.asarray(Series([1, 2])),
            TypeError,
            "expected an array from __array__ of …, got [1, 2]",
            "The library's `__array__` must return a `numpy.ndarray`.",
        ),
    ],
)
