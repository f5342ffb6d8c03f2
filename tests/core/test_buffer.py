# SPDX-License-Identifier: Apache-2.0
"""The buffer protocol, both ways: tensors read as buffers, and buffers read as tensors."""

import array
import ctypes
import gc
import mmap
import struct
import sys
import weakref
from multiprocessing.shared_memory import SharedMemory

import ml_dtypes
import numpy as np
import pytest

import fastdl
from tests.support.build import extension
from tests.support.ctypes_dlpack import Managed
from tests.support.isolate import run_isolated

# Py_buffer and its flags, from the documentation of CPython's C API.
SIMPLE, WRITABLE, FORMAT, ND = 0, 1, 4, 8
STRIDES = 0x10 | ND
C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS = 0x20 | STRIDES, 0x40 | STRIDES, 0x80 | STRIDES
INDIRECT = 0x100 | STRIDES
FULL = INDIRECT | WRITABLE | FORMAT


class PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
        ("internal", ctypes.c_void_p),
    ]


get_buffer = ctypes.pythonapi.PyObject_GetBuffer
get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(PyBuffer), ctypes.c_int]
release_buffer = ctypes.pythonapi.PyBuffer_Release
release_buffer.argtypes = [ctypes.POINTER(PyBuffer)]
release_buffer.restype = None


@pytest.fixture
def request_buffer():
    """get(object, flags) -> PyBuffer, released at the end of the test."""
    views = []

    def get(exporter, flags):
        view = PyBuffer()
        get_buffer(exporter, view, flags)
        views.append(view)
        return view

    yield get
    for view in views:
        release_buffer(view)


@pytest.fixture
def tensor():
    return fastdl.from_dlpack(np.arange(6, dtype=np.int32).reshape(2, 3))


# ---- out: what each flag gives --------------------------------------------------------------


LAYOUTS = {
    "c": np.arange(6, dtype=np.int32).reshape(2, 3),
    "f": np.arange(6, dtype=np.int32).reshape(2, 3).T,
    "neither": np.arange(12, dtype=np.int32).reshape(3, 4)[:, ::2],
    "negative": np.arange(3, dtype=np.int32)[::-1],
    "both": np.arange(3, dtype=np.int32),
    "one": np.ones(1),
    "empty": np.zeros((0, 3), np.int32)[:, ::2],
    "no elements": np.ones(0),
    "scalar": np.array(3, np.int32),
    "broadcast": np.broadcast_to(np.arange(3, dtype=np.int32), (2, 3)),
    "bytes": np.frombuffer(b"abc", np.uint8),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize(
    "flags", [SIMPLE, ND, STRIDES, C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS, INDIRECT]
)
@pytest.mark.parametrize("more", [0, WRITABLE, FORMAT, WRITABLE | FORMAT])
def test_what_each_flag_gives_as_numpy(request_buffer, name, flags, more):
    source = LAYOUTS[name]
    tensor = fastdl.from_dlpack(source)
    try:
        expected = request_buffer(source, flags | more)
    except (ValueError, BufferError):
        refusal = "contiguous" if source.flags.writeable or not more & WRITABLE else "read-only"
        with pytest.raises(BufferError, match=refusal):
            request_buffer(tensor, flags | more)
        return
    view = request_buffer(tensor, flags | more)
    assert (view.buf == expected.buf or not source.size) and view.obj == id(tensor)
    for field in ("len", "itemsize", "readonly", "format"):
        assert getattr(view, field) == getattr(expected, field)
    has_shape, has_strides = flags & ND == ND, flags & STRIDES == STRIDES
    assert view.ndim == (source.ndim if has_shape else 1)  # without a shape: one run of bytes
    # With 0 dimensions, CPython says, both pointers must be NULL.
    assert bool(view.shape) is (has_shape and source.ndim > 0)
    assert bool(view.strides) is (has_strides and source.ndim > 0)
    assert not view.suboffsets
    if view.shape:
        assert view.shape[: view.ndim] == list(source.shape)
    if view.strides and source.size:
        assert view.strides[: view.ndim] == list(source.strides)


@pytest.mark.parametrize(
    "name",
    "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 bool "
    "complex64 complex128".split(),
)
def test_numpy_reads_every_format(name):
    source = np.array([0, 1, 1]).astype(name)
    tensor = fastdl.from_dlpack(source)
    view = memoryview(tensor)
    assert view.itemsize == source.itemsize
    if "complex" not in name:
        assert struct.calcsize(view.format) == source.itemsize
    assert view.format == memoryview(source).format  # consumers compare letters: q is not l
    result = np.asarray(view)
    assert result.dtype == source.dtype
    assert np.shares_memory(result, source)
    np.testing.assert_array_equal(result, source)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.int4])
