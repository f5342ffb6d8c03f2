# SPDX-License-Identifier: Apache-2.0
"""python -m tests.processes.ranks WHAT, as each of two ranks."""

import sys

import numpy as np
import pytest
from mpi4py import MPI
from mpi4py.util import pkl5

import fastdl
from fastdl._core import tensor as core
from fastdl._native import dtype_facts
from tests.support.memory import filled

WORLD = MPI.COMM_WORLD
RANK = WORLD.rank
# Those that the buffer calls take: of whole bytes, and no complex of 32, which mpi4py has not.
NAMES = [name for name, _, bits, _ in dtype_facts() if bits % 8 == 0 and "complex32" not in name]


def buffers():
    for name in NAMES:
        tensor = filled(name)
        if RANK == 0:
            WORLD.Send(tensor, 1)
        else:
            received = fastdl.empty(tensor.shape, name)
            WORLD.Recv(received, 0)
            assert bytes(received) == bytes(tensor), name


def read_only():
    array = np.arange(3.0)
    array.flags.writeable = False
    tensor = fastdl.from_dlpack(array)
    if RANK == 0:
        WORLD.Send(tensor, 1)
    else:
        received = fastdl.empty(3, "float64")
        WORLD.Recv(received, 0)
        assert received.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(BufferError, match="not writable"):
        WORLD.Irecv(tensor, RANK)


def gaps():
    with pytest.raises(BufferError, match="not contiguous"):
        WORLD.Isend(filled("int32")[:, ::2], RANK)


def objects():
    for communicator in (WORLD, pkl5.Intracomm(WORLD)):
        for name in [*NAMES, "int4"]:
            tensor = filled(name)
            if RANK == 0:
                communicator.send(tensor, 1)
            else:
                received = communicator.recv(source=0)
                assert (received.dtype, received.shape) == (tensor.dtype, tensor.shape)
                assert bytes(received) == bytes(tensor) and not received.readonly
        sent = communicator.bcast(fastdl.asarray(np.arange(3.0)) if RANK == 0 else None)
        assert sent.tolist() == [0, 1, 2]


def collectives():
    tensor = filled("bfloat16") if RANK == 0 else fastdl.empty((3, 4), "bfloat16")
    WORLD.Bcast(tensor, 0)
    assert bytes(tensor) == bytes(filled("bfloat16"))
    own, both = fastdl.from_dlpack(np.full(4, RANK, "int32")), fastdl.empty((2, 4), "int32")
    WORLD.Allgather(own, both)
    assert both.tolist() == [[0] * 4, [1] * 4]
    gathered = fastdl.empty((2, 4), "int32") if RANK == 0 else None
    WORLD.Gather(own, gathered, 0)
    assert RANK == 1 or gathered.tolist() == [[0] * 4, [1] * 4]
    for total in (fastdl.empty(4, "int32"), np.empty(4, "int32")):
        WORLD.Allreduce(own, total)
        assert total.tolist() == [1] * 4
    WORLD.Allreduce(MPI.IN_PLACE, own)
    assert own.tolist() == [1] * 4


def windows():
    tensor = fastdl.from_dlpack(np.full(4, RANK, "float64"))
    window = MPI.Win.Create(tensor, comm=WORLD)
    window.Fence()
    if RANK == 0:
        window.Put(fastdl.from_dlpack(np.full(4, 7.0)), 1)
    window.Fence()
    assert tensor.tolist() == [7.0 * RANK] * 4
    window.Free()


def shared():
    window = MPI.Win.Allocate_shared(48 if RANK == 0 else 0, 8, comm=WORLD)
    memory, _ = window.Shared_query(0)
    tensor = fastdl.asarray(memory).view("float64").reshape(2, 3)
    window.Fence()
    if RANK == 0:
        tensor.numpy()[:] = 5
    window.Fence()
    assert tensor.tolist() == [[5.0] * 3] * 2
    del tensor
    window.Free()


def packed():
    tensor = fastdl.empty(8, "int4")
    for call in (lambda: WORLD.Send(tensor, 1 - RANK), lambda: WORLD.Recv(tensor, 1 - RANK)):
        with pytest.raises(BufferError, match=r"packed.*encode\(x\)\[1\]"):
            call()
    core.as_bytes(tensor).numpy()[:] = RANK
    if RANK == 0:
        WORLD.Send(fastdl.encode(tensor)[1], 1)
    else:
        received = fastdl.empty(8, "int4")
        WORLD.Recv(fastdl.encode(received)[1], 0)
        assert received.tolist() == [0] * 8


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("done")
