# SPDX-License-Identifier: Apache-2.0
"""Tensors as Python copies and stores objects: pickle, copy.copy, copy.deepcopy."""

import copy
import gc
import io
import multiprocessing
import pickle
import tracemalloc
import weakref
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.reduction import ForkingPickler

import ml_dtypes
import numpy as np
import pytest

import fastdl
from fastdl._convert import pickling
from fastdl._core import tensor as core
from fastdl._native import dtype_facts
from tests.support.ctypes_dlpack import SUBBYTE_PADDED, capsule_of
from tests.support.isolate import run_isolated
from tests.support.memory import assert_copied, filled

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
NAMES = [row[0] for row in dtype_facts()]


def out_of_band(x, protocol=5):
    buffers = []
    return pickle.dumps(x, protocol, buffer_callback=buffers.append), buffers


def there_and_back(x, protocol=5):
    return pickle.loads(pickle.dumps(x, protocol))


def assert_same(loaded, tensor):
    assert_copied(loaded, tensor)
    assert loaded.readonly == tensor.readonly


RANGE = np.arange(24.0).reshape(4, 6)
COLUMNS = np.asfortranarray(RANGE.reshape(2, 3, 4))


def tensors():
    """What makes a tensor, by what there is to see in it."""
    for dtype in (*NAMES, "float32x4", "float4_e2m1fnx2", (99, 24, 1)):
        yield f"type {dtype}", lambda dtype=dtype: filled(dtype)
    for shape in [(), (1,), (0,), (3, 0, 2), (5,), (2, 3, 4), (1, 1, 1)]:
        yield f"shape {shape}", lambda shape=shape: filled("int16", shape)
    arrays = {
        "64 dimensions": np.broadcast_to(np.float32(3), (1,) * 64),
        "read-only": np.frombuffer(b"abcdef", np.uint8),
        "read-only, with gaps": np.broadcast_to(np.arange(3.0), (2, 3)),
        "column-major": COLUMNS,
        "column-major, empty": np.zeros((2, 0, 3), order="F"),
        **{f"view {i}": view for i, view in enumerate([
            RANGE[:, ::2], RANGE[::-1], RANGE[1:, 1:3], RANGE.T[1:], RANGE[:, 2],
            np.broadcast_to(RANGE, (2, 4, 6)), RANGE[:0, ::2],
        ])},
    }  # fmt: skip
    for name in ("int4", "float4_e2m1fn", "float6_e2m3fn"):
        arrays[f"padded {name}"] = np.arange(5).astype(getattr(ml_dtypes, name))
        arrays[f"padded {name}, with gaps"] = arrays[f"padded {name}"][::2]
    for name, array in arrays.items():
        yield name, lambda array=array: fastdl.from_dlpack(array)
    data = bytearray(range(4))
    lanes = {"dtype": fastdl.DType("int4x3"), "flags": SUBBYTE_PADDED, "data": data}
    yield "padded lanes", lambda: fastdl.from_dlpack(capsule_of((2,), **lanes))


@pytest.mark.parametrize(("name", "make"), [pytest.param(*row, id=row[0]) for row in tensors()])
def test_there_and_back(name, make):
    """Memory of its own without gaps; column-major, read-only and padded elements stay so."""
    tensor = make()
    assert not (name.startswith("padded") and core.is_packed(tensor))
    for protocol in PROTOCOLS:
        loaded = there_and_back(tensor, protocol)
        assert_same(loaded, tensor)
        if name.startswith("column"):
            assert loaded.strides == tensor.strides or not tensor.size
        else:
            assert loaded.is_contiguous()
        assert not tensor.size or loaded.data_ptr != tensor.data_ptr
    data, buffers = out_of_band(tensor)
    assert len(buffers) == 1 and len(data) < 100 + 3 * tensor.ndim
    assert sum(buffer.raw().nbytes for buffer in buffers) == tensor.nbytes
    loaded = pickle.loads(data, buffers=buffers)
    assert_same(loaded, tensor)
    if tensor.is_contiguous() or tensor.is_contiguous("F"):
        assert loaded.data_ptr == tensor.data_ptr