def test_types_without_a_format(request_buffer, dtype):
    tensor = fastdl.from_dlpack(np.zeros(2, dtype))
    with pytest.raises(BufferError, match=r"numpy\(\)"):
        memoryview(tensor)
    with pytest.raises(BufferError, match=tensor.dtype.name):
        request_buffer(tensor, SIMPLE)


# ---- out: Python's own consumers ------------------------------------------------------------


def test_bytes_and_writing(tensor):
    assert bytes(tensor) == np.arange(6, dtype=np.int32).tobytes()
    memoryview(tensor)[1, 2] = 77
    assert tensor.tolist() == [[0, 1, 2], [3, 4, 77]]


def test_a_view_keeps_the_tensor():
    managed = Managed((4,), (1, 8, 1), data=bytearray(b"abcd"))
    view = memoryview(fastdl.from_dlpack(managed.capsule()))
    gc.collect()
    assert managed.deleted == 0
    assert view.tobytes() == b"abcd"
    second = memoryview(view)
    view.release()
    assert managed.deleted == 0
    second.release()
    assert managed.deleted == 1


def test_release_twice(tensor):
    view = PyBuffer()
    before = sys.getrefcount(tensor)
    get_buffer(tensor, view, FULL)
    assert sys.getrefcount(tensor) == before + 1
    release_buffer(view)
    release_buffer(view)
    assert sys.getrefcount(tensor) == before


def test_a_refused_request_holds_nothing():
    tensor = fastdl.asarray(b"abc")
    before = sys.getrefcount(tensor)
    view = PyBuffer()
    with pytest.raises(BufferError):
        get_buffer(tensor, view, WRITABLE)
    assert view.obj is None
    assert sys.getrefcount(tensor) == before


# ---- in: asarray ----------------------------------------------------------------------------


@pytest.mark.parametrize("source", [b"", b"abc", bytearray(b"abc"), memoryview(b"abc")])
def test_asarray_of_bytes(source):
    tensor = fastdl.asarray(source)
    assert tensor.dtype == fastdl.DType("uint8")
    assert tensor.tolist() == list(source)
    assert tensor.readonly is not isinstance(source, bytearray)
    assert not source or tensor.data_ptr == np.frombuffer(source, np.uint8).ctypes.data


@pytest.mark.parametrize("code", [code for code in array.typecodes if code not in "uw"])
def test_asarray_of_every_array_type(code):
    source = array.array(code, [0, 1, 100])
    tensor = fastdl.asarray(source)
    assert tensor.itemsize == source.itemsize
    assert tensor.dtype == fastdl.from_dlpack(np.asarray(source)).dtype
    assert tensor.tolist() == source.tolist()
    tensor.numpy()[1] = 7
    assert source[1] == 7
    with pytest.raises(BufferError):
        source.append(3)  # would move the memory


@pytest.mark.parametrize("form", [*"bBhHiIlLqQnNfd?", *(f"@{c}" for c in "bBhHiIlLqQnN")])
def test_asarray_of_casts(form):
    source = memoryview(bytearray(struct.pack(f"2{form[-1]}", 1, 0))).cast(form)
    tensor = fastdl.asarray(source)
    assert tensor.tolist() == source.tolist()
    assert tensor.itemsize == source.itemsize


