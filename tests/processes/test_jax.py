"""Read-only memory, as Ray's, in JAX without a copy: what docs/processes.md says of device_put."""

import gc
import time
import weakref

import jax
import numpy as np
import pytest

import fastdl
from tests.support.memory import filled

SIZE = 1 << 16


def stored(dtype="float32", shape=(SIZE,)):
    """As Ray gives it, and the array that owns it."""
    room = fastdl.empty(shape, dtype).numpy()  # aligned
    room[...] = np.arange(room.size).reshape(shape)
    return fastdl.from_dlpack(room).as_readonly(), room


def address(x):
    return x.unsafe_buffer_pointer()


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint32", "float16", "float32", "bfloat16", "complex64"]
)
def test_device_put_shares(dtype):
    tensor = filled(dtype, (3, 4)).copy().as_readonly()
    x = jax.device_put(tensor.numpy())
    assert x.dtype == tensor.numpy().dtype and x.shape == (3, 4)
    assert address(x) == tensor.data_ptr
    assert fastdl.from_dlpack(x).tobytes() == tensor.tobytes()
    assert jax.block_until_ready(x) is x


@pytest.mark.parametrize(
    "of", [
        lambda: stored()[0][1:], lambda: stored()[0][::2], lambda: stored(shape=(4, 6))[0].T,
        lambda: stored("float64")[0], lambda: stored("int4")[0],
    ],
    ids=["not aligned", "gaps", "column-major", "64 bits", "less than a byte"],
)  # fmt: skip
def test_what_device_put_copies(of):
    """If this fails, the page is to be changed."""
    tensor = of()
    assert address(jax.device_put(tensor.numpy())) != tensor.data_ptr


@pytest.mark.parametrize(
    "function", [
        lambda x: x, lambda x: x * 2, lambda x: x.at[0].set(5.0), jax.numpy.sin, jax.numpy.sort,
    ],
    ids=["nothing", "multiply", "set", "sin", "sort"],
)  # fmt: skip
def test_what_is_donated_is_not_written(function):
    tensor, room = stored()
    room[:] = room[::-1].copy()
    before = room.copy()
    x = jax.device_put(tensor.numpy())
    assert address(x) == tensor.data_ptr
    result = jax.jit(function, donate_argnums=0)(x).block_until_ready()
    assert x.is_deleted() and address(result) != tensor.data_ptr
    assert (room == before).all()


@pytest.mark.parametrize("donated", [False, True])
def test_the_array_keeps_the_memory_and_lets_it_go(donated):
    tensor, room = stored()
    end = weakref.ref(room)
    x = jax.device_put(tensor.numpy())
    del tensor, room
    gc.collect()
    assert end() is not None and float(x[2]) == 2
    y = jax.jit(lambda x: x + 1, donate_argnums=(0,) if donated else ())(x)
    del x
    assert float(y.block_until_ready()[2]) == 3
    patience = time.monotonic() + 30
    while end() is not None and time.monotonic() < patience:  # threads of JAX's let it go
        gc.collect()
    assert end() is None


def test_convert_copies_what_may_change():
    """Which device_put shows in an array whose values never change, as it is told to."""
    tensor, room = stored()
    shared, copied = jax.device_put(tensor.numpy()), fastdl.convert(tensor, jax.Array)
    assert address(copied) != tensor.data_ptr
    with pytest.raises(fastdl.CopyRequiredError, match="read-only, but may change"):
        fastdl.convert(tensor, jax.Array, copy=False)
    room[0] = 7
    assert (float(shared[0]), float(copied[0])) == (7, 0)