def test_read_only_is_kept_out_of_band():
    """Even if the bytes arrive in memory that could be written."""
    tensor = fastdl.asarray(b"abcdef")
    data, buffers = out_of_band(tensor)
    loaded = pickle.loads(data, buffers=buffers)
    assert loaded.readonly and loaded.data_ptr == tensor.data_ptr
    assert pickle.loads(data, buffers=[bytearray(b"ghijkl")]).readonly


def test_a_store_that_gives_read_only_memory():
    """As Ray's does: the values are shared by all who load them."""
    data, (buffer,) = out_of_band(filled("float32"))
    store = bytes(buffer)
    loaded = pickle.loads(data, buffers=[store])
    assert loaded.readonly
    assert loaded.data_ptr == fastdl.asarray(store).data_ptr


def test_of_several_one_buffer_each_and_one_object_for_one():
    tensor, other = filled("int8"), filled("int8", (2,))
    data, buffers = out_of_band([tensor, other, tensor])
    assert len(buffers) == 2
    first, second, third = pickle.loads(data, buffers=buffers)
    assert first is third
    assert (first.data_ptr, second.data_ptr) == (tensor.data_ptr, other.data_ptr)


def test_the_pickle_keeps_the_memory_alive():
    """And what was loaded from it: no one else has to."""
    array = np.arange(6.0)
    end = weakref.ref(array)
    data, buffers = out_of_band(fastdl.from_dlpack(array))
    del array
    gc.collect()
    loaded = pickle.loads(data, buffers=buffers)
    del buffers
    gc.collect()
    assert end() is not None and loaded.tolist() == [0, 1, 2, 3, 4, 5]
    del loaded
    gc.collect()
    assert end() is None


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("device", [(2, 0), (13, 1), (14, 0), (99, 3)])
def test_device_memory_cannot_be_pickled(device, protocol):
    tensor = fastdl.from_dlpack(capsule_of((3,), device=device))
    with pytest.raises(TypeError, match="cannot be pickled.* copy on the host, made with "):
        pickle.dumps(tensor, protocol)


# ---- pickles that lie -----------------------------------------------------------------------

GOOD = (bytearray(24), (2, 32, 1), (2, 3), "C", False)


@pytest.mark.parametrize(
    ("place", "value", "error"),
    [
        (0, bytearray(23), ValueError),
        (0, b"", ValueError),
        (0, None, TypeError),
        (0, "text", TypeError),
        (1, (2, 33, 1), ValueError),
        (1, (2, 32, 2), ValueError),
        (1, (2, 32), ValueError),
        (1, None, ValueError),
        (2, (2, 4), ValueError),
        (2, (-1, 3), ValueError),
        (2, (2**62, 2**62), ValueError),
        (2, (1,) * 65, ValueError),
        (2, ("a",), ValueError),
        (2, (2.5, 3), ValueError),  # which is not 2
        (2, (True, 3), ValueError),
        (2, (2**70,), ValueError),
        (2, (-(2**70),), ValueError),
        (1, (256, 32, 1), ValueError),
        (1, (-1, 32, 1), ValueError),
        (1, (2, 32.5, 1), ValueError),
        (1, (2, 32, 2**16), ValueError),
        (3, "X", ValueError),
        (3, 0, ValueError),
        (2, None, ValueError),
        (2, np.int64(6), ValueError),
        (2, (np.int64(2), 3), ValueError),
        (1, np.array([2, 32, 1]), ValueError),
    ],
)
def test_arguments_that_do_not_fit(place, value, error):
    arguments = list(GOOD)
    assert fastdl._unpickle(*arguments).shape == (2, 3)
    arguments[place] = value
    for arguments[3] in ("C", "F") if place != 3 else (value,):
        with pytest.raises(error):
            fastdl._unpickle(*arguments)


@pytest.mark.parametrize("size", [2.5, True, 2**70, -(2**70), "a", None, 2**62])
def test_column_major_sizes_that_do_not_fit(size):
    with pytest.raises(ValueError):
        fastdl._unpickle(bytearray(24), (2, 32, 1), (size, 3), "F", False)