@pytest.mark.parametrize(
    ("form", "itemsize", "name"),
    [
        ("l", 4, "int32"), ("l", 8, "int64"), ("<L", 8, "uint64"), ("=L", 4, "uint32"),
        ("n", 4, "int32"), ("q", 8, "int64"), ("Q", 8, "uint64"), ("@N", 8, "uint64"),
        ("q", 4, None), ("i", 8, None), ("l", 2, None), ("L", 16, None), ("h", 4, None),
        ("b", 0, None), (">i", 4, None), ("", 4, None), ("ll", 8, None), ("c", 1, None),
        ("<w", 4, None), ("<P", 8, None), ("<g", 16, None), ("Zg", 32, None),
        ("g", 8, "float64"), ("Zg", 16, "complex128"), ("T{<i:a:<f:b:}", 8, None),
        ("T{>i:a:}", 4, None),  # of ctypes
    ],
)  # fmt: skip
def test_formats_and_sizes(form, itemsize, name):
    """Exporters write one size under several letters, and several sizes under one."""
    source = extension("exporter").exporter(bytes(32), form, itemsize, (2,), (itemsize,))
    if name is None:
        with pytest.raises(BufferError, match="which DLPack cannot describe"):
            fastdl.asarray(source)
    else:
        assert fastdl.asarray(source).dtype.name == name


def test_a_buffer_that_is_refused_is_released_with_no_exception_pending():
    """Its exporter may run Python code then, which would lose the reason."""
    calls = []
    make = extension("exporter").exporter
    source = make(bytes(32), "Q2x", 8, (4,), (8,), lambda: calls.append(len(calls)))
    with pytest.raises(BufferError, match="got format 'Q2x'"):
        fastdl.asarray(source)
    assert calls[-1:] != [] and len(calls) == calls[-1] + 1


def test_asarray_of_shaped_casts_and_slices():
    source = memoryview(bytearray(range(24))).cast("B", [2, 3, 4])
    tensor = fastdl.asarray(source)
    assert (tensor.shape, tensor.strides) == ((2, 3, 4), (12, 4, 1))
    assert tensor.tolist() == source.tolist()
    sliced = memoryview(bytearray(range(10)))[::-3]
    assert fastdl.asarray(sliced).tolist() == [9, 6, 3, 0]
    assert fastdl.asarray(sliced).strides == (-3,)
    assert fastdl.asarray(memoryview(np.zeros(3, "u1,<i4")["f0"])).strides == (5,)


@pytest.mark.parametrize(
    ("ctype", "name"),
    [
        (ctypes.c_int8, "int8"), (ctypes.c_uint8, "uint8"), (ctypes.c_int16, "int16"),
        (ctypes.c_uint32, "uint32"), (ctypes.c_int64, "int64"), (ctypes.c_uint64, "uint64"),
        (ctypes.c_float, "float32"), (ctypes.c_double, "float64"), (ctypes.c_bool, "bool"),
        (ctypes.c_long, f"int{8 * ctypes.sizeof(ctypes.c_long)}"),
        (ctypes.c_size_t, f"uint{8 * ctypes.sizeof(ctypes.c_size_t)}"),
    ],
)  # fmt: skip
def test_asarray_of_ctypes(ctype, name):
    source = (ctype * 3)(1, 0, 1)
    one = fastdl.asarray(source)
    assert (one.dtype.name, one.shape, one.tolist()) == (name, (3,), [1, 0, 1])
    one.numpy()[1] = 1
    assert source[1] == 1
    assert fastdl.asarray(((ctype * 3) * 2)()).shape == (2, 3)
    assert fastdl.asarray(ctype(1)).shape == ()
    assert fastdl.asarray((ctype * 0)()).shape == (0,)


def test_asarray_of_mmap():
    with mmap.mmap(-1, 4096) as source:
        tensor = fastdl.asarray(source)
        assert tensor.shape == (4096,)
        source[5] = 42
        assert tensor[5].item() == 42
        tensor.numpy()[6] = 43
        assert source[6] == 43
        with pytest.raises(BufferError):
            source.close()
        del tensor


