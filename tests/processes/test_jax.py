# SPDX-License-Identifier: Apache-2.0
"""Read-only memory, as Ray's, in JAX without a copy: what docs/processes.md says of device_put."""

import gc
import time
import weakref

import jax
import numpy as np
import pytest

import fastdl


def stored():
    """As Ray gives it, and the array that owns it."""
    room = fastdl.empty(1 << 16, "float32").numpy()  # aligned
    room[...] = np.arange(room.size)[::-1]
    return fastdl.from_dlpack(room).as_readonly(), room


def address(x):
    return x.unsafe_buffer_pointer()


@pytest.mark.parametrize(
    "function", [
        lambda x: x, lambda x: x * 2, lambda x: x.at[0].set(5.0), jax.numpy.sin, jax.numpy.sort,
    ],
    ids=["nothing", "multiply", "set", "sin", "sort"],
)  # fmt: skip
def test_what_is_donated_is_not_written_and_let_go(function):
    tensor, room = stored()
    before, end = room.copy(), weakref.ref(room)
    x = jax.device_put(tensor.numpy())
    assert address(x) == tensor.data_ptr
    del tensor
    result = jax.jit(function, donate_argnums=0)(x).block_until_ready()
    assert x.is_deleted() and address(result) != room.ctypes.data
    assert (room == before).all()
    del x, room
    patience = time.monotonic() + 30
    while end() is not None and time.monotonic() < patience:  # threads of JAX's let it go
        gc.collect()
    assert end() is None


def test_convert_copies_what_may_change():
    """Which device_put shows in an array whose values never change, as it is told to."""
    tensor, room = stored()
    end = weakref.ref(room)
    shared, copied = jax.device_put(tensor.numpy()), fastdl.convert(tensor, jax.Array)
    assert address(copied) != tensor.data_ptr
    with pytest.raises(fastdl.CopyRequiredError, match="read-only, but may change"):
        fastdl.convert(tensor, jax.Array, copy=False)
    room[0] = 7
    del tensor, room
    gc.collect()
    assert end() is not None and (float(shared[0]), float(copied[0])) == (7, 65535)