def test_a_pickle_that_an_older_release_wrote():
    """What is stored stays readable: this one is from 0.1.0."""
    stored = (
        b"\x80\x04\x95R\x00\x00\x00\x00\x00\x00\x00\x8c\x06fastdl\x94\x8c\t_unpickle\x94\x93\x94("
        b"\x8c\x08builtins\x94\x8c\tbytearray\x94\x93\x94C\x04\x01\x02\x03\x04\x94\x85\x94R\x94K\x00K"
        b"\x10K\x01\x87\x94K\x02\x85\x94\x8c\x01C\x94\x89t\x94R\x94."
    )
    loaded = pickle.loads(stored)
    assert loaded.dtype == "int16" and loaded.tolist() == [0x0201, 0x0403]


def peak(do):
    """The most memory that `do` uses at a time, and what it returns."""
    tracemalloc.start()
    try:
        result = do()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("readonly", [False, True])
def test_the_pickler_of_multiprocessing_has_every_protocol(readonly, protocol):
    """Its functions are not told which: the default of a release, or what its user chose."""
    tensor = fastdl.asarray((bytes if readonly else bytearray)(b"abc"))
    file = io.BytesIO()
    ForkingPickler(file, protocol).dump(tensor)
    loaded = pickle.loads(file.getvalue())
    assert_same(loaded, tensor)
    assert loaded.readonly is readonly


def test_the_pickler_of_multiprocessing_takes_buffers_out_of_band():
    tensor, file, buffers = fastdl.asarray(bytearray(b"abc")), io.BytesIO(), []
    ForkingPickler(file, 5, True, buffers.append).dump(tensor)
    assert pickle.loads(file.getvalue(), buffers=buffers).data_ptr == tensor.data_ptr


def through_multiprocessing(x, protocol=4):
    """What its pickler writes, read."""
    file = io.BytesIO()
    ForkingPickler(file, protocol).dump(x)
    return pickle.loads(file.getbuffer())


@pytest.mark.parametrize("readonly", [False, True])
def test_memory_that_pickling_needs_below_protocol_5(readonly):
    """As pools and queues do it: what an ndarray needs. Two payloads to write, the bytes and the
    pickle; and one to read."""
    array = np.zeros(1 << 22, "uint8")
    array.flags.writeable = not readonly
    tensor = fastdl.from_dlpack(array)

    def peaks(x):
        file = io.BytesIO()
        to_write, _ = peak(lambda: ForkingPickler(file, 4).dump(x))
        to_read, loaded = peak(lambda: pickle.loads(file.getbuffer()))
        return to_write, to_read, loaded

    through_multiprocessing(tensor)  # its pickler may have been loaded after fastdl
    most_to_write, most_to_read, _ = peaks(array)
    to_write, to_read, loaded = peaks(tensor)
    assert to_write <= 1.1 * most_to_write and to_read <= 1.1 * most_to_read
    assert loaded.readonly is readonly and loaded.nbytes == array.nbytes