def test_asarray_of_memory_that_another_process_has_too():
    """As docs/recipes.md has it: the other process does not unlink it."""
    shared = SharedMemory(create=True, size=16)
    try:
        tensor = fastdl.asarray(shared.buf.cast("d"))[:2]
        tensor.numpy()[:] = [1.5, 0]
        run_isolated(f"""
            import sys
            from multiprocessing import resource_tracker
            from multiprocessing.shared_memory import SharedMemory
            import fastdl
            new = sys.version_info >= (3, 13)
            shared = SharedMemory({shared.name!r}, **({{"track": False}} if new else {{}}))
            if not new and sys.platform != "win32":
                resource_tracker.unregister("/" + shared.name, "shared_memory")
            tensor = fastdl.asarray(shared.buf.cast("d"))[:2]
            tensor.numpy()[1] = 2 * tensor.tolist()[0]
            del tensor
            shared.close()
            """)
        assert tensor.tolist() == [1.5, 3.0]
        del tensor
    finally:
        shared.close()
        shared.unlink()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 2)])
def test_buffers_without_elements_may_have_any_strides(shape):
    tensor = fastdl.asarray(
        extension("exporter").exporter(bytes(9), "i", 4, shape, (5,) * len(shape))
    )
    assert tensor.shape == shape
    assert tensor.copy().tolist() == np.zeros(shape).tolist()


@pytest.mark.parametrize(("shape", "strides"), [((-1,), (4,)), ((2**62, 4), (4, 4)), ((2,), (6,))])
def test_buffers_that_no_memory_can_have(shape, strides):
    with pytest.raises(BufferError):
        fastdl.asarray(extension("exporter").exporter(bytes(9), "i", 4, shape, strides))


class Strange:
    pass


class Interfaces:
    """Its attributes are there to be found on the class, too."""

    __cuda_array_interface__ = __array_interface__ = property(lambda self: {})


@pytest.mark.parametrize(
    ("source", "end"),
    [
        *((x, r": pass numpy.asarray\(x\)") for x in (1, [1, 2], (3,), range(3))),
        *((x, "") for x in (None, "text", object())),
        ({"x": 1}, r": fastdl.convert_tree\(x, fastdl.Tensor\) converts each tensor in it"),
        (int, ": pass an object of this type, not the type itself"),
        (Interfaces, ": pass an object of this type, not the type itself"),
        (Strange(), ": make an array of it first, with a function of its own library"),
    ],
)
def test_asarray_of_other_things(source, end):
    words = f"expected a tensor, an array or a buffer, got '.*', which .* __arrow_c_stream__{end}$"
    with pytest.raises(TypeError, match=words):
        fastdl.asarray(source)


@pytest.mark.parametrize(
    ("package", "name"),
    [("pandas", "Series"), ("pandas", "Index"), ("polars", "Series"), ("xarray", "DataArray")],
)
def test_asarray_of_what_only_has_the_name_of_a_series(package, name):
    """It lacks what the library's own class has, and is read as any other object, each time."""
    members = {"__module__": package, "to_numpy": lambda self, allow_copy: list(self)}
    x = type(name, (array.array,), members)("d", [1, 2, 3])
    for _ in range(3):
        assert fastdl.asarray(x).tolist() == [1, 2, 3]


def test_asarray_of_a_closed_buffer():
    view, memory = memoryview(b"abc"), mmap.mmap(-1, 16)
    view.release()
    memory.close()
    for source, words in ((view, "released"), (memory, "closed")):
        with pytest.raises(BufferError, match=words) as caught:
            fastdl.asarray(source)
        assert isinstance(caught.value.__cause__, ValueError)


def test_asarray_takes_one_positional_argument():
    with pytest.raises(TypeError):
        fastdl.asarray(x=b"abc")


def test_the_buffer_is_released_with_the_last_view():
    class Source(bytearray):
        pass

    source = Source(b"abc")
    reference = weakref.ref(source)
    tensor = fastdl.asarray(source)
    views = [tensor[1:], tensor.__dlpack__(max_version=(1, 0)), memoryview(tensor)]
    del source, tensor
    while views:
        assert reference() is not None
        views.pop()
    assert reference() is None
