"""Tensors over UCX, on loopback and without a GPU. No test that pytest collects by itself, since
ucxx takes 350 MB:

    pip install '.[test]' ucxx-cu12==0.52.0
    pytest tests/processes/ucx.py
"""

import asyncio

import numpy as np
import pytest
import ucxx

import fastdl
from fastdl._native import dtype_facts
from tests.support.memory import filled

NAMES = [name for name, *_ in dtype_facts()]


@pytest.fixture(scope="module")
def move():
    """A function that sends an object, and receives it in another one, which it returns."""
    loop, accepted = asyncio.new_event_loop(), asyncio.Queue()

    async def connect():
        ucxx.init(options={"TLS": "tcp,self"})
        listener = ucxx.create_listener(accepted.put)
        sender = await ucxx.create_endpoint("127.0.0.1", listener.port)
        return listener, sender, await accepted.get()

    listener, sender, receiver = loop.run_until_complete(connect())

    async def exchange(x, out):
        await asyncio.wait_for(asyncio.gather(sender.send(x), receiver.recv(out)), 60)
        return out

    yield lambda x, out: loop.run_until_complete(exchange(x, out))

    async def close():
        await asyncio.gather(sender.close(), receiver.close())
        listener.close()

    loop.run_until_complete(close())
    ucxx.reset()
    loop.close()


@pytest.mark.parametrize("dtype", NAMES)
def test_every_type(move, dtype):
    tensor = filled(dtype)
    out = fastdl.empty(tensor.shape, dtype)
    if tensor.dtype.format is not None:
        assert move(tensor, out).tobytes() == tensor.tobytes()
        return
    with pytest.raises(BufferError, match="the buffer protocol has no format"):
        move(tensor, out)
    if tensor.dtype.bits % 8 == 0:
        move(tensor.view("uint8"), out.view("uint8"))
    else:
        header, data = fastdl.encode(tensor)
        out = fastdl.decode(header, move(data, bytearray(len(data))))
    assert out.tobytes() == tensor.tobytes()


def test_memory_is_received_in_place(move):
    array, values = np.zeros(1 << 20), np.arange(1 << 20, dtype="float64")
    move(fastdl.from_dlpack(values), fastdl.from_dlpack(array))
    assert (array == values).all()


# What is wrong, of ndarrays too: if these fail, docs/processes.md is to be changed.


@pytest.mark.parametrize("kind", [np.asarray, fastdl.from_dlpack])
def test_strided_arrays_are_sent_wrong(move, kind):
    """As many bytes as they have, but from the beginning of their memory."""
    strided = np.arange(24, dtype="float32").reshape(4, 6)[:, ::2]
    out = np.zeros((4, 3), "float32")
    assert move(kind(strided), out).ravel().tolist() == list(range(12))
    assert (move(fastdl.from_dlpack(strided).contiguous(), out) == strided).all()


@pytest.mark.parametrize("kind", [np.asarray, fastdl.from_dlpack])
def test_read_only_memory_is_written(move, kind):
    array = np.zeros(3)
    array.flags.writeable = False
    move(np.ones(3), kind(array))
    assert array.tolist() == [1, 1, 1]