LAYOUTS = {
    "row-major": lambda a: a,
    "column-major": np.asfortranarray,
    "gaps": lambda a: a[:, :, ::2],
    "reversed": lambda a: a[::-1],
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int4"])
def test_large_tensors_of_the_pickler_of_multiprocessing(dtype, layout, protocol):
    """NumPy carries their bytes, whatever they are."""
    array = np.arange(1 << 21).reshape(2, 1 << 10, 1 << 10)
    array = LAYOUTS[layout](array.astype(fastdl.DType(dtype).dtype))
    tensor = fastdl.from_dlpack(array)
    assert tensor.nbytes >= pickling.MANY
    loaded = through_multiprocessing(tensor, protocol)
    assert_same(loaded, tensor)
    assert loaded.is_contiguous("F" if layout == "column-major" else "C")
    assert loaded.data_ptr % 16 == 0  # as docs/processes.md says


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_received_tensor_has_memory_of_its_own(protocol):
    """Although the bytes of a pickle are what it is on: one object for one, and of two with the
    same memory or the same values, two."""
    tensor = fastdl.from_dlpack(np.zeros(1 << 21, "uint8"))
    message = [tensor, tensor, tensor[:], tensor[1 << 20 :], tensor[: 1 << 20], bytes(1 << 21)]
    first, same, second, third, fourth, zeros = through_multiprocessing(message, protocol)
    assert first is same
    for n, one in enumerate([first, second, third, fourth], 1):
        one.numpy()[:] = n
    for n, one in enumerate([first, second, third, fourth], 1):
        assert (one.numpy() == n).all()
    assert zeros == bytes(1 << 21) and not tensor.numpy().any()


@pytest.mark.parametrize("first", ["fastdl", "multiprocessing"])
def test_the_pickler_of_multiprocessing_may_be_loaded_first_or_later(first):
    """Later, it takes notice with the first large tensor."""
    printed = run_isolated(f"""
        import {first}, numpy, fastdl
        from multiprocessing.reduction import ForkingPickler
        tensor = fastdl.empty(1 << 21, "uint8")
        print(*(b"numpy" in bytes(ForkingPickler.dumps(tensor, 4)) for _ in range(2)))
    """)
    assert printed == {"fastdl": "False True\n", "multiprocessing": "True True\n"}[first]


WITHOUT_NUMPY = """
    import pickle, sys
    from multiprocessing.reduction import ForkingPickler
    import fastdl
    tensor = fastdl.empty(1 << 21, "uint8")
    pickle.loads(ForkingPickler.dumps(tensor)).data_ptr
    assert "numpy" not in sys.modules
    sys.modules["numpy"] = type(sys)("numpy")  # as another thread may be importing it
    pickle.loads(ForkingPickler.dumps(tensor)).data_ptr
    del sys.modules["numpy"]
    import numpy
    for protocol in range(6):
        assert b"numpy" not in pickle.dumps(tensor, protocol)
    assert b"numpy" in bytes(ForkingPickler.dumps(tensor, 4))
    assert b"numpy" not in bytes(ForkingPickler.dumps(tensor.as_readonly(), 4))
    assert b"numpy" not in bytes(ForkingPickler.dumps(tensor[: 1 << 19], 4))
    print("done")
"""


def test_what_only_numpy_reads_is_sent_only_where_it_is_loaded():
    assert run_isolated(WITHOUT_NUMPY) == "done\n"


def add_one(tensor):
    """For the other process."""
    tensor.numpy()[...] += 1
    return tensor


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")  # threads that others left
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_large_tensors_between_processes(method):
    """Of a pool, an executor and a queue."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"{method} is not there")
    ctx = multiprocessing.get_context(method)
    tensor = fastdl.from_dlpack(np.arange(1 << 18, dtype="float64"))
    with ctx.Pool(1) as pool:
        found = [pool.apply(add_one, [tensor])]
    with ProcessPoolExecutor(1, mp_context=ctx) as executor:
        found.append(executor.submit(add_one, tensor).result())
    queue = ctx.Queue()
    queue.put(tensor)
    for received, more in zip([*found, queue.get(timeout=60)], (1, 1, 0), strict=True):
        assert not received.readonly
        assert (received.numpy() == np.arange(1 << 18) + more).all()
    queue.close()
    queue.join_thread()


# ---- copies ---------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_has_memory_of_its_own(copied):
    """As of an ndarray, both are; row-major and writable, as Tensor.copy says."""
    array = np.arange(6.0).reshape(2, 3)
    tensor = fastdl.from_dlpack(np.broadcast_to(array, (4, 2, 3)).transpose())
    result = copied(tensor)
    assert type(result) is fastdl.Tensor
    assert tensor.readonly and not result.readonly
    assert result.is_contiguous() and result.shape == (3, 2, 4)
    assert result.tolist() == tensor.tolist()
    array[:] = 0
    assert result.tolist() != tensor.tolist()


def test_deepcopy_makes_one_copy_of_one_tensor():
    tensor = fastdl.from_dlpack(np.arange(3.0))
    first, second = copy.deepcopy([tensor, tensor])
    assert first is second and first is not tensor


def test_a_copy_of_what_cannot_be_copied():
    tensor = fastdl.from_dlpack(capsule_of((3,), device=(4, 0)))
    for copied in (copy.copy, copy.deepcopy):
        with pytest.raises(BufferError, match="cannot be copied"):
            copied(tensor)
