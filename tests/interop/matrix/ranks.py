"""What two ranks do with tensors: mpiexec -n 2 python -m tests.interop.matrix.ranks NAME

Each function runs on both ranks. It raises what must not be; rank 0 prints the error that a refusal
is, or nothing.
"""

import sys

import numpy as np
from mpi4py import MPI

import fastdl

WORLD = MPI.COMM_WORLD
RANK = WORLD.rank


def tensor(values, dtype="float32") -> fastdl.Tensor:
    import ml_dtypes

    return fastdl.from_dlpack(np.array(values, getattr(ml_dtypes, dtype, dtype)))


def check(got: fastdl.Tensor, expected: list) -> None:
    assert got.tolist() == expected, (RANK, got.tolist(), expected)


def send(message, room, expected) -> None:
    """Rank 0 sends, rank 1 receives."""
    if RANK == 0:
        WORLD.Send(message, dest=1)
    else:
        WORLD.Recv(room, source=0)
        check(room, expected)


def send_and_recv():
    send(tensor([1, 2, 3]), tensor([0, 0, 0]), [1.0, 2.0, 3.0])


def send_read_only():
    source = np.array([1.0, 2.0])
    source.flags.writeable = False
    send(fastdl.from_dlpack(source), tensor([0, 0], "float64"), [1.0, 2.0])


def recv_into_read_only():
    room = np.array([1.0, 2.0])
    room.flags.writeable = False
    WORLD.Irecv(fastdl.from_dlpack(room), source=RANK).Cancel()


def send_bfloat16_as_bytes():
    message, room = tensor([1, -2], "bfloat16"), tensor([0, 0], "bfloat16")
    send([message, 4, MPI.BYTE], [room, 4, MPI.BYTE], [1.0, -2.0])


def send_strided():
    WORLD.Isend(tensor([1, 2, 3, 4])[::2], dest=RANK).Cancel()


def allreduce():
    total = tensor([0, 0])
    WORLD.Allreduce(tensor([1, RANK]), total)
    check(total, [2.0, 1.0])


def allreduce_with_ndarray():
    for dtype in (np.float32, np.int64):
        total = np.zeros(2, dtype)
        WORLD.Allreduce(fastdl.from_dlpack(np.array([1, RANK], dtype)), total)
        assert total.tolist() == [2, 1]


def allreduce_in_place():
    total = tensor([1, RANK])
    WORLD.Allreduce(MPI.IN_PLACE, total)
    check(total, [2.0, 1.0])


def gather():
    room = fastdl.empty((2, 2), "int32") if RANK == 0 else None
    WORLD.Gather(tensor([RANK, RANK + 10], "int32"), room, root=0)
    if RANK == 0:
        check(room, [[0, 10], [1, 11]])


def window():
    """One-sided: each rank puts into the other's memory."""
    room = tensor([0, 0], "float64")
    exposed = MPI.Win.Create(room, comm=WORLD)
    exposed.Fence()
    exposed.Put(tensor([RANK, 7], "float64"), 1 - RANK)
    exposed.Fence()
    check(room, [1.0 - RANK, 7.0])
    exposed.Free()


def shared_window():
    """Memory of MPI's own that both ranks see."""
    exposed = MPI.Win.Allocate_shared(16 if RANK == 0 else 0, 8, comm=WORLD)
    memory, _ = exposed.Shared_query(0)
    seen = fastdl.asarray(memoryview(memory).cast("d"))
    assert seen.data_ptr == memory.address
    if RANK == 0:
        seen.numpy()[:] = [1.5, 2.5]
    exposed.Fence()
    WORLD.Barrier()
    check(seen, [1.5, 2.5])
    WORLD.Barrier()
    del seen, memory
    exposed.Free()


CASES = {
    "Send, Recv": send_and_recv,
    "Send of read-only data": send_read_only,
    "Recv into read-only data": recv_into_read_only,
    "Send of bfloat16, as bytes": send_bfloat16_as_bytes,
    "Send with gaps": send_strided,
    "Allreduce": allreduce,
    "Allreduce into an ndarray": allreduce_with_ndarray,
    "Allreduce in place": allreduce_in_place,
    "Gather": gather,
    "window, Put": window,
    "shared window, asarray": shared_window,
}


if __name__ == "__main__":
    try:
        CASES[sys.argv[1]]()
    except AssertionError:
        raise
    except Exception as error:
        if RANK == 0:
            print(f"{type(error).__name__}: {error}".splitlines()[0])
